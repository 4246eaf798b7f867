"""How a timed set lies in the state of a shard: what a bundle adds is appended, slices are dropped.

**Head.** A small cell, read and written with every bundle that adds something: of each slice of
time how many entries it has and a sum of them, and the tail, up to ``TAIL`` entries that wait until
they are worth a segment. It names all that is stored: two states with the same head hold the same.

**Slices.** Entries of ``width`` ticks together are a slice: segments in a bag that are only ever
appended. Bags form a ring of ``RING`` cells; a slice is in that of its number. A horizon is cut
into ``SLICES``, so that a bag has one slice, but for events far ahead of the clock. A slice is
dropped whole once the clock is a horizon ahead of its last tick: what was added to it is never
written again.

So a bundle moves the head and its own entries, however much is remembered. What it asks is in
memory (``operators.state_cache``); the bags are read only where that is not of this head:
after a start, a move of the shard, or a bundle that was given up. What was read is held against the
head.

**When an entry is forgotten** follows from its tick, the horizon and the public clock. Other
entries have no say: a slice has a timer of its own, and its time is the same whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.errors import CodecError, in_words
from weir.dpcore.leaves.hash_sets import Entries, Ticks, TimedSet, together
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.runtime.codec import pack, unpack

HEAD, SEGMENT = b"I", b"S"
"""Kinds of stored bytes."""
RING = 8
"""Bags: a little more than there are slices at a time."""
SLICES = 4
"""Slices of a horizon: how much longer than it an entry is kept at most, as a part of it."""
TAIL = 512
"""Entries that wait in the head: segments are that long at least, or as long as a bundle's."""
FOREVER = 0
"""Width of the one slice that is never dropped."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Cell(Protocol):
    """A cell of state with one value."""

    def read(self) -> Any: ...
    def write(self, value: bytes) -> None: ...
    def clear(self) -> None: ...


class Bag(Protocol):
    """A cell of state that is appended to."""

    def read(self) -> Iterable[bytes]: ...
    def add(self, value: bytes) -> None: ...
    def clear(self) -> None: ...


class Head(NamedTuple):
    """What names the content of a shard.

    Attributes:
      shards: over how many the set is spread. width: ticks of a slice, or FOREVER.
      slices: (m,) int64, increasing. sizes: (m,) int64, entries that were added to each.
      sums: (m, 2) uint64, see ``sums_of``.
      tail: entries that are in no bag yet.
    """

    shards: int
    width: int
    slices: NDArray[np.int64]
    sizes: NDArray[np.int64]
    sums: NDArray[np.uint64]
    tail: Entries

    def with_slice(self, number: int) -> Head:
        """With a slice more, that has no entries yet."""
        at = np.searchsorted(self.slices, number)
        return self._replace(
            slices=np.insert(self.slices, at, number),
            sizes=np.insert(self.sizes, at, 0),
            sums=np.insert(self.sums, at, 0, axis=0),
        )

    def encode(self, layout: bytes) -> bytes:
        """Bytes, deterministically."""
        shape = np.array([self.shards, self.width], dtype=np.int64)
        return pack(HEAD, [shape, self.slices, self.sizes, self.sums, *self.tail], layout)

    @classmethod
    @in_words
    def decode(cls, data: bytes, layout: bytes) -> Head:
        """The inverse.

        Raises:
          CodecError: of another plan.
        """
        shape, slices, sizes, sums, *tail = unpack(HEAD, data, layout)
        return cls(int(shape[0]), int(shape[1]), slices, sizes, sums, Entries(*tail))


def width_of(horizon: int | None) -> int:
    """Ticks of a slice, for a horizon in ticks; None: nothing is ever dropped."""
    return FOREVER if horizon is None else -(-horizon // SLICES)


def slices_of(ticks: Ticks, width: int) -> NDArray[np.int64]:
    """(n,) numbers of the slices that ticks are in."""
    if width == FOREVER:
        return np.zeros(len(ticks), dtype=np.int64)
    return np.floor_divide(ticks, width, dtype=np.int64)


def sums_of(part: Entries) -> NDArray[np.uint64]:
    """(2,) uint64: a sum of entries, whatever their order and the pieces they come in.

    Each word of a hash weighs by an odd number made of its tick and notes. Hashes are keyed, so
    that nobody can choose entries of one sum, and by accident two sets next to never share theirs.
    """
    weights = part.ticks.astype(np.uint64)
    for note in part.notes.T:
        weights = weights * _MIX + note
    weights = 2 * weights + 1
    return np.array([(part.high * weights).sum(), (part.low * weights).sum()], dtype=np.uint64)


def segment(part: Entries, number: int, width: int, layout: bytes) -> bytes:
    """Entries of one slice as bytes: 16 each, and their ticks in as few as a slice needs."""
    least = np.min_scalar_type(max(width - 1, 0))
    offsets = (part.ticks - number * width).astype(least)
    slice_ = np.array([number], dtype=np.int64)
    return pack(SEGMENT, [slice_, part.high, part.low, offsets, part.notes], layout)


@in_words
def entries_of(data: bytes, width: int, layout: bytes) -> tuple[int, Entries]:
    """The inverse: which slice, and its entries."""
    number, high, low, offsets, notes = unpack(SEGMENT, data, layout)
    if width == FOREVER:
        return int(number[0]), Entries(high, low, offsets, notes)
    ticks = offsets.astype(np.int64) + int(number[0]) * width
    return int(number[0]), Entries(high, low, ticks, notes)


class Held(NamedTuple):
    """What memory keeps of a shard, under the bytes of its head."""

    head: Head
    known: TimedSet


class TimedCells:
    """One shard's set, between its cells and memory. Made again for every element and timer.

    Args:
      shard: its number. shards: over how many the set is spread.
      width: ticks of a slice, for a shard that has nothing stored; else what it was begun with
        counts.
      layout: 32 bytes: state belongs to it.
      head: cell. ring: ``RING`` bags.
      shelf: what this process has at hand.
      noted: how many numbers are noted next to a hash.

    Raises:
      CodecError: what is stored is of another plan or of other shards, or is not what its head
        says.
    """

    def __init__(
        self,
        shard: int,
        shards: int,
        width: int,
        layout: bytes,
        head: Cell,
        ring: Sequence[Bag],
        shelf: StateCache[Held],
        noted: int = 0,
    ) -> None:
        self._shard, self._layout, self._noted = shard, layout, noted
        self._cell, self._ring, self._shelf = head, ring, shelf
        stored = head.read()
        self.is_empty = stored is None
        if stored is None:
            self._begin(shards, width)
            return
        held = shelf.get(shard, stored)
        if held is None:
            held = self._read(Head.decode(stored, layout), shards)
            shelf.put(shard, stored, held)
        self._head, self.known = held

    @property
    def width(self) -> int:
        """Ticks of a slice, as this shard was begun."""
        return self._head.width

    def due(self, number: int, horizon: int) -> int:
        """Tick at whose start a slice may be dropped."""
        return (number + 1) * self._head.width + horizon

    def add(self, new: Entries) -> list[int]:
        """Adds entries to the set, and stores them.

        Args:
          new: sorted by (high, low), each hash once.

        Returns:
          Numbers of slices that were not there before: each needs a timer.
        """
        if not len(new.high):
            return []
        head, appeared = self._head, []
        for number, part in _split(new, head.width):
            if number not in head.slices:
                head = head.with_slice(number)
                appeared.append(number)
            at = np.searchsorted(head.slices, number)
            sizes, sums = head.sizes.copy(), head.sums.copy()
            sizes[at] += len(part.high)
            sums[at] += sums_of(part)
            head = head._replace(sizes=sizes, sums=sums)
        tail = new
        if len(head.tail.high):
            tail = together([head.tail, new])
        if len(tail.high) >= TAIL:
            for number, part in _split(tail, head.width):
                self._bag(number).add(segment(part, number, head.width, self._layout))
            tail = new.take(slice(0, 0))
        self._write(Held(head._replace(tail=tail), self.known.add(new)))
        return appeared

    def drop(self, now: int, horizon: int) -> None:
        """Drops the slices whose last tick is more than a horizon behind tick ``now``."""
        head = self._head
        if head.width == FOREVER:
            return
        first = (now - horizon) // head.width
        gone = head.slices < first
        if not gone.any():
            return
        left = head.slices[~gone]
        for place in np.unique(head.slices[gone] % RING).tolist():
            beside = []
            if (left % RING == place).any():
                stored = self._ring[place].read()
                beside = [data for data in stored if self._number_of(data) >= first]
            self._ring[place].clear()
            for data in beside:
                self._ring[place].add(data)
        if not len(left):
            self._empty()
            return
        tick = first * head.width
        tail = head.tail.take(head.tail.ticks >= tick)
        head = Head(head.shards, head.width, left, head.sizes[~gone], head.sums[~gone], tail)
        self._write(Held(head, self.known.since(tick)))

    def clear(self) -> None:
        """Drops all slices."""
        for place in np.unique(self._head.slices % RING).tolist():
            self._ring[place].clear()
        self._empty()

    def _empty(self) -> None:
        self._shelf.drop(self._shard)
        self._cell.clear()
        self.is_empty = True
        self._begin(self._head.shards, self._head.width)

    def _begin(self, shards: int, width: int) -> None:
        nothing, words = np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.uint64)
        notes = np.zeros((0, self._noted), dtype=np.uint32)
        tail = Entries(words[:, 0], words[:, 1], nothing, notes)
        self._head = Head(shards, width, nothing, nothing, words, tail)
        self.known = TimedSet((), self._noted)

    def _bag(self, number: int) -> Bag:
        return self._ring[number % RING]

    def _number_of(self, data: bytes) -> int:
        return entries_of(data, self._head.width, self._layout)[0]

    def _write(self, held: Held) -> None:
        stored = held.head.encode(self._layout)
        self._cell.write(stored)
        self._shelf.put(self._shard, stored, held)
        self.is_empty = False
        self._head, self.known = held

    def _read(self, head: Head, shards: int) -> Held:
        """What the cells hold, held against the head."""
        if head.shards != shards:
            raise CodecError(
                f"ids are stored in {head.shards} shards, this job has {shards}: go on with "
                f"deduplicate.shards: {head.shards}, as it was begun."
            )
        result = _split(head.tail, head.width)
        for place in np.unique(head.slices % RING).tolist():
            for data in self._ring[place].read():
                result.append(entries_of(data, head.width, self._layout))
        sizes, sums = np.zeros_like(head.sizes), np.zeros_like(head.sums)
        for number, part in result:
            (at,) = np.flatnonzero(head.slices == number)[:1].tolist() or [-1]
            if at < 0:
                raise _damaged(self._shard)
            sizes[at] += len(part.high)
            sums[at] += sums_of(part)
        if (sizes != head.sizes).any() or (sums != head.sums).any():
            raise _damaged(self._shard)
        return Held(head, TimedSet.of([part for _, part in result], self._noted))


def _split(part: Entries, width: int) -> list[tuple[int, Entries]]:
    """Entries by slice, in their order."""
    if not len(part.high):
        return []
    of = slices_of(part.ticks, width)
    if of.min() == of.max():
        return [(int(of[0]), part)]
    return [(number, part.take(of == number)) for number in np.unique(of).tolist()]


def _damaged(shard: int) -> CodecError:
    return CodecError(
        f"the ids that are stored in shard {shard} are not those that its header lists: the "
        "state is damaged. Go on from an older checkpoint or savepoint."
    )

"""How a block lies in its cells: what changes is rewritten, what slides by is appended.

**Machine**, one cell: the arrays of the state but for those of slots; rewritten with every batch of
ticks. Its checksum covers the tick that is next, and it names the newest entry of the past and the
names, so that it stands for all of the block.

**Names**, one cell: of discovered keys, in order of their rows; written when one is born. Declared
keys are the layout's own.

**Past**, two bags: see ``transforms.operators.sliding_history``.

What was read or written last is kept in memory under the bytes of the machine, so that a tick reads
the machine alone; anyone who lost a bundle, a block or a race finds other bytes, and reads the
rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import State, arrays_of
from weir.dpcore.errors import CodecError, in_words
from weir.dpcore.program import Program
from weir.transforms.operators import sliding_history as past
from weir.transforms.operators.noise_source import NoiseSource
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.runtime.codec import (
    NO_MARK,
    header_of,
    pack,
    pack_names,
    restore,
    unpack,
    unpack_names,
)

KIND, NAMES = b"B", b"W"
ROOM = 1 << 28
"""Bytes of blocks that a process keeps at hand (256 MB)."""


class Cell(Protocol):
    """A cell of state with one value."""

    def read(self) -> bytes | None: ...
    def write(self, value: bytes) -> None: ...


class Bag(Protocol):
    """A cell of state that is appended to."""

    def read(self) -> Iterable[bytes]: ...
    def add(self, value: bytes) -> None: ...
    def clear(self) -> None: ...


class Content(NamedTuple):
    """What a block is between two batches of ticks. Never changed in place.

    Attributes:
      keys: in order of their rows. state: of the program; None without keys.
      sent: jobs that were sent to Train.
    """

    keys: tuple[bytes, ...]
    state: State | None
    sent: int = 0


class Held(NamedTuple):
    """What memory keeps of a block.

    Attributes:
      content: of the block. stop: the next tick.
      link: of the newest entry of the past. names: checksum of the cell of names. NONE: not there.
    """

    content: Content
    stop: int
    link: int = past.NONE
    names: int = past.NONE


class Cells(NamedTuple):
    """The cells of one block."""

    machine: Cell
    names: Cell
    past: tuple[Bag, Bag]


def init(program: Program, n_keys: int) -> State:
    """State that Tick keeps before the first tick."""
    training = program.training
    return program.init(n_keys) if training is None else training.gathered(n_keys)


class Stored:
    """One block between its cells and memory. Made again for every batch of ticks.

    Args:
      program: what runs. noise: names the secrets behind what is stored.
      layout: 32 bytes that name the plan and its blocks. block: which.
      declared: keys in order; None: they are discovered.
      cells: of the block. shelf: what this process has at hand.
    """

    def __init__(
        self,
        program: Program,
        noise: NoiseSource,
        layout: bytes,
        block: int,
        declared: Sequence[bytes] | None,
        cells: Cells,
        shelf: StateCache[Held],
    ) -> None:
        self._program, self._noise, self._layout = program, noise, layout
        self._block, self._declared = block, declared
        self._cells, self._shelf = cells, shelf

    def read(self, first: int) -> Content:
        """The block before tick ``first``; before any was stored, as it begins.

        Raises:
          CodecError: it belongs to another plan, another layout of keys, another secret, or a codec
            that this build does not know; or is damaged.
        """
        data = self._cells.machine.read()
        if data is None:
            keys = tuple(self._declared or ())
            self._held = Held(
                Content(keys, init(self._program, len(keys)) if keys else None), first
            )
            return self._held.content
        held = self._shelf.get(self._block, data)
        if held is None or held.stop != first:
            held = self._decode(data, first)
            refuse_other_secrets(data, self._noise, first)
        self._held = held
        return held.content

    def write(self, content: Content, stop: int) -> None:
        """Stores the block before tick ``stop``, which is behind that of ``read``."""
        before, n_keys = self._held, len(content.keys)
        names = before.names
        if self._declared is None and (names == past.NONE or n_keys > len(before.content.keys)):
            cell = pack(NAMES, pack_names(content.keys), self._layout)
            self._cells.names.write(cell)
            names = past.link_of(cell)
        arrays = [] if content.state is None else arrays_of(content.state)
        places = () if content.state is None else past.apart(content.state)
        link = self._write_past(arrays, places, stop) if places else past.NONE
        retained = [array for place, array in enumerate(arrays) if place not in places]
        head = np.array([content.sent, n_keys, names, link], dtype=np.int64)
        data = pack(KIND, [head, *retained], self._layout, self._noise.mark(stop), stop)
        self._cells.machine.write(data)
        self._held = Held(content, stop, link, names)
        self._shelf.put(self._block, data, self._held, size_of(content))

    def _write_past(self, arrays: list[NDArray[Any]], places: Sequence[int], stop: int) -> int:
        """Appends what is new; the checksum of the entry."""
        before = self._held
        state = before.content.state
        old = None if state is None else [arrays_of(state)[place] for place in places]
        after = [arrays[place] for place in places]
        entry = past.Entry.of(old, after, before.link, before.stop, stop)
        data = entry.encode(self._layout)
        deepest = max(array.shape[-1] for array in after)
        turn, last = past.turn_of(stop, deepest), past.turn_of(before.stop, deepest)
        for later in range(max(last, turn - past.BAGS) + 1, turn + 1):
            self._cells.past[later % past.BAGS].clear()
        if entry.link == past.NONE:
            for bag in self._cells.past:
                bag.clear()
        self._cells.past[turn % past.BAGS].add(data)
        return past.link_of(data)

    @in_words
    def _decode(self, data: bytes, first: int) -> Held:
        head, *retained = unpack(KIND, data, self._layout, first)
        sent, n_keys, names, link = head.tolist()
        keys = self._names(names) if self._declared is None else tuple(self._declared)
        if len(keys) != n_keys:
            raise damaged(self._block)
        if not keys:
            return Held(Content((), None, sent), first, link, names)
        template = init(self._program, 1)
        if link != past.NONE:
            places = past.apart(template)
            depths = [arrays_of(template)[place].shape[-1] for place in places]
            entries = [data for bag in self._cells.past for data in bag.read()]
            result = past.joined(entries, link, n_keys, depths, self._layout)
            for place, array in zip(places, result, strict=True):
                retained.insert(place, array)
        return Held(Content(keys, restore(template, retained), sent), first, link, names)

    def _names(self, named: int) -> tuple[bytes, ...]:
        cell = self._cells.names.read()
        if cell is None or past.link_of(cell) != named:
            raise damaged(self._block)
        return tuple(unpack_names(*unpack(NAMES, cell, self._layout)))


def size_of(content: Content) -> int:
    """Bytes of a block in memory."""
    arrays = [] if content.state is None else arrays_of(content.state)
    return sum(array.nbytes for array in arrays) + sum(len(key) + 40 for key in content.keys)


def refuse_other_secrets(data: bytes, noise: NoiseSource, first: int) -> None:
    """Raises CodecError where stored state up to tick ``first`` is of other secrets."""
    if header_of(data).mark not in (NO_MARK, noise.mark(first)):
        raise CodecError(
            f"stored state up to tick {first} was made with other secrets than those given: noise "
            "of two secrets on the same data gives the data away. Go on with the secret of that "
            "run; a new one goes under secret.rotate, from a tick that is still ahead."
        )


def damaged(block: int) -> CodecError:
    """What is said of names that are not those of the state."""
    return CodecError(
        f"the names of keys that are stored of block {block} are not those that its state "
        "lists: the state is damaged. Go on from an earlier checkpoint or savepoint."
    )

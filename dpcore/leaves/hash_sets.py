"""Sets of 128-bit hashes: sorted, with the newest tick of each, and numbered.

Orders of many 64-bit words at once: by sorting them, not places that point to them.

The place of a word takes the bits that the sort needs least, so that one sort of plain numbers,
which processors are quick at, gives the order; the few that it cannot tell apart are sorted again.

A set of hashes that knows when: 128-bit hashes, the newest tick of each, and notes next to it.

Plain numpy, no Beam and no Arrow. Deduplicate keeps hashes of ids in it, and the caps of users what
each has spent of them.

**What it guarantees.**
1. *A function of what was added, in any order and any pieces.* Of entries of one hash the one of
   the newest tick stays; of those of one tick the larger of each note. That is a semilattice:
   repeats vanish, and neither order nor cuts matter.
2. *An entry knows nothing of its neighbours.* What ``find`` says of a hash follows from the entries
   of that hash, and from the tick that ``since`` was given last; never from which other
   hashes are there, how many they are, or when they came.
3. *Exact.* All 128 bits are compared: no filter and no sketch, so that no two people become one.
4. *Immutable.* ``add`` and ``since`` give another set and leave this one as it was, so that a
   bundle that is given up leaves nothing behind.

**What it costs.** Entries lie in sorted runs, each more than ``GROWTH`` times as long as the next.
``add`` merges the short ones at the end: an entry is copied O(GROWTH log n) times in all,
whatever is in the set next to it. ``find`` looks each hash up in every run, of which there are
O(log n). ``since`` reads everything once, so it is called once for a slice of time, not a bundle.
16 bytes an entry, and those of its tick and its notes.

Hashes by number, in the order in which they first came: which are copies of which.

For ids that are all remembered, in one process. ``timed_set`` is for those that are forgotten, and
stored. Exact: all 128 bits are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints
from weir.dpcore.native import kernels

Words = NDArray[np.uint64]


def order_of(columns: Sequence[Words]) -> Ints:
    """The stable order by several columns, the first one first: (n,) int64.

    Quick where the first column, but for its last log2(n) bits, tells most rows apart or those that
    it does not tell apart are alike.

    Args:
      columns: (n,) uint64 each.
    """
    n = len(columns[0])
    bits = np.uint64(max(1, (n - 1).bit_length()))
    packed = columns[0] >> bits
    packed <<= bits
    packed |= np.arange(n, dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << int(bits)) - 1)).view(np.int64)
    packed >>= bits
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    if not len(tied):
        return order
    before, after = order[tied], order[tied + 1]
    wrong = np.zeros(len(tied), dtype=bool)
    for column in reversed(columns):
        item, other = column[before], column[after]
        wrong = (item > other) | ((item == other) & wrong)
    if not wrong.any():
        return order
    group = np.zeros(n, dtype=np.int64)
    np.cumsum(packed[1:] != packed[:-1], out=group[1:])
    again = np.zeros(int(group[-1]) + 1, dtype=bool)
    again[group[tied[wrong]]] = True
    rows = np.flatnonzero(again[group])
    some = order[rows]
    keys = [column[some] for column in reversed(columns)]
    order[rows] = some[np.lexsort((*keys, group[rows]))]
    return order


def changes(ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """(n,) whether a row of (n, 2) words is another than the one before; the first is."""
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:, 0], ordered[:-1, 0], out=new[1:])
    new[1:] |= ordered[1:, 1] != ordered[:-1, 1]
    return new


Ticks = NDArray[Any]
Notes = NDArray[np.uint32]

GROWTH = 4
"""Runs of a set are each more than so many times as long as the next."""


class Entries(NamedTuple):
    """Hashes with what is known of each.

    Attributes:
      high, low: (n,) uint64 words of the hash.
      ticks: (n,) integers of any width, tick that the entry is of.
      notes: (n, c) uint32, c the same in all of a set; c = 0 where nothing is noted.
    """

    high: Words
    low: Words
    ticks: Ticks
    notes: Notes

    def take(self, rows: Any) -> Entries:
        """Some rows: (m,) indices, or (n,) bool."""
        return Entries(*(array[rows] for array in self))


class Lookup(NamedTuple):
    """What a set knows of some hashes.

    Attributes:
      there: (n,) bool. ticks: (n,) int64, the newest tick. notes: (n, c) uint32. Both are 0 where
        nothing is there.
    """

    there: NDArray[np.bool_]
    ticks: NDArray[np.int64]
    notes: Notes


def entries(high: Words, low: Words, ticks: Ticks, notes: Notes | None = None) -> Entries:
    """Entries of arrays; without notes, where none are given."""
    return Entries(
        high, low, ticks, np.zeros((len(high), 0), np.uint32) if notes is None else notes
    )


def together(parts: Sequence[Entries]) -> Entries:
    """Entries of several parts, one after the other."""
    return Entries(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class TimedSet:
    """See above. Make one by ``TimedSet.of(parts)``, and others from it by ``add`` and ``since``.

    Attributes:
      runs: entries sorted by (high, low), each hash once in a run, longest run first.
      noted: c, how many numbers are noted next to a hash.
    """

    runs: tuple[Entries, ...] = ()
    noted: int = 0

    @classmethod
    def of(cls, parts: Sequence[Entries], noted: int = 0) -> TimedSet:
        """The set of all entries of some parts, in any order."""
        parts = [part for part in parts if len(part.high)]
        if not parts:
            return cls((), noted)
        whole = together(parts)
        return cls((tidy(whole.take(np.argsort(whole.high, kind="stable"))),), noted)

    def __len__(self) -> int:
        """Entries that are kept: at least the number of hashes, as an older one may wait to be
        merged with a newer one of its hash."""
        return sum(len(run.high) for run in self.runs)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(array.nbytes for run in self.runs for array in run)

    def find(self, high: Words, low: Words) -> Lookup:
        """What is known of hashes, (n,) words each, in any order; by ``high`` is quickest."""
        n = len(high)
        there, ticks = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64)
        notes = np.zeros((n, self.noted), dtype=np.uint32)
        for run in self.runs:
            at = places(run, high, low)
            rows = np.flatnonzero(at >= 0)
            if not len(rows):
                continue
            at = at[rows]
            newer = ~there[rows] | (run.ticks[at] > ticks[rows])
            if self.noted:
                level = there[rows] & (run.ticks[at] == ticks[rows])
                both = np.maximum(notes[rows[level]], run.notes[at[level]])
                notes[rows[level]] = both
                notes[rows[newer]] = run.notes[at[newer]]
            ticks[rows[newer]] = run.ticks[at[newer]]
            there[rows] = True
        return Lookup(there, ticks, notes)

    def add(self, new: Entries) -> TimedSet:
        """The set with more entries, sorted by (high, low), each hash once."""
        if not len(new.high):
            return self
        runs = list(self.runs)
        while runs and len(runs[-1].high) <= GROWTH * len(new.high):
            new = merge(runs.pop(), new)
        return TimedSet((*runs, new), self.noted)

    def since(self, tick: int) -> TimedSet:
        """The set without the entries of ticks before ``tick``.

        Call it with ticks that the public clock decides, never by another entry's: one far ahead
        would make every other one forgotten.
        """
        left = (run.take(run.ticks >= tick) for run in self.runs)
        retained = [run for run in left if len(run.high)]
        retained.sort(key=lambda run: len(run.high), reverse=True)
        return TimedSet(tuple(retained), self.noted)


def sort_hashes(high: Words, low: Words) -> NDArray[np.int64]:
    """Order by (high, low)."""
    return order_of((high, low))


def places(run: Entries, high: Words, low: Words) -> NDArray[np.int64]:
    """(n,) rows of a run that hold hashes; -1 where it does not hold them."""
    at: NDArray[np.int64] = np.searchsorted(run.high, high)
    np.minimum(at, len(run.high) - 1, out=at)
    same = run.high[at] == high
    result = same & (run.low[at] == low)
    for i in np.flatnonzero(same & ~result).tolist():  # share a first word: next to impossible
        stop = int(np.searchsorted(run.high, high[i], side="right"))
        place = int(at[i]) + int(np.searchsorted(run.low[at[i] : stop], low[i]))
        if place < stop and run.low[place] == low[i]:
            at[i], result[i] = place, True
    at[~result] = -1
    return at


def merge(a: Entries, b: Entries) -> Entries:
    """Two runs as one."""
    at = np.searchsorted(a.high, b.high, side="right") + np.arange(len(b.high))
    of_a = np.ones(len(a.high) + len(b.high), dtype=bool)
    of_a[at] = False

    def joined(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        out = np.empty((len(of_a), *x.shape[1:]), dtype=np.result_type(x, y))
        out[of_a], out[at] = x, y
        return out

    return tidy(Entries(*map(joined, a, b)))


def tidy(run: Entries) -> Entries:
    """Entries sorted by ``high``, made a run: sorted by ``low`` too, and each hash once."""
    ties = np.flatnonzero(run.high[1:] == run.high[:-1])
    if not len(ties):
        return run
    rows = np.union1d(ties, ties + 1)
    some = run.take(rows)
    some = some.take(np.lexsort((some.ticks, some.low, some.high)))
    again = (some.high[1:] == some.high[:-1]) & (some.low[1:] == some.low[:-1])
    last = np.append(~again, True)
    if some.notes.shape[1] and len(rows):
        first = np.insert(~again, 0, True)
        newest = some.ticks == some.ticks[last][np.cumsum(first) - 1]
        noted = np.where(newest[:, None], some.notes, np.uint32(0))
        some.notes[last] = np.maximum.reduceat(noted, np.flatnonzero(first), axis=0)
    retained = np.ones(len(run.high), dtype=bool)
    retained[rows[~last]] = False

    def placed(array: NDArray[Any], part: NDArray[Any]) -> NDArray[Any]:
        array = array.copy()
        array[rows] = part
        return array[retained]

    return Entries(*map(placed, run, some))


LEAST = 1 << 12
"""Slots of a table at the beginning; a power of two."""
FULL = 2 / 3
"""Part of a table's slots that is filled at most."""
PIECE = 1 << 18
"""Hashes that lie together: what is known grows by pieces, and is not moved. The kernel's word."""


class HashNumbers:
    """Numbers hashes 0, 1, ... as they come.

    A kernel keeps 16 bytes a hash and an open table of 12 to 24; without one they lie in sorted
    runs. Both give the same numbers.
    """

    def __init__(self) -> None:
        self._count = np.zeros(1, dtype=np.int64)
        self._known: tuple[Words, ...] = ()
        self._slots = np.zeros(LEAST, dtype=np.uint64)
        self._runs = TimedSet()

    def __len__(self) -> int:
        """How many different ones came."""
        return int(self._count[0])

    def add(self, hashes: Words) -> tuple[Ints, np.ndarray]:
        """Takes more of them.

        Args:
          hashes: (n, 2) uint64.

        Returns:
          (n,) int64, the number of each, and (n,) bool, whether it came for the first time.
        """
        n = len(hashes)
        hashes = np.ascontiguousarray(hashes, dtype=np.uint64)
        if kernels is None:
            return self._sorted(hashes)
        self._make_room(n)
        numbers, fresh = np.empty(n, dtype=np.int64), np.empty(n, dtype=bool)
        kernels.number(hashes, self._slots, self._count, numbers, fresh, self._known)
        return numbers, fresh

    def _make_room(self, n: int) -> None:
        count = len(self)
        while count + n > PIECE * len(self._known):
            self._known = (*self._known, np.empty((PIECE, 2), dtype=np.uint64))
        if count + n > FULL * len(self._slots):
            size = len(self._slots)
            while count + n > FULL * size:
                size *= 2
            slots = np.zeros(size, dtype=np.uint64)
            assert kernels is not None
            kernels.renumber(self._slots, slots)
            self._slots = slots

    def _sorted(self, hashes: Words) -> tuple[Ints, np.ndarray]:
        """The same in numpy."""
        n, count = len(hashes), len(self)
        numbers, fresh = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool)
        if not n:
            return numbers, fresh
        high, low = hashes.T
        order = sort_hashes(high, low)
        first = np.ones(n, dtype=bool)
        first[1:] = (hashes[order[1:]] != hashes[order[:-1]]).any(axis=1)
        leaders = order[first]  # the order is stable: of copies the one that came first
        result = self._runs.find(high[leaders], low[leaders])
        own = result.ticks.copy()
        fresh[leaders[~result.there]] = True
        own[~result.there] = count + np.searchsorted(np.flatnonzero(fresh), leaders[~result.there])
        numbers[order] = own[np.cumsum(first) - 1]
        new = leaders[~result.there]
        self._runs = self._runs.add(entries(high[new], low[new], own[~result.there]))
        self._count += len(new)
        return numbers, fresh

"""Hashes by number, in the order in which they first came: which are copies of which.

For ids that are all remembered, in one process. ``timed_set`` is for those that are forgotten, and
stored. Exact: all 128 bits are compared.
"""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Ints
from weir.dpcore.leaves.timed_set import TimedSet, Words, entries, sort_hashes
from weir.dpcore.native import kernels

LEAST = 1 << 12
"""Slots of a table at the beginning; a power of two."""
FULL = 2 / 3
"""Part of a table's slots that is filled at most."""
PIECE = 1 << 18
"""Hashes that lie together: what is known grows by pieces, and is not moved. The kernel's word."""


class Numbered:
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
        found = self._runs.find(high[leaders], low[leaders])
        own = found.ticks.copy()
        fresh[leaders[~found.there]] = True
        own[~found.there] = count + np.searchsorted(np.flatnonzero(fresh), leaders[~found.there])
        numbers[order] = own[np.cumsum(first) - 1]
        new = leaders[~found.there]
        self._runs = self._runs.add(entries(high[new], low[new], own[~found.there]))
        self._count += len(new)
        return numbers, fresh


__all__ = ["Numbered"]

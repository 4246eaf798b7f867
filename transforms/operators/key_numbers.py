"""Names of keys that one process has met, as numbers: so that no step compares texts again.

They are told apart by keyed hashes of 128 bits, which the caps need anyway, in a table with open
addresses: all of a batch are looked up at once.
"""

from __future__ import annotations

import threading
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests
from weir.dpcore.native import kernels

FIRST: Final = 1 << 12
"""Slots of an empty table; there are always twice as many as names."""

Places = NDArray[np.int32]


class KeyNumbers:
    """Texts by numbers, in the order in which they came. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: Places = np.full(FIRST, -1, dtype=np.int32)
        self._hashes: Digests = np.zeros((FIRST // 2, 2), dtype=np.uint64)
        self._parts: list[pa.Array] = [pa.array([], pa.string())]
        self._n = 0

    def coded(self, column: pa.DictionaryArray, hashes: Digests) -> pa.Array:
        """A column of texts without null rows -> their numbers, int32.

        Args:
          hashes: (m, 2) of the entries of its dictionary.
        """
        with self._lock:
            result = self._find(hashes)
            while (fresh := np.flatnonzero(result < 0)).size:
                # Entries of a dictionary may repeat: of such, one at a time.
                _, first = np.unique(hashes[fresh, 0], return_index=True)
                fresh = fresh[np.sort(first)]
                self._add(hashes[fresh])
                self._parts.append(column.dictionary.take(pa.array(fresh)).cast(pa.string()))
                result = self._find(hashes)
        return pa.array(result[column.indices.to_numpy()])

    def decoded(self, numbers: pa.Array) -> pa.DictionaryArray:
        """The inverse: over one dictionary of all texts that came so far."""
        return pa.DictionaryArray.from_arrays(numbers, self.texts, safe=False)

    @property
    def texts(self) -> pa.Array:
        """All that came so far, by number."""
        with self._lock:
            if len(self._parts) > 1:
                self._parts = [pa.concat_arrays(self._parts)]
            return self._parts[0]

    def hashes_of(self, numbers: pa.Array) -> Digests:
        """(n, 2) hashes of names, by their numbers (n,)."""
        with self._lock:
            result: Digests = self._hashes.take(numbers.to_numpy(), axis=0)
            return result

    def _find(self, hashes: Digests) -> Places:
        """Numbers of some hashes; -1 of those that are not there."""
        if kernels is not None:
            out = np.empty(len(hashes), dtype=np.int32)
            kernels.lookup(self._slots, self._hashes, np.ascontiguousarray(hashes), out)
            return out
        mask = np.uint64(len(self._slots) - 1)
        at = hashes[:, 1] & mask
        places: Places = self._slots[at]
        asked = np.flatnonzero(places >= 0)
        asked = asked[(self._hashes.take(places[asked], axis=0) != hashes[asked]).any(axis=1)]
        while asked.size:  # another has their slot: those behind it
            at[asked] = (at[asked] + np.uint64(1)) & mask
            places[asked] = self._slots[at[asked]]
            asked = asked[places[asked] >= 0]
            asked = asked[(self._hashes.take(places[asked], axis=0) != hashes[asked]).any(axis=1)]
        return places

    def _add(self, hashes: Digests) -> None:
        """Gives hashes numbers, each once, none of which is there."""
        first, self._n = self._n, self._n + len(hashes)
        if self._n > len(self._hashes):
            room = 1 << (self._n - 1).bit_length()
            held, self._hashes = self._hashes[:first], np.zeros((room, 2), dtype=np.uint64)
            self._hashes[:first] = held
            self._slots = np.full(2 * room, -1, dtype=np.int32)
            self._hashes[first : self._n] = hashes
            self._place(0)
            return
        self._hashes[first : self._n] = hashes
        self._place(first)

    def _place(self, first: int) -> None:
        """Finds slots for the numbers from ``first`` on."""
        mask = np.uint64(len(self._slots) - 1)
        numbers = np.arange(first, self._n, dtype=np.int32)
        at = self._hashes[first : self._n, 1] & mask
        while numbers.size:
            free = self._slots[at] < 0
            self._slots[at[free]] = numbers[free]  # of several at one slot one is written
            left = self._slots[at] != numbers
            numbers, at = numbers[left], (at[left] + np.uint64(1)) & mask

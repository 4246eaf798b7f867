"""Which row the key of an event has: keys as numbers, for all that is added up of one bundle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.leaves.keys import Keys

Ints = NDArray[np.int64]

INDEX = 1 << 20
"""Names that are remembered from bundle to bundle, at most; what is found does not hang on it."""
GROUP = 12
"""Bits: so many keys of a block make a group, at most, where keys are discovered."""


class Coded(NamedTuple):
    """Keys of events.

    Attributes:
      codes: (n,) int32. rows: (groupings, m) global row of the key that a code stands for.
    """

    codes: NDArray[Any]
    rows: Ints

    def each(self) -> Iterator[Ints]:
        """(n,) global row of each event's key, one of each grouping."""
        return (rows[self.codes] for rows in self.rows)


class KeyIndex:
    """Global rows of keys: declared keys in order of (block, row), discovered ones as they come.

    Attributes:
      names: of keys. blocks: (K,) of each. rows: (K,) in its block, of declared keys.
      groups: (K,) which keys are worked on together: some of one block. homes: of groups, the block
        of each.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.names: list[bytes] = []
        self.blocks = np.zeros(0, dtype=np.int64)
        self.rows = np.zeros(0, dtype=np.int64)
        if not keys.observed:
            held = [keys.block_keys(block) for block in range(keys.blocks)]
            self.names = [key for block in held for key in block]
            self.blocks = np.repeat(np.arange(keys.blocks), [len(block) for block in held])
            self.rows = np.concatenate([np.arange(len(block)) for block in held])
        self.groups = self.blocks
        self.homes = list(range(keys.blocks)) if not keys.observed else []
        self._in_block = np.zeros(keys.blocks, dtype=np.int64)
        self._group_of: dict[int, int] = {}
        self._place = {name: index for index, name in enumerate(self.names)}
        self._only = not keys.columns
        self._known: tuple[Any, Ints] | None = None

    def know(self, names: pa.Array) -> None:
        """Takes keys, of which there may be events: threads may then share the index."""
        if len(names) and not self._only:
            self._rows_of(names)

    def of(self, batch: pa.RecordBatch) -> Ints | None:
        """(n,) global row of each event's key, of a plan with one grouping; None where there is a
        single key."""
        coded = self.coded(batch)
        if coded is None:
            return None
        (rows,) = coded.each()
        return rows

    def coded(self, batch: pa.RecordBatch) -> Coded | None:
        """The keys of events, by number; None where there is a single key."""
        if self._only:
            return None
        column = batch.column("@key")
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = column.indices.to_numpy(zero_copy_only=False)
        return Coded(codes, self._rows_of(column.dictionary))

    def _rows_of(self, dictionary: Any) -> Ints:
        """(groupings, m) global rows of the keys of a dictionary; batches cut of one batch share
        theirs."""
        if self._known is not None and _same(self._known[0], dictionary):
            return self._known[1]
        names = self._names_of(dictionary)
        fresh = [name for name in names if name not in self._place]
        if fresh:
            self._add(fresh)
        result = np.fromiter(map(self._place.__getitem__, names), np.int64, len(names))
        lookup = np.ascontiguousarray(result.reshape(len(dictionary), -1).T)
        self._known = dictionary, lookup
        return lookup

    def _names_of(self, dictionary: Any) -> list[bytes]:
        """The key of each entry, in every grouping."""
        if not self._keys.groups:
            result = dictionary.cast(pa.string()).cast(pa.binary()).to_pylist()
            return result if not dictionary.null_count else [name or b"" for name in result]
        texts = ["" if key is None else key for key in dictionary.to_pylist()]
        return [key.encode() for text in texts for key in self._keys.grouped(text)]

    def _add(self, fresh: Sequence[bytes]) -> None:
        if not self._keys.observed:
            raise ValueError("an event with an undeclared key came past the filter.")
        fresh = list(dict.fromkeys(fresh))
        self._place.update(zip(fresh, itertools.count(len(self._place))))
        self.names.extend(fresh)
        blocks = self._keys.block_of(fresh)
        self.blocks = np.concatenate([self.blocks, blocks])
        self.groups = np.concatenate([self.groups, self._grouped(blocks)])

    def _grouped(self, blocks: Ints) -> Ints:
        """Groups of further keys, by the blocks that they are of."""
        order = np.argsort(blocks, kind="stable")
        counts = np.bincount(blocks, minlength=len(self._in_block))
        before = self._in_block - (np.cumsum(counts) - counts)
        self._in_block += counts
        place = np.empty(len(blocks), dtype=np.int64)
        place[order] = before[blocks[order]] + np.arange(len(blocks))
        codes, where = np.unique(blocks << 32 | place >> GROUP, return_inverse=True)
        result = np.empty(len(codes), dtype=np.int64)
        for at, code in enumerate(codes.tolist()):
            result[at] = self._group_of.setdefault(code, len(self.homes))
            if result[at] == len(self.homes):
                self.homes.append(code >> 32)
        return result[where]

    @property
    def size(self) -> int:
        """How many keys are known."""
        return max(1, len(self.names))


def _same(item: Any, other: Any) -> bool:
    """Whether two arrays hold the same; quick where they are one in memory."""
    places = [
        [0 if buffer is None else buffer.address for buffer in array.buffers()]
        for array in (item, other)
    ]
    if places[0] == places[1] and (len(item), item.offset) == (len(other), other.offset):
        return True
    return bool(item.equals(other))

"""Rows of many features, of which few are not 0, and the list columns that hold them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from weir.dpcore.arrays import Ints

MOST_DENSE = 1 << 12
"""Features of a list column up to which rows are dense arrays; of more they are packed."""


PIECE = 1 << 20
"""Numbers whose bytes are hashed at once."""


class PackedRows(NamedTuple):
    """The arrays of bounded rows, as states hold them: joining two groups of rows joins each array.

    Attributes:
      lengths: (n,) int32, features of each row that are not 0.
      indices: (m,) int32, row after row; within a row they increase.
      values: (m,) float32, whole multiples of 2^-20 of size 1 at most: exact.
      targets: (n,) float32, alike; NaN where a row is void, which has no features.
    """

    lengths: NDArray[np.int32]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    targets: NDArray[np.float32]

    @classmethod
    def empty(cls) -> PackedRows:
        """No rows."""
        ints, floats = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
        return cls(ints, ints, floats, floats)


@dataclass(frozen=True, eq=False)
class SparseRows:
    """n rows of ``width`` numbers; those that are not 0 are there, with their places.

    It stands where a dense (n, width) table of rows may stand: a bounded row is the features, then
    the target, and a void row is 0 but for a NaN at its end. ``len(rows)``, ``rows[which]`` (slice,
    mask or places) and ``rows.shape`` are those of the table. Equal rows are equal arrays: indices
    increase, and no value is 0.

    Attributes:
      offsets: (n + 1,) int64; row i has entries offsets[i] .. offsets[i + 1] - 1.
      indices: (m,) int32 in [0, width), increasing within a row.
      values: (m,) float64, or float32 where they are whole multiples of 2^-20 of size 1 at most.
      width: numbers in a row, at most 2^31.
    """

    offsets: Ints
    indices: NDArray[np.int32]
    values: NDArray[Any]
    width: int

    @classmethod
    def empty(cls, width: int, n: int = 0) -> SparseRows:
        """n rows of zeros."""
        nothing = np.zeros(0, dtype=np.int32)
        return cls(np.zeros(n + 1, dtype=np.int64), nothing, np.zeros(0, dtype=np.float32), width)

    @classmethod
    def from_dense(cls, table: NDArray[Any]) -> SparseRows:
        """A table (n, width) of floats; -0 is 0."""
        row, index = np.nonzero(table)
        values = table[row, index]
        lengths = np.bincount(row, minlength=len(table))
        return cls(offsets_of(lengths), index.astype(np.int32), values, int(table.shape[1]))

    @classmethod
    def from_packed(cls, packed: PackedRows, width: int) -> SparseRows:
        """The features of rows whose arrays a state holds: (n, width), without the targets."""
        return cls(offsets_of(packed.lengths), packed.indices, packed.values, width)

    @classmethod
    def concatenate(cls, parts: Sequence[SparseRows]) -> SparseRows:
        """Rows of one width, one part after the other.

        Raises:
          ValueError: no parts, or parts of several widths.
        """
        if len({part.width for part in parts}) != 1:
            raise ValueError("sparse rows of one width are joined.")
        return cls(
            offsets_of(np.concatenate([part.lengths for part in parts])),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.values for part in parts]),
            parts[0].width,
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, which: Any) -> SparseRows:
        """Some of the rows: by slice, mask or places."""
        if isinstance(which, slice):
            start, stop, step = which.indices(len(self))
            if step == 1:
                stop = max(start, stop)
                low, high = self.offsets[start], self.offsets[stop]
                offsets = self.offsets[start : stop + 1] - low
                return SparseRows(
                    offsets, self.indices[low:high], self.values[low:high], self.width
                )
            which = np.arange(start, stop, step)
        which = np.asarray(which)
        if which.dtype == np.bool_:
            which = np.flatnonzero(which)
        starts, lengths = self.offsets[:-1][which], np.diff(self.offsets)[which]
        offsets = offsets_of(lengths)
        at = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return SparseRows(offsets, self.indices[at], self.values[at], self.width)

    @property
    def shape(self) -> tuple[int, int]:
        """(n, width)."""
        return len(self), self.width

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        return self.values.dtype

    @property
    def lengths(self) -> Ints:
        """(n,) numbers of each row that are there."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Ints:
        """(m,) the row of each number."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    @property
    def last(self) -> NDArray[np.float64]:
        """(n,) the number at the end of each row: its target; NaN where a row is void."""
        out = np.zeros(len(self))
        some = np.flatnonzero(self.lengths)
        at = self.offsets[1:][some] - 1
        ends = self.indices[at] == self.width - 1
        out[some[ends]] = self.values[at[ends]]
        return out

    @property
    def features(self) -> SparseRows:
        """The rows without the number at their end: (n, width - 1)."""
        retained = self.indices < self.width - 1
        lengths = np.diff(np.concatenate([[0], np.cumsum(retained)])[self.offsets])
        indices, values = self.indices[retained], self.values[retained]
        return SparseRows(offsets_of(lengths), indices, values, self.width - 1)

    def with_last(self, last: NDArray[np.float64]) -> SparseRows:
        """Rows with one number more at their end: (n, width + 1). last: (n,)."""
        some = np.flatnonzero(last)
        ends = self.offsets[1:][some]
        values = np.insert(self.values, ends, last[some].astype(self.values.dtype))
        indices = np.insert(self.indices, ends, np.int32(self.width))
        lengths = self.lengths
        lengths[some] += 1
        return SparseRows(offsets_of(lengths), indices, values, self.width + 1)

    @property
    def packed(self) -> PackedRows:
        """The arrays as a state holds them, of rows that end with their target. Exact for bounded
        rows, whose values fit float32."""
        features = self.features
        values = np.ascontiguousarray(features.values, dtype=np.float32)
        lengths, targets = features.lengths.astype(np.int32), self.last.astype(np.float32)
        return PackedRows(lengths, features.indices, values, targets)

    @property
    def csr(self) -> Any:
        """The same as a scipy.sparse.csr_array of float64: products with it add the numbers of a
        row in order, one after the other, on one thread."""
        values = self.values.astype(np.float64)
        return sparse.csr_array((values, self.indices, self.offsets), shape=self.shape)

    def dense(self) -> NDArray[np.float64]:
        """(n, width) float64, zeros and all: for few features only."""
        out = np.zeros(self.shape)
        out[self.rows, self.indices] = self.values
        return out

    def words(self) -> tuple[Ints, NDArray[np.uint64]]:
        """The bytes of each row, the same however it came: places and bits of its numbers.

        Returns:
          offsets (n + 1,) into words, and 8-byte words: of each number its place, then the bits of
          its value as float64.
        """
        out = np.empty((len(self.values), 2), dtype="<u8")
        out[:, 0] = self.indices
        out[:, 1] = self.values.astype("<f8").view("<u8")
        return 2 * self.offsets, out.reshape(-1)

    def digests(self) -> NDArray[np.uint64]:
        """(n, 4) BLAKE2b of the ``words`` of each row: nobody finds two rows with the same."""
        results: list[bytes] = []
        n, start = len(self), 0
        while start < n:
            stop = int(np.searchsorted(self.offsets, self.offsets[start] + PIECE, side="right")) - 1
            stop = min(n, max(start + 1, stop))
            offsets, words = self[start:stop].words()
            data, ends = memoryview(words.tobytes()), (8 * offsets).tolist()
            for low, high in zip(ends, ends[1:], strict=False):
                results.append(hashlib.blake2b(data[low:high], digest_size=32).digest())
            start = stop
        return np.frombuffer(b"".join(results), dtype="<u8").reshape(n, 4)


def offsets_of(lengths: NDArray[Any]) -> Ints:
    """Where spans of these lengths begin and end, one after the other: (n,) -> (n + 1,)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


_LABEL = re.compile(r"(.+)\[(0|[1-9][0-9]*)\]\Z", re.DOTALL)


def split_label(label: str) -> tuple[str, int] | None:
    """x[17] -> ("x", 17); None: it names no feature of a list."""
    result = _LABEL.fullmatch(label)
    return None if result is None else (result[1], int(result[2]))


class Expanded(Mapping[str, NDArray[Any]]):
    """Columns (n,) by the names that a program reads, x[17] of a list column x among them.

    A list column is a (n, size) array, or ``SparseRows`` of that width; under its own name it is
    the latter.
    """

    def __init__(self, columns: Mapping[str, Any], names: Sequence[str]) -> None:
        self._columns, self._names = columns, names
        self._tables: dict[str, NDArray[Any]] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self._columns:
            column = self._columns[name]
            wide = isinstance(column, np.ndarray) and column.ndim == 2
            return SparseRows.from_dense(column) if wide else column
        result = split_label(name)
        if result is None or result[0] not in self._columns:
            raise KeyError(name)
        return self._table(result[0])[:, result[1]]

    def _table(self, name: str) -> NDArray[Any]:
        """(n, size), its columns one after the other in memory."""
        if name not in self._tables:
            column = self._columns[name]
            table = column.dense() if isinstance(column, SparseRows) else np.asarray(column)
            self._tables[name] = np.asfortranarray(table)
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def width_of(program: Any, name: str) -> int:
    """Features of a list column that a program reads: it says so, or names each of them."""
    if name in program.lists:
        return int(program.lists[name])
    return _named(program.columns, name)


@lru_cache(maxsize=8)
def _named(columns: tuple[str, ...], name: str) -> int:
    results = [split_label(column) for column in columns]
    return sum(label is not None and label[0] == name for label in results)

"""Partial leaves: what one bundle gathered for one block, cell by cell, exact int64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from transforms.coders import numbers_at, pack, pack_names, unpack, unpack_names

Ints = NDArray[np.int64]

KIND = b"L"


class PartialLeaf(NamedTuple):
    """Sums of some events of one block; cells without events are not listed.

    Attributes:
      ticks: (m,) int64, non-decreasing.
      rows: (m,) int64, row of the key in its block, or in ``names`` where that is not empty.
      counts: (m,) int64, how many events each cell gathered.
      values: (m, D) int64, their sums in lattice units.
      names: keys as bytes, for blocks whose keys are discovered; empty for declared keys.
    """

    ticks: Ints
    rows: Ints
    counts: Ints
    values: Ints
    names: tuple[bytes, ...] = ()

    def take(self, which: NDArray[Any] | slice) -> PartialLeaf:
        """Some of the cells, chosen by mask, index or slice."""
        return PartialLeaf(
            self.ticks[which], self.rows[which], self.counts[which], self.values[which], self.names
        )


def encode(leaf: PartialLeaf) -> bytes:
    """To bytes; starts with the range of ticks so that ``tick_range`` need not read the rest."""
    span = np.array([leaf.ticks[0], leaf.ticks[-1]] if len(leaf.ticks) else [0, -1], dtype=np.int64)
    return pack(
        KIND,
        [span, leaf.ticks, leaf.rows.astype(np.int32), leaf.counts, leaf.values]
        + pack_names(leaf.names),
    )


def decode(data: bytes) -> PartialLeaf:
    """The inverse of ``encode``."""
    _, ticks, rows, counts, values, offsets, joined = unpack(KIND, data)
    return PartialLeaf(
        ticks, rows.astype(np.int64), counts, values, tuple(unpack_names(offsets, joined))
    )


def tick_range(data: bytes) -> tuple[int, int]:
    """First and last tick of an encoded leaf, without reading the rest."""
    first, last = np.frombuffer(data, dtype="<i8", count=2, offset=numbers_at(data)).tolist()
    return first, last


def sum_by_cell(ticks: Ints, rows: Ints, n_rows: int, counts: Ints, values: Ints) -> PartialLeaf:
    """Adds up cells that occur more than once; the result is sorted by (tick, row)."""
    if not len(ticks):
        return PartialLeaf(ticks, rows, counts, values)
    code = ticks * n_rows + rows
    if np.all(code[1:] > code[:-1]):
        return PartialLeaf(ticks, rows, counts, values)
    order = np.argsort(code, kind="stable")
    code = code[order]
    starts = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
    if len(starts) == len(code):
        return PartialLeaf(ticks[order], rows[order], counts[order], values[order])
    with np.errstate(over="ignore"):
        summed = np.add.reduceat(values[order], starts, axis=0)
    code = code[starts]
    return PartialLeaf(
        code // n_rows, code % n_rows, np.add.reduceat(counts[order], starts), summed
    )


def merge(parts: Sequence[PartialLeaf], dimension: int) -> PartialLeaf:
    """One leaf of several: names united in order of their bytes, cells sorted by (tick, row)."""
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return PartialLeaf(none, none, none, np.zeros((0, dimension), dtype=np.int64))
    names = tuple(sorted({name for part in parts for name in part.names}))
    place = {name: row for row, name in enumerate(names)}
    rows = [
        np.array([place[name] for name in part.names], dtype=np.int64)[part.rows]
        if part.names
        else part.rows
        for part in parts
    ]
    joined = np.concatenate(rows)
    n_rows = len(names) or (int(joined.max()) + 1 if len(joined) else 1)
    return sum_by_cell(
        np.concatenate([part.ticks for part in parts]),
        joined,
        n_rows,
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.values for part in parts]),
    )._replace(names=names)

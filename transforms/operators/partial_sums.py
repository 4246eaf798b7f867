"""Partial leaves: what one bundle gathered for one block, cell by cell, exact int64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import extremes
from weir.dpcore.errors import in_words
from weir.dpcore.leaves.hash_sets import order_of
from weir.dpcore.native import kernels
from weir.transforms.runtime.codec import (
    kind_of,
    numbers_at,
    pack,
    pack_names,
    unpack,
    unpack_names,
)

Ints = NDArray[np.int64]

KIND = b"L"
UNSUMMED = b"Q"


class PartialLeaf(NamedTuple):
    """Sums of some events of one block; cells without events are not listed. Inside a process whole
    numbers may be narrower than told here, but for sums of four bytes.

    Where a sum is much wider than an event (a matrix of products), cells of few events are sent as
    the bounded events themselves, one an entry, and summed when their tick is stepped.

    Attributes:
      ticks: (m,) int64, non-decreasing.
      rows: (m,) int64, row of the key in its block, or in ``names`` where that is not empty.
      counts: (m,) int64, how many events each cell gathered; 1 where they are not summed.
      values: (m, D) int64, their sums in lattice units; or (m, w) int32, events not summed.
      names: keys as bytes, for blocks whose keys are discovered; empty for declared keys.
    """

    ticks: Ints
    rows: Ints
    counts: Ints
    values: Ints | NDArray[np.int32]
    names: tuple[bytes, ...] = ()

    @property
    def is_summed(self) -> bool:
        """Whether values are sums of cells, not events."""
        return self.values.dtype != np.int32

    def take(self, which: NDArray[Any] | slice) -> PartialLeaf:
        """Some of the cells, chosen by mask, index or slice."""
        return PartialLeaf(
            self.ticks[which], self.rows[which], self.counts[which], self.values[which], self.names
        )


def encode(leaf: PartialLeaf) -> bytes:
    """To bytes; starts with the range of ticks so that ``tick_range`` need not read the rest.

    Whole numbers are as narrow as they can be: cells of few events are many.
    """
    span = np.array([leaf.ticks[0], leaf.ticks[-1]] if len(leaf.ticks) else [0, -1], dtype=np.int64)
    cells = [narrow(leaf.ticks), narrow(leaf.rows), narrow(leaf.counts)]
    offsets, joined = pack_names(leaf.names)
    if leaf.is_summed:
        return pack(KIND, [span, *cells, narrow(leaf.values), narrow(offsets), joined])
    return pack(UNSUMMED, [span, *cells, leaf.values, narrow(offsets), joined])


def narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """The same in the narrowest type of whole numbers that holds them all."""
    if not numbers.size:
        return numbers
    low, high = extremes(numbers)
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return numbers.astype(kind)
    return numbers


def narrowed(leaf: PartialLeaf) -> PartialLeaf:
    """A leaf in as few bytes as its numbers need, to be kept in memory."""
    ticks, rows, counts = map(narrow, leaf[:3])
    values = leaf.values
    if leaf.is_summed and (least := narrow(values)).dtype != np.int32:
        values = least  # four bytes would be the mark of events that are not summed
    return PartialLeaf(ticks, rows, counts, values, leaf.names)


@in_words
def decode(data: bytes) -> PartialLeaf:
    """The inverse of ``encode``."""
    kind = UNSUMMED if kind_of(data) == UNSUMMED else KIND
    _, ticks, rows, counts, values, offsets, joined = unpack(kind, data)
    ticks, rows, counts = (
        numbers.astype(np.int64, copy=False) for numbers in (ticks, rows, counts)
    )
    if kind == KIND:
        values = values.astype(np.int64, copy=False)
    return PartialLeaf(ticks, rows, counts, values, tuple(unpack_names(offsets, joined)))


@in_words
def tick_range(data: bytes) -> tuple[int, int]:
    """First and last tick of an encoded leaf, without reading the rest."""
    first, last = np.frombuffer(data, dtype="<i8", count=2, offset=numbers_at(data)).tolist()
    return first, last


def sum_by_cell(
    ticks: Ints, rows: Ints, n_rows: int, counts: Ints, values: Ints | NDArray[np.int32]
) -> PartialLeaf:
    """Adds up cells that occur more than once; the result is sorted by (tick, row)."""
    if not len(ticks):
        return PartialLeaf(ticks, rows, counts, values)
    if kernels is not None and values.dtype == np.int64:
        summed = _in_one_pass(ticks, rows, n_rows, counts, values)
        if summed is not None:
            return summed
    code = ticks * n_rows + rows
    if np.all(code[1:] > code[:-1]):
        return PartialLeaf(ticks, rows, counts, values)
    order = _stable_order(code)
    code = code[order]
    starts = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
    if len(starts) == len(code):
        return PartialLeaf(ticks[order], rows[order], counts[order], values[order])
    with np.errstate(over="ignore"):
        sums = np.add.reduceat(values[order], starts, axis=0)
    code = code[starts]
    return PartialLeaf(code // n_rows, code % n_rows, np.add.reduceat(counts[order], starts), sums)


def _in_one_pass(
    ticks: Ints, rows: Ints, n_rows: int, counts: Ints, values: NDArray[Any]
) -> PartialLeaf | None:
    """As ``sum_by_cell``; None where ticks are below 0, or too large for one sort."""
    assert kernels is not None
    columns = [np.ascontiguousarray(column) for column in (ticks, rows, counts, values)]
    own = [np.empty_like(column) for column in columns]
    words, room = (np.empty(len(ticks), dtype=np.uint64) for _ in range(2))
    n = kernels.sum_cells(*columns, *own, words, room, np.array([n_rows, values.shape[1]]))
    if n < 0:
        return None
    if n < len(ticks):  # or what is kept would hold the room of all
        own = [column[:n].copy() for column in own]
    return PartialLeaf(own[0], own[1], own[2], own[3])


def _stable_order(code: Ints) -> Ints:
    """The stable order of whole numbers from 0 on: by one sort of plain numbers where they and
    their places fit into 64 bits together."""
    bits = max(1, int(code.max()).bit_length()) + len(code).bit_length()
    if bits > 64 or int(code.min()) < 0:
        return np.argsort(code, kind="stable")
    return order_of((code.view(np.uint64) << np.uint64(64 - bits + len(code).bit_length()),))


def merge(parts: Sequence[PartialLeaf], dimension: int) -> PartialLeaf:
    """One leaf of several: names united in order of their bytes, cells sorted by (tick, row)."""
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return PartialLeaf(none, none, none, np.zeros((0, dimension), dtype=np.int64))
    joined = join(parts)
    top = int(joined.rows.max()) + 1 if len(joined.rows) else 1
    summed = sum_by_cell(
        joined.ticks, joined.rows, len(joined.names) or top, joined.counts, joined.values
    )
    return summed._replace(names=joined.names)


def apart(parts: Sequence[PartialLeaf]) -> bool:
    """Whether no two of the leaves can have a cell in common: what each says is all of its keys."""
    if len(parts) < 2:
        return True
    names = {name for part in parts for name in part.names}
    return all(part.names for part in parts) and len(names) == sum(len(p.names) for p in parts)


def join(parts: Sequence[PartialLeaf]) -> PartialLeaf:
    """The entries of several leaves one after the other; names united in order of their bytes."""
    names = tuple(sorted({name for part in parts for name in part.names}))
    place = {name: row for row, name in enumerate(names)}
    rows = [
        np.array([place[name] for name in part.names], dtype=np.int64)[part.rows]
        if part.names
        else part.rows
        for part in parts
    ]
    kind: Any = np.int64 if parts[0].is_summed else np.int32
    return PartialLeaf(
        np.concatenate([part.ticks for part in parts], dtype=np.int64),
        np.concatenate(rows, dtype=np.int64),
        np.concatenate([part.counts for part in parts], dtype=np.int64),
        np.concatenate([part.values for part in parts], dtype=kind),
        names,
    )

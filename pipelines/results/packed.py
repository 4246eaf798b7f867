"""Flat rows of a file -> rows of lists, so that every reader sees one shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.transforms.release.few import INDICES
from weir.transforms.release.table import INTERVAL

GROUP = ("key", "tick", "name", "over")
"""What the coordinates of a vector have in common."""

LISTS = ("value", "stddev", *INTERVAL)

Sizes = Mapping[tuple[str, int | None], int]
"""(name, over) of vectors that are written without their zeros -> how many coordinates those have.
"""

NONE_SPARSE: Sizes = {}


def packed(
    batches: Iterator[pa.RecordBatch], sizes: Sizes = NONE_SPARSE
) -> Iterator[pa.RecordBatch]:
    """Rows that follow each other and belong to one vector become one row.

    A coordinate lies where ``index`` says; one that is not there is 0 in a sparse vector, else NaN.
    Of a sparse vector of more than ``MOST_DENSE`` coordinates a null alone stands for all of them.
    A vector that goes on in the next batch is carried there.

    Args:
      batches: with ``index``, the columns of GROUP, and any others; those of LISTS become lists.
      sizes: of sparse vectors.
    """
    kept: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if kept is not None:
            table = pa.concat_tables([kept, table]).unify_dictionaries().combine_chunks()
        start = starts(table)
        if len(start) < 2:
            kept = table
            continue
        last = int(start[-1])
        kept = table.slice(last)
        yield from gathered(table.slice(0, last), start[:-1], sizes).to_batches()
    if kept is not None and kept.num_rows:
        yield from gathered(kept, starts(kept), sizes).to_batches()


def starts(table: pa.Table) -> NDArray[np.int64]:
    """(vectors,) rows at which a vector begins."""
    if not table.num_rows:
        return np.zeros(0, dtype=np.int64)
    index = numbers_of(table["index"])
    fresh = np.ones(len(index), dtype=bool)
    fresh[1:] = index[1:] <= index[:-1]
    for name in GROUP:
        codes = numbers_of(table[name])
        fresh[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(fresh)


def numbers_of(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A column of whole numbers, or the codes of its words; -1 for null."""
    array = column.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.indices
    filled: NDArray[Any] = pc.fill_null(array, -1).to_numpy(zero_copy_only=False)
    return filled.astype(np.int64, copy=False)


def sizes_of(table: pa.Table, start: NDArray[np.int64], sizes: Sizes) -> NDArray[np.int64]:
    """(vectors,) coordinates of sparse vectors; 0 for others."""
    name = table["name"].combine_chunks()
    of_name, of_over = numbers_of(table["name"])[start], numbers_of(table["over"])[start]
    found = np.zeros(len(start), dtype=np.int64)
    for (one, over), size in sizes.items():
        code = name.dictionary.index(one).as_py()
        if code >= 0:
            found[(of_name == code) & (of_over == (-1 if over is None else over))] = size
    return found


def gathered(table: pa.Table, start: NDArray[np.int64], sizes: Sizes = NONE_SPARSE) -> pa.Table:
    """One row for each vector. start: (vectors,) rows at which one begins, the first at 0."""
    index = numbers_of(table["index"])
    end = np.append(start[1:], table.num_rows)
    width, fill = index[end - 1] + 1, np.full(len(start), np.nan)
    if sizes:
        whole = sizes_of(table, start, sizes)
        width, fill[whole > 0] = np.maximum(width, whole), 0.0
        if "value" in table.schema.names:
            first = table["value"].combine_chunks().take(pa.array(start)).is_null()
            silent = first.to_numpy(zero_copy_only=False) & (end - start == 1)
            fill[silent & (whole > MOST_DENSE)] = np.nan
    offsets = np.concatenate([[0], np.cumsum(width)])
    where = np.repeat(offsets[:-1], end - start) + index
    alone = len(start) == table.num_rows
    columns = {}
    for name in table.schema.names:
        column = table[name].combine_chunks()
        if name in LISTS:
            numbers = np.repeat(fill, width) if name == "value" else np.full(offsets[-1], np.nan)
            numbers[where] = column.to_numpy(zero_copy_only=False)
            known = column.is_valid().to_numpy(zero_copy_only=False)
            void = ~np.logical_or.reduceat(known, start) if column.null_count else None
            columns[name] = pa.ListArray.from_arrays(
                pa.array(offsets.astype(np.int32)),
                pa.array(numbers),
                mask=None if name == "value" or void is None else pa.array(void),
            )
        elif name != "index":
            columns[name] = column if alone else column.take(pa.array(start))
    return pa.table(columns)


def widened(batch: pa.RecordBatch, sizes: Sizes) -> pa.RecordBatch:
    """Packed rows of which some hold few coordinates, each with its place -> rows of all of them.

    Args:
      batch: with ``indices``, null where all are there. sizes: of vectors that have few; one that
        is not told ends at its last coordinate.
    """
    value, places = batch.column("value"), batch.column(INDICES)
    few = places.is_valid().to_numpy(zero_copy_only=False)
    if not few.any():
        return batch
    length = (
        pc.fill_null(pc.list_value_length(value), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    numbers = value.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    rows = np.repeat(np.arange(len(few)), length)
    index = np.arange(len(rows)) - np.repeat(np.cumsum(length) - length, length)
    index[few[rows]] = places.flatten().to_numpy(zero_copy_only=False)
    table = pa.Table.from_batches([batch])
    whole = sizes_of(table, np.arange(len(few)), sizes)
    last = np.zeros(len(few), dtype=np.int64)
    np.maximum.at(last, rows, index + 1)
    width = np.where(few, np.maximum(last, whole), length)
    silent = np.zeros(len(few), dtype=bool)
    silent[rows[np.isnan(numbers)]] = True
    fill = np.where(few & ~(silent & (length == 1)), 0.0, np.nan)
    offsets = np.concatenate([[0], np.cumsum(width)])
    out = np.repeat(fill, width)
    out[offsets[rows] + index] = numbers
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(out))
    names = batch.schema.names
    return batch.set_column(names.index("value"), "value", lists)


__all__ = ["GROUP", "NONE_SPARSE", "Sizes", "packed", "widened"]

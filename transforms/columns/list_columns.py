"""List columns of canonical batches: of each event the features that are not 0, and where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from weir.dpcore.leaves.sparse_rows import SparseRows

LIST = pa.large_list(pa.struct([pa.field("at", pa.int32()), pa.field("number", pa.float64())]))
"""Canonical type; places increase, no number is 0, and one that is missing is NaN. Null: there is
no list, or none that can be read."""


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of a canonical batch is one of lists."""
    return bool(kind.equals(LIST))


def from_rows(rows: SparseRows, missing: NDArray[np.bool_]) -> Any:
    """Sparse rows of float64 -> a canonical column, null where they are missing (and empty)."""
    numbers = pa.StructArray.from_arrays(
        [pa.array(rows.indices, pa.int32()), pa.array(rows.values, pa.float64())],
        fields=list(LIST.value_type),
    )
    mask = pa.array(missing) if missing.any() else None
    return pa.LargeListArray.from_arrays(pa.array(rows.offsets), numbers, type=LIST, mask=mask)


def to_rows(column: Any, width: int) -> SparseRows:
    """A canonical column -> (n, width) rows of float64; a missing list is one that holds a NaN."""
    offsets = column.offsets.to_numpy()
    numbers = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    at, values = (numbers.field(i).to_numpy(zero_copy_only=False) for i in range(2))
    rows = SparseRows(offsets - offsets[0], at, values, width)
    if not column.null_count:
        return rows
    null = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    # Under a null may lie what an array was made of.
    lengths = np.where(null, 1, rows.lengths)
    retained = np.repeat(~null, rows.lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    new_at, new_values = np.zeros(offsets[-1], np.int32), np.full(offsets[-1], np.nan)
    where = np.repeat(~null, lengths)
    new_at[where], new_values[where] = at[retained], values[retained]
    return SparseRows(offsets, new_at, new_values, width)


def words_of(column: Any) -> pa.LargeBinaryArray:
    """A canonical column -> bytes that are the same where its lists are; null where they are."""
    offsets = column.offsets.to_numpy()
    numbers = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    at, values = (numbers.field(i).to_numpy(zero_copy_only=False) for i in range(2))
    words = np.empty(len(at), dtype=[("at", "<i4"), ("number", "<f8")])
    words["at"], words["number"] = at, np.where(np.isnan(values), np.nan, values)
    ends = pa.py_buffer((offsets - offsets[0]) * words.itemsize)
    null = column.is_null() if column.null_count else None
    mask = None if null is None else pa.compute.invert(null).buffers()[1]
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(column), [mask, ends, pa.py_buffer(words)], column.null_count
    )

"""Rows as states hold them: a dense table in units of ``STEP``, or packed arrays without zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.leaves.sparse_rows import PackedRows, SparseRows
from weir.dpcore.models.scaling import STEP, is_void

Dense = NDArray[np.int32]
Packed = Dense | PackedRows
"""(N, width) int32, features then target; or the same packed. Of one program always the same."""

VOID = -(2**31)
"""The target of a dense packed row that is void."""


def packed(leaf: RowLeaf) -> Packed:
    """Rows of a leaf, whole multiples of ``STEP`` in [-1, 1], as states hold them: exact."""
    if isinstance(leaf.rows, SparseRows):
        return leaf.rows.packed
    rows = np.asarray(leaf.rows, dtype=np.float64) * (1.0 / STEP)
    rows[is_void(rows), -1] = VOID
    return np.rint(rows).astype(np.int32)


def nothing(width: int, sparse: bool = False) -> Packed:
    """No rows."""
    return PackedRows.empty() if sparse else np.zeros((0, width), dtype=np.int32)


def count(rows: Packed) -> int:
    """N."""
    return len(rows.targets) if isinstance(rows, PackedRows) else len(rows)


def some(rows: Packed, which: Any) -> Packed:
    """Some of the rows: by slice, mask or places."""
    if not isinstance(rows, PackedRows):
        dense: Dense = rows[which]
        return dense
    # Their width does not matter here: no place is looked at.
    found = SparseRows.from_packed(rows, 0)[which]
    lengths = found.lengths.astype(np.int32)
    return PackedRows(lengths, found.indices, found.values, rows.targets[which])


def joined(parts: Sequence[Packed]) -> Packed:
    """One part after the other."""
    if isinstance(parts[0], PackedRows):
        return PackedRows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return np.concatenate(parts)


def void(rows: Packed) -> NDArray[np.bool_]:
    """(N,) which rows are void."""
    found: NDArray[np.bool_]
    found = np.isnan(rows.targets) if isinstance(rows, PackedRows) else rows[:, -1] == VOID
    return found


def words_of(leaf: RowLeaf) -> NDArray[np.int64]:
    """All that rows say, as whole numbers: (N, w), of sparse rows their digests."""
    if isinstance(leaf.rows, SparseRows):
        return leaf.rows.digests().view(np.int64)
    rows = packed(leaf)
    assert not isinstance(rows, PackedRows)
    return rows.astype(np.int64)

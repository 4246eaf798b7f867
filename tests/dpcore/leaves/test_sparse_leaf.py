"""Leaves of sparse rows: what holds of leaves of tables holds of them."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.errors import CodecError
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.leaves.sparse_rows import SparseRows

WIDTH, KEY = 9, bytes(range(16))


def events(seed: int, n: int = 40) -> tuple[np.ndarray, SparseRows, np.ndarray, np.ndarray]:
    """Keys, rows, times and hashes with many ties."""
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((n, WIDTH)) < 0.7, 0.0, rng.integers(-3, 4, (n, WIDTH)) / 4)
    table[:4], table[2:4, -1] = 0.0, np.nan
    rows = SparseRows.from_dense(table.astype(np.float32))
    hashes = rng.integers(0, 3, (n, 2)).astype(np.uint64)
    return rng.integers(0, 3, n), rows, rng.integers(0, 3, n), hashes


def leaf_of(which: np.ndarray, seed: int = 1) -> RowLeaf:
    keys, rows, times, hashes = events(seed)
    return RowLeaf.from_events(keys[which], rows[which], times[which], hashes[which], 3)


@pytest.mark.parametrize("seed", range(5))
def test_any_order_and_any_cut_into_parts_gives_the_same_bytes(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 40
    whole = leaf_of(np.arange(n))
    order = rng.permutation(n)
    parts = [leaf_of(order[:7]), leaf_of(order[7:7]), leaf_of(order[7:])]
    for again in (leaf_of(order), RowLeaf.merge(parts), RowLeaf.merge(parts[::-1])):
        assert again.to_bytes() == whole.to_bytes()
        np.testing.assert_array_equal(again.digests(3, KEY), whole.digests(3, KEY))


@pytest.mark.parametrize("cap", [1, 3, 8])
def test_a_cap_on_parts_is_a_cap_on_the_whole(cap: int) -> None:
    order = np.random.default_rng(cap).permutation(40)
    whole = leaf_of(np.arange(40)).capped(cap)
    parts = [leaf_of(piece).capped(cap) for piece in np.array_split(order, 3)]
    merged = RowLeaf.merge([part.leaf for part in parts]).capped(cap)
    assert merged.leaf.to_bytes() == whole.leaf.to_bytes()
    assert merged.dropped + sum(part.dropped for part in parts) == whole.dropped
    assert whole.leaf.counts.max() <= cap


def test_rows_are_those_of_the_table() -> None:
    keys, rows, times, hashes = events(1)
    sparse = RowLeaf.from_events(keys, rows, times, hashes, 3)
    assert sparse.width == WIDTH and isinstance(sparse.of(1), SparseRows)
    for key in range(3):
        mine = sparse.of(key)
        assert isinstance(mine, SparseRows)
        theirs = rows.dense()[keys == key]
        order = np.lexsort(mine.dense().T), np.lexsort(theirs.T)
        np.testing.assert_array_equal(mine.dense()[order[0]], theirs[order[1]])


def test_every_bit_of_a_row_is_in_the_digest() -> None:
    keys, rows, times, hashes = events(2)
    before = RowLeaf.from_events(keys, rows, times, hashes, 3).digests(0, KEY)
    for place in range(len(rows.values)):
        values = rows.values.copy()
        values[place] = 0.125
        other = SparseRows(rows.offsets, rows.indices, values, WIDTH)
        after = RowLeaf.from_events(keys, other, times, hashes, 3).digests(0, KEY)
        changed = (after != before).any(axis=1)
        own = keys[np.searchsorted(rows.offsets, place, side="right") - 1]
        assert changed.tolist() == [key == own for key in range(3)]


def test_bytes_and_back() -> None:
    leaf = leaf_of(np.arange(40))
    data = leaf.to_bytes()
    again = RowLeaf.from_bytes(data)
    assert again.to_bytes() == data
    np.testing.assert_array_equal(again.of(0).dense(), leaf.of(0).dense())  # type: ignore[union-attr]
    empty = RowLeaf.from_bytes(leaf_of(np.arange(0)).to_bytes())
    assert empty.n_keys == 3 and len(empty.rows) == 0
    for cut in (1, 8, len(data) // 2, len(data) - 1):
        with pytest.raises(CodecError):
            RowLeaf.from_bytes(data[:cut])
    with pytest.raises(CodecError):
        RowLeaf.from_bytes(data + bytes(8))


def test_only_what_a_state_can_hold_is_taken() -> None:
    keys, rows, times, hashes = events(1)
    wrong = SparseRows(rows.offsets, rows.indices, rows.values.astype(np.float64), WIDTH)
    with pytest.raises(ValueError, match="float64"):
        RowLeaf.from_events(keys, wrong, times, hashes, 3)

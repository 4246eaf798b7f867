"""Sparse rows are the dense table without its zeros, whatever is done with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dpcore.leaves.sparse_rows import SparseRows

WIDTH = 7


def tables():
    cell = st.sampled_from([0.0, -0.0, 0.5, -1.0, 0.25])
    return st.integers(0, 6).flatmap(
        lambda n: st.lists(cell, min_size=n * WIDTH, max_size=n * WIDTH).map(
            lambda values: np.array(values).reshape(-1, WIDTH)
        )
    )


@pytest.mark.slow
@given(tables(), st.data())
def test_some_rows_are_those_of_the_table(table, data):
    rows = SparseRows.from_dense(table)
    n = len(table)
    assert rows.shape == table.shape and len(rows) == n
    np.testing.assert_array_equal(rows.dense(), table)
    places = data.draw(st.lists(st.integers(0, n - 1)) if n else st.just([]))
    which = np.array(places, dtype=np.int64)
    np.testing.assert_array_equal(rows[which].dense(), table[which])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=bool)
    np.testing.assert_array_equal(rows[mask].dense(), table[mask])
    start, stop = data.draw(st.integers(-8, 8)), data.draw(st.integers(-8, 8))
    np.testing.assert_array_equal(rows[start:stop].dense(), table[start:stop])
    np.testing.assert_array_equal(rows[::2].dense(), table[::2])


@pytest.mark.slow
@given(tables(), tables())
def test_joined_and_taken_apart(one, two):
    rows = SparseRows.concatenate([SparseRows.from_dense(one), SparseRows.from_dense(two)])
    table = np.concatenate([one, two])
    np.testing.assert_array_equal(rows.dense(), table)
    np.testing.assert_array_equal(rows.last, table[:, -1])
    np.testing.assert_array_equal(rows.features.dense(), table[:, :-1])
    np.testing.assert_array_equal(rows.features.with_last(table[:, -1]).dense(), table)
    np.testing.assert_array_equal(rows.csr.toarray(), table)
    packed = rows.packed
    assert packed.values.dtype == np.float32 and packed.indices.dtype == np.int32
    features = SparseRows.from_packed(packed, WIDTH - 1)
    np.testing.assert_array_equal(features.dense(), table[:, :-1])
    np.testing.assert_array_equal(packed.targets, table[:, -1])


@given(tables())
def test_equal_rows_have_equal_words(table):
    one, other = SparseRows.from_dense(table), SparseRows.from_dense(table + 0.0)
    for mine, theirs in zip(one.words(), other.words(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    float32 = SparseRows(one.offsets, one.indices, one.values.astype(np.float32), WIDTH)
    np.testing.assert_array_equal(float32.words()[1], one.words()[1])
    np.testing.assert_array_equal(float32.digests(), other.digests())


def test_digests_are_of_a_row_alone(monkeypatch):
    table = np.zeros((9, 5))
    table[[0, 3, 4], [1, 1, 2]] = 0.5
    table[5:, 4] = np.arange(4) / 4
    whole = SparseRows.from_dense(table).digests()
    assert whole.shape == (9, 4) and len(np.unique(whole, axis=0)) == 6
    alone = [SparseRows.from_dense(table[i : i + 1]).digests()[0] for i in range(9)]
    np.testing.assert_array_equal(alone, whole)
    monkeypatch.setattr("weir.dpcore.leaves.sparse_rows.PIECE", 1)
    np.testing.assert_array_equal(SparseRows.from_dense(table).digests(), whole)


def test_a_void_row_is_a_nan_at_its_end():
    table = np.zeros((2, 3))
    table[1, -1] = np.nan
    rows = SparseRows.from_dense(table)
    assert np.isnan(rows.last).tolist() == [False, True]
    assert len(rows.features.values) == 0


def test_rows_of_several_widths_do_not_join():
    with pytest.raises(ValueError, match="one width"):
        SparseRows.concatenate([SparseRows.empty(3), SparseRows.empty(4)])

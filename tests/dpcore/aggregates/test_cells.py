"""Cells of users: what counts once, exact and the same in any order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dpcore.aggregates.channel import UserCells
from weir.dpcore.errors import WeirError


def cells_of(sizes: list[int], most: int, new: bool = True) -> UserCells:
    number = np.repeat(np.arange(len(sizes)), sizes)
    columns = {"@cell": number, "@new": np.full(len(number), new)}
    return UserCells.of(columns, len(number), most)


@pytest.mark.slow
@given(
    st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_totals_are_the_sums_and_no_order_changes_a_bit(values: list[list[float]], rng) -> None:  # type: ignore[no-untyped-def]
    cells = cells_of([len(some) for some in values], 5)
    flat = np.concatenate([np.array(some) for some in values])
    found = cells.totals(flat, 200.0, 5)
    exact = [float(sum(map(Fraction, some))) for some in values]
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=200 * 2.0**-20)
    shuffled = np.concatenate([np.array(rng.sample(some, len(some))) for some in values])
    assert cells.totals(shuffled, 200.0, 5).tobytes() == found.tobytes()


def test_values_out_of_reach_neither_overflow_nor_leave_a_trace() -> None:
    most = 65_535
    values = np.zeros(most)
    values[:4] = 1e300, -1e300, np.inf, np.nan
    values[4] = 7.0
    cells = cells_of([most], most)
    assert cells.totals(values, 10.0, most)[0] == pytest.approx(7.0, abs=1e-4)
    assert cells.totals(np.full(most, 1e300), 10.0, most)[0] > 10.0
    assert cells.totals(np.full(most, -1e300), 10.0, most)[0] < -10.0
    # What rounding each event adds up to stays below a step of the clip's lattice.
    assert cells.totals(np.full(most, 1e-5), 10.0, most)[0] == pytest.approx(0.65535, abs=2e-5)


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_values_out_of_reach_do_not_overflow_where_cells_of_a_user_meet(most: int) -> None:
    cells, met = cells_of([64 * most, most, 1], 64 * most), 65 * most + 1
    for sign in (1, -1):
        found = cells.totals(np.full(met, sign * 1e300), 10.0, most) * sign
        assert (found > 10.0).all()
        alone = cells_of([most, 1], most).totals(np.full(most + 1, sign * 1e300), 10.0, most)
        assert (found[1:] * sign == alone).all(), "what meets elsewhere changes no other cell"
    whole = cells.averages(np.full(met, 1e-5), 0.0, 10.0, most)
    assert whole == pytest.approx(1e-5, abs=2e-5)


def test_averages_lie_in_the_clip_whatever_its_width() -> None:
    low, high = 1e6, 1e6 + 1
    values = np.array([low, high, high, low, low + 0.25])
    found = cells_of([3, 2], 3).averages(values, low, high, 3)
    np.testing.assert_allclose(found, [low + 2 / 3, low + 0.125], atol=1e-5)
    assert ((found >= low) & (found <= high)).all()


def test_a_bin_counts_once_a_cell_and_a_newcomer_once() -> None:
    cells = cells_of([3, 2], 3)
    coordinate = np.array([1, 1, -1, 1, 0])
    once = cells.once(coordinate)
    assert sorted(once[:3].tolist()) == [-1, -1, 1]
    assert sorted(once[3:].tolist()) == [0, 1]
    assert cells.on_first_rows(2, 5).tolist() == [2, 0, 0, 2, 0]


def test_cells_that_the_cap_would_not_make_end_the_step() -> None:
    flags = np.ones(3, dtype=bool)
    with pytest.raises(WeirError, match="one piece"):
        UserCells.of({"@cell": np.array([0, 1, 0]), "@new": flags}, 3, 3)
    with pytest.raises(WeirError, match="more events"):
        UserCells.of({"@cell": np.array([0, 0, 0]), "@new": flags}, 3, 2)
    turned = UserCells.of({"@cell": np.array([2, 0, 0]), "@new": flags}, 3, 2)
    assert turned.counts.tolist() == [1, 2]


def test_no_events_are_no_cells() -> None:
    nothing = np.zeros(0)
    cells = UserCells.of({"@cell": nothing, "@new": nothing}, 0, 3)
    assert len(cells.starts) == 0
    assert len(cells.totals(nothing, 1.0, 3)) == 0
    assert len(cells.averages(nothing, 0.0, 1.0, 3)) == 0
    assert cells.on_first_rows(1, 0).size == 0

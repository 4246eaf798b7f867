"""Moments: exact in any order, and their joint sensitivity by brute force and by optimisation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from weir.dpcore.errors import ConfigError
from weir.dpcore.models import moments as module
from weir.dpcore.models.moments import Moments, moments_sensitivity
from weir.dpcore.models.regression.rows import EventRows, fit

RELATIONS = ("add_remove", "replace_one", "replace_anywhere")
BOUNDS = [(1.0, 1.0), (1.0, 0.3), (0.5, 1.0), (0.5, 1.4), (2.0, 1.0), (0.4, 3.0)]


def svec_of(x: Any, y: Any, squares: bool) -> Any:
    """(svec(x x^T), x y^T[, y^2]) as one vector, by the definition."""
    i, j = np.triu_indices(len(x))
    weight = np.where(i == j, 1.0, math.sqrt(2))
    parts = [weight * x[i] * x[j], np.outer(x, y).ravel(), *([y * y] if squares else [])]
    return np.concatenate(parts)


def within(point: Any, d: int, bounds: tuple[float, float]) -> tuple[Any, Any]:
    """Any numbers -> an event within the bounds."""
    x, y = point[:d], point[d:]
    return (
        x * min(1.0, bounds[0] / max(np.linalg.norm(x), 1e-300)),
        y * min(1.0, bounds[1] / max(np.linalg.norm(y), 1e-300)),
    )


def change(point: Any, d: int, bounds: tuple[float, float], relation: str, squares: bool) -> float:
    """Squared change that the two events in ``point`` make as neighbours."""
    half = len(point) // 2
    first = svec_of(*within(point[:half], d, bounds), squares)
    if relation == "add_remove":
        return float(first @ first)
    second = svec_of(*within(point[half:], d, bounds), squares)
    same_cell = float((first - second) @ (first - second))
    if relation == "replace_one":
        return same_cell
    return max(same_cell, float(first @ first + second @ second))


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("squares", [False, True], ids=["plain", "squares"])
@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 1), (2, 2), (3, 3), (1, 1)])
def test_no_pair_of_events_changes_more_and_some_pair_changes_as_much(
    relation: Any, squares: bool, d: int, k: int
) -> None:
    rng = np.random.default_rng(d * 10 + k)
    for bounds in BOUNDS:
        claimed = moments_sensitivity(*bounds, relation, k, squares) ** 2

        def loss(point: Any, bounds: Any = bounds) -> float:
            return -change(point, d, bounds, relation, squares)

        starts = [min(corners(d, k, bounds), key=loss), rng.normal(size=2 * (d + k)) * 3]
        ends = [minimize(loss, x, method="Powell", options={"maxiter": 20}) for x in starts]
        best = max(-loss(starts[0]), *(-end.fun for end in ends))
        assert best <= claimed * (1 + 1e-9)
        if d >= 2:
            assert best == pytest.approx(claimed, rel=1e-4)


def corners(d: int, k: int, bounds: tuple[float, float]) -> Any:
    """Pairs of full size at many angles, and pairs of which one lacks something."""
    x, y = np.zeros(d), np.zeros(k)
    x[0], y[0] = bounds[0], bounds[1]
    targets = [y, -y, np.zeros(k), *([np.roll(y, 1)] if k > 1 else [])]
    for turn in np.linspace(0, math.pi, 37):
        other = np.zeros(d)
        other[0] = bounds[0] * math.cos(turn)
        if d > 1:
            other[1] = bounds[0] * math.sin(turn)
        for target in targets:
            yield np.concatenate([x, y, other, target])
            yield np.concatenate([x, y, np.zeros(d), target])


def test_the_known_values() -> None:
    def square(*arguments: Any) -> float:
        return moments_sensitivity(*arguments) ** 2

    assert square(1.0, 1.0, "replace_one") == pytest.approx(4.5)
    assert square(1.0, 1.0, "replace_anywhere") == pytest.approx(4.5)
    assert square(1.0, 1.0, "add_remove") == pytest.approx(2.0)
    assert square(1.0, 1.0, "replace_one", 1, True) == pytest.approx(4.5)
    assert square(1.0, 1.0, "add_remove", 1, True) == pytest.approx(3.0)
    assert square(1.0, 2.0, "replace_one") == pytest.approx(16.0)
    assert square(1.0, 1.0, "replace_anywhere", 1, True) == pytest.approx(6.0)
    assert square(1.0, 1.0, "replace_one", 3, True) == pytest.approx(6.0)
    assert 2 * 4.0 > 4.5 * 1.05  # what two sums of sensitivity 2 each would pay


def test_losses_that_add_pay_for_both_cells_of_a_moved_event() -> None:
    moments = Moments(3, 1, True, 1.0, 1.0)
    once = moments.sensitivity("add_remove")
    assert moments.sensitivity("replace_anywhere", add_up=True) == 2 * once
    for relation in ("add_remove", "replace_one"):
        assert moments.sensitivity(relation, add_up=True) == moments.sensitivity(relation)


def test_every_pair_of_a_small_lattice_stays_within_the_sensitivity() -> None:
    """In whole numbers, with the scales of the mechanism: what is summed is what is bounded."""
    for squares in (False, True):
        moments = Moments(2, 1, squares, 0.8, 0.7, bits=2)
        grid = np.arange(-4, 5)
        points = np.array(list(itertools.product(grid, repeat=3)), dtype=np.float64)
        table = points.T.copy()
        fit(table, moments)
        leaves = moments.accumulate(table.T, np.arange(len(points)), len(points))
        scaled = leaves / np.asarray(moments.scales)
        gram = scaled @ scaled.T
        size = np.diagonal(gram)
        moved = size[:, None] + size[None, :] - 2 * gram
        assert np.sqrt(moved.max()) <= moments.sensitivity("replace_one")
        assert np.sqrt(size.max()) <= moments.sensitivity("add_remove")
        assert np.sqrt(moved.max()) > 0.7 * moments.sensitivity("replace_one")


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("n_cells", [1, 3, 40, 5000])
def test_sums_are_those_of_python_integers(
    layout: Any, n_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRODUCTS", 200)
    rng = np.random.default_rng(n_cells)
    moments = Moments(3, 2, True, 2.0, 2.0, bits=20)
    rows = np.array(rng.integers(-(2**20), 2**20 + 1, (900, 5)), dtype=np.float64, order=layout)
    cells = rng.integers(0, n_cells, 900)
    expected: dict[int, Any] = {}
    for row, cell in zip(rows.astype(np.int64).astype(object), cells.tolist(), strict=True):
        x, y = row[:3], row[3:]
        own = [x[i] * x[j] for i in range(3) for j in range(i, 3)]
        own += [x[i] * y[j] for j in range(2) for i in range(3)] + [y[0] ** 2, y[1] ** 2]
        expected[cell] = expected.get(cell, 0) + np.array(own, dtype=object)
    found = moments.accumulate(rows, cells, n_cells)
    assert found.dtype == np.int64
    for cell in range(n_cells):
        assert (found[cell] == expected.get(cell, 0)).all()
    order = np.argsort(cells, kind="stable")
    assert np.array_equal(moments.accumulate(rows[order], cells[order], n_cells), found)


def test_more_rows_than_float64_can_add_are_cut() -> None:
    moments = Moments(2, 1, True, 2.0, 1.0, bits=24)
    assert moments.together == 32
    rows = np.full((1000, 3), 2.0**24)
    rows[::7, 0] -= 1.0  # odd products, of which a float64 would lose the last bit
    whole = np.array([[int(value) for value in row] for row in rows], dtype=object)
    exact = whole.T.dot(whole)
    for cells, count in ((np.zeros(1000, dtype=np.int64), 1), (np.arange(1000) // 500, 2)):
        found = moments.accumulate(rows, cells, count).sum(axis=0)
        assert found.tolist() == [
            exact[0, 0], exact[0, 1], exact[1, 1], exact[0, 2], exact[1, 2], exact[2, 2],
        ]  # fmt: skip
    naive = (rows.T @ rows).astype(np.int64)
    assert naive[0, 0] != exact[0, 0]


def test_any_partition_gives_the_same_sums() -> None:
    rng = np.random.default_rng(0)
    moments = Moments(4, 1, False, 2.0, 1.0)
    rows = np.rint(rng.uniform(-1, 1, (5000, 5)) * 2**16)
    whole = moments.accumulate(rows, np.zeros(5000, dtype=np.int64), 1)
    cells = rng.integers(0, 700, 5000)
    assert np.array_equal(moments.accumulate(rows, cells, 700).sum(axis=0)[None], whole)
    mixed = rng.permutation(5000)
    parts = [moments.accumulate(rows[m], cells[m] * 0, 1) for m in np.array_split(mixed, 9)]
    assert np.array_equal(sum(parts), whole)


def test_unpacking_gives_the_matrices() -> None:
    rng = np.random.default_rng(1)
    moments = Moments(3, 2, True, 2.0, 2.0)
    rows = np.rint(rng.uniform(-1, 1, (50, 5)) * 2**16)
    sums = moments.accumulate(rows, np.zeros(50, dtype=np.int64), 1)
    found = moments.unpack(sums.astype(np.float64)[None])
    x, y = rows[:, :3] / 2**16, rows[:, 3:] / 2**16
    assert found.squares is not None and found.matrix.shape == (1, 1, 3, 3)
    np.testing.assert_allclose(found.matrix[0, 0], x.T @ x, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(found.right[0, 0], (x.T @ y).T, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(found.squares[0, 0], (y * y).sum(axis=0), rtol=1e-13)
    names = moments.labels(("a", "b", "c"), ("u", "v"))
    assert len(names) == moments.dimension
    assert names[0] == "a a" and names[6:8] == ("a u", "b u") and names[-1] == "v v"


def test_there_is_room_for_the_stated_number_of_events() -> None:
    for bits, entry in ((16, 1.0), (10, 1.0), (16, 3.7)):
        moments = Moments(2, 1, False, 5.0, 1.0, bits=bits, entry=entry)
        assert moments.capacity * moments.largest <= 1 << 61
        assert (moments.capacity + 1) * moments.largest > 1 << 60
        assert moments.together * moments.largest <= 1 << 53
    assert Moments(2, 1, False, 1.0, 1.0).capacity == 1 << 29
    with pytest.raises(ConfigError, match="too fine"):
        Moments(2, 1, False, 1.0, 1.0, bits=26)


@pytest.mark.parametrize(("cells", "rows"), [([0, 2], 2), ([-1, 0], 2), ([0, 1], 3)])
def test_what_does_not_fit_is_refused(cells: Any, rows: int) -> None:
    moments = Moments(1, 1, False, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"cell|rows"):
        moments.accumulate(np.zeros((rows, 2)), np.array(cells), 2)


def event_rows(
    reach: float, height: float, d: int = 3, k: int = 1, intercept: bool = True
) -> EventRows:
    names = tuple(f"f{i}" for i in range(d - intercept))
    targets = tuple(f"y{i}" for i in range(k))
    moments = Moments(d, k, False, reach, height)
    low = (-2.0,) * len(names) + (0.0,) * k
    high = (2.0,) * len(names) + (10.0,) * k
    return EventRows(names, targets, low, high, intercept, moments)


def columns(rows: EventRows, n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found = {name: rng.uniform(-2.5, 2.5, n) for name in rows.features}
    found.update({name: rng.uniform(-1, 12, n) for name in rows.targets})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("reach", [0.02, 0.7, 1.0, 1.3, 5.0])
@pytest.mark.parametrize("height", [0.1, 1.0, 1.5])
@pytest.mark.parametrize("k", [1, 3])
def test_no_row_exceeds_its_bounds_by_a_single_step(reach: float, height: float, k: int) -> None:
    made = event_rows(reach, height, k=k)
    table = made.bound(columns(made, 40_000), 40_000).rows.astype(np.int64).astype(object)
    limit = [math.floor((bound * 2**16) ** 2) for bound in (reach, height)]
    assert ((table[:, :3] ** 2).sum(axis=1) <= limit[0]).all()
    assert ((table[:, 3:] ** 2).sum(axis=1) <= limit[1]).all()
    assert (table[:, :3] ** 2).sum(axis=1).max() > min(0.999 * limit[0], 2.9 * 4**16)


def test_a_long_event_is_scaled_down_as_a_whole() -> None:
    made = event_rows(0.5, 1.0, intercept=False)
    given = {name: np.array([1.0, 0.1]) for name in made.features} | {"y0": np.array([7.5, 7.5])}
    long, short = made.bound(given, 2).rows / 2**16
    unscaled = np.array([0.5, 0.5, 0.5, 0.5])
    factor = 0.5 / np.linalg.norm(unscaled[:3])
    np.testing.assert_allclose(long, unscaled * factor, atol=2**-15)
    np.testing.assert_allclose(short, [0.05, 0.05, 0.05, 0.5], atol=2**-16)


def test_targets_beyond_their_norm_are_shortened_alone() -> None:
    made = event_rows(5.0, 0.5, k=2)
    given = {name: np.array([1.0]) for name in made.features}
    given |= {"y0": np.array([10.0]), "y1": np.array([0.0])}
    row = made.bound(given, 1).rows[0] / 2**16
    np.testing.assert_allclose(
        row, [0.5, 0.5, 1, 0.5 / math.sqrt(2), -0.5 / math.sqrt(2)], atol=2e-5
    )


def test_rounding_is_to_the_nearest_and_default_bounds_touch_nothing() -> None:
    made = event_rows(math.sqrt(3) * (1 + 2**-30), 1.0 + 2**-30)
    corner = {name: np.array([2.0, -2.0, 0.1]) for name in made.features}
    found = made.bound({**corner, "y0": np.array([10.0, 0.0, 5.01])}, 3)
    assert found.clipped == 0
    assert found.rows[:2].tolist() == [[2**16] * 4, [-(2**16), -(2**16), 2**16, -(2**16)]]
    expected = np.rint([0.05 * 2**16, 0.05 * 2**16, 2**16, 0.002 * 2**16])
    np.testing.assert_array_equal(found.rows[2], expected)


def test_bad_numbers_make_an_event_none_and_are_counted() -> None:
    made = event_rows(5.0, 2.0)
    given = columns(made, 9)
    for name, bad in (("f0", math.nan), ("f1", math.inf), ("y0", -math.inf)):
        given[name] = np.clip(given[name], 0, 2)
        given[name][{"f0": 1, "f1": 4, "y0": 4}[name]] = bad
    found = made.bound(given, 9)
    assert found.non_finite == 3 and found.clipped == 0
    assert (found.rows[[1, 4]] == 0).all() and (np.abs(found.rows[[0, 2, 3]]).sum(axis=1) > 0).all()


def test_values_outside_are_moved_to_the_bound_and_counted() -> None:
    made = event_rows(5.0, 2.0)
    given = {"f0": np.array([3.0, 2.0]), "f1": np.array([0.0, -9e300]), "y0": np.array([0, 1e9])}
    found = made.bound(given, 2)
    assert found.clipped == 3 and found.non_finite == 0
    one = 2**16
    assert found.rows.tolist() == [[one, 0, one, -one], [one, -one, one, one]]


def test_narrow_ranges_far_from_zero_stay_on_the_lattice() -> None:
    moments = Moments(1, 1, False, 1.0, 1.0)
    low = 1e9
    high = low + 3e-7  # three steps of float64 at 1e9
    made = EventRows(("f",), ("y",), (low, 0.0), (high, 1.0), False, moments)
    values = np.linspace(low, high, 7)
    rows = made.bound({"f": values, "y": np.full(7, 0.5)}, 7).rows
    assert np.abs(rows).max() <= 2**16


def test_rows_do_not_depend_on_their_neighbours() -> None:
    made = event_rows(1.1, 0.8, k=2)
    given = columns(made, 70_000, seed=5)
    whole = made.bound(given, 70_000).rows
    some = np.random.default_rng(2).integers(0, 70_000, 200)
    few = made.bound({name: column[some] for name, column in given.items()}, 200).rows
    assert np.array_equal(whole[some], few)
    for place in some[:20]:
        alone = made.bound({name: x[place : place + 1] for name, x in given.items()}, 1).rows
        assert np.array_equal(alone[0], whole[place])

"""A public projection of whole numbers, and rows that keep their length and their bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.projection import (
    Everything,
    ProjectedRows,
    RandomProjection,
    Sparse,
    Within,
    parse_inputs,
)
from weir.dpcore.models.regression.rows import EventRows

ONE = 2**16


def projected(
    p: int = 30, m: int = 8, inputs: Any = None, reach: float | None = None, intercept: bool = True
) -> ProjectedRows:
    names = tuple(f"x{i}" for i in range(p))
    whole = np.sqrt(p + intercept) * 1.001
    reach = whole if reach is None else reach
    bounds = (-1.0,) * (p + 1), (1.0,) * (p + 1)
    events = EventRows(
        names, ("y",), *bounds, intercept, Moments(p + intercept, 1, False, whole, 1.0)
    )
    return ProjectedRows(
        events,
        RandomProjection(m, p, 3),
        Everything(p) if inputs is None else inputs,
        Moments(m + intercept, 1, False, reach, 1.0, entry=max(1.0, reach)),
    )


def columns_of(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    return {**{f"x{i}": x[:, i] for i in range(x.shape[1])}, "y": y}


@pytest.mark.parametrize("density", [1.0, 0.02])
def test_products_are_exact(density: float) -> None:
    rng = np.random.default_rng(0)
    projection = RandomProjection(9, 300, 1)
    x = rng.integers(-ONE, ONE + 1, (300, 40)).astype(np.float64)
    x *= rng.random(x.shape) < density
    wanted = projection.integers.astype(np.int64).astype(object) @ x.astype(np.int64).astype(object)
    assert np.array_equal(projection.multiply(x), wanted.astype(np.float64))


def test_the_widest_product_still_fits() -> None:
    """65,536 entries of full size, all signs aligned."""
    projection = RandomProjection(1, 1 << 16, 0)
    x = np.sign(projection.integers[0])[:, None] * ONE
    found = projection.multiply(x)[0, 0]
    assert found == sum(int(abs(entry)) for entry in projection.integers[0]) * ONE
    assert found < 2**53
    with pytest.raises(ConfigError, match="65,536"):
        RandomProjection(1, (1 << 16) + 1, 0)


def test_lengths_are_kept_on_average_and_seeds_differ() -> None:
    projection = RandomProjection(40, 500, 5)
    x = np.random.default_rng(1).standard_normal((500, 400))
    ratio = np.sum((projection.matrix @ x) ** 2, axis=0) / np.sum(x * x, axis=0)
    assert abs(ratio.mean() - 1) < 0.03
    assert 0.5 < ratio.std() / np.sqrt(2 / 40) < 1.5
    other = RandomProjection(40, 500, 6)
    assert abs(np.corrcoef(projection.matrix.ravel(), other.matrix.ravel())[0, 1]) < 0.03
    assert projection.canonical() != other.canonical()


@pytest.mark.parametrize("reach", [10.0, 1.5, 1.0])
def test_rows_keep_length_and_direction_and_bound(reach: float) -> None:
    rng = np.random.default_rng(2)
    program = projected(reach=reach, intercept=False)
    x = rng.uniform(-1, 1, (500, 30)) * rng.uniform(0, 1, (500, 1))
    y = rng.uniform(-1, 1, 500)
    bounded = program.bound(columns_of(x, y), 500)
    rows = bounded.rows
    assert np.array_equal(rows, np.rint(rows))
    square = [sum(int(v) ** 2 for v in row) for row in rows[:, :8].tolist()]
    assert max(square) <= (reach * ONE) ** 2
    lengths = np.linalg.norm(x, axis=1)
    wanted = np.minimum(lengths, reach)
    np.testing.assert_allclose(np.sqrt(square) / ONE, wanted, atol=8 / ONE)
    image = x @ program.projection.matrix.T
    image *= (wanted / np.linalg.norm(image, axis=1))[:, None]
    np.testing.assert_allclose(rows[:, :8] / ONE, image, atol=20 / ONE)
    np.testing.assert_allclose(rows[:, 8] / ONE, y * wanted / lengths, atol=8 / ONE)
    assert bounded.clipped == np.count_nonzero(lengths > reach)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    p=st.integers(1, 40),
    m=st.integers(1, 12),
    reach=st.sampled_from([2.0**-8, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]) | st.floats(2.0**-8, 8.0),
    intercept=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_no_projected_row_is_longer_than_its_bound(
    p: int, m: int, reach: float, intercept: bool, seed: int
) -> None:
    """Phi lengthens and shortens, and the length that is restored may be above the bound: in one
    dimension, with a bound that is a whole number of steps, too."""
    program = projected(p, m, reach=reach, intercept=intercept)
    rng = np.random.default_rng(seed)
    x = np.sign(rng.standard_normal((60, p))) * rng.choice([1.0, 0.3, 1e9], (60, 1))
    rows = program.bound(columns_of(x, rng.choice([-1.0, 1.0], 60)), 60).rows
    size = m + intercept
    square = [sum(int(v) ** 2 for v in row) for row in rows[:, :size].tolist()]
    assert max(square) <= int((reach * ONE) ** 2)
    assert np.abs(rows[:, size:]).max() <= ONE


def test_the_constant_is_not_projected() -> None:
    program = projected()
    x = np.zeros((3, 30))
    x[1, 4] = 0.5
    rows = program.bound(columns_of(x, np.array([0.25, 0.5, -1.0])), 3).rows / ONE
    np.testing.assert_array_equal(rows[:, 8], 1.0)
    np.testing.assert_array_equal(rows[:, 9], [0.25, 0.5, -1.0])
    np.testing.assert_array_equal(rows[[0, 2], :8], 0.0)


def test_an_event_that_the_projection_loses_is_no_event() -> None:
    seed = next(s for s in range(99) if np.all(np.abs(RandomProjection(1, 2, s).integers) < ONE))
    first, second = RandomProjection(1, 2, seed).integers[0]
    events = EventRows(("x0", "x1"), ("y",), (-1,) * 3, (1,) * 3, False, Moments(2, 1, False, 2, 1))
    moments = Moments(1, 1, False, 2.0, 1.0, entry=2.0)
    program = ProjectedRows(events, RandomProjection(1, 2, seed), Everything(2), moments)
    x = np.array([[second / ONE, -first / ONE], [second / ONE, first / ONE]])
    rows = program.bound(columns_of(x, np.array([0.5, 0.5])), 2).rows
    assert np.array_equal(rows[0], [0, 0])
    assert np.all(rows[1] != 0)


@pytest.mark.parametrize("inputs", [Sparse(4, 30), Within(L1Ball(1.0, 30))], ids=["sparse", "l1"])
def test_events_outside_count_as_none(inputs: Any) -> None:
    rng = np.random.default_rng(3)
    x = np.zeros((200, 30))
    for row in x:
        row[rng.choice(30, 4, replace=False)] = rng.uniform(0.1, 0.25, 4)
    outside = rng.random(200) < 0.3
    x[outside] = 0.9
    program = projected(inputs=inputs)
    y = np.full(200, 0.5)
    bounded = program.bound(columns_of(x, y), 200)
    assert bounded.out_of_range == outside.sum() > 0
    assert np.array_equal(np.any(bounded.rows != 0, axis=1), ~outside)
    everything = projected().bound(columns_of(x, y), 200)
    assert np.array_equal(bounded.rows[~outside], everything.rows[~outside])


def test_bad_numbers_count_as_none() -> None:
    x = np.full((4, 30), 0.1)
    x[0, 3], x[1, 0] = np.nan, np.inf
    bounded = projected().bound(columns_of(x, np.array([0.0, 0.0, np.nan, 0.5])), 4)
    assert np.array_equal(np.any(bounded.rows != 0, axis=1), [False, False, False, True])
    assert (bounded.non_finite, bounded.out_of_range) == (3, 0)
    far = projected().bound(columns_of(np.full((1, 30), 1e300), np.array([-1e300])), 1)
    assert far.clipped == 31
    assert projected().bound(columns_of(np.zeros((0, 30)), np.zeros(0)), 0).rows.shape == (0, 10)


def test_a_row_depends_on_that_event_alone() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (1000, 30)) * (rng.random((1000, 30)) < rng.random((1000, 1)))
    y = rng.uniform(-1, 1, 1000)
    program = projected(inputs=Sparse(20, 30), reach=2.0)
    whole = program.bound(columns_of(x, y), 1000).rows
    for at in (slice(0, 1), slice(17, 40), slice(300, 1000)):
        part = program.bound(columns_of(x[at], y[at]), at.stop - at.start).rows
        assert np.array_equal(part, whole[at])


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_event_moves_the_moments_by_no_more_than_the_sensitivity(relation: Any) -> None:
    """Replayed from raw columns, through projection and rounding, by random search and ascent."""
    rng = np.random.default_rng(5)
    program = projected(p=6, m=3, reach=1.0, intercept=False)
    moments = program.moments
    scales, most = np.array(moments.scales), moments.sensitivity(relation)

    def moved(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        rows = program.bound(columns_of(x, y), len(x)).rows
        each = moments.accumulate(rows, np.arange(len(x)), len(x))
        other = 0 if relation == "add_remove" else np.roll(each, 1, axis=0)
        return np.linalg.norm((each - other) / scales, axis=1)

    x = np.concatenate([rng.uniform(-1, 1, (4000, 6)), 1e9 * rng.standard_normal((500, 6))])
    y = rng.choice([-1.0, 1.0, 0.3, np.nan, 5.0], len(x))
    assert moved(x, y).max() <= most
    best, pair = 0.0, rng.uniform(-1, 1, (2, 6))
    signs = np.array([1.0, -1.0])
    for i in range(3000):
        tried = pair + rng.standard_normal((2, 6)) * (0.3 if i < 1500 else 0.03)
        found = moved(tried, signs).max()
        assert found <= most
        if found > best:
            best, pair = found, tried
    assert best > 0.999 * most


def test_inputs_of_a_config() -> None:
    assert parse_inputs(None, 5) == Everything(5)
    assert parse_inputs({"k_sparse": 2}, 5) == Sparse(2, 5)
    assert parse_inputs({"l1_ball": 2}, 5) == Within(L1Ball(2.0, 5))
    for spec, field in (
        (3, "model.inputs"),
        ({"k_sparse": 6}, "model.inputs.k_sparse"),
        ({"k_sparse": 0}, "model.inputs.k_sparse"),
        ({"k_sparse": True}, "model.inputs.k_sparse"),
        ({"k_spars": 1}, "model.inputs.k_spars"),
        ({"l1_ball": -1}, "model.inputs.l1_ball"),
    ):
        with pytest.raises(ConfigError) as wrong:
            parse_inputs(spec, 5)
        assert wrong.value.field == field


def test_lengths_and_widths_of_inputs() -> None:
    rng = np.random.default_rng(6)
    g = rng.standard_normal((4000, 12))
    for inputs, reached in (
        (Everything(12), np.linalg.norm(g, axis=1)),
        (Sparse(3, 12), np.sqrt(np.sort(g * g, axis=1)[:, -3:].sum(axis=1))),
        (Within(L1Ball(0.5, 12)), np.abs(g).max(axis=1)),
        (Within(L2Ball(0.5, 12)), np.linalg.norm(g, axis=1)),
        (Within(Box.uniform(-0.5, 0.5, 12)), np.abs(g).sum(axis=1) / np.sqrt(12)),
    ):
        error = 5 * reached.std() / np.sqrt(len(g))
        assert reached.mean() - error <= inputs.width <= 1.15 * reached.mean() + error
    assert Within(L1Ball(0.5, 12)).longest == 0.5
    assert Within(L1Ball(500, 12)).longest == pytest.approx(np.sqrt(12))
    assert Sparse(3, 12).longest == pytest.approx(np.sqrt(3))


def test_rounding_puts_nobody_outside() -> None:
    """A vector on the sphere of the l1 ball stays inside after its entries are rounded."""
    x = np.random.default_rng(7).exponential(size=(300, 30))
    x /= x.sum(axis=1, keepdims=True)
    program = projected(inputs=Within(L1Ball(1.0, 30)))
    assert program.bound(columns_of(x, np.zeros(300)), 300).out_of_range == 0
    assert program.bound(columns_of(1.01 * x, np.zeros(300)), 300).out_of_range == 300

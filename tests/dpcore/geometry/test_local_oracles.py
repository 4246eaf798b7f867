"""Local linear oracles against linear programs, and against the exact best point of each radius."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.dpcore.geometry.instances import ALL, LOCAL, POLYTOPES, cloud, costs_for, points_in
from tests.dpcore.geometry.programs import least_near
from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Product, Simplex
from weir.dpcore.geometry.convex_set import (
    ConvexSet,
)
from weir.dpcore.geometry.local_oracle import (
    LocalOracle,
    OracleMemory,
    PolytopeOracle,
    local_oracle,
)
from weir.dpcore.geometry.polytope import Polytope

EVERY = pytest.mark.parametrize("convex_set", LOCAL.values(), ids=LOCAL)


def oracle_of(convex_set: ConvexSet) -> LocalOracle:
    found = local_oracle(convex_set)
    assert found is not None
    return found


def radii(k: int, seed: int = 0) -> Floats:
    """(k,) with 0, huge and infinite ones among them."""
    rng = np.random.default_rng(seed + 20)
    found = rng.random(k) * np.array([0.01, 0.3, 1.0, 3.0])[rng.integers(0, 4, k)]
    found[::9], found[1::9], found[2::27] = 0.0, 1e6, np.inf
    return found


def walk(
    convex_set: ConvexSet, k: int, steps: int = 25, seed: int = 0
) -> tuple[Floats, OracleMemory]:
    """(k, d) points that steps of the oracle lead to from the start, with their memory."""
    rng = np.random.default_rng(seed + 30)
    oracle = oracle_of(convex_set)
    x, memory = np.tile(convex_set.start(), (k, 1)), oracle.init(k)
    for i in range(steps):
        costs = costs_for(convex_set.dimension, k, seed + i)
        found = oracle(x, radii(k, seed + i), costs, memory)
        step = rng.random(k) * rng.integers(0, 2, k)
        step[i::17] = 1.0
        x = x + step[:, None] * (found.point - x)
        memory = oracle.update(memory, step, found)
    return x, memory


def has_polytope(convex_set: ConvexSet) -> bool:
    if isinstance(convex_set, Product):
        return any(has_polytope(part) for part in convex_set.parts)
    return isinstance(convex_set, Polytope)


def places(convex_set: ConvexSet, k: int) -> tuple[Floats, OracleMemory]:
    """Points of the set with their memory: on faces and vertices too."""
    if has_polytope(convex_set):
        return walk(convex_set, k)
    return points_in(convex_set, k), oracle_of(convex_set).init(k)


@pytest.mark.slow
@EVERY
def test_the_answer_is_in_the_set_and_near(convex_set: ConvexSet) -> None:
    k = 1000
    x, memory = places(convex_set, k)
    radius = radii(k)
    oracle = oracle_of(convex_set)
    found = oracle(x, radius, costs_for(convex_set.dimension, k, 3), memory)
    assert convex_set.contains(found.point, 1e-9).all()
    assert np.all(np.linalg.norm(found.point - x, axis=1) <= oracle.rho * radius + 1e-9)


@pytest.mark.slow
@EVERY
def test_the_answer_beats_the_best_point_of_the_radius(convex_set: ConvexSet) -> None:
    """The point Proj(x - s c) is the best for the cost c within its own distance from x."""
    k = 2000
    x, memory = places(convex_set, k)
    costs = costs_for(convex_set.dimension, k, 4)
    size = np.random.default_rng(5).exponential(1.0, k) / (1e-12 + np.abs(costs).max(axis=1))
    best = convex_set.project(x - size[:, None] * costs)
    radius = np.linalg.norm(best - x, axis=1)
    found = oracle_of(convex_set)(x, radius, costs, memory)
    worse = np.sum((found.point - best) * costs, axis=1) / (1e-300 + np.abs(costs).max(axis=1))
    assert np.max(worse) < 1e-9


@pytest.mark.parametrize("name", ["l1_ball", "l1_line", "simplex", "simplex_of_one"])
def test_the_answer_is_a_linear_program(name: str) -> None:
    """Of the set within sqrt(d) r of x in l1."""
    convex_set, k = LOCAL[name], 400
    x, memory = places(convex_set, k)
    radius = np.minimum(radii(k, 6), 1e3)
    costs = costs_for(convex_set.dimension, k, 6)
    costs /= 1e-300 + np.abs(costs).max(axis=1, keepdims=True)
    found = oracle_of(convex_set)(x, radius, costs, memory)
    reach = math.sqrt(convex_set.dimension) * radius
    wanted = least_near(convex_set, x, reach, costs)
    np.testing.assert_allclose(np.sum(found.point * costs, axis=1), wanted, rtol=0, atol=2e-7)
    assert np.all(np.abs(found.point - x).sum(axis=1) <= reach + 1e-9)


def test_the_box_is_exact_in_the_largest_coordinate() -> None:
    convex_set = LOCAL["box"]
    assert isinstance(convex_set, Box)
    x, memory = places(convex_set, 500)
    costs, radius = costs_for(4, 500, 8), radii(500, 8)
    found = oracle_of(convex_set)(x, radius, costs, memory).point
    low = np.maximum(convex_set.low, x - radius[:, None])
    high = np.minimum(convex_set.high, x + radius[:, None])
    wanted = np.sum(np.minimum(costs * low, costs * high), axis=1)
    np.testing.assert_allclose(np.sum(found * costs, axis=1), wanted, rtol=1e-12, atol=1e-12)


@EVERY
def test_a_radius_of_nothing_and_of_everything(convex_set: ConvexSet) -> None:
    k = 300
    x, memory = places(convex_set, k)
    costs = costs_for(convex_set.dimension, k, 9)
    oracle = oracle_of(convex_set)
    still = oracle(x, np.zeros(k), costs, memory).point
    np.testing.assert_allclose(still, x, rtol=0, atol=1e-12)
    for radius in (1e3, 1e200, np.inf):
        far = oracle(x, np.full(k, radius), costs, memory).point
        best = convex_set.linear_oracle(costs)
        worse = np.sum((far - best) * costs, axis=1) / (1e-300 + np.abs(costs).max(axis=1))
        assert np.max(np.abs(worse)) < 1e-9


@EVERY
def test_nothing_moves_where_nothing_is_better(convex_set: ConvexSet) -> None:
    k = 100
    x, memory = places(convex_set, k)
    found = oracle_of(convex_set)(x, np.full(k, 0.5), np.zeros_like(x), memory)
    np.testing.assert_allclose(found.point, x, rtol=0, atol=1e-12)


@pytest.mark.slow
@EVERY
def test_a_row_depends_on_that_row_alone(convex_set: ConvexSet) -> None:
    k = 301
    x, memory = places(convex_set, k)
    costs, radius = costs_for(convex_set.dimension, k, 10), radii(k, 10)
    oracle = oracle_of(convex_set)
    whole = oracle(x, radius, costs, memory)
    order = np.random.default_rng(1).permutation(k)
    mixed = oracle(x[order], radius[order], costs[order], OracleMemory(memory.weights[order]))
    assert np.array_equal(mixed.point, whole.point[order])
    assert np.array_equal(mixed.weights, whole.weights[order])
    for i in (0, 1, 77, 300):
        at = slice(i, i + 1)
        alone = oracle(x[at], radius[at], costs[at], OracleMemory(memory.weights[at]))
        assert np.array_equal(alone.point[0], whole.point[i])
    turned = oracle(np.asfortranarray(x), radius, np.asfortranarray(costs), memory)
    assert np.array_equal(turned.point, whole.point)


@pytest.mark.slow
@pytest.mark.parametrize("d", [20, 300, 3000])
@pytest.mark.parametrize("kind", [L1Ball, Simplex])
def test_long_rows_and_large_blocks(kind: type, d: int) -> None:
    k = 60_000 // d  # chunks of rows, and the last one smaller
    convex_set = kind(1.0, d)
    x, costs = points_in(convex_set, k), costs_for(d, k, 11)  # few entries each
    x[k // 2 :: 2] = convex_set.project(costs[k // 2 :: 2] + 0.01)  # many
    radius, oracle = radii(k, 11), oracle_of(convex_set)
    whole = oracle(x, radius, costs, oracle.init(k)).point
    for i in (0, 3, k // 2, k - 1):
        alone = oracle(x[i : i + 1], radius[i : i + 1], costs[i : i + 1], oracle.init(1)).point
        assert np.array_equal(alone[0], whole[i])
    worse = np.sum((whole - by_hand(convex_set, x, radius, costs)) * costs, axis=1)
    assert np.max(worse / (1e-300 + np.abs(costs).max(axis=1))) < 1e-9


def by_hand(convex_set: ConvexSet, x: Floats, radius: Floats, costs: Floats) -> Floats:
    """Mass moved one coordinate at a time, dearest first: a plain loop."""
    out = x.copy()
    for p, r, c in zip(out, radius, costs, strict=True):
        reach = math.sqrt(len(p)) * r
        if isinstance(convex_set, Simplex):
            left, best = min(reach / 2, convex_set.total), np.argmin(c)
            for j in np.argsort(-c, kind="stable"):
                moved = min(left, p[j]) if j != best else 0.0
                p[j], p[best], left = p[j] - moved, p[best] + moved, left - moved
            continue
        assert isinstance(convex_set, L1Ball)
        best = np.argmax(np.abs(c))
        free = min(reach, convex_set.radius - np.abs(p).sum())
        worth = np.sign(p) * c
        grown, left = free, max(reach - free, 0.0) / 2
        for j in np.argsort(-worth, kind="stable"):
            moved = min(left, abs(p[j]))
            p[j], grown, left = p[j] - math.copysign(moved, p[j]), grown + moved, left - moved
        p[best] -= np.sign(c[best]) * grown
    return out


def test_ties_go_to_the_first() -> None:
    oracle = oracle_of(Simplex(1.0, 4))
    x = np.full((1, 4), 0.25)
    found = oracle(x, np.array([0.3]), np.array([[1.0, 0.0, 1.0, 0.0]]), oracle.init(1)).point
    np.testing.assert_allclose(found, [[0.0, 0.55, 0.2, 0.25]], rtol=0, atol=1e-15)
    ball = oracle_of(L1Ball(1.0, 4))
    found = ball(np.zeros((1, 4)), np.array([0.25]), np.array([[-1.0, 1, 1, -1]]), ball.init(1))
    assert found.point.tolist() == [[0.5, 0.0, 0.0, 0.0]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*POLYTOPES, "nested"])
def test_weights_keep_up_with_the_point(name: str) -> None:
    convex_set = LOCAL[name]
    x, memory = walk(convex_set, 200, steps=120)
    weights = memory.weights
    assert weights.min() >= 0
    oracle = oracle_of(convex_set)
    assert weights.shape == (200, oracle.columns)
    if isinstance(convex_set, Polytope):
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-12)
        np.testing.assert_allclose(convex_set.combine(weights), x, rtol=0, atol=1e-11)


def test_a_step_adds_one_vertex_at_most() -> None:
    convex_set = cloud(1, 9, 3)
    oracle, k = oracle_of(convex_set), 50
    memory = OracleMemory(np.zeros((k, oracle.columns)))
    memory.weights[:, 0] = 1.0
    x = convex_set.combine(memory.weights)
    for i in range(6):
        found = oracle(x, radii(k, i), costs_for(3, k, i), memory)
        step = np.full(k, 0.3)
        after = oracle.update(memory, step, found)
        new = np.count_nonzero((after.weights > 0) & (memory.weights == 0), axis=1)
        assert new.max() <= 1
        x, memory = x + step[:, None] * (found.point - x), after


@EVERY
def test_conditional_gradient_converges_at_its_rate(convex_set: ConvexSet) -> None:
    """B <- B sqrt(1 - al + al^2 rho^2), al = 1 / (2 rho^2), bounds the distance at every step."""
    oracle, k = oracle_of(convex_set), 50
    rho, share = oracle.rho, 1 / (2 * oracle.rho**2)
    target = points_in(convex_set, k, 12) + 0.5 * costs_for(convex_set.dimension, k, 12)
    best = convex_set.project(target)
    x, memory = np.tile(convex_set.start(), (k, 1)), oracle.init(k)
    bound = np.full(k, convex_set.diameter)
    for _ in range(60):
        assert np.all(np.linalg.norm(x - best, axis=1) <= bound + 1e-9)
        found = oracle(x, bound, x - target, memory)
        x = x + share * (found.point - x)
        memory = oracle.update(memory, np.full(k, share), found)
        bound = bound * math.sqrt(1 - share + share**2 * rho**2)


def test_constants() -> None:
    assert oracle_of(Simplex(3.0, 8)).rho == 2.0
    assert oracle_of(L1Ball(3.0, 9)).rho == 3.0
    assert oracle_of(Box.uniform(-1, 2, 16)).rho == 4.0
    square = LOCAL["square"]
    assert isinstance(square, Polytope)
    assert oracle_of(square).rho == square.ratio * math.sqrt(2)
    both = Product((Simplex(3.0, 8), L1Ball(3.0, 5)))
    assert oracle_of(both).rho == 3.0


def test_where_there_is_none() -> None:
    for name, convex_set in ALL.items():
        oracle = local_oracle(convex_set)
        assert (oracle is None) == bool(convex_set.guarantee_lost), name
    assert local_oracle(L2Ball(1.0, 3)) is None
    many = cloud(3, 30, 12)
    assert local_oracle(many) is None
    assert "facets" in many.guarantee_lost
    assert isinstance(oracle_of(cloud(1, 9, 3)), PolytopeOracle)

"""Every set against linear and convex programs, and against its own definition."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.dpcore.geometry.instances import (
    ALL,
    PROJECTING,
    cloud,
    costs_for,
    points_in,
    points_near,
)
from tests.dpcore.geometry.programs import form_of, least
from weir.dpcore.errors import WeirError
from weir.dpcore.geometry.balls import GroupL1Ball, L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Product, Simplex
from weir.dpcore.geometry.combinatorial import Permutations
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall
from weir.dpcore.geometry.polytope import Polytope

EVERY = pytest.mark.parametrize("convex_set", ALL.values(), ids=ALL)
EVERY_PROJECTING = pytest.mark.parametrize("convex_set", PROJECTING.values(), ids=PROJECTING)
CURVED = (L2Ball, LpBall, GroupL1Ball)
K = 240


def least_value(convex_set: ConvexSet, costs: np.ndarray) -> np.ndarray:
    """min of <p, c> by other means than the set's own."""
    if isinstance(convex_set, L2Ball):
        return -convex_set.radius * np.linalg.norm(costs, axis=1)
    if convex_set.name == "trace_norm_ball":
        matrices = costs.reshape(-1, *convex_set.shape)
        return -convex_set.radius * np.linalg.norm(matrices, ord=2, axis=(1, 2))
    if isinstance(convex_set, LpBall):
        return -convex_set.radius * np.linalg.norm(costs, ord=convex_set.dual, axis=1)
    if isinstance(convex_set, GroupL1Ball):
        parts = np.split(costs, np.cumsum(convex_set.groups)[:-1], axis=1)
        return -convex_set.radius * np.max([np.linalg.norm(part, axis=1) for part in parts], axis=0)
    if isinstance(convex_set, Product):
        return sum(least_value(part, costs[:, at]) for part, at in convex_set.slices())
    return least(convex_set, costs)


@pytest.mark.slow
@EVERY
def test_the_linear_oracle_is_a_linear_program(convex_set: ConvexSet) -> None:
    costs = costs_for(convex_set.dimension, K)
    found = convex_set.linear_oracle(costs)
    assert found.shape == costs.shape
    assert convex_set.contains(found, 1e-9).all()
    wanted = least_value(convex_set, costs)
    size = 1 + np.abs(costs).max(axis=1)
    np.testing.assert_allclose(
        np.sum(found * costs, axis=1) / size, wanted / size, rtol=0, atol=2e-7
    )


@pytest.mark.slow
@EVERY_PROJECTING
def test_a_projection_meets_the_conditions_of_optimality(convex_set: ConvexSet) -> None:
    """<x - p, v - p> <= 0 for every v in P, p in P, and nothing else is nearest."""
    x = points_near(convex_set, 1000)
    p = convex_set.project(x)
    if not isinstance(convex_set, Polytope):  # whose contains projects
        assert convex_set.contains(p, 1e-9).all()
    v = convex_set.linear_oracle(p - x)
    gap = np.sum((p - x) * (p - v), axis=1)
    scale = (1 + np.linalg.norm(p - x, axis=1)) * (1 + np.abs(p).max(axis=1))
    assert np.max(gap / scale) < 1e-11


@pytest.mark.slow
@EVERY_PROJECTING
def test_a_projection_is_a_convex_program(convex_set: ConvexSet) -> None:
    x = points_near(convex_set, 6, seed=5)
    x = np.clip(x, -40, 40)
    for point, p in zip(x, convex_set.project(x), strict=True):
        if any(isinstance(part, CURVED) for part in getattr(convex_set, "parts", [convex_set])):
            continue  # no linear form; held by the conditions of optimality
        form = form_of(convex_set)
        rules = []
        if len(form.bound):
            rules.append({"type": "ineq", "fun": lambda z, f=form: f.bound - f.upper @ z})
        if len(form.value):
            rules.append({"type": "eq", "fun": lambda z, f=form: f.equal @ z - f.value})
        n = form.map.shape[1]
        found = minimize(
            lambda z, f=form, x=point: 0.5 * np.sum((f.shift + f.map @ z - x) ** 2),
            np.full(n, 1 / n),
            jac=lambda z, f=form, x=point: f.map.T @ (f.shift + f.map @ z - x),
            bounds=[(0, None)] * n,
            constraints=rules,
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 300},
        )
        mine = 0.5 * np.sum((p - point) ** 2)
        assert mine <= found.fun + 1e-6 * (1 + found.fun)


@pytest.mark.parametrize("size", [1e9, 1e20, 1e60, 1e150])
@EVERY_PROJECTING
def test_points_very_far_away(convex_set: ConvexSet, size: float) -> None:
    """From there the projection is the extreme point, where one is clearly best."""
    costs = costs_for(convex_set.dimension, 200)
    p = convex_set.project(-size * costs)
    assert np.all(np.isfinite(p))
    assert convex_set.contains(p, 1e-6).all()
    kinds = (L1Ball, Simplex, L2Ball)
    if isinstance(convex_set, kinds) and convex_set.dimension > 1:
        sides = np.abs(costs) if isinstance(convex_set, L1Ball) else -costs
        top = np.sort(sides, axis=1)
        clear = top[:, -1] - top[:, -2] > 1e-6
        wanted = convex_set.linear_oracle(costs)[clear]
        np.testing.assert_allclose(p[clear], wanted, rtol=0, atol=1e-9)


@pytest.mark.slow
@EVERY_PROJECTING
def test_points_of_the_set_stay(convex_set: ConvexSet) -> None:
    x = points_in(convex_set, 300)
    np.testing.assert_allclose(convex_set.project(x), x, rtol=0, atol=1e-11)
    p = convex_set.project(points_near(convex_set, 300))
    np.testing.assert_allclose(convex_set.project(p), p, rtol=0, atol=1e-11)


@pytest.mark.slow
@EVERY
def test_a_row_depends_on_that_row_alone(convex_set: ConvexSet) -> None:
    costs = costs_for(convex_set.dimension, 301)
    calls = [convex_set.linear_oracle]
    if convex_set.projects:
        costs = points_near(convex_set, 301) + costs
        calls.append(convex_set.project)
    order = np.random.default_rng(0).permutation(301)
    for call in calls:
        whole = call(costs)
        assert np.array_equal(call(costs[order]), whole[order])
        assert np.array_equal(call(np.asfortranarray(costs)), whole)
        for i in (0, 1, 40, 150, 300):
            assert np.array_equal(call(costs[i : i + 1])[0], whole[i])
        assert call(costs[:0]).shape == (0, convex_set.dimension)


@pytest.mark.parametrize("d", [7, 8, 33, 200, 5000])
def test_long_rows_depend_on_themselves_alone(d: int) -> None:
    x = np.random.default_rng(d).standard_normal((13, d))
    for convex_set in (L1Ball(2.0, d), L2Ball(2.0, d), Simplex(2.0, d)):
        whole = convex_set.project(x)
        for i in range(13):
            assert np.array_equal(convex_set.project(x[i : i + 1])[0], whole[i])


@EVERY
def test_inputs_are_left_as_they_are(convex_set: ConvexSet) -> None:
    costs = costs_for(convex_set.dimension, 20)
    before = costs.copy()
    convex_set.linear_oracle(costs)
    convex_set.contains(costs)
    if convex_set.projects:
        convex_set.project(costs)
    assert np.array_equal(costs, before)


@pytest.mark.slow
@EVERY
def test_size_and_middle(convex_set: ConvexSet) -> None:
    start = convex_set.start()
    assert convex_set.contains(start[None], 1e-9).all()
    x = points_in(convex_set, 200)
    assert convex_set.contains(x, 1e-9).all()
    pairs = np.linalg.norm(x[:, None] - x[None], axis=2)
    assert pairs.max() <= convex_set.diameter + 1e-12
    centre = start + 0.3 * costs_for(convex_set.dimension, 1, 9)[0]
    far = np.linalg.norm(x - centre, axis=1).max()
    assert far <= convex_set.farthest(centre) + 1e-12
    corners = convex_set.linear_oracle(costs_for(convex_set.dimension, 3000, 11))
    reached = np.linalg.norm(corners - centre, axis=1).max()
    curved = {"trace_norm_ball", "product", "l2_ball", "lp_ball", "group_l1_ball"}
    if convex_set.name not in curved:
        assert convex_set.farthest(centre) == pytest.approx(reached, rel=1e-9)
    if convex_set.name in {"l1_ball", "simplex", "box", "permutations", "polytope"}:
        corners = np.unique(corners, axis=0)
        pairs = np.linalg.norm(corners[:, None] - corners[None], axis=2)
        assert convex_set.diameter == pytest.approx(pairs.max(), rel=1e-9)


@EVERY
def test_membership_is_not_lax(convex_set: ConvexSet) -> None:
    """A step beyond the extreme point in its own direction leaves the set."""
    costs = costs_for(convex_set.dimension, 200)
    costs = costs[np.abs(costs).max(axis=1) > 0.1]
    found = convex_set.linear_oracle(costs)
    assert not convex_set.contains(found - 0.01 * costs, 1e-9).any()


@pytest.mark.slow
@EVERY
def test_gauge(convex_set: ConvexSet) -> None:
    x = points_in(convex_set, 12, 3)
    gauge = convex_set.gauge(x)
    assert np.all(gauge <= 1 + 1e-6)
    some = gauge > 1e-6
    assert convex_set.contains(x[some] / gauge[some, None], 1e-6).all()
    np.testing.assert_allclose(convex_set.gauge(3 * x), 3 * gauge, rtol=1e-6, atol=1e-9)
    smaller = x[some] / (gauge[some, None] * (1 - 1e-3))
    centred = convex_set.contains(smaller, 1e-6)
    assert not centred.any()


@pytest.mark.parametrize("name", ["simplex", "permutations", "ladder", "triangle_in_space"])
def test_gauge_is_infinite_where_no_scale_fits(name: str) -> None:
    convex_set = ALL[name]
    x = points_in(convex_set, 3)
    x[:, 0] -= 2.5
    assert np.all(np.isinf(convex_set.gauge(x)))


@pytest.mark.slow
@EVERY
def test_gaussian_width(convex_set: ConvexSet) -> None:
    rng = np.random.default_rng(4)
    g = rng.standard_normal((20_000, convex_set.dimension))
    g = g[: 2000 if convex_set.name in {"permutations", "product"} else None]
    g = np.vstack([g, -g])
    best = np.sum(convex_set.linear_oracle(-g) * g, axis=1)
    error = 6 * best.std() / np.sqrt(len(g) / 2) + 1e-9
    width = convex_set.gaussian_width()
    assert width >= best.mean() - error
    if convex_set.name in {"l1_ball", "l2_ball", "simplex", "box", "group_l1_ball"}:
        assert width == pytest.approx(best.mean(), abs=error)
    else:
        assert width <= 3 * best.mean() + error + 1e-9


@EVERY
def test_sets_are_values(convex_set: ConvexSet) -> None:
    convex_set.diameter, convex_set.start()
    again = pickle.loads(pickle.dumps(convex_set))
    assert again == convex_set
    assert hash(again) == hash(convex_set)
    text = json.dumps(convex_set.canonical())
    assert json.loads(text) == json.loads(json.dumps(again.canonical()))
    others = [json.dumps(other.canonical()) for other in ALL.values() if other != convex_set]
    assert text not in others


@EVERY
def test_what_is_lost_is_said(convex_set: ConvexSet) -> None:
    if not convex_set.projects:
        assert "O(ln T) is not guaranteed" in convex_set.guarantee_lost
        with pytest.raises(WeirError, match="only a linear oracle"):
            convex_set.project(convex_set.start()[None])


def test_points_that_are_no_vertices_change_nothing() -> None:
    square = ALL["square"]
    assert isinstance(square, Polytope)
    assert square.vertices.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    assert len(cloud(1, 9, 3).vertices) <= 9


def test_ratio_of_a_square_and_of_a_simplex() -> None:
    """psi = 1, xi = 1, d = 2: sqrt 2; the simplex of two points: distance sqrt 2, all weight."""
    square = Polytope(((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)))
    assert square.ratio == pytest.approx(np.sqrt(2), rel=1e-6)
    assert square.ratio >= np.sqrt(2)
    pair = Polytope(((1.0, 0.0), (0.0, 1.0)))
    assert pair.ratio == pytest.approx(1 / np.sqrt(2), rel=1e-6)


def test_permutations_of_many() -> None:
    costs = costs_for(400, 4)
    found = Permutations(20).linear_oracle(costs)
    wanted = least(Permutations(20), costs)
    np.testing.assert_allclose(np.sum(found * costs, axis=1), wanted, rtol=1e-7, atol=1e-7)


def test_the_farthest_point_of_a_group_ball() -> None:
    ball, centre = GroupL1Ball(1.5, (2, 1, 3)), np.array([0.3, -0.4, 2.0, 0.0, 0.1, 0.0])
    corners = ball.linear_oracle(np.random.default_rng(0).standard_normal((20_000, 6)) + 3 * centre)
    reached = np.linalg.norm(corners - centre, axis=1).max()
    assert reached <= ball.farthest(centre) <= reached * 1.001


@pytest.mark.parametrize(("p", "d"), [(1.05, 50), (1.5, 300), (3.0, 300), (40.0, 50)])
def test_projections_onto_lp_balls_of_many_coordinates(p: float, d: int) -> None:
    ball, x = LpBall(2.0, p, d), np.random.default_rng(d).standard_normal((50, d))
    x *= 10.0 ** np.random.default_rng(d).integers(-3, 9, (50, 1))
    z = ball.project(x)
    v = ball.linear_oracle(z - x)
    gap = np.sum((z - x) * (z - v), axis=1) / (1 + np.linalg.norm(z - x, axis=1))
    assert np.max(gap) < 1e-11
    for i in (0, 7, 49):
        assert np.array_equal(ball.project(x[i : i + 1])[0], z[i])


def test_groups_of_one_and_one_group_are_known_balls() -> None:
    x = costs_for(6, 300)
    ones, whole = GroupL1Ball(1.5, (1,) * 6), GroupL1Ball(1.5, (6,))
    np.testing.assert_allclose(ones.project(x), L1Ball(1.5, 6).project(x), atol=1e-13)
    np.testing.assert_allclose(whole.project(x), L2Ball(1.5, 6).project(x), atol=1e-13)
    np.testing.assert_allclose(
        LpBall(1.5, 2.0, 6).project(x), L2Ball(1.5, 6).project(x), atol=1e-12
    )
    assert ones.gaussian_width() == pytest.approx(L1Ball(1.5, 6).gaussian_width(), rel=1e-9)
    assert whole.gaussian_width() == pytest.approx(L2Ball(1.5, 6).gaussian_width(), rel=1e-9)

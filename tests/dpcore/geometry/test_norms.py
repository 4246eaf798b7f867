"""Diameters in lp norms and dual norms, against vertices, formulas and random points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.dpcore.geometry.instances import ALL, costs_for
from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall, lp_norms
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.geometry.polytope import Polytope

EXPONENTS = (1.0, 1.5, 2.0, 3.0, math.inf)
EXACT = {"l1_ball", "l2_ball", "box", "simplex", "polytope", "lp_ball"}


def corners_of(convex_set: ConvexSet) -> np.ndarray:
    """Extreme points: those of axes and diagonals, and of random directions."""
    d = convex_set.dimension
    axes = np.concatenate([np.eye(d), -np.eye(d), np.ones((1, d)), -np.ones((1, d))])
    rng = np.random.default_rng(2)
    signs = rng.choice([-1.0, 1.0], (60, d))
    costs = np.concatenate([axes, signs, -signs, costs_for(d, 60)])
    return np.unique(convex_set.linear_oracle(costs), axis=0)


def support(convex_set: ConvexSet, costs: Floats) -> Floats:
    """max over points p of <p, c>, for each row c: (K, d) -> (K,)."""
    return np.asarray(np.sum(convex_set.linear_oracle(-costs) * costs, axis=1))


def dual_norm(convex_set: ConvexSet, costs: Floats) -> Floats:
    """Half of the width along each row of costs: (K, d) -> (K,)."""
    return (support(convex_set, costs) + support(convex_set, -costs)) / 2


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("convex_set", ALL.values(), ids=ALL)
def test_no_two_points_are_farther_apart(convex_set: ConvexSet, p: float) -> None:
    points = corners_of(convex_set)
    apart = (points[:, None] - points[None]).reshape(-1, convex_set.dimension)
    most = float(np.max(np.linalg.norm(apart, ord=p, axis=1)))
    said = convex_set.diameter_in(p)
    assert most <= said * (1 + 1e-9)
    if convex_set.name in EXACT:
        assert most >= said * (1 - 1e-9)
    largest = float(np.max(np.linalg.norm(points, ord=p, axis=1)))
    assert largest <= convex_set.farthest_in(p) * (1 + 1e-9)
    if convex_set.name in EXACT:
        assert largest >= convex_set.farthest_in(p) * (1 - 1e-9)
    if convex_set.symmetric:
        assert convex_set.contains(-points, 1e-9).all()


@pytest.mark.parametrize("convex_set", ALL.values(), ids=ALL)
def test_supports_and_dual_norms(convex_set: ConvexSet) -> None:
    costs = costs_for(convex_set.dimension, 80)
    points = corners_of(convex_set)
    most, least = (points @ costs.T).max(axis=0), (points @ costs.T).min(axis=0)
    assert (support(convex_set, costs) >= most - 1e-9).all()
    assert (2 * dual_norm(convex_set, costs) >= most - least - 1e-9).all()


def test_dual_norms_of_balls_are_the_known_ones() -> None:
    costs, d = np.random.default_rng(1).standard_normal((50, 4)), 4
    cases: list[tuple[ConvexSet, float]] = [
        (L1Ball(3.0, d), math.inf),
        (L2Ball(3.0, d), 2.0),
        (Box.uniform(-3.0, 3.0, d), 1.0),
        (LpBall(3.0, 1.5, d), 3.0),
        (LpBall(3.0, 1.01, d), 101.0),
        (LpBall(3.0, 80.0, d), 80 / 79),
    ]
    for convex_set, q in cases:
        wanted = 3 * np.linalg.norm(costs, ord=q, axis=1)
        np.testing.assert_allclose(dual_norm(convex_set, costs), wanted, rtol=1e-9)


def test_corners_are_what_a_linear_function_is_least_at() -> None:
    costs = costs_for(3, 40)
    for convex_set in ALL.values():
        found = convex_set.corners()
        if found is None or convex_set.dimension != 3:
            continue
        listed = found.listed
        if listed is None:
            listed = found.radius * np.eye(3)
            listed = np.concatenate([listed, -listed]) if found.signed else listed
        best = (costs @ listed.T).min(axis=1)
        np.testing.assert_allclose(best, -support(convex_set, -costs), atol=1e-9)
    twice = Polytope(((0.0, 1.0), (1.0, 0.0), (0.0, 1.0))).corners()
    assert twice.listed is not None and len(twice.listed) == 2  # a vertex that is listed twice


def test_lp_balls_from_one_to_infinity() -> None:
    spec = {"lp_ball": {"radius": 2, "p": 1}}
    assert parse_set(spec, 3) == L1Ball(2.0, 3)
    assert parse_set({"lp_ball": {"radius": 2, "p": math.inf}}, 3) == Box.uniform(-2.0, 2.0, 3)
    near = parse_set({"lp_ball": {"radius": 2, "p": 1.001}}, 3)
    assert not near.projects
    found = near.linear_oracle(np.array([[1.0, -3.0, 2.0], [0.0, 0.0, 0.0]]))
    assert lp_norms(found, 1.001) == pytest.approx([2.0, 2.0])
    assert found[0, 1] == pytest.approx(2.0)
    with pytest.raises(ConfigError, match="1 or more"):
        L1Ball(1.0, 2).diameter_in(0.5)

"""Minimisers over sets: certified, exact where they can be, the same anyone who is next to them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.dpcore.models.regression.systems import sets, systems
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Product
from weir.dpcore.geometry.norm_balls import TraceNormBall
from weir.dpcore.models.regression.accelerated import TOLERANCE, solve
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

NAMES = list(sets(3))


def size_of(quadratic, convex_set):
    reach = convex_set.farthest(np.zeros(quadratic.dimension))
    lengths = np.linalg.norm(quadratic.right, axis=2)
    return quadratic.largest[:, None] * reach**2 + lengths * reach


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 5.0, 1e3])
@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("name", NAMES)
def test_the_gap_is_reached_and_true(name: str, d: int, noise: float) -> None:
    """First-order optimality over the set, by its linear oracle alone."""
    quadratic, convex_set = systems(9, d, 2, noise), sets(d)[name]
    theta, gap = solve(quadratic, convex_set)
    assert convex_set.contains(theta.reshape(-1, d), 1e-9).all()
    assert np.all(gap <= TOLERANCE * size_of(quadratic, convex_set))
    tight = solve(quadratic, convex_set, 1e-12)
    assert np.all(quadratic.value(theta) - quadratic.value(tight.theta) <= gap + tight.gap + 1e-9)
    slope = 2 * (tight.theta @ quadratic.convex - quadratic.right).reshape(-1, d)
    best = convex_set.linear_oracle(slope)
    missed = np.sum(slope * (tight.theta.reshape(-1, d) - best), axis=1)
    root = np.sqrt(1e-12)  # a gap of f of 1e-12 leaves at most its root in the gradient
    assert np.all(missed <= 4 * root * size_of(quadratic, convex_set).ravel() + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["l1", "l2", "box", "simplex"])
def test_a_convex_program_finds_nothing_better(name: str) -> None:
    d = 4
    quadratic, convex_set = systems(5, d, 1, 3.0, seed=4), sets(d)[name]
    theta = solve(quadratic, convex_set).theta
    mine = quadratic.value(theta)[:, 0]
    for i in range(5):

        def f(z, i=i):
            inside = convex_set.project(z[None])
            there = (inside @ quadratic.convex[i] - 2 * quadratic.right[i]) * inside
            return there.sum() + 1e3 * np.sum((z - inside) ** 2)

        found = minimize(f, convex_set.start(), method="Nelder-Mead", options={"maxiter": 4000})
        z = convex_set.project(found.x[None])
        other = float(((z @ quadratic.convex[i] - 2 * quadratic.right[i]) * z).sum())
        assert mine[i] <= other + 1e-7 * abs(other)


def test_inside_the_set_it_is_least_squares() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((200, 6)), rng.standard_normal((200, 3))
    wanted = np.linalg.lstsq(x, y, rcond=None)[0]
    quadratic = PrivateQuadratic((x.T @ x)[None], (y.T @ x)[None])
    for name in ("l1_large", "l2_large"):
        theta = solve(quadratic, sets(6)[name]).theta[0].T
        np.testing.assert_allclose(theta, wanted, rtol=1e-9, atol=1e-12)
    ridge = PrivateQuadratic((x.T @ x)[None], (y.T @ x)[None], ridge=3.0)
    wanted = np.linalg.solve(x.T @ x + 3 * np.eye(6), x.T @ y)
    theta = solve(ridge, L2Ball(1e3, 6)).theta[0].T
    np.testing.assert_allclose(theta, wanted, rtol=1e-9, atol=1e-12)


def test_collinear_features_share_the_weight() -> None:
    x = np.random.default_rng(2).standard_normal((50, 1))
    x = np.concatenate([x, x, 2 * x], axis=1)
    y = x @ [0.1, 0.2, 0.3]
    quadratic = PrivateQuadratic((x.T @ x)[None], (x.T @ y)[None, None])
    wanted = np.linalg.lstsq(x, y, rcond=None)[0]
    for name in ("l1_large", "l2_large", "l2"):
        theta = solve(quadratic, sets(3)[name]).theta[0, 0]
        np.testing.assert_allclose(theta, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_no_event_and_no_noise(name: str) -> None:
    """Nothing is known: the point of the set that is nearest to 0."""
    convex_set = sets(3)[name]
    found = solve(PrivateQuadratic(np.zeros((2, 3, 3)), np.zeros((2, 1, 3))), convex_set)
    nearest = convex_set.project(np.zeros((1, 3)))
    np.testing.assert_allclose(found.theta[0], nearest, atol=1e-12)
    assert np.array_equal(found.gap, np.zeros((2, 1)))


@pytest.mark.parametrize("name", NAMES)
def test_a_matrix_of_noise_alone(name: str) -> None:
    """All its eigenvalues are negative: what is left is linear, and solved by an extreme point."""
    convex_set = sets(3)[name]
    right = np.random.default_rng(3).standard_normal((4, 1, 3))
    quadratic = PrivateQuadratic(np.repeat(-np.eye(3)[None], 4, axis=0), right)
    found = solve(quadratic, convex_set)
    best = convex_set.linear_oracle(-right[:, 0])
    got = np.sum(found.theta[:, 0] * right[:, 0], axis=1)
    np.testing.assert_allclose(got, np.sum(best * right[:, 0], axis=1), rtol=1e-7)


def test_the_ball_by_its_equation_is_the_ball_by_steps() -> None:
    quadratic = systems(40, 5, 1, 20.0)
    by_steps = solve(quadratic, Product((L2Ball(0.6, 5),)), 1e-13, 100_000).theta
    theta, gap = solve(quadratic, L2Ball(0.6, 5))
    np.testing.assert_allclose(theta, by_steps, atol=1e-5)
    assert np.all(gap <= 1e-13 * size_of(quadratic, L2Ball(0.6, 5)))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_system_depends_on_itself_alone(name: str) -> None:
    quadratic, convex_set = systems(300, 6, 2, 30.0), sets(6)[name]
    whole = solve(quadratic, convex_set)
    for at in (slice(0, 1), slice(7, 8), slice(100, 290), slice(299, 300)):
        part = PrivateQuadratic(quadratic.matrix[at], quadratic.right[at])
        found = solve(part, convex_set)
        assert np.array_equal(found.theta, whole.theta[at])
        assert np.array_equal(found.gap, whole.gap[at])


def test_steps_run_out_honestly() -> None:
    quadratic, convex_set = systems(20, 12, 1, 0.0), L1Ball(0.5, 12)
    short = solve(quadratic, convex_set, 1e-9, 3)
    long = solve(quadratic, convex_set, 1e-12)
    assert np.all(short.gap >= quadratic.value(short.theta) - quadratic.value(long.theta))
    assert short.gap.max() > 1e-9 * size_of(quadratic, convex_set).max()


def test_what_is_refused() -> None:
    quadratic = systems(1, 4, 1, 0.0)
    with pytest.raises(ConfigError, match="no projection"):
        solve(quadratic, TraceNormBall(1.0, (2, 2)))
    with pytest.raises(ConfigError, match="tolerance"):
        solve(quadratic, L2Ball(1.0, 4), 0.0)
    with pytest.raises(ConfigError, match="steps"):
        solve(quadratic, Box.uniform(0, 1, 4), 1e-9, 0)
    with pytest.raises(ConfigError, match=r"model\.ridge"):
        PrivateQuadratic(quadratic.matrix, quadratic.right, -1.0)
    with pytest.raises(ValueError, match="right sides"):
        PrivateQuadratic(quadratic.matrix, quadratic.right[:, 0])

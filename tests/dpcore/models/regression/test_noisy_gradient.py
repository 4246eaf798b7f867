"""The paper's own solver: its steps one by one, and its bound."""

from __future__ import annotations

import numpy as np
import pytest

from tests.dpcore.models.regression.systems import sets, systems
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.models.regression.accelerated import solve
from weir.dpcore.models.regression.quadratic import PrivateQuadratic
from weir.dpcore.models.regression.solver import (
    gradient_error,
    noisy_projected_gradient,
    schedule,
)


@pytest.mark.parametrize("name", ["l1", "l2", "box", "simplex"])
def test_appendix_b_step_by_step(name: str) -> None:
    quadratic, convex_set = systems(3, 4, 2, 2.0), sets(4)[name]
    bound, steps = np.array([[30.0, 40.0]] * 3), np.array([[5.0, 9.0], [1.0, 2.0], [7.0, 3.0]])
    found = noisy_projected_gradient(quadratic, convex_set, bound, steps)
    for i in range(3):
        for j in range(2):
            r = int(steps[i, j])
            eta = convex_set.diameter / (np.sqrt(r) * bound[i, j])
            theta, visited = convex_set.start(), []
            for _ in range(r):
                visited.append(theta)
                slope = 2 * (quadratic.symmetric[i] @ theta - quadratic.right[i, j])
                theta = convex_set.project((theta - eta * slope)[None])[0]
            np.testing.assert_allclose(found[i, j], np.mean(visited, axis=0), atol=1e-12)


@pytest.mark.parametrize("name", ["l1", "l2", "box", "simplex"])
def test_the_bound_of_proposition_b1(name: str) -> None:
    """Without noise, alpha = 0: f(average) - min f <= (alpha + L) |C| / sqrt(r)."""
    quadratic, convex_set = systems(6, 5, 1, 0.0), sets(5)[name]
    bound, steps = schedule(quadratic, convex_set, np.zeros(6), steps=400)
    assert np.all(steps == 400)
    theta = noisy_projected_gradient(quadratic, convex_set, bound, steps)
    excess = quadratic.value(theta) - quadratic.value(solve(quadratic, convex_set).theta)
    assert np.all(excess <= bound * convex_set.diameter / 20)
    assert np.all(excess >= -1e-7)


def test_steps_follow_the_noise() -> None:
    quadratic, convex_set = systems(3, 5, 1, 0.0), L2Ball(1.0, 5)
    stddev = np.array([1.0, 10.0, 1e6])
    bound, steps = schedule(quadratic, convex_set, stddev, steps=100_000)
    alpha = gradient_error(stddev, 5, 1.0, 0.05)
    slope = bound[:, 0] - alpha
    np.testing.assert_allclose(steps[:, 0], np.ceil((1 + slope / alpha) ** 2))
    assert steps[0, 0] > steps[1, 0] > steps[2, 0] == 2
    assert np.all(schedule(quadratic, convex_set, stddev, steps=7).steps <= 7)
    with pytest.raises(ConfigError, match="steps"):
        schedule(quadratic, convex_set, stddev, steps=0)


@pytest.mark.parametrize("d", [1, 5, 40])
def test_the_error_of_a_gradient_is_within_its_bound(d: int) -> None:
    rng = np.random.default_rng(d)
    reach, beta, n = 2.0, 0.1, 2000
    upper = rng.standard_normal((n, d, d)) * np.sqrt(0.5)
    error = np.triu(upper, 1)
    error = error + error.transpose(0, 2, 1)
    error[:, np.arange(d), np.arange(d)] = rng.standard_normal((n, d))
    norm = np.max(np.abs(np.linalg.eigvalsh(error)), axis=1)
    largest = 2 * (norm * reach + np.linalg.norm(rng.standard_normal((n, d)), axis=1))
    alpha = float(gradient_error(np.ones(1), d, reach, beta)[0])
    assert np.mean(largest > alpha) <= beta
    assert alpha < 2 * np.quantile(largest, 0.999)


def test_nothing_at_all_is_solved_too() -> None:
    quadratic = PrivateQuadratic(np.zeros((1, 2, 2)), np.zeros((1, 1, 2)))
    plan = schedule(quadratic, L2Ball(1.0, 2), np.zeros(1), steps=10)
    assert np.array_equal(
        noisy_projected_gradient(quadratic, L2Ball(1.0, 2), *plan), np.zeros((1, 1, 2))
    )

"""Bands against what noise really does to a model."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.geometry.balls import L2Ball
from dpcore.geometry.simplex import Simplex
from dpcore.models.regression.accelerated import solve
from dpcore.models.regression.bands import stddev_along
from dpcore.models.regression.quadratic import PrivateQuadratic

N, D = 20_000, 4


def noisy_copies(matrix: np.ndarray, right: np.ndarray, s: float) -> PrivateQuadratic:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.standard_normal((N, D, D)) * s * np.sqrt(0.5), 1)
    error = upper + upper.transpose(0, 2, 1)
    error[:, np.arange(D), np.arange(D)] = s * rng.standard_normal((N, D))
    return PrivateQuadratic(matrix + error, right + s * rng.standard_normal((N, *right.shape)))


@pytest.mark.parametrize("ridge", [0.0, 50.0])
def test_a_band_is_the_deviation_of_the_model(ridge: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (4000, D))
    y = x @ rng.standard_normal((D, 2))
    matrix, right, s = x.T @ x, y.T @ x, 8.0
    noisy = noisy_copies(matrix, right, s)
    noisy = PrivateQuadratic(noisy.matrix, noisy.right, ridge)
    theta = solve(noisy, L2Ball(100.0, D)).theta
    directions = np.concatenate([np.eye(D), rng.standard_normal((3, D))])
    seen = np.std(theta @ directions.T, axis=0)
    clean = PrivateQuadratic(matrix[None], right[None], ridge)
    said = stddev_along(clean, clean.free, np.array([s]), directions)[0]
    np.testing.assert_allclose(said, seen, rtol=0.04)
    assert np.all(np.abs(said / 2 - seen) > 0.2 * seen)
    # A plug-in at one noisy system is about as wide.
    one = PrivateQuadratic(noisy.matrix[:1], noisy.right[:1], ridge)
    plugged = stddev_along(one, theta[:1], np.array([s]), directions)[0]
    np.testing.assert_allclose(plugged, seen, rtol=0.15)


def test_no_band_is_wider_than_the_set() -> None:
    quadratic = PrivateQuadratic(-np.eye(3)[None], np.ones((1, 1, 3)))
    directions = np.array([[1.0, 0, 0], [1, 1, 1], [1, -1, 0]])
    theta = np.zeros((1, 1, 3))
    found = stddev_along(quadratic, theta, np.ones(1), directions, Simplex(1.0, 3))
    np.testing.assert_allclose(found[0, 0], [0.5, 0.0, 1.0])
    assert np.all(np.isinf(stddev_along(quadratic, theta, np.ones(1), directions)))


def test_no_noise_no_band() -> None:
    quadratic = PrivateQuadratic(np.zeros((2, 3, 3)), np.zeros((2, 1, 3)))
    found = stddev_along(quadratic, np.zeros((2, 1, 3)), np.zeros(2), np.eye(3), L2Ball(1.0, 3))
    assert np.array_equal(found, np.zeros((2, 1, 3)))

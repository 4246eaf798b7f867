"""Margins against what noise really does to a model."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.models.regression.lifting import Image
from weir.dpcore.models.regression.margins import Debiased
from weir.dpcore.models.regression.quadratic import PrivateQuadratic
from weir.dpcore.pricing.calibration import BAND


def test_where_nothing_is_known_the_band_is_the_set() -> None:
    """Around any model in it, and no further."""
    theta = np.array([[[0.25, 0.0, -0.5]]])
    quadratic = PrivateQuadratic(np.eye(3)[None], np.zeros((1, 1, 3)), 50.0)
    found = Debiased(quadratic, theta, np.array([10.0]), L2Ball(2.0, 3))
    assert not found.known.any()
    half = BAND * found.along(np.eye(3))[0, 0]
    np.testing.assert_allclose(half, [2.25, 2.0, 2.5])


def test_one_hidden_direction_hides_what_shares_it_alone() -> None:
    """Of x0 + x1 nothing is known, of x0 - x1 and x2 all is."""
    pair = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    matrix = 1e6 * (np.eye(3) - np.outer(pair, pair))
    quadratic = PrivateQuadratic(matrix[None], np.zeros((1, 1, 3)), 10.0)
    found = Debiased(quadratic, np.zeros((1, 1, 3)), np.ones(1), L2Ball(1.0, 3))
    assert found.known.tolist() == [[0.0, 1.0, 1.0]]
    rows = np.array([[1.0, 0, 0], [0, 0, 1], [1, -1, 0], [1, 1, 0]])
    half = BAND * found.along(rows)[0, 0]
    np.testing.assert_allclose(half, [np.sqrt(0.5), 0, 0, np.sqrt(2)], atol=1e-5)


def test_a_ridge_is_in_the_band_as_far_as_it_pulls() -> None:
    matrix, s = 1000.0 * np.eye(2), 10.0
    for ridge in (0.0, 250.0):
        quadratic = PrivateQuadratic(matrix[None], np.array([[[800.0, 0.0]]]), ridge)
        found = Debiased(quadratic, quadratic.free, np.array([s]), L2Ball(5.0, 2))
        half = BAND * found.along(np.eye(2))[0, 0]
        noise = BAND * s / 1000 * np.sqrt(1 + 0.64 / 2 + np.array([0.64 / 2, 0]))
        pulled = np.array([0.8 - quadratic.free[0, 0, 0], 0])
        assert np.all(half >= np.maximum(noise * 0.98, 1.7 / 1.96 * noise + pulled - 0.002))
        assert np.all(half <= noise * 1.02 + pulled + 0.002)


def test_a_set_that_binds_for_noise_alone_is_in_the_band() -> None:
    """Moments that point a little beyond the ball may come from a model inside; ones that point
    far beyond do not."""
    for size, inside in ((1.05, True), (3.0, False)):
        right = np.array([[[1000.0 * size, 0.0]]])
        quadratic = PrivateQuadratic(1000.0 * np.eye(2)[None], right)
        theta = np.array([[[1.0, 0.0]]])
        found = Debiased(quadratic, theta, np.array([30.0]), L2Ball(1.0, 2))
        half = BAND * found.along(np.eye(2))[0, 0, 0]
        noise = BAND * 30 / 1000 * np.sqrt(2)
        assert half == pytest.approx(noise * 1.8 / 1.96 + 0.05 if inside else noise, rel=0.05)


def test_an_image_is_known_by_its_ends() -> None:
    rng = np.random.default_rng(3)
    phi = rng.standard_normal((2, 6))
    image = Image(L2Ball(2.0, 6), phi, float(np.linalg.norm(phi, 2)))
    costs = rng.standard_normal((5, 2))
    least = np.sum(image.linear_oracle(costs) * costs, axis=1)
    np.testing.assert_allclose(least, -2 * np.linalg.norm(costs @ phi, axis=1))
    assert image.diameter == pytest.approx(4 * np.linalg.norm(phi, 2))

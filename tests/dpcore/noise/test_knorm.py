from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from weir.dpcore.noise.gaussian import sum_last
from weir.dpcore.noise.noise import k_norm_variance


@pytest.mark.slow
def test_one_dimension_is_laplace(draw):
    sample = draw("k_norm", 1, rows=100).reshape(-1)
    assert stats.kstest(sample, "laplace").pvalue > 1e-3
    for wrong in (1.05, 0.95):
        assert stats.kstest(sample * wrong, "laplace").pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [2, 3, 7])
def test_radius_is_gamma_and_direction_uniform(draw, dimension):
    sample = draw("k_norm", dimension, rows=40).reshape(-1, dimension)
    radius = np.linalg.norm(sample, axis=1)
    assert stats.kstest(radius, "gamma", args=(dimension,)).pvalue > 1e-3
    for wrong in (1.05, 0.95):
        assert stats.kstest(radius * wrong, "gamma", args=(dimension,)).pvalue < 1e-6
    unit = sample / radius[:, None]
    squares = stats.beta(0.5, (dimension - 1) / 2)  # of one coordinate of a uniform direction
    for i in range(dimension):
        assert stats.kstest(unit[:, i] ** 2, squares.cdf).pvalue > 1e-3
    n = len(sample)
    assert np.abs(unit.mean(axis=0)).max() < 5 / np.sqrt(n * dimension)
    assert np.abs(np.corrcoef(sample.T) - np.eye(dimension)).max() < 6 / np.sqrt(n)
    assert np.abs(np.corrcoef(np.abs(unit[:, 0]), radius)[0, 1]) < 5 / np.sqrt(n)
    np.testing.assert_allclose((sample**2).mean(), k_norm_variance(dimension), rtol=0.03)


def test_independent_laplace_coordinates_would_fail(draw):
    wrong = draw("k_norm", 1, rows=80).reshape(-1, 2)
    assert stats.kstest(np.linalg.norm(wrong, axis=1), "gamma", args=(2,)).pvalue < 1e-9


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13])
def test_sum_last(width):
    values = np.random.default_rng(0).integers(0, 100, (4, width)).astype(np.float64)
    assert np.array_equal(sum_last(values.copy()), values.sum(axis=1))


def test_wide_vectors(draw):
    sample = draw("k_norm", 300, rows=5, keys=40).reshape(-1, 300)
    radius = np.linalg.norm(sample, axis=1)
    assert stats.kstest(radius, "gamma", args=(300,)).pvalue > 1e-3

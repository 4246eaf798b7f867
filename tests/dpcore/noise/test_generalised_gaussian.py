from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.gaussian import exact_log
from weir.dpcore.noise.generalised_gaussian import (
    GeneralisedGaussian,
    best_exponent,
    exact_exp,
    exact_exp_of,
    exact_power,
    generalised_gaussian,
    kappa,
)
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise


def drawn(root, dimension: int, exponent: float, n: int = 20_000) -> np.ndarray:
    noise = KeyedNoise(root, 0, (b"one",), 0)
    where = np.zeros((n, 1, 2), dtype=np.uint64)
    return noise.generalised_gaussian(label(0, np.arange(n)), where, dimension, exponent)[:, 0]


def shares(sample: np.ndarray, r: float) -> np.ndarray:
    return np.abs(sample) ** r / (np.abs(sample) ** r).sum(axis=1, keepdims=True)


def norms(sample: np.ndarray, r: float) -> np.ndarray:
    return (np.abs(sample) ** r).sum(axis=1) ** (1 / r)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "r"), [(1, 3.0), (2, 2.0), (5, 3.0), (20, 3.0), (40, 7.5)])
def test_the_norm_is_chi_and_the_marginals_are_those_of_the_cone(root, d, r):
    sample = drawn(root, d, r)
    square = norms(sample, r) ** 2
    np.testing.assert_allclose(square.mean(), d, rtol=0.05)
    assert stats.kstest(square, stats.chi2(d).cdf).pvalue > 1e-3
    for wrong in (1.05, 0.95):
        assert stats.kstest(square * wrong**2, stats.chi2(d).cdf).pvalue < 1e-6
    made = GeneralisedGaussian(d, max(r, 2.0), r, 1.0, 1.0)
    np.testing.assert_allclose(sample.std(), made.stddev, rtol=0.03)
    if d > 1:
        share = stats.beta(1 / r, (d - 1) / r)
        some = range(0, d, max(1, d // 4))
        assert all(stats.kstest(shares(sample, r)[:, i], share.cdf).pvalue > 1e-3 for i in some)
        other = stats.beta(1 / (1.3 * r), (d - 1) / (1.3 * r))  # the share of another exponent
        assert stats.kstest(shares(sample, r)[:, 0], other.cdf).pvalue < 1e-6
        radius = norms(sample, r)
        assert abs(np.corrcoef(shares(sample, r)[:, 0], radius)[0, 1]) < 5 / math.sqrt(len(sample))
    assert abs((sample > 0).mean() - 0.5) < 4 / math.sqrt(sample.size)


def test_exponent_two_is_gaussian(root):
    sample = drawn(root, 3, 2.0)
    assert all(stats.kstest(sample[:, i], "norm").pvalue > 1e-3 for i in range(3))
    assert np.abs(np.corrcoef(sample.T) - np.eye(3)).max() < 5 / math.sqrt(len(sample))


def test_the_surface_measure_would_fail(root):
    """A normal direction over its r-norm is no cone measure, unless r is 2."""
    normals = drawn(root, 4, 2.0)
    share = stats.beta(1 / 6, 3 / 6)
    assert stats.kstest(shares(normals, 6.0)[:, 0], share.cdf).pvalue < 1e-9


def test_a_draw_does_not_depend_on_what_is_drawn_beside_it(root):
    keys = tuple(b"user %d" % i for i in range(7))
    labels, where = label(3, np.arange(50)), np.zeros((50, 7, 2), dtype=np.uint64)
    whole = KeyedNoise(root, 0, keys, 0).generalised_gaussian(labels, where, 9, 4.5)
    one = KeyedNoise(root, 0, keys[4:5], 0)
    alone = one.generalised_gaussian(labels[11:12], where[:1, :1], 9, 4.5)
    assert alone[0, 0].tobytes() == whole[11, 4].tobytes()
    assert len(np.unique(whole)) == whole.size


@pytest.mark.parametrize(("q", "r"), [(3.0, 2.0), (3.0, 3.0), (6.0, 4.0), (math.inf, 5.0)])
@pytest.mark.parametrize("order", [1.5, 4.0, 20.0])
def test_the_guarantee_holds_for_every_exponent_and_not_at_a_third_of_the_scale(q, r, order):
    """Renyi divergences in two dimensions, by quadrature."""
    made = GeneralisedGaussian.calibrated(2, q, 1.0, 0.05, r)
    assert made.rho <= 0.05 * (1 + 1e-9)

    def divergence(shift: tuple[float, float], sigma: float) -> float:
        reach = 9 * sigma + 2 * order
        grid = np.linspace(-reach, reach, 401)
        x, y = np.meshgrid(grid, grid)

        def log_density(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return -((np.abs(x) ** r + np.abs(y) ** r) ** (2 / r)) / (2 * sigma * sigma)

        def whole(values: np.ndarray) -> float:
            return float(integrate.simpson(integrate.simpson(values, x=grid), x=grid))

        plain, moved = log_density(x, y), log_density(x - shift[0], y - shift[1])
        ratio = whole(np.exp(order * moved + (1 - order) * plain)) / whole(np.exp(plain))
        return math.log(ratio) / (order - 1)

    each = 0.5 ** (0 if math.isinf(q) else 1 / q)  # a diagonal of lq norm 1
    worst = max(divergence(shift, made.sigma) for shift in ((1.0, 0.0), (each, each)))
    assert worst <= order * made.rho * (1 + 1e-3)
    less = max(divergence(shift, made.sigma / 3) for shift in ((1.0, 0.0), (each, each)))
    assert less > order * made.rho


@pytest.mark.parametrize("d", [1, 2, 8, 50, 10_000])
@pytest.mark.parametrize("q", [2.0, 3.0, 10.0, 25.0, math.inf])
def test_the_best_exponent_is_the_least_of_many(d, q):
    best = best_exponent(q, d)
    top = min(q, 60.0)
    tried = min(kappa(r, q, d) for r in np.linspace(2, top, 2000))
    assert 2 <= best <= q
    assert kappa(best, q, d) <= tried * (1 + 1e-6) or math.log(d) < 2
    assert kappa(2.0, q, d) == pytest.approx(d ** (1 - (0 if math.isinf(q) else 2 / q)))


def test_kappa_of_another_exponent_would_not_do():
    """Noise of exponent r at the price of another one is too small."""
    d, q = 50, 3.0
    cheap = min(kappa(2.0, q, d), kappa(3.0, q, d))
    assert cheap < max(kappa(2.0, q, d), kappa(3.0, q, d)) / 1.5


@pytest.mark.parametrize("r", [1.0, 1.99, math.inf, math.nan])
def test_other_exponents_are_refused(r, root):
    with pytest.raises(ConfigError, match="exponent"):
        drawn(root, 3, r, 5)
    with pytest.raises(ConfigError, match="exponent"):
        GeneralisedGaussian(3, 2.5, 2.6, 1.0, 1.0)
    assert generalised_gaussian.__doc__ and "cone" in generalised_gaussian.__doc__


def test_powers():
    x = np.concatenate([np.linspace(-40, 0, 997), [-800.0, -1e4, -1e-9]])
    np.testing.assert_allclose(exact_exp(x), np.exp(x), rtol=1e-14)
    assert all(exact_exp_of(v) == w for v, w in zip(x.tolist(), exact_exp(x), strict=True))
    u = np.linspace(1e-6, 1, 500)
    np.testing.assert_allclose(exact_power(u, 2.7), u**2.7, rtol=1e-13)
    np.testing.assert_allclose(exact_log(u), np.log(u), rtol=1e-13, atol=1e-15)

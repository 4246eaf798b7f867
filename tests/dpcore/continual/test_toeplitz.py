"""Windowed Toeplitz noise: the optimum, the loss beyond the window, and strides."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gammaln

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.toeplitz import Toeplitz, coefficients, record_units
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROOT = RootKey.derive(b"s" * 32, "test", b"d" * 32)
KEYS = [f"key {i}".encode() for i in range(5)]


def make(window: int | None, horizon: int | None = None, dimension: int = 2) -> Toeplitz:
    return Toeplitz.calibrated(
        dimension=dimension,
        scales=(2.0**20,) * dimension,
        sensitivity=1.0,
        overs=(None, 3),
        window=window,
        horizon=horizon,
        budget=PrivacyLoss("gdp", 1.0),
    )


@pytest.mark.parametrize(
    ("window", "error"), [(1, 1.0), (64, 2.389), (256, 2.831), (1024, 3.273), (4096, 3.714)]
)
def test_worst_error_at_a_window(window: int, error: float) -> None:
    mechanism = make(window)
    worst = mechanism.noise_scale * math.sqrt(mechanism.factor(np.array([10**9]), None)[0])
    assert worst == pytest.approx(error, abs=6e-4)
    assert mechanism.loss(window).value <= 1.0


def test_coefficients_are_central_binomials() -> None:
    k = np.arange(5000)
    exact = np.exp(gammaln(2 * k + 1) - 2 * gammaln(k + 1) - k * math.log(4))
    np.testing.assert_allclose(coefficients(5000), exact, rtol=1e-10)


@pytest.mark.parametrize("window", [1, 2, 7, 40])
def test_loss_is_that_of_the_dense_factorization(window: int) -> None:
    n, mechanism = 12 * window + 5, make(window)
    b = mechanism.materialize(n)
    c = np.linalg.solve(b, np.tril(np.ones((n, n))))
    for ticks in (1, window, window + 1, 2 * window, 3 * window - 1, n):
        dense = np.linalg.norm(c[:ticks, 0]) / mechanism.noise_scale
        assert mechanism.loss(ticks).value == pytest.approx(dense, rel=1e-8)
        assert mechanism.loss(ticks).value >= dense * (1 - 1e-14)
    np.testing.assert_allclose(mechanism.factor(np.arange(n), None), (b**2).sum(1), rtol=1e-12)
    difference = b.copy()
    difference[3:] -= b[:-3]
    squares = (difference**2).sum(1)
    np.testing.assert_allclose(mechanism.factor(np.arange(n), 3), squares, rtol=1e-12)


def test_the_bound_far_out_is_tight() -> None:
    window, n = 5, 3000
    b = np.zeros(n)
    b[:window] = coefficients(window)
    c = np.zeros(n)
    for k in range(n):
        c[k] = 1.0 - np.dot(b[1 : k + 1], c[:k][::-1])
    assert record_units(window, n) >= np.sum(c**2)
    assert record_units(window, n) == pytest.approx(np.sum(c**2), rel=1e-7)
    assert math.isinf(record_units(window, None))


def test_nothing_is_lost_after_the_end() -> None:
    assert make(8, 20).loss(None) == make(8, 20).loss(20)
    assert make(None, 20) == make(20, 20) == make(50, 20)


@pytest.mark.parametrize("window", [1, 2, 9, 100])
def test_strides_and_blocks_change_no_bit(window: int) -> None:
    mechanism = make(window, dimension=1)
    leaves = np.random.default_rng(0).integers(-5, 6, (150, 5, 1))
    _, whole = mechanism.step(mechanism.init(5), leaves, KeyedNoise(ROOT, 0, KEYS, 0))
    state, parts, at = mechanism.init(1), [], 0
    for n in (1, 1, 7, 128, 13):
        source = KeyedNoise(ROOT, 0, KEYS[2:3], at)
        state, out = mechanism.step(state, leaves[at : at + n, 2:3], source)
        parts.append(out[0])
        at += n
    np.testing.assert_array_equal(np.concatenate(parts)[:, 0], whole[0][:, 2])


def test_refuses_long_windows() -> None:
    for window in (65537, None):
        with pytest.raises(ConfigError, match="blt"):
            make(window)

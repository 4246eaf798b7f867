"""Sliding sums: permanent guarantee, error, exact sums, and short clocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.dpcore.continual import fit_tables
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.sliding import SlidingSum
from weir.dpcore.continual.tables import SLIDING
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROOT = RootKey.derive(b"s" * 32, "test", b"d" * 32)
KEYS = [f"key {i}".encode() for i in range(5)]


def make(over: int | None, horizon: int | None = None, scale: float = 2.0**20) -> SlidingSum:
    return SlidingSum.calibrated(
        dimension=2,
        scales=(scale, scale),
        sensitivity=1.0,
        overs=(over,),
        window=16,
        horizon=horizon,
        budget=PrivacyLoss("gdp", 1.0),
    )


@pytest.mark.parametrize(("over", "error"), [(64, 2.95), (256, 3.58), (1024, 4.25)])
def test_worst_error(over: int, error: float) -> None:
    mechanism = make(over)
    worst = mechanism.noise_scale * math.sqrt(mechanism.factor(np.array([2**40]), over)[0])
    assert worst <= error
    assert mechanism.loss(None).value <= 1.0
    assert mechanism.loss(None).value == pytest.approx(1.0, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [None, 400, 60, 20])
def test_loss_is_that_of_the_dense_factorization(horizon: int | None) -> None:
    over, n = 37, horizon or 1500
    mechanism = make(over, horizon)
    b = mechanism.materialize(n)
    c = np.linalg.solve(b, mechanism.response(n))
    dense = np.linalg.norm(c, axis=0)[0] / mechanism.noise_scale
    assert mechanism.loss(None).value == pytest.approx(dense, rel=1e-9)
    assert mechanism.loss(15).value == pytest.approx(
        np.linalg.norm(c[:15, 0]) / mechanism.noise_scale, rel=1e-9
    )
    np.testing.assert_allclose(mechanism.factor(np.arange(n), over), (b**2).sum(1), rtol=1e-10)


def test_a_window_beyond_the_clock_is_the_running_total() -> None:
    mechanism = make(1000, 64)
    assert mechanism.state_bytes() < 64 * 2 * 8 + 300
    worst = mechanism.noise_scale * math.sqrt(mechanism.factor(np.array([63]), 1000)[0])
    assert worst <= 1.004 * fit_tables.optimum(64)


@pytest.mark.parametrize(("over", "horizon"), [(2, None), (3, None), (50, 40)])
def test_sums_are_exact_and_in_two_limbs(over: int, horizon: int | None) -> None:
    mechanism = make(over, horizon)
    leaves = np.random.default_rng(1).integers(-(2**40), 2**40, (40, 5, 2))
    leaves[::4] = 2**62 - 1
    leaves[:, 0] >>= 30  # small enough for float64: exact
    state, at, parts = mechanism.init(5), 0, []
    for n in (1, 9, 30):
        state, out = mechanism.step(state, leaves[at : at + n], NoNoise(at))
        parts.append(out[0])
        at += n
    out = np.concatenate(parts)
    for t in range(40):
        exact = [sum(int(v) for v in leaves[max(0, t - over + 1) : t + 1, k, 0]) for k in range(5)]
        np.testing.assert_allclose(out[t, :, 0], np.array(exact, dtype=np.float64), rtol=1e-15)


def test_strides_and_blocks_change_no_bit() -> None:
    mechanism = make(10)
    leaves = np.random.default_rng(0).integers(-5, 6, (70, 5, 2))
    _, whole = mechanism.step(mechanism.init(5), leaves, KeyedNoise(ROOT, 0, KEYS, 0))
    state, parts, at = mechanism.init(1), [], 0
    for n in (1, 5, 64):
        source = KeyedNoise(ROOT, 0, KEYS[2:3], at)
        state, out = mechanism.step(state, leaves[at : at + n, 2:3], source)
        parts.append(out[0])
        at += n
    np.testing.assert_array_equal(np.concatenate(parts)[:, 0], whole[0][:, 2])


def test_serves_one_number_of_ticks() -> None:
    assert SlidingSum.serves((7,))
    for overs in ((), (None,), (None, 7), (3, 7)):
        assert not SlidingSum.serves(overs)
    with pytest.raises(ConfigError):
        make(None)


@pytest.mark.slow
def test_fitting_again_finds_nothing_better() -> None:
    error = fit_tables.sliding_error(32)
    again = fit_tables.fits(error, 32)[-1]
    table = min(fit_tables.log_error(error, form) for form in SLIDING)
    assert table == pytest.approx(again.error, abs=2e-4)

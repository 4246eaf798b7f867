"""BLT noise: the table of errors, graded expiration, calibration, and the fit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tests.dpcore.continual import fit_tables
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.blt import FOREVER, Blt, chosen
from weir.dpcore.continual.tables import WINDOWS
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROOT = RootKey.derive(b"s" * 32, "test", b"d" * 32)
KEYS = [f"key {i}".encode() for i in range(7)]


def make(
    window: int | None = 64,
    horizon: int | None = None,
    overs: tuple[int | None, ...] = (None, 5),
    scales: tuple[float, ...] = (2.0**20, 0.0, 2.0**18),
    mu: float = 1.0,
    buffers: int | None = None,
) -> Blt:
    return Blt.calibrated(
        dimension=len(scales),
        scales=scales,
        sensitivity=1.0,
        overs=overs,
        window=window,
        horizon=horizon,
        budget=PrivacyLoss("gdp", mu),
        buffers=buffers,
    )


def noise(first_tick: int, keys: Sequence[bytes] = KEYS) -> KeyedNoise:
    return KeyedNoise(ROOT, 0, keys, first_tick)


def worst(mechanism: Blt, ticks: int) -> float:
    """Error at a tick, per unit Delta / mu (mu = Delta = 1)."""
    return mechanism.noise_scale * math.sqrt(
        float(mechanism.factor(np.array([ticks - 1]), None)[0])
    )


@pytest.mark.parametrize(
    ("window", "error"), [(1, 1.0), (64, 2.42), (256, 2.86), (1024, 3.31), (4096, 3.76)]
)
def test_worst_error_at_a_window(window: int, error: float) -> None:
    mechanism = make(window)
    assert worst(mechanism, 2**30) <= error * (1 + 1e-8)
    assert mechanism.loss(window).value <= 1.0
    assert mechanism.loss(window).value == pytest.approx(1.0, rel=1e-12)


def test_error_of_a_stream_that_ends_with_its_window() -> None:
    for window in (64, 1000, 4096):
        assert worst(make(window, window), window) <= 1.004 * fit_tables.optimum(window)


def test_perpetual_error_in_constant_state() -> None:
    mechanism = make(None)
    assert mechanism.form.theta and len(mechanism.form.theta) == 5
    assert worst(mechanism, 2**10) <= 3.9
    assert worst(mechanism, 2**20) <= 6.3
    assert mechanism.loss(None) == mechanism.loss(FOREVER) == mechanism.loss(2 * FOREVER)
    assert mechanism.loss(None).value == pytest.approx(1.0, rel=1e-12)


def test_state_is_three_vectors_at_a_window_of_1024() -> None:
    own = make(1024, scales=(1.0, 1.0)).init(1).own
    assert own.buffers.shape == (1, 2, 4), "and what is carried, which is 0 here"


def test_expiration_is_graded() -> None:
    mechanism = make(1024, mu=gdp_mu(1.0, 1e-6))
    table = [mechanism.loss(n * 1024).epsilon(1e-6) for n in (1, 2, 10, 100)]
    for epsilon, bound in zip(table, (1.0, 1.11, 1.80, 5.7), strict=True):
        assert 0.9 * bound <= epsilon <= bound
    assert math.isinf(mechanism.loss(None).value)
    assert mechanism.loss(0).value == 0


def test_nothing_is_lost_after_the_end() -> None:
    mechanism = make(64, 200)
    assert mechanism.loss(None) == mechanism.loss(200) == mechanism.loss(10**9)
    assert make(500, 200) == make(200, 200) == make(None, 200)
    with pytest.raises(WeirError):
        mechanism.step(mechanism.init(7), np.zeros((5, 7, 3), np.int64), noise(196))


def test_loss_is_that_of_the_dense_factorization() -> None:
    n, mechanism = 300, make(50)
    b = mechanism.materialize(n)
    c = np.linalg.solve(b, np.tril(np.ones((n, n))))
    for ticks in (1, 50, 51, 299):
        dense = np.linalg.norm(c[:ticks, 0]) / mechanism.noise_scale
        assert dense <= mechanism.loss(ticks).value <= dense * (1 + 1e-8)
    difference = b.copy()
    difference[9:] -= b[:-9]
    ticks_ = np.arange(n)
    np.testing.assert_allclose(mechanism.factor(ticks_, None), (b**2).sum(1), rtol=1e-10)
    np.testing.assert_allclose(mechanism.factor(ticks_, 9), (difference**2).sum(1), rtol=1e-10)


def test_strides_and_blocks_change_no_bit() -> None:
    mechanism = make(1024)
    leaves = np.random.default_rng(0).integers(-5, 6, (130, 7, 3))
    leaves[20:40] = 0
    _, whole = mechanism.step(mechanism.init(7), leaves, noise(0))
    state, parts, at = mechanism.init(7), [], 0
    for n in (1, 2, 64, 63):
        state, out = mechanism.step(state, leaves[at : at + n], noise(at))
        parts.append(out)
        at += n
    for i in range(2):
        np.testing.assert_array_equal(np.concatenate([part[i] for part in parts]), whole[i])
    _, alone = mechanism.step(mechanism.init(1), leaves[:, 3:4], noise(0, KEYS[3:4]))
    np.testing.assert_array_equal(alone[0][:, 0], whole[0][:, 3])


def test_a_public_coordinate_is_exact() -> None:
    mechanism = make()
    leaves = np.ones((20, 7, 3), dtype=np.int64)
    _, (totals, last) = mechanism.step(mechanism.init(7), leaves, noise(0))
    np.testing.assert_array_equal(totals[:, :, 1], np.arange(1.0, 21.0)[:, None] * np.ones(7))
    np.testing.assert_array_equal(
        last[:, :, 1], np.minimum(np.arange(1, 21), 5)[:, None] + 0 * last[:, :, 1]
    )
    assert (totals[:, :, 0] != np.arange(1.0, 21.0)[:, None]).all()


def test_windows_between_powers_of_two_are_nearly_as_good() -> None:
    for window in (3, 5, 90, 700, 3000, 50_000):
        form, count, _ = chosen(window, None)
        error = math.sqrt(form.record_squares(count) * form.noise_squares(None))
        above = 2 ** math.ceil(math.log2(window))
        form, count, _ = chosen(above, None)
        assert error < math.sqrt(form.record_squares(count) * form.noise_squares(None))


def test_buffers_can_be_limited() -> None:
    assert len(make(2**20, buffers=2).form.theta) == 2
    assert worst(make(1024, buffers=2), 2**30) <= 3.345
    assert len(make(None, buffers=3).form.theta) <= 3


def test_refuses() -> None:
    for given in ({"buffers": 0}, {"overs": ()}, {"scales": (2.0**59,)}, {"mu": 0.0}):
        with pytest.raises(ConfigError):
            make(**given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        Blt.calibrated(
            dimension=1,
            scales=(1.0,),
            sensitivity=1.0,
            overs=(None,),
            window=4,
            horizon=None,
            budget=PrivacyLoss("pure", 1.0),
        )


@pytest.mark.slow
@pytest.mark.parametrize("window", [8, 128])
def test_fitting_again_finds_nothing_better(window: int) -> None:
    error = fit_tables.window_error(window)
    again = fit_tables.fits(error, window)[-1]
    table = min(fit_tables.log_error(error, form) for form in WINDOWS)
    assert table == pytest.approx(again.error, abs=2e-4)
    assert fit_tables.log_error(error, again.form()) == pytest.approx(again.error, abs=1e-6)

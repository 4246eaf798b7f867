"""Closed forms of rational noise against filters and dense sums."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from weir.dpcore.continual.rational import Rational, round_up
from weir.dpcore.continual.tables import PERPETUAL, SLIDING, WINDOWS
from weir.dpcore.errors import WeirError

TABLES = (*WINDOWS, *SLIDING, PERPETUAL)
SOME = (Rational((), ()), *WINDOWS[::7], *SLIDING[::9], PERPETUAL)


@pytest.mark.slow
@pytest.mark.parametrize("form", TABLES)
def test_b_times_c_is_ones(form: Rational) -> None:
    n = 600
    product = np.convolve(form.noise_coefficients(n), form.record_coefficients(n))[:n]
    np.testing.assert_allclose(product, 1.0, atol=1e-12)


@pytest.mark.parametrize("form", TABLES)
def test_tables_give_positive_non_increasing_coefficients(form: Rational) -> None:
    assert all(weight > 0 for weight in form.record_weights)  # a sum of decays, so for every k
    assert all(weight > 0 for weight in form.omega)
    assert all(0 < value < 1 for value in form.theta)
    c = form.record_coefficients(3000)
    assert (c > 0).all() and (np.diff(c) <= 0).all()


@pytest.mark.parametrize("form", SOME)
@pytest.mark.parametrize("lag", [None, 1, 7, 64])
def test_sums_of_squares_are_those_of_the_coefficients(form: Rational, lag: int | None) -> None:
    b, c = form.noise_coefficients(700), form.record_coefficients(700)
    if lag is not None:
        b[lag:] -= form.noise_coefficients(700 - lag)
        c[lag:] -= form.record_coefficients(700 - lag)
    counts = np.array([1, 2, 6, 7, 8, 63, 64, 65, 66, 700])
    expected = np.cumsum(b**2)[counts - 1]
    np.testing.assert_allclose(form.noise_squares_at(counts, lag), expected, rtol=1e-11)
    exact = [float(form.noise_squares(int(n), lag)) for n in counts]
    np.testing.assert_allclose(exact, expected, rtol=1e-11)
    records = [float(form.record_squares(int(n), lag)) for n in counts]
    np.testing.assert_allclose(records, np.cumsum(c**2)[counts - 1], rtol=1e-11)


def test_the_stream_of_buffers_has_the_coefficients() -> None:
    form = WINDOWS[-1]
    buffers, impulse = np.zeros(len(form.theta)), [1.0] + [0.0] * 199
    out = []
    for unit in impulse:
        out.append(unit + float(np.dot(form.omega, buffers)))
        buffers = np.asarray(form.theta) * buffers + unit
    np.testing.assert_allclose(out, form.noise_coefficients(200), rtol=1e-12)


def test_limits() -> None:
    form = WINDOWS[20]
    assert math.isinf(form.record_squares(None))
    assert form.record_squares(0) == form.noise_squares(0) == 0
    near = float(form.noise_squares(10**9))
    assert near == pytest.approx(float(form.noise_squares(None)), rel=1e-12)
    assert float(form.record_squares(2**40, 100)) == pytest.approx(
        float(form.record_squares(None, 100)), rel=1e-12
    )


def test_a_trillion_ticks_agree_with_expm1() -> None:
    n = 2**40
    weights = [float(w) for w in PERPETUAL.record_weights]
    logs = [0.0, *(math.log1p(-q) for q in PERPETUAL.zeros)]
    total = 0.0
    for left, one in zip(logs, weights, strict=True):
        for right, two in zip(logs, weights, strict=True):
            pair = left + right
            total += one * two * (math.expm1(n * pair) / math.expm1(pair) if pair else n)
    assert float(PERPETUAL.record_squares(n)) == pytest.approx(total, rel=1e-11)


def test_round_up_never_rounds_down() -> None:
    for n in (3, 1000, 2**30):
        exact = WINDOWS[9].record_squares(n)
        assert Fraction(round_up(exact)) >= Fraction(exact)
        assert round_up(exact) == pytest.approx(float(exact), rel=1e-15)


@pytest.mark.parametrize(
    ("poles", "zeros"),
    [
        ((0.5,), (0.25,)),
        ((0.25, 0.5), (0.75, 0.375)),
        ((0.25,), (1.0,)),
        ((0.0,), (0.5,)),
        ((2.0**-60,), (0.5,)),
    ],
)
def test_refuses_what_does_not_interlace_or_is_not_exact(
    poles: tuple[float, ...], zeros: tuple[float, ...]
) -> None:
    with pytest.raises(WeirError):
        Rational(poles, zeros)

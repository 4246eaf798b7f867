from __future__ import annotations

from decimal import Decimal, localcontext

import pytest

from weir.dpcore.noise.acceptance import exp_bounds, log2_above


@pytest.mark.parametrize("bits", [8, 64, 200])
@pytest.mark.parametrize(
    ("numerator", "denominator"),
    [
        (1, 1),
        (1, 2),
        (1, 10**30),
        (7, 3),
        (355, 113),
        (2950, 1),
        (10**6 + 1, 10**3),
        (3**80, 2**120),
    ],
)
def test_bounds_are_right_and_tight(numerator, denominator, bits):
    low, high = exp_bounds(numerator, denominator, bits)
    with localcontext() as context:
        context.prec = 200
        exact = (-Decimal(numerator) / Decimal(denominator)).exp() * Decimal(2**bits)
        assert Decimal(low) <= exact <= Decimal(high)
    assert high - low <= 2


def test_zero_is_exact():
    assert exp_bounds(0, 5, 70) == (2**70, 2**70)


@pytest.mark.parametrize("bad", [(-1, 1, 8), (1, 0, 8), (1, 1, 0)])
def test_bad_arguments(bad):
    with pytest.raises(ValueError, match="exp_bounds"):
        exp_bounds(*bad)


@pytest.mark.parametrize("bits", [0, 1, 55, 100])
@pytest.mark.parametrize(
    ("numerator", "denominator"),
    [(3, 2), (2**62, 2**61 + 1), (10**9, 7), (2**62, 2**62 - 1), (271828, 100000), (5, 3)],
)
def test_logarithms_are_above_and_tight(numerator, denominator, bits):
    with localcontext() as context:
        context.prec = 200
        exact = (Decimal(numerator) / Decimal(denominator)).ln() / Decimal(2).ln() * 2**bits
        assert 0 <= log2_above(numerator, denominator, bits) - exact < Decimal("1.01")


@pytest.mark.parametrize("power", [0, 1, 62])
def test_logarithms_of_powers_of_two_are_exact(power):
    assert log2_above(3 << power, 3, 55) == power << 55


@pytest.mark.parametrize("bad", [(1, 2, 8), (1, 0, 8), (2, 1, -1)])
def test_bad_arguments_of_logarithms(bad):
    with pytest.raises(ValueError, match="log2_above"):
        log2_above(*bad)

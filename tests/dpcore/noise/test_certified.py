from __future__ import annotations

from decimal import Decimal, localcontext

import pytest

from dpcore.noise.certified import exp_bounds


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

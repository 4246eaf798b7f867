from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from weir.dpcore.noise import acceptance as module
from weir.dpcore.noise.acceptance import (
    HEIGHT_BITS,
    MARGIN,
    MAX_SHIFT,
    PROBABILITY_BITS,
    Constants,
    acceptance,
    envelope,
    exp_bounds,
)

DERIVED = 483
"""What the docstring of ``acceptance`` arrives at, in units of 2^-32."""

NARROWEST = [25 * 4**k // 36 for k in (3, 14, 29)]  # t just above 0.6 sigma
WIDEST = [25 * 4**k // 36 + 1 for k in (3, 14, 29)]  # t just below 1.2 sigma
SPREAD = [1, 2, 3, 4, 5, 10, 10**3, 10**6, 10**12, 2**80, *NARROWEST, *WIDEST]


def bounds(variance: int, bucket: int, magnitude: int) -> tuple[Fraction, Fraction]:
    """2^32 times the true probability, from both sides."""
    bits = 160
    low, high = exp_bounds(magnitude**2, 2 * variance, bits)
    unit = Fraction(
        envelope(variance).height << PROBABILITY_BITS << bucket, 1 << HEIGHT_BITS + bits
    )
    return low * unit, high * unit


def inputs(variance: int) -> tuple[np.ndarray, np.ndarray]:
    """Corners of each bucket, and random ones where acceptance is likely. -> reach, bucket"""
    shift = envelope(variance).shift
    width = 1 << shift
    corners = {0, 1, width // 3, width // 2, width - 1, width}
    cells = [(reach, bucket) for bucket in range(63 - shift) for reach in sorted(corners)]
    random = np.random.default_rng(variance % 1009)
    cells += zip(
        random.integers(0, width + 1, 300).tolist(),
        random.integers(0, 6, 300).tolist(),
        strict=True,
    )
    reach, bucket = np.array(cells, dtype=np.uint64).T.copy()
    return reach, bucket


@pytest.mark.slow
@pytest.mark.parametrize("variance", SPREAD)
def test_true_chances_lie_between_the_bounds(variance):
    reach, bucket = inputs(variance)
    got = acceptance(reach, bucket, Constants.of([variance]))
    assert got.dtype == np.uint64
    worst = Fraction(0)
    for r, v, q in zip(reach.tolist(), bucket.tolist(), got.tolist(), strict=True):
        low, high = bounds(variance, v, (v << envelope(variance).shift) + r)
        assert q <= low
        worst = max(worst, high - q)
    assert worst < DERIVED < MARGIN
    assert worst > 20  # the bound is of the right kind: most of it can be lost


def test_far_buckets_have_no_chance():
    bucket = np.arange(15, 65, dtype=np.uint64)
    for variance in SPREAD:
        assert not acceptance(np.zeros_like(bucket), bucket, Constants.of([variance])).any()
        assert bounds(variance, 15, 15 << envelope(variance).shift)[1] < 1


def test_steps_agree_with_the_same_steps_in_long_integers():
    """Nothing overflows: every variable of ``acceptance`` without a word size."""
    for variance in SPREAD:
        reach, bucket = inputs(variance)
        constants = Constants.of([variance])
        c, start = int(constants.curvature[0]), int(constants.start[0])
        got = acceptance(reach, bucket, constants)
        for r, v, q in zip(reach.tolist(), bucket.tolist(), got.tolist(), strict=True):
            v = min(v, 14)
            a = (r << 28 >> envelope(variance).shift) + 1 + (v << 28)
            b = a * a >> 31
            exponent = b * c + start - (v << 55)
            assert a < 2**32 and b * c < 2**63 and b * c + start < 2**64 and exponent >= 31 << 55
            whole, fraction = divmod(exponent >> 23, 1 << 32)
            step, rest = divmod(fraction, 1 << 21)
            tangent = (1 << 32) - 1 - (rest * int(module._LN2) >> 32)
            product = int(module.POWERS[step]) * tangent
            assert product < 2**63
            assert q == product >> whole


def test_constants_are_rounded_up_and_close():
    with localcontext() as context:
        context.prec = 120
        ln2 = Decimal(2).ln()
        assert 0 <= int(module._LN2) - ln2 * 2**32 < 1
        for variance in SPREAD:
            shape = envelope(variance)
            shift, mask, lift, curvature, start = module._constants(variance)
            assert (shift, mask, lift) == (shape.shift, 2**shape.shift - 1, 40 - shape.shift)
            c = Decimal(4**shift) / (2 * variance) / ln2
            assert Decimal("0.2596") < c < Decimal("1.0388")
            assert 0 <= curvature - c * 2**30 < Decimal("1.01")
            log_height = -(Decimal(shape.height) / 2**HEIGHT_BITS).ln() / ln2
            rest = start - curvature - (2**23 - 1) - (31 << 55)
            assert 0 <= rest - log_height * 2**55 < Decimal("1.01")
            assert log_height < 1
    assert envelope(2**80).shift == MAX_SHIFT


@pytest.mark.slow
def test_powers_are_rounded_down_by_less_than_a_unit():
    with localcontext() as context:
        context.prec = 60
        for i, power in enumerate(module.POWERS.tolist()):
            exact = Decimal(2) ** (31 - Decimal(i) / 2048)
            assert 0 <= exact - power < 1
    assert len(module.POWERS) == 2048


def test_derivation_of_the_margin():
    """The numbers that the docstring of ``acceptance`` quotes."""
    s = np.linspace(0, 20, 20001)
    chance = np.minimum(1, 2 ** (s - 0.2596 * s**2))
    assert (chance * s).max() <= 4
    assert (chance * s**2).max() <= 16
    exponent = 0.6932 * (1.04 * (128 + 8 * 16 + 1) + 4.04 * 16 + 1.01)
    tangent = (math.log(2) / 2048) ** 2 / 2 * 2**32
    assert exponent < 231 and tangent < 246.1
    assert DERIVED > 231 + 2 + 246.1 + 2 + 1


def test_constants_of_each_element():
    alike = Constants.of([7, 7, 7])
    assert alike.at(np.array([2, 0])) is alike
    assert alike.shift.shape == (1,)
    mixed = Constants.of([1, 2**80]).at(np.array([1, 0, 1]))
    assert mixed.shift.tolist() == [40, 0, 40]
    assert all(field.dtype == np.uint64 for field in (*alike, *mixed))

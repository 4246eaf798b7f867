from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from weir.dpcore.noise import acceptance as module
from weir.dpcore.noise.acceptance import (
    MARGIN,
    NUMBERS,
    OFFSET_BITS,
    PROBABILITY_BITS,
    TABLE,
    Rows,
    envelope,
    exp_bounds,
    exponential,
    strip_counts,
)

DERIVED = 377
"""What the docstring of ``exponential`` arrives at, in units of 2^-32."""

NARROWEST = [25 * 4**k // 36 for k in (3, 14, 29)]  # t just above 0.6 sigma
WIDEST = [25 * 4**k // 36 + 1 for k in (3, 14, 29)]  # t just below 1.2 sigma
STEPS = [1023, 1024, 1025, 4096, 4097, 2**22, 2**22 + 1, 2**24 - 1, 2**24 + 1]  # of the width
SPREAD = [1, 2, 3, 4, 5, 10, 10**3, 10**6, 10**12, 2**80, *NARROWEST, *WIDEST, *STEPS]


def bounds(variance: int, magnitude: int, bits: int = 160) -> tuple[Fraction, Fraction]:
    """2^32 exp(-m^2 / 2 S) from both sides."""
    low, high = exp_bounds(magnitude**2, 2 * variance, bits)
    unit = Fraction(1 << PROBABILITY_BITS, 1 << bits)
    return low * unit, high * unit


def width_of_t(variance: int) -> int:
    """t: 0.6 sigma < t <= 1.2 sigma."""
    return 1 << 40 - module._curve(variance)[0]


def magnitudes(variance: int) -> list[int]:
    """Ends of each strip and next to them, multiples of t, and random ones where p is not 0."""
    shape, t = envelope(variance), width_of_t(variance)
    width = shape.step << shape.shift
    ends = [i * width + d for i in range(0, len(shape.counts) + 1, 5) for d in (-1, 0, 1)]
    random = np.random.default_rng(variance % 1009)
    some = [*ends, *(v * t for v in range(16)), *random.integers(0, 5 * t + 1, 200).tolist()]
    return sorted({m for m in some if 0 <= m <= 15 * t})


@pytest.mark.slow
@pytest.mark.parametrize("variance", SPREAD)
def test_true_chances_lie_between_the_bounds(variance):
    some = magnitudes(variance)
    got = exponential(np.array(some, dtype=np.uint64), *module._curve(variance))
    assert got.dtype == np.uint64
    worst = Fraction(0)
    for m, q in zip(some, got.tolist(), strict=True):
        low, high = bounds(variance, m)
        assert q <= low
        worst = max(worst, high - q)
    assert worst < DERIVED < MARGIN
    assert worst > 20  # the bound is of the right kind: most of it can be lost


def test_steps_agree_with_the_same_steps_in_long_integers():
    """Nothing overflows: every variable of ``exponential`` without a word size."""
    for variance in SPREAD:
        some = magnitudes(variance)
        _, c, start = module._curve(variance)
        got = exponential(np.array(some, dtype=np.uint64), *module._curve(variance))
        for m, q in zip(some, got.tolist(), strict=True):
            a = (m << 28) // width_of_t(variance) + 1
            b = a * a >> 31
            exponent = b * c + start
            assert a < 2**32 and b * c < 2**63 and exponent < 2**64
            whole, fraction = divmod(exponent >> 23, 1 << 32)
            step, rest = divmod(fraction, 1 << 21)
            tangent = (1 << 32) - 1 - (rest * int(module._LN2) >> 32)
            product = int(module.POWERS[step]) * tangent
            assert product < 2**63 and whole >= 31
            assert q == product >> whole


def test_constants_are_rounded_up_and_close():
    with localcontext() as context:
        context.prec = 120
        ln2 = Decimal(2).ln()
        assert 0 <= int(module._LN2) - ln2 * 2**32 < 1
        for variance in SPREAD:
            t, (lift, curvature, start) = width_of_t(variance), module._curve(variance)
            assert Fraction(9, 25) * variance < t * t <= Fraction(36, 25) * variance and lift >= 0
            c = Decimal(t * t) / (2 * variance) / ln2
            assert Decimal("0.2596") < c < Decimal("1.0388")
            assert 0 <= curvature - c * 2**30 < Decimal("1.01")
            assert start == curvature + 2**23 - 1 + (31 << 55)
    assert width_of_t(2**80) == 2**40


@pytest.mark.slow
def test_powers_are_rounded_down_by_less_than_a_unit():
    with localcontext() as context:
        context.prec = 60
        for i, power in enumerate(module.POWERS.tolist()):
            exact = Decimal(2) ** (31 - Decimal(i) / 2048)
            assert 0 <= exact - power < 1
    assert len(module.POWERS) == 2048


def test_derivation_of_the_margin():
    """The numbers that the docstring of ``exponential`` quotes."""
    s = np.linspace(0, 20, 20001)
    chance = 2 ** (-0.2596 * s**2)
    assert (chance * s).max() <= 1.02
    assert (chance * s**2).max() <= 2.05
    exponent = 0.6932 * (1.04 * (128 + 32 * 1.02 + 1) + 4.04 * 2.05 + 1.01 + 1)
    tangent = (math.log(2) / 2048) ** 2 / 2 * 2**32
    assert exponent < 125 and tangent < 246.1
    assert DERIVED > 125 + 2 + 246.1 + 2 + 1


@pytest.mark.slow
def test_every_strip_is_proposed_as_often_as_needed():
    """The certificate n_i >= n_0 exp(-i^2 / 2 R), of every R there is, and that it is tight."""
    for ratio in range(1, 1025):
        counts = strip_counts(ratio)
        assert len(counts) == math.isqrt(225 * ratio // 4) + 1 <= 241
        assert sum(counts) < TABLE and min(counts) >= 1 and counts[0] < 2**12.4
        for i, count in enumerate(counts):
            low, high = exp_bounds(i * i, 2 * ratio, 80)
            assert count << 80 >= counts[0] * high
            assert (count - 1) << 80 <= counts[0] * (low + (2 * MARGIN << 48))
        more = [-(-(counts[0] + 1) * exp_bounds(i * i, 2 * ratio, 80)[1] >> 80)
                for i in range(len(counts))]  # fmt: skip
        assert sum(more) >= TABLE - 2, "one more of each would still have room"


@pytest.mark.parametrize("variance", SPREAD)
def test_an_envelope_is_above_and_reaches_no_further_than_is_computed(variance):
    shape = envelope(variance)
    width = shape.step << shape.shift
    ratio = next(r for r in range(1, 1025) if strip_counts(r) == shape.counts)
    assert ratio * width**2 >= variance
    assert (width - 1) ** 2 * 1024 * 65**2 < variance * 66**2  # no wider than it has to be
    assert len(shape.counts) * width <= 15 * width_of_t(variance)
    assert 4 * Fraction(len(shape.counts) * width**2, variance) >= Fraction(30, 32)
    assert shape.step <= 128 and (shape.shift == 0 or shape.step >= 64)
    assert (1 << OFFSET_BITS - shape.shift) * shape.step < 2**64 and OFFSET_BITS - shape.shift >= 21
    tail = TABLE - sum(shape.counts)
    entries = np.bincount(shape.table, minlength=len(shape.counts) + 1)
    assert entries.tolist() == [*shape.counts, tail] and tail >= 1


@pytest.mark.parametrize("variance", SPREAD)
def test_bounds_of_strips_are_those_of_their_ends(variance):
    rows = Rows.for_variances([variance])
    shape = envelope(variance)
    width, n = shape.step << shape.shift, len(shape.counts)
    assert rows.numbers[0, 6:9].tolist() == [width, 0, n]
    for i, count in enumerate(shape.counts):
        low, high = divmod(int(rows.bounds[0, i]), 1 << 32)
        scale = Fraction(shape.counts[0], count)
        least, most = bounds(variance, (i + 1) * width)[0], bounds(variance, i * width)[1]
        assert low <= least * scale < low + MARGIN * scale + 1
        assert high == 2**32 - 1 or most * scale <= high + 1 <= (most + MARGIN) * scale + 1
        assert int(rows.counts[0, i]) == count
    assert int(rows.bounds[0, n]) == MARGIN - 1
    tail = TABLE - sum(shape.counts)
    for v in range(12):
        far = bounds(variance, (n + 4 * v) * width, 400)[1]
        assert far * shape.counts[0] * 2 ** (v + 3) < MARGIN * tail


def test_rows_of_each_coordinate():
    alike = Rows.for_variances([7, 7, 7])
    assert len(alike.numbers) == len(alike.tables) == 1 and alike.of.tolist() == [0, 0, 0]
    mixed = Rows.for_variances([1, 2**80, 1, 2**78])
    assert mixed.of.tolist() == [0, 1, 0, 2]
    assert mixed.numbers[:, 0].tolist() == [0, 29, 28]
    assert mixed.numbers[:, 7].tolist() == [0, 1, 1]  # wide ones share a table
    assert mixed.alone(3).of.tolist() == [2]
    assert mixed.numbers.shape == (3, NUMBERS + 512)
    assert mixed.numbers.dtype == np.uint64 and mixed.tables.dtype == np.uint8

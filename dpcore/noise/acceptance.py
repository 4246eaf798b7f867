"""Acceptance of exact samplers: bounds of the exponential, envelopes, and tests."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints


def exp_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Integers low <= 2^bits * exp(-numerator / denominator) <= high.

    They differ by 2 at most, and not at all where the argument is 0. Every step is an interval with
    its ends rounded outward: halve the argument until it is below 1/2, add the Taylor series, whose
    terms alternate and fall, so that what is left out is below the first term left out; square
    back.

    Args:
      numerator: >= 0.
      denominator: > 0.
      bits: > 0, absolute precision.
    """
    if numerator < 0 or denominator <= 0 or bits <= 0:
        raise ValueError("exp_bounds needs numerator >= 0, denominator > 0, bits > 0.")
    if numerator == 0:
        return 1 << bits, 1 << bits
    halvings = max(0, numerator.bit_length() - denominator.bit_length() + 2)
    precision = bits + 2 * halvings + 64
    item = 1 << precision
    low_x = (numerator << precision) // (denominator << halvings)
    high_x = low_x + 1
    low_sum = high_sum = low_term = high_term = item
    order = 0
    while high_term > 1:
        order += 1
        low_term = (low_term * low_x >> precision) // order
        high_term = -((-high_term * high_x >> precision) // order)
        if order % 2:
            low_sum, high_sum = low_sum - high_term, high_sum - low_term
        else:
            low_sum, high_sum = low_sum + low_term, high_sum + high_term
    low_sum, high_sum = low_sum - high_term, high_sum + high_term
    for _ in range(halvings):
        low_sum = low_sum * low_sum >> precision
        high_sum = -(-high_sum * high_sum >> precision)
    shift = precision - bits
    return low_sum >> shift, -(-high_sum >> shift)


def log2_above(numerator: int, denominator: int, bits: int) -> int:
    """An integer L with log2(numerator / denominator) <= L / 2^bits < log2(...) + 1.01 / 2^bits.

    Bit by bit: squaring doubles the logarithm, and a square of 2 or more gives a bit and is halved.
    All roundings go up. Each is at most 2^-(2 bits + 64) of its number and doubles with every later
    squaring, so together they stay far below a hundredth of the last bit.

    Args:
      numerator: >= denominator.
      denominator: > 0.
      bits: >= 0, bits after the point.
    """
    if not numerator >= denominator > 0 or bits < 0:
        raise ValueError("log2_above needs numerator >= denominator > 0, bits >= 0.")
    out = (numerator // denominator).bit_length() - 1
    precision = 2 * bits + 64
    item = 1 << precision
    rest = -((-numerator << precision) // (denominator << out))
    for _ in range(bits):
        rest = -(-rest * rest >> precision)
        out <<= 1
        if rest >= 2 * item:
            rest = -(-rest >> 1)
            out += 1
    return out + (rest > item)


HEIGHT_BITS = 62
"""Heights of envelopes are whole numbers of 2^-62."""


class HalvingEnvelope(NamedTuple):
    """Piecewise-constant envelope of exp(-y^2 / 2 S), halving from one bucket to the next.

    Attributes:
      shift: buckets have width t = 2^shift, 0.6 sigma < t <= 1.2 sigma.
      height: height * 2^-62 <= 2^-v exp(t^2 v^2 / 2 S) for every bucket v >= 0.
      variance: S = sigma^2.
    """

    shift: int
    height: int
    variance: int


@functools.lru_cache(maxsize=4096)
def envelope(variance: int) -> HalvingEnvelope:
    """The envelope for sigma^2 = variance >= 1, with a certified height.

    With t >= 0.6 sigma, t^2 v^2 / 2 S >= 0.18 v^2 > v ln 2 for v >= 4, so the least of
    2^-v exp(t^2 v^2 / 2 S), which is 1 at v = 0, lies among v < 4.
    """
    shift = 0
    while 25 * 4 ** (shift + 1) <= 36 * variance:
        shift += 1
    height = 1 << HEIGHT_BITS
    for v in range(1, 4):
        _, high = exp_bounds(v * v * 4**shift, 2 * variance, 200)
        height = min(height, (1 << (HEIGHT_BITS + 200)) // (high << v))
    return HalvingEnvelope(shift, height, variance)


def settle(
    shape: HalvingEnvelope, low: int, high: int, extend: Callable[[int], tuple[int, int]]
) -> int | None:
    """One attempt in exact integer arithmetic.

    Args:
      shape: the envelope.
      low: the block's first word: offset, sign, then the bits whose trailing zeros are counted.
      high: the block's second word: first 64 bits of the uniform number.
      extend: number >= 1 -> (64 more bits to count zeros in, 64 more bits of the uniform number).

    Returns:
      The sample, or None when the attempt is rejected.
    """
    offset = low & ((1 << shape.shift) - 1)
    sign = low >> shape.shift & 1
    bits, bucket, width, number = low >> (shape.shift + 1), 0, 63 - shape.shift, 0
    while not bits:
        number += 1
        bucket, width, bits = bucket + width, 64, extend(number)[0]
    bucket += (bits & -bits).bit_length() - 1
    y = offset + (bucket << shape.shift)
    magnitude = y + sign
    uniform, have, number = high, 64, 0
    while True:
        bits = have + bucket + 64
        least, most = exp_bounds(magnitude * magnitude, 2 * shape.variance, bits)
        scale = HEIGHT_BITS + bits - bucket - have  # of uniform, against height * exp
        if uniform + 1 << scale <= shape.height * least:
            return -1 - y if sign else y
        if uniform << scale >= shape.height * most:
            return None
        number += 1
        uniform, have = uniform << 64 | extend(number)[1], have + 64


Wholes = NDArray[np.uint64]

PROBABILITY_BITS = 32
"""Probabilities are whole numbers of 2^-32."""

MARGIN = 512
"""One is below the truth by less than this, in units of 2^-32: derived in ``acceptance``."""

MAX_SHIFT = 40
"""Widest bucket, 2^40: that of sigma^2 = 2^80."""

_LAST_BUCKET = np.uint64(14)
_POINT = np.uint64(28)  # a magnitude's bits after the point, in bucket widths
_DROP = np.uint64(MAX_SHIFT - 28)
_SQUARE_DROP = np.uint64(31)
_CURVATURE_BITS = 30
_EXPONENT_BITS = 2 * 28 - 31 + _CURVATURE_BITS  # 55 after the point
_EXPONENT_POINT = np.uint64(_EXPONENT_BITS)
_FRACTION_DROP = np.uint64(_EXPONENT_BITS - PROBABILITY_BITS)
_STEP_BITS = 11
_STEP_DROP = np.uint64(_EXPONENT_BITS - _STEP_BITS)
_STEP_MASK = np.uint64((1 << _STEP_BITS) - 1)
_REST_MASK = np.uint64((1 << (PROBABILITY_BITS - _STEP_BITS)) - 1)
_POWER_BITS = 31
_PROBABILITY_POINT = np.uint64(PROBABILITY_BITS)
_ALMOST_ONE = np.uint64((1 << PROBABILITY_BITS) - 1)
_ONE, _LONGEST_SHIFT = np.uint64(1), np.uint64(63)

_LN2 = np.uint64(0xB17217F8)
"""ln 2 in units of 2^-32, rounded up."""


def _powers() -> Wholes:
    """2^(31 - i / 2048) rounded down, i < 2048.

    The root is 2^-1 after eleven integer square roots. Each of them and each product is rounded
    down by less than 2^-160, so that together they lose less than 2^-146.
    """
    bits = 160
    root = 1 << (bits - 1)
    for _ in range(_STEP_BITS):
        root = math.isqrt(root << bits)
    power, out = 1 << bits, []
    for _ in range(1 << _STEP_BITS):
        out.append(power >> (bits - _POWER_BITS))
        power = power * root >> bits
    return np.array(out, dtype=np.uint64)


POWERS = _powers()


class Constants(NamedTuple):
    """Of each coordinate, for vectorised attempts; each (C,), or (1,) where all are alike.

    Attributes:
      shift: log2 of the width t of a bucket.
      mask: t - 1.
      lift: 40 - shift.
      curvature: c = t^2 log2(e) / 2 S in units of 2^-30, rounded up.
      start: of the exponent, in units of 2^-55: see ``acceptance``.
    """

    shift: Wholes
    mask: Wholes
    lift: Wholes
    curvature: Wholes
    start: Wholes

    @classmethod
    def of(cls, variances: Sequence[int]) -> Constants:
        """Constants of coordinates with these variances, each in [1, 2^80]."""
        alike = len(set(variances)) == 1
        rows = [_constants(variance) for variance in (variances[:1] if alike else variances)]
        return cls(*np.array(rows, dtype=np.uint64).reshape(-1, 5).T.copy())

    def at(self, column: Ints) -> Constants:
        """Constants of each element. column: (n,) index of a coordinate."""
        if self.shift.size == 1:
            return self
        return Constants(*(field[column] for field in self))


@functools.cache
def _log2_e() -> int:
    """log2(e) in units of 2^-100, rounded up."""
    low, _ = exp_bounds(1, 1, 200)
    return log2_above(1 << 200, low, 100)


@functools.lru_cache(maxsize=4096)
def _constants(variance: int) -> tuple[int, int, int, int, int]:
    """(shift, mask, lift, curvature, start) of one coordinate."""
    shape = envelope(variance)
    shift = shape.shift
    curvature = -((-_log2_e() << 2 * shift) // (2 * variance << (100 - _CURVATURE_BITS)))
    start = log2_above(1 << HEIGHT_BITS, shape.height, _EXPONENT_BITS)
    start += curvature + int(_ONE << _FRACTION_DROP) - 1 + (_POWER_BITS << _EXPONENT_BITS)
    return shift, (1 << shift) - 1, MAX_SHIFT - shift, curvature, start


def acceptance(reach: Wholes, bucket: Wholes, constants: Constants) -> Wholes:
    """Probabilities q with q <= 2^32 p <= q + MARGIN, p = height 2^(v - 62) exp(-m^2 / 2 S).

    Here v is the bucket, m = t v + reach the magnitude of what is proposed, and p <= 1. With
    c = t^2 log2(e) / 2 S and s = m / t, p = 2^-E for E = c s^2 + log2(2^62 / height) - v >= 0. Each
    step rounds E up, then 2^-E down, so q <= 2^32 p. All numbers are uint64 and none overflows:
    0.36 < (t / sigma)^2 <= 1.44 gives 0.2596 < c < 1.0388. What the steps lose, v <= 14 first:

    1. a = floor(2^28 reach / t) + 1 + 2^28 v: 2^28 s < a <= 2^28 s + 1 and a <= 15 * 2^28 + 1.
    2. b = floor(a^2 / 2^31), a^2 < 2^63.82: 2^25 s^2 < b + 1 <= 2^25 s^2 + (2 s + 2^-28) / 8 + 1.
    3. c is rounded up to whole numbers of 2^-30, so by less than 1.01 * 2^-30, and (b + 1) c is a
       whole number of 2^-55. With step 2 it is above c s^2 by less than
       1.04 (2^-25 + (2 s + 2^-28) 2^-28) + 1.01 s^2 2^-30.
    4. E = b c + start - v. ``start`` holds c, log2(2^62 / height), below 1 and rounded up by less
       than 1.01 * 2^-55, and 2^-32 - 2^-55, which turns the cut after 32 bits into a rounding up
       by less than 2^-32. It also holds 31, the shift of step 6; so b c + start < 0.916 * 2^63 +
       33 * 2^55 < 2^64, and v is below it, as E >= 0.
    5. The fraction of E is i / 2048 + r. 2^(-i / 2048) comes from a table, of whole numbers of
       2^-31 rounded down: below the truth by less than 2 units of 2^-32. 2^-r >= 1 - r ln 2, and
       r < 2^-11 is a whole number of 2^-32: the tangent is below by less than (r ln 2)^2 / 2,
       246.1 units; ln 2 rounded up and the product rounded up cost less than 2 units.
    6. The product of the two, below 2^63, is shifted by 31 + floor(E), rounding down: 1 unit. A
       shift beyond 63 gives 0, as one by 63 does.

    Steps 1 to 4 raise E by D, which takes less than ln 2 * p D from p. p <= 1 and, because s >= v,
    p <= 2^(s - 0.2596 s^2); so p s^2 <= 16: where s <= 4 by the first, and beyond it 2^(s -
    0.2596 s^2) s^2 falls from 14.5 on. Likewise p s <= 4. Then 2^32 p D ln 2 <= 0.6932 (1.04 (128 +
    8 * 16 + 1) + 4.04 * 16 + 1.01) < 231 units. Together 231 + 2 + 246.1 + 2 + 1 < 483 < MARGIN.

    v >= 15 is treated as 14: then s >= 14 and E > 0.2596 * 196 - 14 > 36 gives q = 0, while
    p <= 2^(15 - 0.2596 * 225) < 2^-43 is less than a unit.

    Args:
      reach: (A, n) in [0, t].
      bucket: (A, n), v >= 0.
      constants: of each element, or one for all.

    Returns:
      (A, n) whole numbers of 2^-32, at most 2^32.
    """
    v = np.minimum(bucket, _LAST_BUCKET)
    a = reach << constants.lift
    a >>= _DROP
    a += _ONE
    a += v << _POINT
    a *= a
    a >>= _SQUARE_DROP
    a *= constants.curvature
    a += constants.start
    v <<= _EXPONENT_POINT
    a -= v
    rest = a >> _FRACTION_DROP
    rest &= _REST_MASK
    rest *= _LN2
    rest >>= _PROBABILITY_POINT
    out = _ALMOST_ONE - rest
    step = a >> _STEP_DROP
    step &= _STEP_MASK
    out *= POWERS.take(step.view(np.int64))
    a >>= _EXPONENT_POINT
    np.minimum(a, _LONGEST_SHIFT, out=a)
    out >>= a
    return out

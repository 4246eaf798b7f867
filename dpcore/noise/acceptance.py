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


Wholes = NDArray[np.uint64]

TABLE_BITS = 13
TABLE = 1 << TABLE_BITS
"""Entries that a strip is drawn from."""

OFFSET_BITS = 63 - TABLE_BITS
"""Bits of a word behind the entry and the sign."""

PROBABILITY_BITS = 32
"""Probabilities are whole numbers of 2^-32."""

MARGIN = 512
"""One is below the truth by less than this, in units of 2^-32: derived in ``exponential``."""

_MOST_RATIO = 1024
_STEP_LIMIT = 64
_POINT = 28  # bits of a magnitude after the point, in units of t
_MAX_SHIFT = 40  # t = 2^40: that of sigma^2 = 2^80
_SQUARE_DROP = 31
_CURVATURE_BITS = 30
_EXPONENT_BITS = 2 * _POINT - _SQUARE_DROP + _CURVATURE_BITS  # 55 after the point
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


@functools.cache
def _log2_e() -> int:
    """log2(e) in units of 2^-100, rounded up."""
    low, _ = exp_bounds(1, 1, 200)
    return log2_above(1 << 200, low, 100)


@functools.lru_cache(maxsize=4096)
def _curve(variance: int) -> tuple[int, int, int]:
    """What ``exponential`` needs of S = variance: (lift, curvature, start).

    For t = 2^(40 - lift), 0.6 sigma < t <= 1.2 sigma: curvature is c = t^2 log2(e) / 2 S in units
    of 2^-30, rounded up.
    """
    shift = 0
    while 25 * 4 ** (shift + 1) <= 36 * variance:
        shift += 1
    curvature = -((-_log2_e() << 2 * shift) // (2 * variance << (100 - _CURVATURE_BITS)))
    start = curvature + int(_ONE << _FRACTION_DROP) - 1 + (_POWER_BITS << _EXPONENT_BITS)
    return _MAX_SHIFT - shift, curvature, start


def exponential(
    magnitude: Wholes, lift: Wholes | int, curvature: Wholes | int, start: Wholes | int
) -> Wholes:
    """Probabilities q with q <= 2^32 p <= q + MARGIN, p = exp(-m^2 / 2 S).

    Let c = t^2 log2(e) / 2 S and s = m / t <= 15, so that p = 2^-E for E = c s^2. Each step rounds
    E up, then 2^-E down, so q <= 2^32 p. All numbers are uint64 and none overflows:
    0.36 < (t / sigma)^2 <= 1.44 gives 0.2596 < c < 1.0388.

    1. a = floor(2^28 m / t) + 1: 2^28 s < a <= 2^28 s + 1, below 2^32.
    2. b = floor(a^2 / 2^31), a^2 < 2^63.82: 2^25 s^2 < b + 1 <= 2^25 s^2 + (2 s + 2^-28) / 8 + 1.
    3. c is rounded up to whole numbers of 2^-30, so by less than 1.01 * 2^-30, and (b + 1) c is a
       whole number of 2^-55. With step 2 it is above c s^2 by less than
       1.04 (2^-25 + (2 s + 2^-28) 2^-28) + 1.01 s^2 2^-30.
    4. E = b c + start. ``start`` holds c, and 2^-32 - 2^-55, which turns the cut after 32 bits into
       a rounding up by less than 2^-32. It also holds 31, the shift of step 6; so E < 0.916 * 2^63
       + 33 * 2^55 < 2^64.
    5. The fraction of E is i / 2048 + r. 2^(-i / 2048) comes from a table, of whole numbers of
       2^-31 rounded down: below the truth by less than 2 units of 2^-32. 2^-r >= 1 - r ln 2, and
       r < 2^-11 is a whole number of 2^-32: the tangent is below by less than (r ln 2)^2 / 2,
       246.1 units; ln 2 rounded up and the product rounded up cost less than 2 units.
    6. The product of the two, below 2^63, is shifted by 31 + floor(E), rounding down: 1 unit. A
       shift beyond 63 gives 0, as one by 63 does.

    Steps 1 to 4 raise E by D, which takes less than ln 2 * p D from p. p <= 2^(-0.2596 s^2), so
    p s^2 <= 2.05 and p s <= 1.02. Then 2^32 p D ln 2 <= 0.6932 (1.04 (128 + 32 * 1.02 + 1) +
    4.04 * 2.05 + 1.01 + 1) < 125 units. Together 125 + 2 + 246.1 + 2 + 1 < 377 < MARGIN.

    Args:
      magnitude: m, whole numbers in [0, 15 t].
      lift, curvature, start: of S, one for all or of each; see ``_curve``.

    Returns:
      Whole numbers of 2^-32, at most 2^32.
    """
    a = magnitude << np.uint64(lift)
    a >>= np.uint64(_MAX_SHIFT - _POINT)
    a += _ONE
    a *= a
    a >>= np.uint64(_SQUARE_DROP)
    a *= np.uint64(curvature)
    a += np.uint64(start)
    rest = a >> _FRACTION_DROP
    rest &= _REST_MASK
    rest *= _LN2
    rest >>= _PROBABILITY_POINT
    out = _ALMOST_ONE - rest
    step = a >> _STEP_DROP
    step &= _STEP_MASK
    out *= POWERS.take(step.view(np.int64))
    a >>= np.uint64(_EXPONENT_BITS)
    np.minimum(a, _LONGEST_SHIFT, out=a)
    out >>= a
    return out


@functools.lru_cache(maxsize=1024)
def strip_counts(ratio: int) -> tuple[int, ...]:
    """Of how many table entries strip i is drawn, i < B: n_i.

    n_i >= n_0 exp(-i^2 / 2 R) for R = ratio, at least 1, and one entry or more is left for the
    tail. B = floor(7.5 sqrt(R)) + 1.
    """
    number = math.isqrt(225 * ratio // 4) + 1
    below = exponential(np.arange(number, dtype=np.uint64), *_curve(ratio)).tolist()
    heights = [min(chance + MARGIN, 1 << PROBABILITY_BITS) for chance in below]
    top = (TABLE << PROBABILITY_BITS) // sum(heights)
    while True:
        counts = [-(-top * height >> PROBABILITY_BITS) for height in heights]
        if sum(counts) < TABLE:
            return tuple(counts)
        top -= 1


class Envelope(NamedTuple):
    """A piecewise-constant envelope of exp(-y^2 / 2 S) over y >= 0: strips of equal width g.

    Strip i is [i g, (i + 1) g) and is proposed with probability n_i / 8192, i < B; all beyond, the
    tail, with what remains. Then n_0 exp(-y^2 / 2 S) <= n_i for every y of strip i, as
    n_0 exp(-i^2 / 2 R) <= n_i and R g^2 >= S.

    Attributes:
      variance: S = sigma^2.
      shift: g = step * 2^shift.
      step: in [64, 128] where shift > 0.
      counts: n_i, i < B.
      table: (8192,) which strip an entry stands for; B: the tail.
    """

    variance: int
    shift: int
    step: int
    counts: tuple[int, ...]
    table: NDArray[np.uint8]


@functools.lru_cache(maxsize=4096)
def envelope(variance: int) -> Envelope:
    """The envelope for sigma^2 = variance >= 1: sigma / g near 32, or g = 1."""
    width = math.isqrt((variance - 1) // _MOST_RATIO) + 1  # the least with 1024 g^2 >= S
    shift = max(0, width.bit_length() - _STEP_LIMIT.bit_length())
    step = -(-width >> shift)
    ratio = -(-variance // step**2) if width < _STEP_LIMIT else _MOST_RATIO
    return Envelope(variance, shift, step, strip_counts(ratio), _table(ratio))


@functools.lru_cache(maxsize=1024)
def _table(ratio: int) -> NDArray[np.uint8]:
    counts = strip_counts(ratio)
    table = np.full(TABLE, len(counts), dtype=np.uint8)
    table[: sum(counts)] = np.repeat(np.arange(len(counts), dtype=np.uint8), counts)
    table.setflags(write=False)
    return table


def settle(
    shape: Envelope, low: int, high: int, extend: Callable[[int], tuple[int, int]]
) -> int | None:
    """One attempt in exact integer arithmetic.

    Args:
      shape: the envelope.
      low: the block's first word: 13 bits for the entry of the table, the sign, 50 for the offset.
      high: the block's second word: first 64 bits of the uniform number.
      extend: number >= 1 -> (64 more bits for a place in the tail, 64 more of the uniform number).

    Returns:
      The sample, or None when the attempt is rejected.
    """
    strip, sign, rest = int(shape.table[low % TABLE]), low >> TABLE_BITS & 1, low >> TABLE_BITS + 1
    bits = OFFSET_BITS - shape.shift
    whole, part = divmod((rest >> shape.shift) * shape.step, 1 << bits)
    if part < (1 << bits) % shape.step:
        return None
    top, count, bucket = shape.counts[0], 0, 0
    if strip < len(shape.counts):
        count = shape.counts[strip]
    else:
        count = TABLE - sum(shape.counts)
        more, width, number = extend(1)[0], 62, 1
        strip += more & 3
        more >>= 2
        while not more:
            number += 1
            bucket, width, more = bucket + width, 64, extend(number)[0]
        bucket += (more & -more).bit_length() - 1
        strip += 4 * bucket
        top <<= bucket + 3
    y = strip * (shape.step << shape.shift) + (whole << shape.shift) + rest % (1 << shape.shift)
    magnitude = y + sign
    uniform, have, number = high, 64, 0
    while True:
        precision = have + bucket + 64
        least, most = exp_bounds(magnitude * magnitude, 2 * shape.variance, precision)
        if (uniform + 1) * count << (precision - have) <= top * least:
            return -1 - y if sign else y
        if uniform * count << (precision - have) >= top * most:
            return None
        number += 1
        uniform, have = uniform << 64 | extend(number)[1], have + 64


NUMBERS, _STRIPS = 12, 256
_WHICH = 7


class Rows(NamedTuple):
    """What vectorised attempts need of variances, one row of each.

    Attributes:
      numbers: (V, 524) uint64. Of the offset: shift, 2^shift - 1, b = 50 - shift, 2^b - 1, step,
        2^b mod step. Then g, which of ``tables``, the tail's number in it; lift, curvature and
        start of ``exponential``. Then of each strip its bounds, low 2^32 + high: of the 32 bits
        that lead a uniform number, acceptance is certain below low, rejection above high. Then of
        each its count.
      tables: (W, 8192) uint8.
      of: (n,) int64, which row is a coordinate's.
      shapes: the V envelopes.
    """

    numbers: Wholes
    tables: NDArray[np.uint8]
    of: Ints
    shapes: tuple[Envelope, ...]

    @property
    def bounds(self) -> Wholes:
        """(V, 256)."""
        return self.numbers[:, NUMBERS : NUMBERS + _STRIPS]

    @property
    def counts(self) -> Wholes:
        """(V, 256)."""
        return self.numbers[:, NUMBERS + _STRIPS :]

    @classmethod
    def for_variances(cls, variances: Sequence[int]) -> Rows:
        """Rows for coordinates with these variances, each in [1, 2^80]."""
        places = {variance: place for place, variance in enumerate(dict.fromkeys(variances))}
        shapes = tuple(map(envelope, places))
        tables = {id(shape.table): shape.table for shape in shapes}
        numbers = np.stack([_numbers(variance) for variance in places])
        numbers[:, _WHICH] = [list(tables).index(id(shape.table)) for shape in shapes]
        of = np.fromiter(map(places.__getitem__, variances), np.int64, len(variances))
        return cls(numbers, np.stack(list(tables.values())), of, shapes)

    def alone(self, coordinate: int) -> Rows:
        """The same for one of the coordinates."""
        return self._replace(of=self.of[coordinate : coordinate + 1])


@functools.lru_cache(maxsize=4096)
def _numbers(variance: int) -> Wholes:
    """A row of ``Rows.numbers``.

    A strip's bounds are those of its ends: exp(-m^2 / 2 S) falls, and the magnitude of what is
    proposed lies in [i g, (i + 1) g], ends included, as a negative number is one further out.
    In the tail n_0 2^(v + 3) exp(-m^2 / 2 S) < MARGIN / 2^32: see ``discrete_gaussian``.
    """
    shape, curve = envelope(variance), _curve(variance)
    n = len(shape.counts)
    out = np.zeros(NUMBERS + 2 * _STRIPS, dtype=np.uint64)
    fine, bits, width = (1 << shape.shift) - 1, OFFSET_BITS - shape.shift, shape.step << shape.shift
    part, excess = (1 << bits) - 1, (1 << bits) % shape.step
    out[:NUMBERS] = shape.shift, fine, bits, part, shape.step, excess, width, 0, n, *curve
    counts = np.array(shape.counts, dtype=np.uint64)
    ends = np.arange(n + 1, dtype=np.uint64) * np.uint64(width)
    chances = exponential(ends, *curve)
    low = chances[1:] * counts[0] // counts
    high = ((chances[:-1] + np.uint64(MARGIN)) * counts[0] - _ONE) // counts
    np.minimum(high, _ALMOST_ONE, out=high)
    out[NUMBERS : NUMBERS + n] = low << _PROBABILITY_POINT | high
    out[NUMBERS + n] = MARGIN - 1
    out[NUMBERS + _STRIPS : NUMBERS + _STRIPS + n] = counts
    out.setflags(write=False)
    return out

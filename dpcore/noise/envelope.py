"""The envelope under the discrete Gaussian, and the exact settlement of one attempt."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from weir.dpcore.noise.exp_bounds import exp_bounds

HEIGHT_BITS = 62
"""Heights of envelopes are whole numbers of 2^-62."""


class Envelope(NamedTuple):
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
def envelope(variance: int) -> Envelope:
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
    return Envelope(shift, height, variance)


def settle(
    shape: Envelope, low: int, high: int, extend: Callable[[int], tuple[int, int]]
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

"""exp(-x) of a rational number between two integers: the certificate under exact sampling."""

from __future__ import annotations


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
    one = 1 << precision
    low_x = (numerator << precision) // (denominator << halvings)
    high_x = low_x + 1
    low_sum = high_sum = low_term = high_term = one
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
    one = 1 << precision
    rest = -((-numerator << precision) // (denominator << out))
    for _ in range(bits):
        rest = -(-rest * rest >> precision)
        out <<= 1
        if rest >= 2 * one:
            rest = -(-rest >> 1)
            out += 1
    return out + (rest > one)

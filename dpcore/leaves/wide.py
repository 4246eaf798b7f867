"""Sums of int64 in two limbs: exact, whatever comes."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats, Ints, accumulate

LIMB = 62
"""Bits in the low limb of an exact running sum."""


def add_wide(total: Ints, leaves: Ints) -> Ints:
    """Exact running sums in two limbs.

    Args:
      total: (K, d, 2), before the stride.
      leaves: (n, K, d), |leaf| < 2^62.

    Returns:
      (n, K, d, 2).
    """
    out = np.empty((*leaves.shape, 2), dtype=np.int64)
    mask = np.int64((1 << LIMB) - 1)
    largest = 0  # one leaf fits beside a low limb in any case
    if len(leaves) > 1 and leaves.size:
        largest = max(int(leaves.max()), -int(leaves.min()))
    if largest * len(leaves) < 1 << LIMB:  # the sum of the stride fits beside a low limb
        low = leaves.copy()
        low[:1] += total[..., 0]
        accumulate(np.add, low)
        np.right_shift(low, LIMB, out=out[..., 1])
        out[..., 1] += total[..., 1]
        np.bitwise_and(low, mask, out=out[..., 0])
        return out
    low, high = total[..., 0].copy(), total[..., 1].copy()
    for t in range(leaves.shape[0]):
        low += leaves[t]
        high += low >> LIMB
        low &= mask
        out[t, ..., 0], out[t, ..., 1] = low, high
    return out


def shift_wide(wide: Ints, by: Ints) -> Ints:
    """Adds int64 (|by| < 2^62) to exact sums in two limbs: same shape as ``wide``."""
    low = wide[..., 0] + by
    mask = np.int64((1 << LIMB) - 1)
    return np.stack([low & mask, wide[..., 1] + (low >> LIMB)], axis=-1)


def wide_to_float(wide: Ints) -> Floats:
    """(..., 2) limbs -> (...) float64: exact up to 2^53, else rounded once a limb."""
    # The low limb is centred first: -1 is (2^62 - 1, -1), and 2^62 - 1 is no float64.
    carry = wide[..., 0] >> (LIMB - 1)
    low, high = wide[..., 0] - (carry << LIMB), wide[..., 1] + carry
    return np.asarray(high.astype(np.float64) * 2.0**LIMB + low, dtype=np.float64)


def total_of(exact: Ints, drawn: Ints, noisy: Ints) -> Floats:
    """Noisy running totals as floats: ``wide_to_float(shift_wide(exact, drawn))``.

    Args:
      exact: (..., 2) limbs. drawn: (...) noise, below 2^61. noisy: (...), their sum modulo 2^64.
    """
    high, near = exact[..., 1], 1 << (LIMB - 1)
    small = noisy.size > 0 and int(high.min()) >= -1 and int(high.max()) <= 0  # no wrap yet
    if small and -near <= int(noisy.min()) and int(noisy.max()) < near:
        return noisy.astype(np.float64)  # the low limb is all there is
    return wide_to_float(shift_wide(exact, drawn))


def wide_modulo(wide: Ints) -> Ints:
    """(..., 2) limbs -> (...) int64, the value modulo 2^64 (differences of these are exact)."""
    with np.errstate(over="ignore"):
        return np.asarray((wide[..., 1] << LIMB) + wide[..., 0], dtype=np.int64)

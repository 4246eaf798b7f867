"""Margins of error of ratios of noisy sums (Fieller 1954), within public ends.

For a ratio r of two sums V and N with independent noise, V - r N has mean 0 and a known variance
whatever N is. So the ratios r for which |V - r N| is at most z standard deviations hold the true
one as often as a noise lies within z. Where N is no larger than its noise, they may be all of them,
or two pieces: the smallest interval that holds them is taken.
"""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats


def ratio_margin(
    total: Floats,
    count: Floats,
    total_std: Floats,
    count_std: Floats,
    between: tuple[float, float],
    z: float,
) -> tuple[Floats, Floats]:
    """Ends of the ratios in ``between`` that z standard deviations allow; all if none is.

    Args:
      total, count: noisy sums, of one shape. total_std, count_std: of their noise, broadcast to it.
    """
    first, last = between
    total, count, v, n = np.broadcast_arrays(total, count, total_std, count_std)
    # r is possible where a r^2 - 2 b r + c <= 0.
    a = count**2 - (z * n) ** 2
    b = total * count
    c = total**2 - (z * v) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        # b^2 - a c, without the difference of large products that are nearly equal.
        root = z * np.sqrt((total * n) ** 2 + (count * v) ** 2 - (z * v * n) ** 2)
        q = b + np.copysign(root, b)
        ends = np.stack([q / a, c / q])
    inside = (ends >= first) & (ends <= last)
    possible = [a * end**2 - 2 * b * end + c <= 0 for end in between]
    low = np.where(possible[0], first, np.where(inside, ends, np.inf).min(axis=0))
    high = np.where(possible[1], last, np.where(inside, ends, -np.inf).max(axis=0))
    none = low > high
    return np.where(none, first, low), np.where(none, last, high)


def square_range(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest square of numbers between two ends."""
    ends = np.stack([low**2, high**2])
    return np.where((low <= 0) & (high >= 0), 0.0, ends.min(axis=0)), ends.max(axis=0)

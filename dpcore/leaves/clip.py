"""Clipping: after it, what one event contributes is bounded whatever the data are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, positive


class Clipped(NamedTuple):
    """Bounded values, and how many were changed (for the operator only).

    Attributes:
      values: same shape as the input.
      clipped: how many finite values (rows, for ``clip_l2``) were outside.
      non_finite: how many were NaN, infinite or missing.
    """

    values: Floats
    clipped: int
    non_finite: int


def clip_values(values: Floats, low: float, high: float, fill: float = 0.0) -> Clipped:
    """Clips numbers to the public interval [low, high].

    Args:
      values: (n,) float64; NaN where missing. Not changed.
      low, high: finite, low <= high.
      fill: what a non-finite number counts as, before its clip. For values that are summed after
        subtracting a centre, the centre makes it the zero contribution.

    Returns:
      Every value in [low, high]; exact (no arithmetic on the values).

    Raises:
      ConfigError: the interval is empty or not finite.
    """
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ConfigError("clip", [low, high], "must be two finite numbers, low <= high.")
    if not np.isfinite(fill):
        raise ConfigError("fill", fill, "must be finite.")
    bad = ~np.isfinite(values)
    non_finite = int(np.count_nonzero(bad))
    bounded = np.clip(values, low, high)
    changed = int(np.count_nonzero(bounded != values))
    if non_finite:  # each of them differs from its clip and was counted as changed
        changed -= non_finite
        bounded[bad] = min(max(fill, low), high)
    return Clipped(bounded, changed, non_finite)


def clip_l2(rows: Floats, bound: float) -> Clipped:
    """Shortens each row to l2 norm at most ``bound``: joint clipping of all its columns.

    The exact norm of every result is at most ``bound``, and at most that of its input: the factor
    is reduced by more than the rounding error of the norm. A row's result depends on that row
    alone, bit for bit: columns are added in order, never by a blocked reduction. Rows with a
    non-finite entry become zero.

    Args:
      rows: (n, d) float64. Not changed.
      bound: finite, above 0.

    Raises:
      ConfigError: bound is not finite and positive.
    """
    positive(bound=bound)
    n, d = rows.shape
    out = np.array(rows, dtype=np.float64, order="C", copy=True)
    bad = np.zeros(n, dtype=bool)
    largest = np.zeros(n)
    for j in range(d):
        size = np.abs(out[:, j])
        bad |= ~np.isfinite(size)
        np.maximum(largest, size, out=largest)
    non_finite = int(np.count_nonzero(bad))
    if non_finite:
        out[bad] = 0.0
        largest[bad] = 0.0
    # Scaled by a power of two, exact, so that squares neither overflow nor vanish.
    exponent = np.frexp(largest)[1]
    square = np.zeros(n)
    for j in range(d):
        scaled = np.ldexp(out[:, j], -exponent)
        square += scaled * scaled
    scaled_norm = np.sqrt(square)
    with np.errstate(over="ignore"):
        norm = np.ldexp(scaled_norm, exponent)
    clipped = int(np.count_nonzero(norm > bound))
    if d == 1:  # the norm is exact
        return Clipped(np.clip(out, -bound, bound), clipped, non_finite)
    target = bound * (1 - (d + 8) * 2.0**-52)  # more than all rounding errors below the bound
    long = np.flatnonzero(norm > target)
    if long.size:
        unit = np.ldexp(out[long], -exponent[long, None])
        out[long] = unit * (target / scaled_norm[long])[:, None]
    return Clipped(out, clipped, non_finite)

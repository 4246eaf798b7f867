"""How far the noise of a count reaches: what it exceeds with a given probability at most."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.unit import noisy_coordinates

BITS = 24
"""Significant bits of a threshold's factors, rounded up: exp and log differ in their last bits
between kinds of CPU, and thresholds must not."""
SLACK = 1 + 2.0**-30
"""Far more than the rounding errors of what is rounded up."""
TINY = 2.0**-500
SLOPES = np.arange(1, 256) / 256
"""Where a Chernoff bound is looked for; each of them is one."""


def reach(mechanism: ContinualSum, coordinate: int, ticks: Ints, chance: Floats) -> Ints:
    """Lattice steps that the noise of a running total reaches with so much probability at most.

    Args:
      mechanism: serves running totals.
      coordinate: of its leaves.
      ticks: (m,) at which ``mechanism.factor`` is asked: it bounds the variance from above.
      chance: (m,) in (0, 1/2).

    Returns:
      (m,) x with P[noise >= x] <= chance, in whole steps:

      * Gaussian: sd Q^-1(chance), and half a step for each number that was rounded to the lattice;
      * discrete Gaussian: sqrt(2 V ln(1 / chance)), since a sum of discrete Gaussians is
        sub-Gaussian with the sum V of their parameters (Canonne, Kamath, Steinke 2020: E exp(s X)
        <= exp(s^2 sigma^2 / 2) for every s);
      * K-norm: the Chernoff bound: a coordinate of density exp(-||x||_2) in d dimensions has the
        generating function (1 - s^2)^(-(d + 1) / 2), the Fourier transform of a Cauchy density at
        an imaginary point, and -ln(1 - s^2) / s^2 grows, so units of unequal sizes reach no
        farther than equal ones of the largest size and the same variance.
    """
    kind, _ = mechanism.real_noise
    stddev = rounded_up(mechanism.stddev(ticks, None)[:, coordinate])
    if kind == "discrete_gaussian":
        out = stddev * rounded_up(np.sqrt(-2 * np.log(chance)))
    elif kind == "k_norm":
        out = _k_norm(mechanism, coordinate, ticks, chance) + mechanism.roundings(ticks) / 2
    else:
        out = stddev * rounded_up(-ndtri(chance)) + mechanism.roundings(ticks) / 2
    return np.ceil(out).astype(np.int64)


def _k_norm(mechanism: ContinualSum, coordinate: int, ticks: Ints, chance: Floats) -> Floats:
    """min over 0 < s < 1 of (ln(1 / chance) - n (d + 1) / 2 ln(1 - s^2)) / s, times the size of the
    largest unit: no unit is larger than the root of all squares."""
    factor = mechanism.factor(ticks, None)
    largest = np.minimum(mechanism.largest_multiplier, np.sqrt(factor))
    units = factor / np.maximum(largest, TINY) ** 2
    half = (len(noisy_coordinates(mechanism.scales)) + 1) / 2
    spread = -np.log1p(-(SLOPES**2))[None, :] * (half * units[:, None])
    bounds = (spread - np.log(chance)[:, None]) / SLOPES[None, :]
    scale = mechanism.noise_scale * mechanism.scales[coordinate]
    return rounded_up(bounds.min(axis=1) * largest) * scale


def rounded_up(values: Floats) -> Floats:
    """The next larger numbers of BITS significant bits."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64) * SLACK)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(mantissa, BITS)), exponent - BITS))

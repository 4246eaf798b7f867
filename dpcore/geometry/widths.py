"""Expected largest value of standard normals, by quadrature: what Gaussian widths are made of."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

_STEP = 2.0**-9
_FAR = 40.0


def largest_of(n: int) -> float:
    """E max of n independent standard normals; absolute error below 1e-9."""
    t = np.arange(0.0, _FAR, _STEP) + _STEP / 2
    above = -np.expm1(n * log_ndtr(t))
    below = np.exp(n * log_ndtr(-t))
    return math.fsum(above - below) * _STEP


def largest_size_of(n: int) -> float:
    """E max |g_i| of n independent standard normals; absolute error below 1e-9."""
    if n == 1:
        return math.sqrt(2 / math.pi)
    t = np.arange(0.0, _FAR, _STEP) + _STEP / 2
    inside = np.log1p(-2 * ndtr(-t))
    return math.fsum(-np.expm1(n * inside)) * _STEP


def length_of(n: int) -> float:
    """E of the l2 norm of n independent standard normals."""
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))


def hull_bound(diameter: float, log_vertices: float) -> float:
    """A bound above the width of a hull of n points whose distances are at most ``diameter``.

    Their inner products with g differ by at most ``diameter`` in standard deviation, as those of
    n independent normals of deviation diameter / sqrt 2 do (Sudakov-Fernique), whose largest has
    mean at most diameter sqrt(ln n).
    """
    return diameter * math.sqrt(max(log_vertices, 0.0))

"""Gaussian widths E max over p in P of <p, g>: closed forms, quadrature, bounds, Monte-Carlo."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, log_ndtr, ndtr

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.noise.public import PublicNormals

_STEP = 2.0**-9
_FAR = 40.0
_NUMBERS = 1 << 20
"""Drawn at a time."""


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


def largest_length_of(sizes: Sequence[int]) -> float:
    """E of the largest l2 norm of independent standard normal vectors of these sizes; absolute
    error below 1e-8."""
    far = math.sqrt(max(sizes)) + _FAR
    t = np.arange(0.0, far, _STEP) + _STEP / 2
    log_inside = np.zeros_like(t)
    with np.errstate(divide="ignore"):
        for size, count in sorted(Counter(sizes).items()):
            outside = gammaincc(size / 2, t * t / 2)
            log_inside += count * np.where(
                outside < 0.5, np.log1p(-outside), np.log(gammainc(size / 2, t * t / 2))
            )
    return math.fsum(-np.expm1(log_inside)) * _STEP


def norm_bound(n: int, q: float) -> float:
    """A bound above E ||g||_q of n standard normals, q >= 1.

    ||g||_q <= ||g||_r for r <= q, and E ||g||_r <= (n E |g|^r)^(1/r): the least over r in (0, q].
    For q that is not much above 2 ln n, r = q is best, and it is within a few per cent.
    """
    at_least_one(n=n)

    def jensen(r: float) -> float:
        moment = r / 2 * math.log(2) + math.lgamma((r + 1) / 2) - math.log(math.pi) / 2
        return math.exp((math.log(n) + moment) / r)

    return min(jensen(1 + (q - 1) * i / 64) for i in range(65))


def sparse_bound(n: int, k: int) -> float:
    """A bound above the width of {x in R^n : ||x||_2 <= 1, at most k entries are not 0}.

    The width is E sqrt(S), S the sum of the k largest g_i^2. S = min over t of k t +
    sum_i max(g_i^2 - t, 0), so E sqrt(S) <= sqrt(min over t of k t + n E max(g^2 - t, 0)).
    """
    _at_most(n, k)
    if k == n:
        return length_of(n)
    u = np.linspace(0.0, 12.0, 4097)
    density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    above = 2 * (u * density + (1 - u * u) * ndtr(-u))  # E max(g^2 - u^2, 0)
    return math.sqrt(float(np.min(k * u * u + n * above)))


class Estimate(NamedTuple):
    """A mean of draws, and its standard error."""

    value: float
    error: float


def sparse_width(n: int, k: int, draws: int = 2000) -> Estimate:
    """The width that ``sparse_bound`` bounds, by Monte-Carlo: 2,000 draws give about 1.5% / sqrt k.

    The draws are public and the same at every call.
    """
    _at_most(n, k)

    def largest(g: Floats) -> Floats:
        top = np.partition(g * g, n - k, axis=1)[:, n - k :]
        return np.asarray(np.sqrt(np.sum(top, axis=1)))

    return monte_carlo(largest, n, draws)


def hull_width(points: Floats, draws: int = 2000) -> Estimate:
    """Width of the convex hull of ``points`` (n, d), by Monte-Carlo with its standard error.

    A pair g, -g is drawn at a time, so where the hull lies does not matter, only its shape.
    """
    points = np.atleast_2d(np.asarray(points, dtype=np.float64))

    def half_spread(g: Floats) -> Floats:
        reached = g @ points.T
        return np.asarray((np.max(reached, axis=1) - np.min(reached, axis=1)) / 2)

    return monte_carlo(half_spread, points.shape[1], draws)


def monte_carlo(function: Callable[[Floats], Floats], dimension: int, draws: int) -> Estimate:
    """Mean of function((m, d) standard normals) -> (m,), over public draws."""
    if draws < 2:
        raise ConfigError("draws", draws, "must be 2 or more.")
    normals = PublicNormals(b"gaussian width")
    most = max(1, _NUMBERS // dimension)
    found = [
        function(normals.draw(first // most, min(most, draws - first), dimension))
        for first in range(0, draws, most)
    ]
    values = np.concatenate(found)
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(draws))


def _at_most(n: int, k: int) -> None:
    at_least_one(n=n, k=k)
    if k > n:
        raise ConfigError("k_sparse", k, f"must be at most the {n} coordinates there are.")

"""Iterates on a public grid, the same bits on every machine."""

from __future__ import annotations

import math

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet

GRID_BITS = 36
"""Iterates are whole multiples of the set's size times 2^-36: far below any noise, and coarse
enough that sums of 2^17 of them are exact."""


def row_dot(left: Floats, right: Floats) -> Floats:
    """(K, d), (K, d) -> (K,) inner products; a row's bits depend on that row alone.

    einsum goes along contiguous rows one after the other, in an order that depends on d only (``@``
    and BLAS do not, nor do sums over strided rows).
    """
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    return np.asarray(np.einsum("kd,kd->k", left, right))


def grid_of(convex_set: ConvexSet) -> float:
    """The public grid of iterates: a power of two, 2^-36 of the set's reach."""
    reach = convex_set.reach
    if not (math.isfinite(reach) and reach > 0):
        raise ConfigError("model.set", reach, "must be bounded, and more than the point 0.")
    return math.ldexp(1.0, math.frexp(reach)[1] - GRID_BITS)


def to_grid(points: Floats, grid: float) -> Floats:
    """Nearest multiples of a power of two; a new C-contiguous array."""
    out = np.multiply(points, 1.0 / grid, order="C")
    np.rint(out, out=out)
    out *= grid
    out += 0.0  # no negative zeros
    return out


def rounding_of(convex_set: ConvexSet, grid: float) -> float:
    """Largest l2 distance between a point and its rounded one."""
    return 0.5 * grid * math.sqrt(convex_set.dimension)


def centre_of(convex_set: ConvexSet, centre: tuple[float, ...]) -> Floats:
    """(d,) the public centre of the quadratics.

    Raises:
      ConfigError: it has another dimension.
    """
    if len(centre) != convex_set.dimension:
        raise ConfigError(
            "model.centre", list(centre), f"must have {convex_set.dimension} numbers, one a weight."
        )
    return np.asarray(centre, dtype=np.float64)


def start_of(convex_set: ConvexSet, centre: tuple[float, ...]) -> Floats:
    """(d,) x_1, public: the centre where one is given and the set holds it, the leader of no data;
    else the set's own start."""
    given = centre_of(convex_set, centre)
    inside = given.any() and convex_set.contains(given[None], 0.0)[0]
    return given if inside else np.asarray(convex_set.start(), dtype=np.float64)

"""The nearest point of a convex hull, for many points at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import (
    l2_norms,
    products,
    rows,
)

_CHUNK = 1 << 19
"""Most numbers in one array of a chunk of rows."""


def nearest(points: Floats, vertices: Floats) -> Floats:
    """argmin over y in conv(vertices) of ||y - x||_2: (K, d), (n, d) -> (K, d).

    Wolfe's method, all rows side by side: hold a set of affinely independent vertices whose
    nearest point lies within their hull, add the vertex that is best for the remaining direction,
    and drop those whose weight reaches 0. It ends after finitely many steps, here when no vertex
    is better than rounding errors allow. A row's result depends on that row alone.

    Source: Wolfe (1976), "Finding the nearest point in a polytope".
    """
    n, d = vertices.shape
    most = max(1, _CHUNK // (min(n, d + 1) * d + n))
    chunks = range(0, len(points), most)
    parts = [_nearest(points[first : first + most], vertices) for first in chunks]
    return np.concatenate(parts) if parts else np.zeros((0, d))


def _nearest(points: Floats, vertices: Floats) -> Floats:
    n, d = vertices.shape
    across = np.ascontiguousarray(vertices.T)
    reach = float(np.max(l2_norms(vertices - vertices[0])))
    rounding = 8 * (d + 8) * np.finfo(float).eps
    out = np.empty_like(points)

    # Of the rows that are not done yet: their numbers, points, weights; whether to add a vertex.
    row = np.arange(len(points))
    x = points
    first = np.argmin(np.stack([l2_norms(x - vertex) for vertex in vertices], axis=1), axis=1)
    weights = np.zeros((len(x), n))
    weights[row, first] = 1.0
    held = weights > 0
    settled = np.ones(len(x), dtype=bool)
    for _ in range(20 + 10 * n):
        y = products(weights, across)
        away = y - x
        prices = products(away, vertices)
        best = np.argmin(prices, axis=1)
        live = np.arange(len(x))
        gap = np.add.reduce(rows(away * y), axis=1) - prices[live, best]
        size = l2_norms(away)
        # gap is what rounding leaves, of <away, y - v> and of y itself.
        scale = np.maximum(size, rounding * np.max(np.abs(y), axis=1)) * (
            reach + np.max(np.abs(y), axis=1)
        )
        done = settled & ((gap <= rounding * scale) | held[live, best])
        out[row[done]] = y[done]
        keep = ~done
        if not keep.any():
            return out
        row, x, weights, held = row[keep], x[keep], weights[keep], held[keep]
        settled, best = settled[keep], best[keep]
        adding = np.flatnonzero(settled)
        held[adding, best[adding]] = True

        target = _affine(x, vertices, held)
        inside = np.min(np.where(held, target, 0.0), axis=1) >= 0
        fall = weights - target
        with np.errstate(divide="ignore", invalid="ignore"):
            until = np.where(held & (target < 0), weights / fall, np.inf)
        step = np.where(inside, 1.0, np.minimum(np.min(until, axis=1), 1.0))[:, None]
        weights = np.where(inside[:, None], target, weights - step * fall)
        # A vertex whose weight reached 0 goes; one that just came with weight 0 may stay.
        gone = held & ~inside[:, None] & (until <= step)
        weights[gone | ~held] = 0.0
        np.maximum(weights, 0.0, out=weights)
        held &= ~gone
        settled = inside
    out[row] = products(weights, across)
    return out


def _affine(x: Floats, vertices: Floats, held: NDArray[np.bool_]) -> Floats:
    """Weights (K, n), adding to 1, 0 where not held, of the point nearest to x in the affine hull.

    Least squares by modified Gram-Schmidt. No sum here runs over the number of held vertices other
    than in order, so that the widest row of a chunk changes nothing in the others.
    """
    count = np.count_nonzero(held, axis=1)
    most = int(np.max(count))
    place = np.argsort(~held, axis=1, kind="stable")[:, :most]
    base = vertices[place[:, 0]]
    rest = x - base
    used = np.arange(1, most) < count[:, None]
    edges = (vertices[place[:, 1:]] - base[:, None]) * used[:, :, None]
    lengths = [l2_norms(edges[:, i]) for i in range(most - 1)]
    m = most - 1
    upper = np.zeros((len(x), m, m))
    right = np.zeros((len(x), m))
    for i in range(m):
        norm = l2_norms(edges[:, i])
        independent = norm > 1e-12 * lengths[i]
        norm = np.where(independent, norm, 1.0)
        unit = np.where(independent[:, None], edges[:, i] / norm[:, None], 0.0)
        upper[:, i, i] = norm
        right[:, i] = np.add.reduce(rows(unit * rest), axis=1)
        rest = rest - right[:, i, None] * unit
        for j in range(i + 1, m):
            upper[:, i, j] = np.add.reduce(rows(unit * edges[:, j]), axis=1)
            edges[:, j] -= upper[:, i, j, None] * unit
    found = np.zeros((len(x), most))
    for i in reversed(range(m)):
        total = right[:, i].copy()
        for j in range(m - 1, i, -1):
            total -= upper[:, i, j] * found[:, j + 1]
        found[:, i + 1] = total / upper[:, i, i]
    left = np.ones(len(x))
    for i in range(1, most):
        left -= found[:, i]
    found[:, 0] = left
    weights = np.zeros(held.shape)
    np.put_along_axis(weights, place, found, axis=1)
    return weights

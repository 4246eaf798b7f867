"""Polytopes by their vertices, and the nearest point of a hull."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import (
    NO_LOCAL_ORACLE,
    ConvexSet,
    Corners,
    Scales,
    check_exponent,
    hull_bound,
    l2_norms,
    length_of,
    norm_of,
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
    result = np.zeros((len(x), most))
    for i in reversed(range(m)):
        total = right[:, i].copy()
        for j in range(m - 1, i, -1):
            total -= upper[:, i, j] * result[:, j + 1]
        result[:, i + 1] = total / upper[:, i, i]
    left = np.ones(len(x))
    for i in range(1, most):
        left -= result[:, i]
    result[:, 0] = left
    weights = np.zeros(held.shape)
    np.put_along_axis(weights, place, result, axis=1)
    return weights


_MOST_FACETS = 100_000
_MOST_BASES = 5_000


class _Facets(NamedTuple):
    """Facets of the hull within its own affine space of dimension d.

    Attributes:
      corners: which listed points are vertices. normals: (m, d) of length 1.
      slacks: (m, n) distance of every vertex from every facet.
    """

    corners: NDArray[np.int64]
    normals: Floats
    slacks: Floats


@dataclass(frozen=True)
class Polytope(ConvexSet):
    """conv{v_1, ..., v_n}. Has a local linear oracle where its facets can be enumerated.

    Attributes:
      listed: n points of d numbers each; those that are no vertices change nothing.
    """

    name: ClassVar[str] = "polytope"
    listed: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.listed or not self.listed[0]:
            raise ConfigError("polytope", [], "needs one vertex or more.")
        for vertex in self.listed:
            if len(vertex) != len(self.listed[0]):
                raise ConfigError("polytope", list(vertex), "must be as long as the first vertex.")
            if not all(math.isfinite(number) for number in vertex):
                raise ConfigError("polytope", list(vertex), "must hold finite numbers only.")

    @cached_property
    def _points(self) -> Floats:
        """(n, d) distinct points in the order of the list."""
        return np.array(list(dict.fromkeys(self.listed)), dtype=np.float64) + 0.0

    @cached_property
    def _flat(self) -> Floats:
        """(n, d') the same points in coordinates of their own affine space."""
        centred = self._points - self._points.mean(axis=0)
        _, sizes, basis = np.linalg.svd(centred, full_matrices=False)
        rank = int(np.count_nonzero(sizes > 1e-9 * max(sizes[0], np.finfo(float).tiny)))
        return np.asarray(centred @ basis[:rank].T)

    @cached_property
    def _facets(self) -> _Facets | None:
        flat = self._flat
        n, d = flat.shape
        if d == 0:
            return _Facets(np.zeros(1, dtype=np.int64), np.zeros((0, 0)), np.zeros((0, 1)))
        if d == 1:
            ends = np.unique([int(np.argmin(flat)), int(np.argmax(flat))])
            length = float(np.max(flat) - np.min(flat))
            return _Facets(ends, np.array([[1.0], [-1.0]]), np.array([[0, length], [length, 0]]))
        half = d // 2
        if d > n or 2 * math.comb(n - (d - half), half) > _MOST_FACETS:  # the most there can be
            return None
        from scipy.spatial import ConvexHull, QhullError

        try:
            hull = ConvexHull(flat)
        except QhullError:
            return None
        corners = np.sort(hull.vertices).astype(np.int64)
        retained = np.unique(np.round(hull.equations, 10), axis=0, return_index=True)[1]
        equations = hull.equations[np.sort(retained)]
        slacks = -(equations[:, :-1] @ flat[corners].T + equations[:, -1:])
        return _Facets(corners, equations[:, :-1], slacks)

    @cached_property
    def vertices(self) -> Floats:
        """(n, d) the vertices, in the order of the list."""
        if self._facets is None:
            return self._points
        return np.ascontiguousarray(self._points[self._facets.corners])

    @cached_property
    def ratio(self) -> float:
        """sqrt(d) psi / xi: a point at distance r of x needs that times r of x's weight moved.

        xi is the least slack of a facet at a vertex that is not on it, psi the largest spectral
        norm of a set of independent normals, d the dimension of the polytope itself. The ratio is
        the least over two ways to scale the normals, rounded up to 24 bits. Infinite where the
        facets are not known.

        Source: Garber, Hazan (2016), Lemma 5.5; its proof needs no more rows than d.
        """
        facets = self._facets
        if facets is None:
            return math.inf
        d = facets.normals.shape[1]
        if d == 0:
            return 0.0
        slacks = np.where(facets.slacks > 1e-9 * self.diameter, facets.slacks, np.inf)
        least = np.min(slacks, axis=1)
        plain = _largest_norm(facets.normals) / np.min(least)
        scaled = _largest_norm(facets.normals / least[:, None])
        return _up(math.sqrt(d) * min(plain, scaled))

    @property
    def dimension(self) -> int:
        return len(self.listed[0])

    @property
    def guarantee_lost(self) -> str:
        if math.isfinite(self.ratio):
            return ""
        return NO_LOCAL_ORACLE.format("a polytope with more facets than can be listed")

    def prices(self, costs: Floats) -> Floats:
        """<v_i, c>: (K, d) -> (K, n)."""
        return products(costs, self.vertices)

    def combine(self, weights: Floats) -> Floats:
        """sum_i weights_i v_i: (K, n) -> (K, d)."""
        return products(weights, np.ascontiguousarray(self.vertices.T))

    def project(self, points: Floats) -> Floats:
        return nearest(rows(points), self.vertices)

    def linear_oracle(self, costs: Floats) -> Floats:
        return np.asarray(self.vertices[np.argmin(self.prices(costs), axis=1)])

    def start(self) -> Floats:
        n = len(self.vertices)
        return np.asarray(self.combine(np.full((1, n), 1 / n))[0])

    @cached_property
    def diameter(self) -> float:
        vertices = self.vertices
        return max(float(np.max(l2_norms(vertices - vertex))) for vertex in vertices)

    def farthest_in(self, p: float) -> float:
        check_exponent(p)
        return max(norm_of(vertex, p) for vertex in self.vertices)

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        vertices = self.vertices
        return max(norm_of(a - b, p) for a in vertices for b in vertices)

    def corners(self) -> Corners:
        return Corners(listed=self.vertices)

    def farthest(self, centre: Floats) -> float:
        return float(np.max(l2_norms(self.vertices - centre)))

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        """Whether the nearest point of the polytope is within ``slack``."""
        return l2_norms(points - self.project(points)) <= slack

    def scales(self, points: Floats) -> Scales:
        """Two linear programs a row."""
        from scipy.optimize import linprog

        n = len(self.vertices)
        low, high = np.full(len(points), np.inf), np.zeros(len(points))
        for i, point in enumerate(points):
            for sign, out in ((1.0, low), (-1.0, high)):
                result = linprog(np.full(n, sign), A_eq=self.vertices.T, b_eq=point, method="highs")
                if result.status == 0 and result.fun is not None:
                    out[i] = sign * result.fun
                elif result.status == 3:
                    out[i] = np.inf
        return Scales(low, high)

    def gaussian_width(self) -> float:
        """A bound above it: the lesser of those by the number of vertices and by the dimension."""
        by_count = hull_bound(self.diameter, math.log(len(self.vertices)))
        radius = self.farthest(self.start())
        return min(by_count, radius * length_of(max(int(self._flat.shape[1]), 1)))

    def canonical(self) -> Mapping[str, Any]:
        listed = [[float(number).hex() for number in vertex] for vertex in self.listed]
        return {"set": self.name, "vertices": listed}


def _largest_norm(normals: Floats) -> float:
    """Largest spectral norm of a set of independent rows, or a bound above it: (m, d), d >= 1."""
    m, d = normals.shape
    if math.comb(m, d) <= _MOST_BASES:
        bases = normals[np.array(list(itertools.combinations(range(m), d)))]
        sizes = np.linalg.svd(bases, compute_uv=False)
        return float(np.max(sizes[sizes[:, -1] > 1e-9 * sizes[:, 0], 0]))
    together = float(np.linalg.svd(normals, compute_uv=False)[0])
    return min(together, math.sqrt(d) * float(np.max(l2_norms(normals))))


def _up(number: float) -> float:
    """Rounded up to 24 bits, so that the last bits of a library's routines do not show."""
    mantissa, exponent = math.frexp(number)
    return math.ldexp(math.ceil(mantissa * 2**24 + 2**-8), exponent - 24)

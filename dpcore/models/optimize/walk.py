"""Projected steps along records, one at a time, of tables and of sparse rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.one_slope import one_slope
from weir.dpcore.models.optimize.points import SparsePoints, dot, inner

Projection = Callable[[Floats], Floats]


def projection_of(one: ConvexSet) -> Projection:
    """The projection of one point (d,), short where a set allows it."""
    if isinstance(one, Box):
        return lambda x: np.minimum(np.maximum(x, one.low), one.high)
    if isinstance(one, L2Ball):
        inner = (one.radius * (1 - 2.0**-30)) ** 2

        def inside(x: Floats) -> Floats:
            return x if np.add.reduce(x * x) <= inner else one.project(x[None])[0]

        return inside
    return lambda x: one.project(x[None])[0]


def walked(
    glm: Glm, convex_set: ConvexSet, eta: float, rows: Any, x: Floats, total: Floats, early: int
) -> Floats:
    """Where a projected step at each of these records leads from x: (d,).

    Args:
      rows: (n, features + 1), a table or ``SparseRows``. x: (d,), may be written.
      total: (d,), to which the points are added, but for the first so many (``early``).
    """
    points, targets, void = glm.split(rows)
    slope, most = one_slope(glm.loss), glm.slope

    def length(prediction: float, target: float) -> float:
        """Of a step, in rows."""
        found = slope(prediction, target)
        return eta * min(max(found if math.isfinite(found) else 0.0, -most), most)

    labelled = zip(targets.tolist(), void.tolist(), strict=True)
    if isinstance(points, SparsePoints):
        moves = SparseMoves(convex_set, x)
        for i, ((at, numbers), (target, empty)) in enumerate(
            zip(points.each(), labelled, strict=True)
        ):
            if not empty:
                moves.by(at, length(dot(numbers, moves.x[at]), target) * numbers)
            if i >= early:
                total += moves.x
        return moves.x
    project = projection_of(convex_set)
    for i, (point, (target, empty)) in enumerate(zip(points, labelled, strict=True)):
        if not empty:
            x = project(x - length(inner(point, x), target) * point)
        if i >= early:
            total += x
    return x


class SparseMoves:
    """A point of a set that moves in a few of its coordinates at a time.

    In a box only these need to be held: after the first move, before which rounding to a grid may
    have put any of them a little outside, as in the projection of the whole point.

    Attributes:
      x: (d,), where it is.
    """

    def __init__(self, convex_set: ConvexSet, x: Floats) -> None:
        self.x = x
        self._project = projection_of(convex_set)
        self._box = convex_set if isinstance(convex_set, Box) else None
        self._held = False

    def by(self, at: Any, less: Floats) -> None:
        """Takes numbers off the coordinates at some places, and goes back into the set."""
        self.x[at] -= less
        if self._box is None or not self._held:
            self.x = self._project(self.x)
            self._held = True
            return
        inside = np.maximum(self.x[at], self._box.low[at])
        self.x[at] = np.minimum(inside, self._box.high[at])

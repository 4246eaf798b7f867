"""Least squares over a convex set, to a certified gap: the default solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one, positive
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.geometry.convex_set import ConvexSet, l2_norms
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

TOLERANCE = 1e-9
STEPS = 20_000
_EVERY = 10
"""Steps between two looks at the gap."""
_LINEAR = 2.0**-10
"""Where A is all but 0, a step goes 1 / this times the length of the set."""
_NEWTON = 30
_CHUNK = 1 << 17
"""Most numbers in the matrices that are solved together: they stay in the cache."""


class Solution(NamedTuple):
    """Minimisers over the set.

    Attributes:
      theta: (n, k, d), in the set.
      gap: (n, k), f(theta) - min f is at most this.
    """

    theta: Floats
    gap: Floats


def solve(
    quadratic: PrivateQuadratic,
    convex_set: ConvexSet,
    tolerance: float = TOLERANCE,
    steps: int = STEPS,
) -> Solution:
    """argmin over theta in P of f(theta), every system and target by itself.

    The shortest minimiser over the whole space is the answer where P holds it. Over an l2 ball the
    rest is one equation in the eigenvectors' coordinates. Over other sets it is accelerated
    projected gradient with restarts, from a start that depends on the system alone, until the gap
    is at most ``tolerance`` times (largest eigenvalue) r^2 + |q| r, r the largest length in P; or
    ``steps`` are done: ``gap`` tells. A system's result does not depend on the systems next to it,
    so neither on how a stream was cut.

    Raises:
      ConfigError: the set has no projection; a tolerance or number of steps below its least.

    Source: Beck, Teboulle (2009), FISTA; restarts: O'Donoghue, Candes (2015), gradient scheme.
    """
    positive(tolerance=tolerance)
    at_least_one(steps=steps)
    if not convex_set.projects:
        raise ConfigError(
            "model.set", convex_set.name, "has no projection, which this solver needs."
        )
    reach = convex_set.farthest(np.zeros(quadratic.dimension))
    lengths = l2_norms(quadratic.right.reshape(-1, quadratic.dimension))
    lengths = lengths.reshape(quadratic.right.shape[:2])
    size = quadratic.largest[:, None] * reach * reach + lengths * reach
    theta = _by_rows(convex_set.project, quadratic.free)
    whole = _Dense(quadratic.convex, quadratic.right, quadratic.least, size, size)
    gap = gap_of(whole, theta, convex_set)
    rest = np.flatnonzero(np.any(gap > tolerance * size, axis=1))
    if isinstance(convex_set, L2Ball):
        theta[rest] = _on_ball(quadratic, rest, convex_set.radius)
        gap[rest] = gap_of(whole.some(rest), theta[rest], convex_set)
        return Solution(theta, gap)
    linear = np.max(lengths, axis=1) * (_LINEAR / reach)
    step = 1 / np.maximum(np.maximum(quadratic.largest, linear), np.finfo(float).tiny)
    most = max(1, _CHUNK // quadratic.dimension**2)
    for first in range(0, len(rest), most):
        at = rest[first : first + most]
        problem = _Dense(
            quadratic.convex[at],
            quadratic.right[at],
            quadratic.least[at],
            step[at],
            tolerance * size[at],
        )
        theta[at], gap[at] = descend(problem, convex_set, theta[at], steps)
    return Solution(theta, gap)


class DescentProblem(Protocol):
    """Convex quadratics side by side, as far as the descent knows them.

    Attributes:
      least: (n,) least eigenvalue, 0 where unknown. step: (n,) at most 1 / the largest.
      goal: (n, k) gap to reach.
    """

    @property
    def least(self) -> Floats: ...

    @property
    def step(self) -> Floats: ...

    @property
    def goal(self) -> Floats: ...

    def slope(self, theta: Floats) -> Floats:
        """Half the gradient: (n, k, d) -> (n, k, d)."""

    def some(self, kept: NDArray[Any]) -> Self:
        """Those of some rows."""


class _Dense(NamedTuple):
    """theta' A theta - 2 q' theta by A and q."""

    matrix: Floats
    right: Floats
    least: Floats
    step: Floats
    goal: Floats

    def slope(self, theta: Floats) -> Floats:
        """A theta - q."""
        return np.asarray(theta @ self.matrix - self.right)

    def some(self, kept: NDArray[Any]) -> _Dense:
        """Those that are kept."""
        return _Dense(*(array[kept] for array in self))


def descend(problem: DescentProblem, convex_set: ConvexSet, start: Floats, steps: int) -> Solution:
    """Accelerated projected gradient, all systems side by side; a target is done by itself.

    Args:
      start: (n, k, d) in the set. steps: at most these.
    """
    best = Solution(start.copy(), np.full(start.shape[:2], np.inf))
    live = np.arange(len(start))
    theta, ahead = start, start
    weight = np.ones(start.shape[:2])
    for done in range(1, steps + 1):
        moved = ahead - problem.slope(ahead) * problem.step[:, None, None]
        new = _by_rows(convex_set.project, moved)
        change = new - theta
        # Momentum that points uphill is dropped.
        uphill = np.add.reduce((ahead - new) * change, axis=2) > 0
        after = (1 + np.sqrt(1 + 4 * weight * weight)) / 2
        ahead = new + np.where(uphill, 0.0, (weight - 1) / after)[:, :, None] * change
        weight = np.where(uphill, 1.0, after)
        theta = new
        if done % _EVERY and done < steps:
            continue
        gap = gap_of(problem, theta, convex_set)
        # What is done stays as it is, so that no target waits on another.
        better = (best.gap[live] > problem.goal) & (gap < best.gap[live])
        row, target = np.nonzero(better)
        best.theta[live[row], target] = theta[row, target]
        best.gap[live[row], target] = gap[row, target]
        open_ = np.any(best.gap[live] > problem.goal, axis=1)
        if not open_.any():
            break
        if 2 * np.count_nonzero(open_) <= len(live):
            problem, live = problem.some(open_), live[open_]
            theta, ahead, weight = theta[open_], ahead[open_], weight[open_]
    return best


def gap_of(problem: DescentProblem, theta: Floats, convex_set: ConvexSet) -> Floats:
    """A bound above f(theta) - min f: (n, k).

    f(s) >= f(theta) + <g, s - theta> + least |s - theta|^2 for every s in P: the smallest right
    side over P is found by projection; without the last term, by the linear oracle.
    """
    gradient, least = 2 * problem.slope(theta), problem.least
    away = theta - _by_rows(convex_set.linear_oracle, gradient)
    gap = np.add.reduce(gradient * away, axis=2)
    curved = np.flatnonzero(least > 0)
    if curved.size:
        low, at, slope = least[curved, None, None], theta[curved], gradient[curved]
        away = at - _by_rows(convex_set.project, at - slope / (2 * low))
        tighter = np.add.reduce((slope - low * away) * away, axis=2)
        gap[curved] = np.minimum(gap[curved], tighter)
    return np.asarray(np.maximum(gap, 0.0))


def _on_ball(quadratic: PrivateQuadratic, at: NDArray[np.intp], radius: float) -> Floats:
    """Minimisers over the ball: (m, k, d).

    With multiplier c >= 0 of |theta|^2 <= r^2 they are b_i / (l_i + c) in the eigenvectors'
    coordinates. Newton on 1 / |theta| as a function of c climbs to the root from below.

    Source: More, Sorensen (1983), "Computing a trust region step".
    """
    values, vectors = quadratic.eigen.values[at, None, :], quadratic.eigen.vectors[at]
    part = quadratic.right[at] @ vectors
    low = np.maximum(np.max(np.abs(part) / radius - values, axis=2), 0.0)
    for _ in range(_NEWTON):
        below = values + low[:, :, None]
        safe = np.where(below > 0, below, 1.0)
        point = np.where(below > 0, part / safe, 0.0)
        square = np.add.reduce(point * point, axis=2)
        slope = np.add.reduce(point * point / safe, axis=2)
        length = np.sqrt(square)
        more = np.where(slope > 0, square / np.where(slope > 0, slope, 1.0), 0.0)
        low += np.maximum(more * (length / radius - 1), 0.0)
    return np.asarray((point * _shrink(length, radius)[:, :, None]) @ vectors.transpose(0, 2, 1))


def _shrink(length: Floats, radius: float) -> Floats:
    return np.where(length > radius, radius / np.maximum(length, radius), 1.0)


def _by_rows(function: Callable[[Floats], Floats], points: Floats) -> Floats:
    """A set's function of (K, d), for (n, k, d)."""
    result = function(points.reshape(-1, points.shape[-1]))
    return np.asarray(result.reshape(points.shape))

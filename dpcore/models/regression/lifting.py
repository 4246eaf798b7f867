"""Models lifted from projected features, and the image of a set under a projection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.regression.accelerated import DescentProblem, Solution, descend
from weir.dpcore.models.regression.quadratic import PrivateQuadratic


@dataclass(frozen=True, eq=False)
class Image:
    """{Phi theta: theta in P}, by its ends alone.

    Attributes:
      set: P, in d dimensions. phi: (m, d). spread: its largest singular value, or more.
    """

    set: ConvexSet
    phi: Floats
    spread: float

    @property
    def dimension(self) -> int:
        """d: the linear oracle is P's."""
        return self.set.dimension

    @property
    def diameter(self) -> float:
        """A bound above the largest distance of two points."""
        return self.spread * self.set.diameter

    @property
    def prior(self) -> float:
        """What a coordinate is taken to vary by: r / sqrt(2 m), r the length of P's farthest.

        A random map keeps lengths and spreads them over all m coordinates, whatever P's models
        look like.
        """
        reach = self.set.farthest(np.zeros(self.set.dimension))
        return float(reach / np.sqrt(2.0 * len(self.phi)))

    def linear_oracle(self, costs: Floats) -> Floats:
        """argmin over it of <cost, point>: (n, m) -> (n, m)."""
        return np.asarray(self.set.linear_oracle(costs @ self.phi) @ self.phi.T)


LOOSE = 1e-3
"""Share of the least gauge that a model's may be above it."""
_NEWTON = 20
_STEPS = 5000
_SHARE = 1e-2
"""Of the squared residual, that a step towards the root may be away from its nearest point."""


class Embedded(NamedTuple):
    """f(Phi theta) as a function of theta, for quadratics f side by side.

    Attributes:
      phi: (m, d). matrix: (n, m, m) A. right: (n, k, m) q.
      least, step, goal: see ``DescentProblem``.
    """

    phi: Floats
    matrix: Floats
    right: Floats
    least: Floats
    step: Floats
    goal: Floats

    def slope(self, theta: Floats) -> Floats:
        """Phi' (A Phi theta - q), each system by itself, so that its bits do not depend on n."""
        inner = theta @ self.phi.T @ self.matrix - self.right
        return np.asarray(inner @ self.phi)

    def some(self, kept: NDArray[np.bool_]) -> Embedded:
        """Those that are kept."""
        return Embedded(self.phi, *(array[kept] for array in self[1:]))


def solve_embedded(
    quadratic: PrivateQuadratic,
    phi: Floats,
    spread: float,
    convex_set: ConvexSet,
    tolerance: float,
    steps: int,
) -> Solution:
    """argmin over theta in P of f(Phi theta): (n, k, d), by accelerated projected gradient.

    Args:
      quadratic: f, in m dimensions. phi: (m, d). spread: largest singular value of phi.
      tolerance: of the gap, relative to (largest eigenvalue of A) r^2 + |q| r, r the largest
        length in P. steps: at most these.

    Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, step 8, over theta and not Phi theta,
      so that no projection onto Phi P is needed.
    """
    n, k, _ = quadratic.right.shape
    reach = convex_set.farthest(np.zeros(convex_set.dimension))
    lengths = np.sqrt(np.sum(quadratic.right * quadratic.right, axis=2))
    size = quadratic.largest[:, None] * reach * reach + lengths * reach
    bend = quadratic.largest * spread * spread
    linear = np.max(lengths, axis=1) * (2.0**-10 / reach)
    step = 1 / np.maximum(np.maximum(bend, linear), np.finfo(float).tiny)
    problem = Embedded(phi, quadratic.convex, quadratic.right, np.zeros(n), step, tolerance * size)
    start = convex_set.project(np.zeros((1, convex_set.dimension)))
    return descend(problem, convex_set, np.repeat(start[None], n * k, 0).reshape(n, k, -1), steps)


def is_least(problem: DescentProblem, theta: Floats, convex_set: ConvexSet) -> NDArray[np.bool_]:
    """Whether no theta' with Phi theta' = Phi theta has a gauge below 1 - ``LOOSE``: (n, k).

    With g the gradient of f(Phi theta), <g, theta'> = <g, theta> for all of them. If c < 0 is the
    least <g, s> over P, then gauge(theta') >= <g, theta> / c, which is all but 1 where theta is a
    minimiser that the set's bound stops.
    """
    n, k, d = theta.shape
    slope = problem.slope(theta)
    flat = slope.reshape(n * k, d)
    least = np.sum(convex_set.linear_oracle(flat) * flat, axis=1).reshape(n, k)
    reached = np.sum(slope * theta, axis=2)
    size = np.sqrt(np.sum(slope * slope, axis=2)) * np.sqrt(np.sum(theta * theta, axis=2))
    return np.asarray((least < -1e-9 * size) & (reached <= (1 - LOOSE) * least))


def lift(points: Floats, phi: Floats, convex_set: ConvexSet) -> Floats:
    """argmin of the gauge of P over all theta with Phi theta = Phi point: (n, d) -> (n, d).

    A linear program for the l1 ball (HiGHS), closed form for the l2 ball; for others the root of
    how near Phi comes to the point from t P, as a function of t, to ``LOOSE``. A set that does not
    hold 0 has no gauge to speak of: the point stays. A result does not depend on the points next
    to it.

    Args:
      points: in P. phi: (m, d).

    Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, step 9; van den Berg, Friedlander
      (2008), "Probing the Pareto frontier for basis pursuit solutions", for the root.
    """
    lifted = points.copy()
    some = np.flatnonzero(points.any(axis=1))
    for at, result in zip(some, _least_gauges(points[some], phi, convex_set), strict=True):
        if result is None:
            continue
        # Rounding must not lead out of the set.
        gauge = float(convex_set.gauge(result[None])[0])
        if gauge <= 1 + 1e-6:
            lifted[at] = result / max(gauge, 1.0)
    return lifted


def _least_gauges(points: Floats, phi: Floats, convex_set: ConvexSet) -> Sequence[Floats | None]:
    if isinstance(convex_set, L2Ball):
        return [np.linalg.lstsq(phi, phi @ point, rcond=None)[0] for point in points]
    if isinstance(convex_set, L1Ball):
        return [_basis_pursuit(np.asarray(phi @ point), phi) for point in points]
    if not convex_set.contains(np.zeros((1, points.shape[1])))[0]:
        return [None] * len(points)
    return _from_below(points, phi, convex_set)


def _basis_pursuit(target: Floats, phi: Floats) -> Floats | None:
    """min ||theta||_1 subject to Phi theta = target, by HiGHS; None where it gives up."""
    from scipy.optimize import linprog

    d = phi.shape[1]
    result = linprog(
        np.ones(2 * d), A_eq=np.hstack([phi, -phi]), b_eq=target, bounds=(0, None), method="highs"
    )
    if result.status != 0:
        return None
    both = np.asarray(result.x, dtype=np.float64)
    return np.asarray(both[:d] - both[d:])


class _Search:
    """For a theta whose gauge is at most 1 + ``LOOSE`` times the least.

    How far Phi theta is from the target, over theta in t P, is convex in t and falls. With any
    residual r = target - Phi theta, no t below <r, target> / h(Phi' r) reaches it, h the support
    function of P. That is Newton's step where theta is the nearest, and never too far where it is
    not quite, so that t climbs towards the least gauge from below. What is left of r is then made
    good by the shortest vector that does, which gives a gauge above.

    Attributes:
      best: the theta. t: no gauge is below. target: (m,). theta: near it, in t P. rest: r.
    """

    def __init__(self, point: Floats, phi: Floats, convex_set: ConvexSet) -> None:
        self._phi, self._set = phi, convex_set
        self.best, self.t, self.target = point, 0.0, np.asarray(phi @ point)
        self.theta, self.rest = np.zeros_like(point), self.target
        self._least = float(convex_set.gauge(point[None])[0])

    def climbs(self) -> bool:
        """Makes Newton's step; False: ``best`` is found."""
        back = (self._phi.T @ self.rest)[None]
        support = float(np.sum(self._set.linear_oracle(-back) * back))
        if support > 0:
            self.t = max(self.t, float(self.rest @ self.target) / support)
        return support > 0 and self._least > (1 + LOOSE) * self.t

    def near(self, theta: Floats, inverse: Floats) -> None:
        """Takes the point of P that t brings near the target. inverse: of Phi."""
        self.theta = self.t * theta
        self.rest = self.target - self._phi @ self.theta
        whole = self.theta + inverse @ self.rest
        gauge = float(self._set.gauge(whole[None])[0])
        if gauge < self._least:
            self.best, self._least = whole, gauge


def _from_below(points: Floats, phi: Floats, convex_set: ConvexSet) -> list[Floats]:
    """What ``_Search`` finds for each point, all side by side."""
    spread = float(np.linalg.norm(phi, ord=2))
    inverse = np.asarray(np.linalg.pinv(phi), dtype=np.float64)
    every = [_Search(point, phi, convex_set) for point in points]
    live = every
    for _ in range(_NEWTON):
        live = [search for search in live if search.climbs()]
        if not live:
            break
        problem = Embedded(
            phi,
            np.stack([np.eye(len(phi)) * one.t * one.t for one in live]),
            np.stack([(one.t * one.target)[None] for one in live]),
            np.zeros(len(live)),
            np.array([1 / (one.t * spread) ** 2 for one in live]),
            np.array([[_SHARE * float(one.rest @ one.rest)] for one in live]),
        )
        start = np.stack([(one.theta / one.t)[None] for one in live])
        solved = descend(problem, convex_set, start, _STEPS)
        for one, theta in zip(live, solved.theta[:, 0], strict=True):
            one.near(theta, inverse)
    return [search.best for search in every]

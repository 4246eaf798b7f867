"""Models lifted from projected features, and the image of a set under a projection."""

from __future__ import annotations

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


def lift(point: Floats, phi: Floats, convex_set: ConvexSet) -> Floats:
    """argmin of the gauge of P over all theta with Phi theta = Phi point: (d,) -> (d,).

    A linear program for the l1 ball (HiGHS), closed form for the l2 ball; for others the root of
    how near Phi comes to the point from t P, as a function of t, to ``LOOSE``. A set that does not
    hold 0 has no gauge to speak of: the point stays.

    Args:
      point: in P. phi: (m, d).

    Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, step 9; van den Berg, Friedlander
      (2008), "Probing the Pareto frontier for basis pursuit solutions", for the root.
    """
    if not point.any():
        return point
    result = _least_gauge(point, phi, convex_set)
    if result is None:
        return point
    # Rounding must not lead out of the set.
    gauge = float(convex_set.gauge(result[None])[0])
    return np.asarray(result / max(gauge, 1.0)) if gauge <= 1 + 1e-6 else point


def _least_gauge(point: Floats, phi: Floats, convex_set: ConvexSet) -> Floats | None:
    if isinstance(convex_set, L2Ball):
        return np.asarray(np.linalg.lstsq(phi, phi @ point, rcond=None)[0], dtype=np.float64)
    if isinstance(convex_set, L1Ball):
        return _basis_pursuit(np.asarray(phi @ point), phi)
    if not convex_set.contains(np.zeros((1, len(point))))[0]:
        return None
    return _from_below(point, phi, convex_set)


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


def _from_below(point: Floats, phi: Floats, convex_set: ConvexSet) -> Floats:
    """A theta whose gauge is at most 1 + ``LOOSE`` times the least.

    How far Phi theta is from the target, over theta in t P, is convex in t and falls. With any
    residual r = target - Phi theta, no t below <r, target> / h(Phi' r) reaches it, h the support
    function of P. That is Newton's step where theta is the nearest, and never too far where it is
    not quite, so that t climbs towards the least gauge from below. What is left of r is then made
    good by the shortest vector that does, which gives a gauge above.
    """
    m, d = phi.shape
    target = np.asarray(phi @ point)
    spread = float(np.linalg.norm(phi, ord=2))
    back_to = np.linalg.pinv(phi)
    best, theta, t, rest = point, np.zeros(d), 0.0, target
    least = float(convex_set.gauge(best[None])[0])
    for _ in range(_NEWTON):
        back = (phi.T @ rest)[None]
        support = float(np.sum(convex_set.linear_oracle(-back) * back))
        if support > 0:
            t = max(t, float(rest @ target) / support)
        if support <= 0 or least <= (1 + LOOSE) * t:
            break
        problem = Embedded(
            phi,
            np.eye(m)[None] * t * t,
            (t * target)[None, None],
            np.zeros(1),
            np.array([1 / (t * spread) ** 2]),
            np.full((1, 1), _SHARE * float(rest @ rest)),
        )
        result = descend(problem, convex_set, (theta / t)[None, None], _STEPS)
        theta = t * result.theta[0, 0]
        rest = target - phi @ theta
        whole = theta + back_to @ rest
        gauge = float(convex_set.gauge(whole[None])[0])
        if gauge < least:
            best, least = whole, gauge
    return best

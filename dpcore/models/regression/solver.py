"""How the private objective is minimised, and the noisy projected gradient of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import at_least_one, positive
from weir.dpcore.geometry.convex_set import ConvexSet, l2_norms
from weir.dpcore.models.regression import accelerated
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

STEPS = 1000
_CHUNK = 1 << 17


def noisy_projected_gradient(
    quadratic: PrivateQuadratic, convex_set: ConvexSet, bound: Floats, steps: Floats
) -> Floats:
    """NoisyProjGrad(C, g, r): (n, k, d), the average of r iterates from the set's start.

    theta_{i+1} = P_C(theta_i - eta g(theta_i)), g(theta) = 2 (Q theta - q), with the constant step
    eta = |C| / (sqrt(r) (alpha + L)) and |C| the diameter. Q is taken as it was released, only made
    symmetric, its negative eigenvalues too.

    Args:
      bound: (n, k) alpha + L, above 0: the error of the gradient plus its own largest length.
      steps: (n, k) r, whole numbers, 1 or more.

    Source: Kasiviswanathan, Nissim, Jin (2017), Appendix B, equation (12) and Proposition B.1.
    """
    n, k, d = quadratic.right.shape
    diameter = convex_set.diameter
    out = np.empty((n, k, d))
    most = max(1, _CHUNK // (d * d))
    diagonal = np.arange(d)
    for first in range(0, n, most):
        at = slice(first, first + most)
        matrix = quadratic.symmetric[at].copy()
        matrix[:, diagonal, diagonal] += quadratic.pull
        right, limit = quadratic.right[at], steps[at]
        eta = diameter / (np.sqrt(limit) * bound[at])
        theta = np.broadcast_to(convex_set.start(), right.shape)
        total = np.zeros(right.shape)
        last = int(limit.max(initial=1))
        for done in range(1, last + 1):
            total += np.where(done <= limit, 1.0, 0.0)[:, :, None] * theta
            if done < last:
                moved = theta - (2 * eta)[:, :, None] * (theta @ matrix - right)
                theta = convex_set.project(moved.reshape(-1, d)).reshape(right.shape)
        out[at] = total / limit[:, :, None]
    return out


class StepSchedule(NamedTuple):
    """What ``noisy_projected_gradient`` takes in addition the quadratic.

    Attributes:
      bound: (n, k) alpha + L. steps: (n, k) r.
    """

    bound: Floats
    steps: Floats


def schedule(
    quadratic: PrivateQuadratic,
    convex_set: ConvexSet,
    stddev: Floats,
    steps: int = STEPS,
    beta: float = 0.05,
) -> StepSchedule:
    """alpha + L and r = (1 + L / alpha)^2, but at most ``steps``.

    L is the largest length of the released gradient over a ball that holds C: what the proof needs
    of alpha + L is a bound on |g|, and the paper's own L follows from the number of events, which
    is private. So alpha + L is that bound plus alpha, never too small.

    Args:
      stddev: (n,) of the noise of a coordinate of (svec(Q), q).
      steps: most steps. beta: chance that a tick's error exceeds alpha.

    Source: Kasiviswanathan, Nissim, Jin (2017), Corollary B.2.
    """
    at_least_one(steps=steps)
    reach = convex_set.farthest(np.zeros(quadratic.dimension))
    values = np.linalg.eigvalsh(quadratic.symmetric) + quadratic.pull
    norm = np.max(np.abs(values), axis=1)
    lengths = l2_norms(quadratic.right.reshape(-1, quadratic.dimension))
    slope = 2 * (norm[:, None] * reach + lengths.reshape(quadratic.right.shape[:2]))
    alpha = gradient_error(stddev, quadratic.dimension, reach, beta)[:, None]
    alpha = np.broadcast_to(alpha, slope.shape)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        wanted = np.where(alpha > 0, (1 + slope / alpha) ** 2, np.inf)
    wanted = np.minimum(np.ceil(wanted), steps)
    return StepSchedule(np.maximum(alpha + slope, np.finfo(float).tiny), np.maximum(wanted, 1.0))


def gradient_error(stddev: Floats, dimension: int, reach: float, beta: float) -> Floats:
    """alpha: max over |theta| <= reach of |2 (E theta - e)| is at most this, but for chance beta.

    E is symmetric with entries of deviation s on the diagonal and s / sqrt 2 off it, e has entries
    of deviation s. Their lengths have means at most s sqrt(2 d) (the largest eigenvalue of E) and
    s sqrt(d), and are s-Lipschitz in the noise: a deviation of u s has chance exp(-u^2 / 2).

    Args:
      stddev: (n,) s.

    Source: Kasiviswanathan, Nissim, Jin (2017), Lemma 4.1, with constants; Davidson, Szarek (2001),
      Theorem II.11, for the mean of the largest eigenvalue.
    """
    positive(beta=beta)
    more = math.sqrt(2 * math.log(max(3 / beta, 1.0)))
    matrix, right = math.sqrt(2 * dimension) + more, math.sqrt(dimension) + more
    return np.asarray(2 * stddev * (matrix * reach + right))


Name = Literal["accelerated", "noisy_projected_gradient"]


@dataclass(frozen=True)
class Solver:
    """Minimises private quadratics over a set. Post-processing.

    Attributes:
      name: of the algorithm. tolerance: gap at which the accelerated one stops, relative to the
        objective's size. steps: most steps; None: its own rule.
    """

    name: Name = "accelerated"
    tolerance: float = accelerated.TOLERANCE
    steps: int | None = None

    def __call__(
        self, quadratic: PrivateQuadratic, convex_set: ConvexSet, stddev: Floats
    ) -> Floats:
        """theta in the set: (n, k, d). stddev: (n,) of the noise of a coordinate of (svec(Q), q).

        Raises:
          ConfigError: the set has no projection.
        """
        if self.name == "accelerated":
            steps = accelerated.STEPS if self.steps is None else self.steps
            return accelerated.solve(quadratic, convex_set, self.tolerance, steps).theta
        steps = STEPS if self.steps is None else self.steps
        plan = schedule(quadratic, convex_set, stddev, steps)
        return noisy_projected_gradient(quadratic, convex_set, plan.bound, plan.steps)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "tolerance": self.tolerance.hex(), "steps": self.steps}

"""Regret against the best fixed point in hindsight. Reads clean data: for benchmarks and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import WeirError, positive


class Feasible(Protocol):
    """What the solver needs of a set."""

    def project(self, points: Floats) -> Floats:
        """Euclidean projection of (K, d)."""

    def linear_oracle(self, costs: Floats) -> Floats:
        """argmin over P of <p, costs>, (K, d)."""

    def start(self) -> Floats:
        """A point of P, (d,)."""


class Objective(Protocol):
    """K convex functions with Lipschitz gradients."""

    @property
    def smoothness(self) -> Floats:
        """(K,) Lipschitz constants of the gradients, above 0."""

    def value(self, x: Floats) -> Floats:
        """(K, d) -> (K,)."""

    def gradient(self, x: Floats) -> Floats:
        """(K, d) -> (K, d)."""


class Best(NamedTuple):
    """Minimisers to a tolerance.

    Attributes:
      x: (K, d). value: (K,). gap: (K,) proven value - minimum.
    """

    x: Floats
    value: Floats
    gap: Floats


@dataclass(frozen=True)
class Quadratics:
    """x -> x' H x / 2 - <b, x> + c: what any number of quadratic losses add up to.

    Attributes:
      hessian: (K, d, d) symmetric, positive semidefinite. linear: (K, d). constant: (K,).
    """

    hessian: Floats
    linear: Floats
    constant: Floats

    @classmethod
    def of_prefixes(
        cls, features: Floats, targets: Floats, curvature: float, centre: Floats, ends: Ints
    ) -> Quadratics:
        """Sums over t < end of (<a_t, x> - y_t)^2 / 2 + (curvature / 2) ||x - centre||^2.

        Args:
          features: (T, d). targets: (T,). centre: (d,). ends: (K,) ascending, at most T.
        """
        d = features.shape[1]
        hessian, linear = np.zeros((len(ends), d, d)), np.zeros((len(ends), d))
        constant = np.zeros(len(ends))
        begin = 0
        for k, end in enumerate(ends):
            a, y = features[begin:end], targets[begin:end]
            before = (hessian[k - 1], linear[k - 1], constant[k - 1]) if k else (0.0, 0.0, 0.0)
            own = curvature * len(a)
            hessian[k] = before[0] + np.einsum("ti,tj->ij", a, a) + own * np.eye(d)
            linear[k] = before[1] + np.einsum("ti,t->i", a, y) + own * centre
            constant[k] = before[2] + (y * y).sum() / 2 + own * (centre * centre).sum() / 2
            begin = int(end)
        return cls(hessian, linear, constant)

    @property
    def smoothness(self) -> Floats:
        """(K,) largest eigenvalues."""
        return np.asarray(np.linalg.eigvalsh(self.hessian)[:, -1])

    def value(self, x: Floats) -> Floats:
        """(K, d) -> (K,)."""
        bend = np.einsum("ki,kij,kj->k", x, self.hessian, x)
        return np.asarray(bend / 2 - (self.linear * x).sum(axis=1) + self.constant)

    def gradient(self, x: Floats) -> Floats:
        """(K, d) -> (K, d)."""
        return np.asarray(np.einsum("kij,kj->ki", self.hessian, x) - self.linear)


def best_in_hindsight(
    objective: Objective, convex_set: Feasible, tolerance: float, steps: int = 100_000
) -> Best:
    """argmin over P, by accelerated projected gradient with restarts.

    Stops at <gradient, x - linear_oracle(gradient)> <= tolerance, which bounds value - minimum
    for a convex objective.

    Raises:
      ConfigError: tolerance is not above 0.
      WeirError: not reached within ``steps``.
    """
    positive(tolerance=tolerance)
    smooth = objective.smoothness[:, None]
    x = np.repeat(convex_set.start()[None], len(smooth), axis=0).astype(np.float64)
    y, age = x, np.ones((len(x), 1))
    for _ in range(steps):
        slope = objective.gradient(x)
        gap = (slope * (x - convex_set.linear_oracle(slope))).sum(axis=1)
        if (gap <= tolerance).all():
            return Best(x, objective.value(x), np.maximum(gap, 0.0))
        new = convex_set.project(y - objective.gradient(y) / smooth)
        # O'Donoghue, Candes (2015): momentum that points uphill starts again.
        uphill = ((y - new) * (new - x)).sum(axis=1, keepdims=True) > 0
        grown = (1 + np.sqrt(1 + 4 * age * age)) / 2
        weight = np.where(uphill, 0.0, (age - 1) / grown)
        age = np.where(uphill, 1.0, grown)
        x, y = new, new + weight * (new - x)
    raise WeirError(f"a gap of {gap.max():.3g} after {steps} steps, above {tolerance:.3g}.")


def regret(losses: Floats, ends: Ints, best: Floats) -> Floats:
    """Regret of played iterates at checkpoints.

    Args:
      losses: (T, ...) f_t(x_t). ends: (K,) numbers of ticks, 1 or more.
      best: (K,) least sum of the first ``ends`` losses at a fixed point.

    Returns:
      (K, ...) sum of the first ``ends`` losses less ``best``.
    """
    total = np.cumsum(losses, axis=0)[np.asarray(ends) - 1]
    return np.asarray(total - best.reshape(-1, *[1] * (losses.ndim - 1)))

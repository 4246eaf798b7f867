"""Projected gradient descent with noise on every full gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from dpcore.accounting.guarantee import Loss
from dpcore.arrays import Floats
from dpcore.models.grid import centre_of, grid_of, to_grid
from dpcore.models.solvers.problem import Problem
from dpcore.models.solvers.queries import Queries, gradient_stddev
from dpcore.models.solvers.solver import COUNT
from dpcore.models.solvers.steps import steps_for

DEFAULT = 64
"""Iterations where none are given."""


@dataclass(frozen=True)
class NoisyGradient:
    """x_{k+1} = Proj_C(x_k - eta_k (grad F(x_k) + noise)), k = 1 .. T; a weighted average is
    released.

    **Formal guarantees**
      Unit, relation, sensitivity, guarantee: those of ``Queries``. A run asks for the number of
        rows once (share 1/32) and for T sums of gradients (the rest, evenly), so that its noise has
        sigma = 2 L sqrt(T / (2 rho)) for rho-zCDP. T is public and the same for every key: noise
        never scales with the number of rows. Steps follow from the noisy count (see ``steps``).
      Error: E F - F* <= D sqrt(((n L)^2 + d sigma^2) / m), m = ceil(T / 2), for convex losses;
        2 ((n L + lambda D)^2 + d sigma^2) / (lambda (T + 1)) for lambda-strongly convex F. The
        first falls in T towards 2 D L sqrt(d / rho) and is within 6 % of that at
        T = 8 rho n^2 / (2 d): more than that for n = ``limit`` is never run. With K-norm noise the
        term of the noise grows with T instead, and T = eps n / (2 d) balances both.
      A run whose noise may cost more than half of what any point of C does gives back its start.
      Source: Bassily, Smith, Thakurta (2014), with full gradients in place of one row's; sums in
        place of means, the private count, and the average of the last half as derived here.

    Attributes:
      problem: what is minimised. iterations: T.
    """

    problem: Problem
    iterations: int

    name: ClassVar[str] = "noisy_projected_gradient"
    title: ClassVar[str] = "projected gradient steps with noise on every full gradient"
    source: ClassVar[str] = "Bassily, Smith & Thakurta 2014, full gradients"

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: Loss) -> Self:
        """T = the iterations given, or fewer where more are of no use for any number of rows."""
        enough = most_useful(problem, loss)
        return cls(problem, max(1, min(DEFAULT if iterations is None else iterations, enough)))

    @property
    def share(self) -> Fraction:
        """Of a run's budget, for one gradient."""
        return (1 - COUNT) / self.iterations

    def solve(self, queries: Queries, start: Floats, strength: Floats) -> Floats:
        """See BatchSolver."""
        problem, grid = self.problem, grid_of(self.problem.set)
        counts = np.clip(queries.counts(COUNT), 1.0, float(problem.limit))
        noise = problem.dimension * queries.stddev(self.share) ** 2
        total = np.full(len(counts), self.iterations, dtype=np.int64)
        steps = steps_for(counts, problem.lipschitz, strength, problem.set.diameter, noise, total)
        if not steps.useful.any():
            return start.copy()
        queries.only(steps.useful)
        centre = centre_of(problem.set, problem.centre)
        x, average, weights = start, np.zeros_like(start), np.zeros((len(start), 1))
        for k in range(1, self.iterations + 1):
            weight = steps.weight(k)
            average += weight * x
            weights += weight
            gradient = queries.gradients(x, self.share) + strength[:, None] * (x - centre)
            x = to_grid(problem.set.project(x - steps.length(k) * gradient), grid)
        return np.where(steps.useful[:, None], to_grid(average / weights, grid), start)

    def stddev(self, budget: Loss, share: Fraction) -> float:
        """See BatchSolver."""
        return gradient_stddev(self.problem, budget, share * self.share)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "solver": self.name,
            "problem": self.problem.canonical(),
            "iterations": self.iterations,
            "count": str(COUNT),
        }


def most_useful(problem: Problem, loss: Loss) -> int:
    """T beyond which no number of rows up to the limit gains anything; see NoisyGradient."""
    n, d = problem.limit, problem.dimension
    if loss.kind == "pure":
        found = loss.value * n / (2 * d)
    else:
        rho = loss.value**2 / 2 if loss.kind == "gdp" else loss.value
        found = 8 * rho * n * n / (2 * d)
    return max(1, math.ceil(found)) if math.isfinite(found) else DEFAULT

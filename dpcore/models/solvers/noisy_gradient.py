"""Projected gradient descent with noise on every full gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.kit.point import centre_of, grid_of, to_grid
from weir.dpcore.models.solvers.queries import Paid, Problem, Queries
from weir.dpcore.models.solvers.solver import BatchSolver, SolverRun, StepRule, steps_for

DEFAULT = 64
"""Iterations where none are given."""


class Descent(NamedTuple):
    """A run of K keys.

    Attributes:
      start: (K, d). strength: (K,). counts: (K,), rows of each key as a query told.
      x: (K, d), where it is. average: (K, d), weighted sum of where it was. weights: (K, 1).
      done: (1,) int64, iterations. paid: (3,) int64, see ``Paid``.
    """

    start: Floats
    strength: Floats
    counts: Floats
    x: Floats
    average: Floats
    weights: Floats
    done: Ints
    paid: Ints


@dataclass(frozen=True)
class NoisyGradient(BatchSolver):
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

    name: ClassVar[str] = "noisy_projected_gradient"
    title: ClassVar[str] = "projected gradient steps with noise on every full gradient"
    source: ClassVar[str] = "Bassily, Smith & Thakurta 2014, full gradients"

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: PrivacyLoss) -> Self:
        """T = the iterations given, or fewer where more are of no use for any number of rows."""
        enough = most_useful(problem, loss)
        return cls(problem, max(1, min(DEFAULT if iterations is None else iterations, enough)))

    def _run(self, start: Floats, strength: Floats, counts: Floats, paid: Paid) -> Descent:
        nothing = np.zeros_like(start), np.zeros((len(start), 1)), np.zeros(1, dtype=np.int64)
        return Descent(start, strength, counts, start, *nothing, paid.stored)

    def advance(self, queries: Queries, carry: Descent, iterations: int) -> SolverRun:
        problem, grid, steps = self.problem, grid_of(self.problem.set), self._steps(queries, carry)
        start, strength = carry.start, carry.strength
        if not steps.useful.any():
            return SolverRun(carry, start.copy(), iterations)
        queries.only(steps.useful)
        centre = centre_of(problem.set, problem.centre)
        x, average, weights = carry.x, carry.average.copy(), carry.weights.copy()
        done = int(carry.done[0])
        stop = min(self.iterations, done + iterations)
        for k in range(done + 1, stop + 1):
            weight = steps.weight(k)
            average += weight * x
            weights += weight
            gradient = queries.gradients(x, self.share) + strength[:, None] * (x - centre)
            x = to_grid(problem.set.project(x - steps.length(k) * gradient), grid)
        carry = carry._replace(
            x=x, average=average, weights=weights, done=np.array([stop]), paid=queries.paid.stored
        )
        if stop < self.iterations:
            return SolverRun(carry, None, 0)
        result = np.where(steps.useful[:, None], to_grid(average / weights, grid), start)
        return SolverRun(carry, result, iterations - (stop - done))

    def _steps(self, queries: Queries, carry: Descent) -> StepRule:
        problem, counts = self.problem, carry.counts
        noise = problem.dimension * queries.stddev(self.share) ** 2
        total = np.full(len(counts), self.iterations, dtype=np.int64)
        return steps_for(
            counts, problem.lipschitz, carry.strength, problem.set.diameter, noise, total
        )


def most_useful(problem: Problem, loss: PrivacyLoss) -> int:
    """T beyond which no number of rows up to the limit gains anything; see NoisyGradient."""
    n, d = problem.limit, problem.dimension
    if loss.kind == "pure":
        result = loss.value * n / (2 * d)
    else:
        rho = loss.value**2 / 2 if loss.kind == "gdp" else loss.value
        result = 8 * rho * n * n / (2 * d)
    return max(1, math.ceil(result)) if math.isfinite(result) else DEFAULT

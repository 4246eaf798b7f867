"""Frank and Wolfe's steps with noise on every full gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.grid import grid_of, to_grid
from weir.dpcore.models.solvers.problem import Problem
from weir.dpcore.models.solvers.queries import Paid, Queries, gradient_stddev
from weir.dpcore.models.solvers.solver import COUNT, BatchSolver, Run
from weir.dpcore.pricing.calibration import round_up

DEFAULT = 32
"""Iterations where none are given: noise costs as the root of them from then on."""


class Steps(NamedTuple):
    """A run of K keys.

    Attributes:
      start: (K, d). strength: (K,). counts: (K,), rows of each key as a query told.
      x: (K, d), where it is. done: (1,) int64, iterations. paid: (3,) int64, see ``Paid``.
    """

    start: Floats
    strength: Floats
    counts: Floats
    x: Floats
    done: Ints
    paid: Ints


@dataclass(frozen=True)
class FrankWolfe(BatchSolver):
    """x moves to argmin over C of <grad F(x) + noise, .> by mu_t = 2 / (t + 2), t = 0 .. T - 1.

    **Formal guarantees**
      Unit, relation, sensitivity, guarantee: those of ``Queries``. A run asks for the number of
        rows once (share 1/32) and for T sums of gradients (the rest, evenly). T is public and the
        same for every key; lengths of steps depend on nothing.
      Error: E F - F* <= 2 Gamma / (T + 2) + 2 sigma G_C over a set of Gaussian width G_C, Gamma =
        (n beta A^2 + lambda) D^2, A the largest length of a row: noise costs the width of the set
        in place of the root of its dimension.
      A run whose noise may cost more than half of what any point of C does gives back its start.
      Source: Talwar, Thakurta, Zhang (2015), Theorem 2.6, for a sum of clipped gradients.

    Attributes:
      problem: what is minimised. iterations: T.
    """

    problem: Problem
    iterations: int

    name: ClassVar[str] = "frank_wolfe"
    title: ClassVar[str] = "Frank-Wolfe steps with noise on every full gradient"
    source: ClassVar[str] = "Talwar, Thakurta & Zhang 2015 (Gaussian width)"

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: PrivacyLoss) -> Self:
        """T = the iterations given, or a default.

        Raises:
          ConfigError: a loss with a corner, for which no step is known to help.
        """
        refuse_corners(problem)
        return cls(problem, DEFAULT if iterations is None else iterations)

    @property
    def share(self) -> Fraction:
        """Of a run's budget, for one gradient."""
        return (1 - COUNT) / self.iterations

    def carry(self, n_keys: int) -> Steps:
        """See BatchSolver."""
        points, numbers = np.zeros((n_keys, self.problem.dimension)), np.zeros(n_keys)
        nothing = np.zeros(1, dtype=np.int64)
        return Steps(points, numbers, numbers, points, nothing, Paid().stored)

    def begin(self, queries: Queries, start: Floats, strength: Floats) -> Steps:
        """See BatchSolver."""
        counts = np.clip(queries.counts(COUNT), 1.0, float(self.problem.limit))
        nothing = np.zeros(1, dtype=np.int64)
        return Steps(start, strength, counts, start, nothing, queries.paid.stored)

    def advance(self, queries: Queries, carry: Steps, iterations: int) -> Run:
        """See BatchSolver."""
        problem, grid = self.problem, grid_of(self.problem.set)
        start, strength, centre = carry.start, carry.strength, np.array(problem.centre)
        lost = 2 * queries.stddev(self.share) * round_up(problem.set.gaussian_width())
        diameter = problem.set.diameter
        least = carry.counts * problem.lipschitz * diameter + strength * diameter**2 / 2
        useful = 2 * lost < least
        if not useful.any():
            return Run(carry, start.copy(), iterations)
        queries.only(useful)
        x, done = carry.x, int(carry.done[0])
        stop = min(self.iterations, done + iterations)
        for t in range(done, stop):
            costs = queries.gradients(x, self.share) + strength[:, None] * (x - centre)
            step = 2.0 / (t + 2)
            x = to_grid((1.0 - step) * x + step * problem.set.linear_oracle(costs), grid)
        carry = carry._replace(x=x, done=np.array([stop]), paid=queries.paid.stored)
        if stop < self.iterations:
            return Run(carry, None, 0)
        return Run(carry, np.where(useful[:, None], x, start), iterations - (stop - done))

    def paid(self, carry: Steps) -> Paid:
        """See BatchSolver."""
        return Paid.of(carry.paid)

    def stddev(self, budget: PrivacyLoss, share: Fraction) -> float:
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


def refuse_corners(problem: Problem) -> None:
    """Raises ConfigError: a loss with a corner, for which no step is known to help."""
    if not math.isfinite(problem.gradients.loss.smoothness):
        raise ConfigError(
            "model.solver",
            FrankWolfe.name,
            f"needs a loss without a corner, which {problem.gradients.loss.name} has; write "
            "loss: squared, {huber: 0.5}, logistic or hinge, or take another solver.",
        )

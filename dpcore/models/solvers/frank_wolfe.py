"""Frank and Wolfe's steps with noise on every full gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.point import grid_of, to_grid
from weir.dpcore.models.solvers.queries import Paid, Problem, Queries
from weir.dpcore.models.solvers.solver import BatchSolver, SolverRun
from weir.dpcore.pricing.calibration import round_up

DEFAULT = 32
"""Iterations where none are given: noise costs as the root of them from then on."""


class FrankWolfeState(NamedTuple):
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

    def _run(self, start: Floats, strength: Floats, counts: Floats, paid: Paid) -> FrankWolfeState:
        nothing = np.zeros(1, dtype=np.int64)
        return FrankWolfeState(start, strength, counts, start, nothing, paid.stored)

    def advance(self, queries: Queries, carry: FrankWolfeState, iterations: int) -> SolverRun:
        problem, grid = self.problem, grid_of(self.problem.set)
        start, strength, centre = carry.start, carry.strength, np.array(problem.centre)
        lost = 2 * queries.stddev(self.share) * round_up(problem.set.gaussian_width())
        diameter = problem.set.diameter
        least = carry.counts * problem.lipschitz * diameter + strength * diameter**2 / 2
        useful = 2 * lost < least
        if not useful.any():
            return SolverRun(carry, start.copy(), iterations)
        queries.only(useful)
        x, done = carry.x, int(carry.done[0])
        stop = min(self.iterations, done + iterations)
        for t in range(done, stop):
            costs = queries.gradients(x, self.share) + strength[:, None] * (x - centre)
            step = 2.0 / (t + 2)
            x = to_grid((1.0 - step) * x + step * problem.set.linear_oracle(costs), grid)
        carry = carry._replace(x=x, done=np.array([stop]), paid=queries.paid.stored)
        if stop < self.iterations:
            return SolverRun(carry, None, 0)
        return SolverRun(carry, np.where(useful[:, None], x, start), iterations - (stop - done))


def refuse_corners(problem: Problem, solver: str = FrankWolfe.name) -> None:
    """Raises ConfigError: a loss with a corner, for which no step is known to help."""
    if problem.gradients.loss.cornered:
        raise ConfigError(
            "model.solver",
            solver,
            f"needs a loss without a corner, which {problem.gradients.loss.name} has; write "
            "loss: squared, {huber: 0.5}, logistic or hinge, or take another solver.",
        )

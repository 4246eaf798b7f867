"""Stochastic gradient descent: passes over secret batches, noise on every batch's gradient."""

from __future__ import annotations

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

DEFAULT = 16
"""Passes where none are given."""
MOST_BATCHES = 64
"""Of a pass: steps are dear, and more batches than this save little."""


@dataclass(frozen=True)
class NoisySgd:
    """Noisy SGD: P passes, each over B batches that a secret keyed hash deals anew, a step a batch.

    **Formal guarantees**
      Unit, relation, sensitivity, guarantee: those of ``Queries``. A run asks for the number of
        rows once (share 1/32) and pays for P passes (the rest, evenly). In a pass every row is in
        exactly one batch, so that a whole pass costs one release, however many batches it has:
        sigma = 2 L sqrt(P / (2 rho)) for rho-zCDP on each batch's sum.
      No amplification by sampling is claimed. Bassily, Smith and Thakurta draw rows at random and
        count on the observer not knowing which; the loss of a subsampled Gaussian is neither
        Gaussian DP nor zCDP at any parameter that would show a gain, and losses here compose as
        these. What is accounted for is what is done: disjoint batches, each row once a pass.
      Batches: B of a key is the number at which a batch's noise is as long as its gradient may be,
        n L / (sqrt(d) sigma), at most 64: a function of the noisy count. More passes than
        rho n^2 / (2 d) leave B = 1, which is ``NoisyGradient``.
      Error: no bound is claimed for batches without replacement; steps are those that the bound for
        independent batches would choose.
      A run whose noise may cost more than half of what any point of C does gives back its start.
      Source: Bassily, Smith, Thakurta (2014), Algorithm 1; passes in place of sampling.

    Attributes:
      problem: what is minimised. passes: P.
    """

    problem: Problem
    passes: int

    name: ClassVar[str] = "noisy_sgd"
    title: ClassVar[str] = "stochastic gradient steps over secret batches, a release a pass"
    source: ClassVar[str] = "Bassily, Smith & Thakurta 2014, passes without amplification"

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: Loss) -> Self:
        """P = the iterations given: an iteration is a pass, one look at all rows."""
        return cls(problem, DEFAULT if iterations is None else iterations)

    @property
    def share(self) -> Fraction:
        """Of a run's budget, for one pass."""
        return (1 - COUNT) / self.passes

    def solve(self, queries: Queries, start: Floats, strength: Floats) -> Floats:
        """See BatchSolver."""
        problem, grid = self.problem, grid_of(self.problem.set)
        counts = np.clip(queries.counts(COUNT), 1.0, float(problem.limit))
        noise = problem.dimension * queries.stddev(self.share) ** 2
        batches = np.clip(counts * problem.lipschitz / np.sqrt(noise), 1, MOST_BATCHES)
        batches = batches.astype(np.int64)
        steps = steps_for(
            counts,
            problem.lipschitz,
            strength,
            problem.set.diameter,
            noise,
            self.passes * batches,
            batches.astype(np.float64),
        )
        if not steps.useful.any():
            return start.copy()
        queries.only(steps.useful)
        batches = np.where(steps.useful, batches, 1)
        centre = centre_of(problem.set, problem.centre)
        done = np.zeros(len(start), dtype=np.int64)
        x, average, weights = start, np.zeros_like(start), np.zeros((len(start), 1))
        for number in range(self.passes):
            for index, batch in enumerate(queries.batches(batches, number, self.share)):
                active = (index < batches)[:, None]
                done += active[:, 0]
                weight = np.where(active, steps.weight(done), 0.0)
                average += weight * x
                weights += weight
                gradient = batch.gradients(x) + steps.strength[:, None] * (x - centre)
                moved = problem.set.project(x - steps.length(done) * gradient)
                x = np.where(active, to_grid(moved, grid), x)
        average /= np.maximum(weights, 1.0)  # 0 of keys that give back their start
        return np.where(steps.useful[:, None], to_grid(average, grid), start)

    def stddev(self, budget: Loss, share: Fraction) -> float:
        """See BatchSolver."""
        return gradient_stddev(self.problem, budget, share * self.share)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "solver": self.name,
            "problem": self.problem.canonical(),
            "passes": self.passes,
            "most_batches": MOST_BATCHES,
            "count": str(COUNT),
        }

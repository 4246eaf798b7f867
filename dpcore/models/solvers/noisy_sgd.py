"""Stochastic gradient descent: passes over secret batches, noise on every batch's gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.kit.point import centre_of, grid_of, to_grid
from weir.dpcore.models.solvers.queries import Paid, Problem, Queries
from weir.dpcore.models.solvers.solver import COUNT, BatchSolver, SolverRun, steps_for

DEFAULT = 16
"""Passes where none are given."""
MOST_BATCHES = 64
"""Of a pass: steps are expensive, and more batches than this save little."""
QUIET = 24
"""Times that a batch's gradient may be longer than its noise. On synthetic rows (2,000 to 20,000 of
5 to 20 coefficients, epsilon 0.1 and 1, 4 to 64 passes) 24 and 48 were best of six from 1 to 48."""


class Passes(NamedTuple):
    """A run of K keys.

    Attributes:
      start: (K, d). strength: (K,). counts: (K,), rows of each key as a query told.
      x: (K, d), where it is. average: (K, d), weighted sum of where it was. weights: (K, 1).
      taken: (K,) int64, steps. place: (2,) int64, pass and batch that come next.
      paid: (3,) int64, see ``Paid``.
    """

    start: Floats
    strength: Floats
    counts: Floats
    x: Floats
    average: Floats
    weights: Floats
    taken: Ints
    place: Ints
    paid: Ints


@dataclass(frozen=True)
class NoisySgd(BatchSolver):
    """Noisy SGD: P passes, each over B batches that a secret keyed hash deals again, a step a
    batch.

    **Formal guarantees**
      Unit, relation, sensitivity, guarantee: those of ``Queries``. A run asks for the number of
        rows once (share 1/32) and pays for P passes (the rest, evenly). In a pass every row is in
        exactly one batch, so that a whole pass costs one release, however many batches it has:
        sigma = 2 L sqrt(P / (2 rho)) for rho-zCDP on each batch's sum.
      No amplification by sampling is claimed. Bassily, Smith and Thakurta draw rows at random and
        count on the observer not knowing which; the loss of a subsampled Gaussian is neither
        Gaussian DP nor zCDP at any parameter that would show a gain, and losses here compose as
        these. What is accounted for is what is done: disjoint batches, each row once a pass.
      Batches: B of a key is the number at which a batch's gradient may be ``quiet`` times as long
        as its noise, n L / (quiet sqrt(d) sigma), at most 64: a function of the noisy count. Where
        it is 1, this is ``NoisyGradient``.
      Their price: each of the B sums of a pass has the noise of a sum over all rows, and 1/B of its
        rows, so that the noise in a model has B times the variance.
      Error: no bound is claimed for batches without replacement; steps are those that the bound for
        independent batches would choose.
      A run whose noise may cost more than half of what any point of C does gives back its start.
      Source: Bassily, Smith, Thakurta (2014), Algorithm 1; passes in place of sampling.

    Attributes:
      problem: what is minimised. iterations: P, passes. quiet: see above.
    """

    quiet: int = QUIET

    name: ClassVar[str] = "noisy_sgd"
    title: ClassVar[str] = "stochastic gradient steps over secret batches, a release a pass"
    source: ClassVar[str] = "Bassily, Smith & Thakurta 2014, passes without amplification"

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: PrivacyLoss) -> Self:
        """P = the iterations given: an iteration is a pass, one look at all rows."""
        return cls(problem, DEFAULT if iterations is None else iterations)

    def _run(self, start: Floats, strength: Floats, counts: Floats, paid: Paid) -> Passes:
        zeros, weights = np.zeros_like(start), np.zeros((len(start), 1))
        taken, place = np.zeros(len(start), dtype=np.int64), np.zeros(2, dtype=np.int64)
        return Passes(start, strength, counts, start, zeros, weights, taken, place, paid.stored)

    def advance(self, queries: Queries, carry: Passes, iterations: int) -> SolverRun:
        """See BatchSolver. An iteration is a step of one batch."""
        problem, grid, start = self.problem, grid_of(self.problem.set), carry.start
        noise = problem.dimension * queries.stddev(self.share) ** 2
        allowed = carry.counts * problem.lipschitz / np.sqrt(noise)
        batches = np.clip(allowed / self.quiet, 1, MOST_BATCHES).astype(np.int64)
        steps = steps_for(
            carry.counts,
            problem.lipschitz,
            carry.strength,
            problem.set.diameter,
            noise,
            self.iterations * batches,
            batches.astype(np.float64),
        )
        if not steps.useful.any():
            return SolverRun(carry, start.copy(), iterations)
        queries.only(steps.useful)
        batches = np.where(steps.useful, batches, 1)
        widest = int(batches.max())
        centre = centre_of(problem.set, problem.centre)
        x, taken = carry.x, carry.taken.copy()
        average, weights = carry.average.copy(), carry.weights.copy()
        number, index = carry.place.tolist()
        while number < self.iterations and iterations:
            stop = min(widest, index + iterations)
            asked = queries.batches(batches, number, self.share, index)
            for place, batch in zip(range(index, stop), asked, strict=False):
                active = (place < batches)[:, None]
                taken += active[:, 0]
                weight = np.where(active, steps.weight(taken), 0.0)
                average += weight * x
                weights += weight
                gradient = batch.gradients(x) + steps.strength[:, None] * (x - centre)
                moved = problem.set.project(x - steps.length(taken) * gradient)
                x = np.where(active, to_grid(moved, grid), x)
            iterations -= stop - index
            number, index = (number + 1, 0) if stop == widest else (number, stop)
        carry = carry._replace(
            x=x,
            average=average,
            weights=weights,
            taken=taken,
            place=np.array([number, index]),
            paid=queries.paid.stored,
        )
        if number < self.iterations:
            return SolverRun(carry, None, 0)
        mean = average / np.maximum(weights, 1.0)  # 0 of keys that give back their start
        result = np.where(steps.useful[:, None], to_grid(mean, grid), start)
        return SolverRun(carry, result, iterations)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "solver": self.name,
            "problem": self.problem.canonical(),
            "passes": self.iterations,
            "most_batches": MOST_BATCHES,
            "quiet": self.quiet,
            "count": str(COUNT),
        }

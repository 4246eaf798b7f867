"""Noisy steps that noisy second moments precondition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.kit.eigen import combination, spectral
from weir.dpcore.models.kit.filter import FilterRule
from weir.dpcore.models.kit.point import centre_of, grid_of, to_grid
from weir.dpcore.models.solvers.frank_wolfe import refuse_corners
from weir.dpcore.models.solvers.queries import (
    Paid,
    Problem,
    Queries,
    gradient_stddev,
    moments_stddev,
)
from weir.dpcore.models.solvers.solver import COUNT, BatchSolver, SolverRun

LENGTH, MOMENTS = Fraction(1, 50), Fraction(1, 10)
"""Shares of a run's budget for the mean squared length of a row and for second moments."""
DEFAULT = 8
"""Iterations where none are given: of 4 to 64, on tables that were made up, any number was about as
good."""
SHORTEST = 0.1
"""Least mean squared length of features that is taken."""
MOST_WIDTH = 256
"""Coefficients, at most: a run carries as many times as many numbers of each key."""
PROJECTIONS = 100
"""Steps of a projection onto the set in the metric of second moments."""


class Preconditioned(NamedTuple):
    """A run of K keys.

    Attributes:
      start: (K, d). strength: (K,). counts: (K,), rows of each key, as a query answered.
      x: (K, d), where it is. filter: (K, d, d), what steps are multiplied by.
      moments: (K, d, d), second moments with noise, raised above it.
      done: (1,) int64, iterations. paid: (3,) int64, see ``Paid``.
    """

    start: Floats
    strength: Floats
    counts: Floats
    x: Floats
    filter: Floats
    moments: Floats
    done: Ints
    paid: Ints


@dataclass(frozen=True)
class NoisySteps(BatchSolver):
    """x <- Proj_C(x - U^T diag(a / (c e)) U (grad F(x) + noise) / n), T times.

    U^T diag(e) U are the second moments of rows with noise, e raised above what it does to them; c
    is the smoothness of the loss and a the lengths of least predicted excess (``FilterRule``).

    **Formal guarantees**
      Unit, relation, sensitivity, guarantee: those of ``Queries``. A run asks once each for the
        number of rows n (share 1/32), for the sum of the squared lengths of features (1/50) and for
        second moments (1/10), of rows that are shortened to the root of the mean squared length;
        and for T sums of gradients (the rest, evenly). T is public and the same for every key.
        Filter and x follow from answers alone, so that all of them compose adaptively.
      Retries: on the way to x only exact sums, + - * /, square roots and fixed orders occur
        (``eigen``): a retry on another CPU comes to the same filter and asks at the same points.
      Noise that hides a direction gives it a = 0: it stays where it started.
      Proj_C is onto the nearest point in the metric of the second moments, so that where no a is
        below 1 steps end at the best point of C.
      Source: derived here; noisy second moments: Dwork, Talwar, Thakurta, Zhang (2014).

    Attributes:
      problem: what is minimised. iterations: T.
    """

    name: ClassVar[str] = "steps"
    title: ClassVar[str] = "noisy steps that noisy second moments precondition"
    source: ClassVar[str] = "Dwork, Talwar, Thakurta & Zhang 2014, for the moments"

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: PrivacyLoss) -> Self:
        """T = the iterations given, or a default.

        Raises:
          ConfigError: a loss with a corner, or more coefficients than second moments are kept of.
        """
        refuse_corners(problem, cls.name)
        if problem.dimension > MOST_WIDTH:
            raise ConfigError(
                "model.solver",
                cls.name,
                f"keeps second moments of {problem.dimension:,} coefficients, more than "
                f"{MOST_WIDTH}; write solver: noisy_projected_gradient.",
            )
        return cls(problem, DEFAULT if iterations is None else iterations)

    @property
    def share(self) -> Fraction:
        """See BatchSolver: after the other queries."""
        return (1 - COUNT - LENGTH - MOMENTS) / self.iterations

    @property
    def rule(self) -> FilterRule:
        """What is known of the loss before any data."""
        loss = self.problem.gradients.loss
        return FilterRule.of(loss.labels, 1, loss.smoothness, (self.iterations,))

    def expected(self, budget: PrivacyLoss, share: Fraction, rows: float) -> float:
        """Predicted excess of a run over so many rows that are spread evenly over their ranges.

        Args:
          share: of the budget, for the run.
        """
        problem, features = self.problem, self.problem.gradients.features
        own = problem.gradients.intercept
        values = np.full(problem.dimension, 1.0 / 3.0)
        if own:
            values[-1] = 1.0
        squares = max(SHORTEST, features / 3) + own
        moments = moments_stddev(problem, budget, share * MOMENTS)
        low = squares / rows * moments * math.sqrt(problem.dimension)
        variance = (gradient_stddev(problem, budget, share * self.share) / rows) ** 2
        return self.rule.choose(values + low, [variance]).excess

    def _run(self, start: Floats, strength: Floats, counts: Floats, paid: Paid) -> Preconditioned:
        d = self.problem.dimension
        squares = np.zeros((len(start), d, d)), np.zeros((len(start), d, d))
        nothing = np.zeros(1, dtype=np.int64)
        return Preconditioned(start, strength, counts, start, *squares, nothing, paid.stored)

    def advance(self, queries: Queries, carry: Preconditioned, iterations: int) -> SolverRun:
        problem, grid = self.problem, grid_of(self.problem.set)
        centre, done, x = centre_of(problem.set, problem.centre), int(carry.done[0]), carry.x
        if done == 0 and iterations:
            carry = self._filtered(queries, carry)
        stop = min(self.iterations, done + iterations)
        for _ in range(done, stop):
            pull = carry.strength[:, None] * (x - centre)
            mean = (queries.gradients(x, self.share) + pull) / carry.counts[:, None]
            moved = [combination(row, own) for row, own in zip(mean, carry.filter, strict=True)]
            aims = zip(x - np.array(moved), carry.moments, strict=True)
            x = to_grid(np.array([nearest(problem.set, *item) for item in aims]), grid)
        carry = carry._replace(x=x, done=np.array([stop]), paid=queries.paid.stored)
        if stop < self.iterations:
            return SolverRun(carry, None, 0)
        return SolverRun(carry, x, iterations - (stop - done))

    def _filtered(self, queries: Queries, carry: Preconditioned) -> Preconditioned:
        """With the filter of each key."""
        problem, counts, rule = self.problem, carry.counts, self.rule
        features, d = problem.gradients.features, problem.dimension
        own = problem.gradients.intercept
        lengths = queries.squared_lengths(LENGTH) / counts
        squares = np.clip(lengths + own, SHORTEST + own, max(SHORTEST, features) + own)
        moments, stddev = queries.second_moments(np.sqrt(squares), MOMENTS)
        variance = queries.stddev(self.share) ** 2
        first = to_grid(problem.set.start()[None], grid_of(problem.set))[0]
        filters, raised = np.empty((len(counts), d, d)), np.empty((len(counts), d, d))
        for key, (count, square) in enumerate(zip(counts.tolist(), squares.tolist(), strict=True)):
            scale = square / count
            low = scale * stddev * math.sqrt(d) + float(carry.strength[key]) / (
                rule.smoothness * count
            )
            linked = bool((carry.start[key] != first).any())
            result = rule.spectrum(moments[key] * scale, low, [variance / count**2], linked)
            filters[key] = spectral(result.inverse, result.rows)
            raised[key] = spectral(result.values, result.rows)
        return carry._replace(filter=filters, moments=raised)


def nearest(convex_set: ConvexSet, point: Floats, metric: Floats) -> Floats:
    """The point z of a set with the least (z - point)^T metric (z - point), nearly: (d,).

    Accelerated projected steps; the same bits on every CPU. metric: (d, d), positive definite.
    Source: Beck, Teboulle (2009).
    """
    if convex_set.contains(point[None], 0.0)[0]:
        return point
    steep, weight = float(np.abs(metric).sum(axis=1).max()), 1.0
    z = at = np.asarray(convex_set.project(point[None])[0])
    for _ in range(PROJECTIONS):
        slope = combination(at - point, metric) / steep
        before, z = z, np.asarray(convex_set.project((at - slope)[None])[0])
        following = (1 + math.sqrt(1 + 4 * weight * weight)) / 2
        at = z + ((weight - 1) / following) * (z - before)
        weight = following
    return z

"""A private batch solver, and the lengths of its steps.

Lengths of noisy gradient steps: chosen by the smaller of two bounds, from public numbers only.

With stochastic gradients of E||g||^2 <= E, projected steps over a set of diameter D satisfy, for
the average of T iterates x_1, ..., x_T (each taken before its step)

  constant eta, the last m of T averaged:  E F(avg) - F* <= D^2 / (2 eta m) + eta E / 2,
      at eta = D / sqrt(m E) equal to D sqrt(E / m);                                        (convex)
  eta_k = 2 / (lambda (k + 1)), weights k:  E F(avg) - F* <= 2 E / (lambda (T + 1)).        (strong)

The first is the regret of online gradient descent (Zinkevich 2003) over the last m steps only, from
any point of the set; the second is Lacoste-Julien, Schmidt, Bach (2012). m = ceil(T / 2): the
paper averages all T, which is a factor sqrt(2) better in this bound, and far worse where the start
is far from the optimum, as its first steps stay in the average. E = (n L + lambda D)^2 + d sigma^2,
with n the number of rows as a query told it: where it told too few, E is larger, and the
first bound grows by at most the factor (1 + E_true / E) / 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints, State
from weir.dpcore.models.solvers.queries import Paid, Problem, Queries, gradient_stddev
from weir.dpcore.neighbours import Family


class StepRule(NamedTuple):
    """Steps of K keys.

    Attributes:
      strong: (K,), whether steps shrink. eta: (K,), length of the constant ones.
      strength: (K,), lambda of the function that a step sees. total: (K,) int64, steps.
      bound: (K,), on the expected excess. useful: (K,), whether the part of it that noise has is at
        most half of what every point of the set achieves: else noise is likely to lead away from a
        good start.
    """

    strong: NDArray[np.bool_]
    eta: Floats
    strength: Floats
    total: Ints
    bound: Floats
    useful: NDArray[np.bool_]

    def length(self, k: Ints | int) -> Floats:
        """(K, 1), of step k = 1, 2, ...; k: (K,), or one number for all."""
        strength = np.where(self.strong, self.strength, 1.0)
        return np.asarray(np.where(self.strong, 2.0 / (strength * (k + 1)), self.eta)[:, None])

    def weight(self, k: Ints | int) -> Floats:
        """(K, 1), of the iterate before step k in the average; 0 beyond a key's last step."""
        late = np.asarray(k > self.total // 2, dtype=np.float64)
        weight = np.where(self.strong, np.asarray(k, dtype=np.float64), late)
        return np.asarray(np.where(k <= self.total, weight, 0.0)[:, None])


def steps_for(
    counts: Floats,
    lipschitz: float,
    strength: Floats,
    diameter: float,
    noise: float,
    total: Ints,
    parts: Floats | float = 1.0,
) -> StepRule:
    """Chooses steps.

    Args:
      counts: (K,), rows of each key, as a query told; 1 or more.
      lipschitz: L. strength: (K,), lambda. diameter: D.
      noise: E||noise||^2 of one gradient.
      total: (K,), steps.
      parts: F is this many times the function that a step sees (batches); a number or (K,).
    """
    strength = np.asarray(strength, dtype=np.float64)
    slope = counts * lipschitz / parts + strength / parts * diameter
    energy = slope * slope + noise
    averaged = (total - total // 2).astype(np.float64)
    safe = np.where(strength > 0, strength, 1.0) / parts

    def convex(square: Floats | float) -> Floats:
        return np.asarray(parts * diameter * np.sqrt(square / averaged))

    def shrinking(square: Floats | float) -> Floats:
        bound = parts * 2.0 * square / (safe * (total + 1))
        return np.where(strength > 0, bound, math.inf)

    eta = diameter / np.sqrt(averaged * energy)
    strong = shrinking(energy) < convex(energy)
    bound = np.where(strong, shrinking(energy), convex(energy))
    lost = np.where(strong, shrinking(noise), convex(noise))
    trivial = counts * lipschitz * diameter + 0.5 * strength * diameter * diameter
    return StepRule(strong, eta, strength / parts, total, bound, 2 * lost < trivial)


COUNT = Fraction(1, 32)
"""Share of a run's budget for the number of rows, on which the lengths of steps depend."""
ALL = 1 << 62
"""Iterations that no run has."""


class SolverRun(NamedTuple):
    """Where a run is after some iterations.

    Attributes:
      carry: what it goes on from. found: (K, d), its answer when it is done.
      left: iterations of those allowed that were not needed.
    """

    carry: State
    found: Floats | None
    left: int


@dataclass(frozen=True)
class BatchSolver(ABC):
    """Minimises F of K keys by queries. A frozen value of public numbers.

    It sees the rows through ``Queries`` only, which holds it to the budget: whatever it does, a run
    is as private as its share. It must give a key's bits whatever the other keys are: no ``@``, no
    reduction whose order depends on K, and the number of its queries and passes is public; points
    that it goes on from lie on the problem's grid. A run may be cut after any iteration: what it
    goes on from is a NamedTuple of arrays, and the bits do not depend on the cuts.

    Attributes:
      problem: what is minimised. iterations: T, of a run.
      name: in the config. title: in a few words. source: where it is from.
    """

    problem: Problem
    iterations: int

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    neighbours: ClassVar[Family] = Family(
        ("first",), "canary", "rows are seen through gradients that are clipped one by one"
    )

    @classmethod
    @abstractmethod
    def make(cls, problem: Problem, iterations: int | None, loss: PrivacyLoss) -> Self:
        """For a problem.

        Args:
          iterations: most iterations of a run; None: its own default.
          loss: what the most generous run may cost.

        Raises:
          ConfigError: it cannot serve the problem.
        """

    @property
    def share(self) -> Fraction:
        """Of a run's budget, for one gradient query."""
        return (1 - COUNT) / self.iterations

    def carry(self, n_keys: int) -> Any:
        """A carry of the shape of any."""
        points, numbers = np.zeros((n_keys, self.problem.dimension)), np.zeros(n_keys)
        return self._run(points, numbers, numbers, Paid())

    def begin(self, queries: Queries, start: Floats, strength: Floats) -> Any:
        """A run of which no iteration is done.

        Args:
          start: (K, d), the last released model of each key.
          strength: (K,), lambda of each key's F: public.
        """
        counts = np.clip(queries.counts(COUNT), 1.0, float(self.problem.limit))
        return self._run(start, strength, counts, queries.paid)

    @abstractmethod
    def _run(self, start: Floats, strength: Floats, counts: Floats, paid: Paid) -> Any:
        """A NamedTuple of arrays, ``paid`` (3,) among them. counts: (K,), rows as a query told."""

    @abstractmethod
    def advance(self, queries: Queries, carry: Any, iterations: int) -> SolverRun:
        """At most so many iterations more; the answer is in C, on the grid.

        Args:
          queries: of this run, over the same rows; they know what it has paid (``paid``).
        """

    def paid(self, carry: Any) -> Paid:
        """What a run has paid by then."""
        return Paid.of(carry.paid)

    def solve(self, queries: Queries, start: Floats, strength: Floats) -> Floats:
        """One run at once: (K, d)."""
        result = self.advance(queries, self.begin(queries, start, strength), ALL).found
        assert result is not None
        return result

    def stddev(self, budget: PrivacyLoss, share: Fraction) -> float:
        """Standard deviation of a coordinate of the noise in one gradient query of a run."""
        return gradient_stddev(self.problem, budget, share * self.share)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "solver": self.name,
            "problem": self.problem.canonical(),
            "iterations": self.iterations,
            "count": str(COUNT),
        }

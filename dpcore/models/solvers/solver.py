"""What a private batch solver is. A new one is one file here and one line in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self

from dpcore.accounting.guarantee import Loss
from dpcore.arrays import Floats
from dpcore.models.solvers.problem import Problem
from dpcore.models.solvers.queries import Queries

COUNT = Fraction(1, 32)
"""Share of a run's budget for the number of rows, on which the lengths of steps depend."""


class BatchSolver(Protocol):
    """Minimises F of K keys by queries. A frozen value of public numbers.

    It sees the rows through ``Queries`` only, which holds it to the budget: whatever it does, a run
    is as private as its share. It must give a key's bits whatever the other keys are: no ``@``, no
    reduction whose order depends on K, and the number of its queries and passes is public; points
    that it goes on from lie on the problem's grid.

    Attributes:
      name: in the config. title: in a few words. source: where it is from.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: Loss) -> Self:
        """For a problem.

        Args:
          iterations: most iterations of a run; None: its own default.
          loss: what the most generous run may cost.

        Raises:
          ConfigError: it cannot serve the problem.
        """

    def solve(self, queries: Queries, start: Floats, strength: Floats) -> Floats:
        """One run.

        Args:
          start: (K, d), the last released model of each key.
          strength: (K,), lambda of each key's F: public.

        Returns:
          (K, d) in C, on the grid.
        """

    def stddev(self, budget: Loss, share: Fraction) -> float:
        """Standard deviation of a coordinate of the noise in one gradient query of a run."""

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""

"""What a private batch solver is. A new one is one file here and one line in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, State
from weir.dpcore.models.solvers.problem import Problem
from weir.dpcore.models.solvers.queries import Paid, Queries
from weir.dpcore.neighbours import Family

COUNT = Fraction(1, 32)
"""Share of a run's budget for the number of rows, on which the lengths of steps depend."""
ALL = 1 << 62
"""Iterations that no run has."""


class Run(NamedTuple):
    """Where a run is after some iterations.

    Attributes:
      carry: what it goes on from. found: (K, d), its answer when it is done.
      left: iterations of those allowed that were not needed.
    """

    carry: State
    found: Floats | None
    left: int


class BatchSolver(Protocol):
    """Minimises F of K keys by queries. A frozen value of public numbers.

    It sees the rows through ``Queries`` only, which holds it to the budget: whatever it does, a run
    is as private as its share. It must give a key's bits whatever the other keys are: no ``@``, no
    reduction whose order depends on K, and the number of its queries and passes is public; points
    that it goes on from lie on the problem's grid. A run may be cut after any iteration: what it
    goes on from is a NamedTuple of arrays, and the bits do not depend on the cuts.

    Attributes:
      name: in the config. title: in a few words. source: where it is from.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    neighbours: ClassVar[Family] = Family(
        ("first",), "canary", "rows are seen through gradients that are clipped one by one"
    )

    @classmethod
    def make(cls, problem: Problem, iterations: int | None, loss: PrivacyLoss) -> Self:
        """For a problem.

        Args:
          iterations: most iterations of a run; None: its own default.
          loss: what the most generous run may cost.

        Raises:
          ConfigError: it cannot serve the problem.
        """

    def carry(self, n_keys: int) -> State:
        """A carry of the shape of any."""

    def begin(self, queries: Queries, start: Floats, strength: Floats) -> State:
        """A run of which no iteration is done.

        Args:
          start: (K, d), the last released model of each key.
          strength: (K,), lambda of each key's F: public.
        """

    def advance(self, queries: Queries, carry: State, iterations: int) -> Run:
        """At most so many iterations more; the answer is in C, on the grid.

        Args:
          queries: of this run, over the same rows; they know what it has paid (``paid``).
        """

    def paid(self, carry: State) -> Paid:
        """What a run has paid by then."""

    def solve(self, queries: Queries, start: Floats, strength: Floats) -> Floats:
        """One run at once: (K, d)."""
        found = self.advance(queries, self.begin(queries, start, strength), ALL).found
        assert found is not None
        return found

    def stddev(self, budget: PrivacyLoss, share: Fraction) -> float:
        """Standard deviation of a coordinate of the noise in one gradient query of a run."""

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""

"""What is promised: privacy loss as a number that composes, and the guarantee a plan prints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpcore.accounting import calibrate
from dpcore.errors import WeirError

Relation = Literal["add_remove", "replace_one", "replace_anywhere"]
Kind = Literal["gdp", "zcdp", "pure"]


@dataclass(frozen=True)
class Loss:
    """Privacy loss of one record against a set of releases.

    kind "gdp": value is mu of Gaussian DP; "zcdp": rho; "pure": epsilon. ``math.inf`` means no
    protection.
    """

    kind: Kind
    value: float

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon (rounded up) such that the loss implies (epsilon, delta)-DP."""
        if self.value == 0:
            return 0.0
        if math.isinf(self.value):
            return math.inf
        if self.kind == "pure":
            return self.value
        if self.kind == "gdp":
            return calibrate.gdp_epsilon(self.value, delta)
        return calibrate.zcdp_epsilon(self.value, delta)

    def of_group(self, size: int) -> Loss:
        """Loss of ``size`` records that change together, wherever they lie.

        Going from one stream to the other a record at a time passes ``size`` pairs of neighbours,
        and the loss holds for each of them: mu and epsilon add up, rho grows with the square.
        Sources: Dong, Roth, Su (2022), Theorem 2.14; Bun, Steinke (2016), Proposition 1.9.
        """
        times = size * size if self.kind == "zcdp" else size
        return Loss(self.kind, self.value * times)


def compose(losses: tuple[Loss, ...]) -> Loss:
    """Adaptive composition of losses of one kind: mu adds in squares, rho and epsilon add."""
    kinds = {loss.kind for loss in losses}
    if len(kinds) != 1:
        raise WeirError(f"losses of different kinds do not compose here: {sorted(kinds)}.")
    kind = losses[0].kind
    if kind == "gdp":
        return Loss(kind, math.sqrt(sum(loss.value**2 for loss in losses)))
    return Loss(kind, sum(loss.value for loss in losses))


@dataclass(frozen=True)
class Expiration:
    """Against everything released within ``ticks`` of its arrival (None: forever), a record has
    this."""

    ticks: int | None
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Copies:
    """What ``count`` records of one id have together where each of them counts."""

    count: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Guarantee:
    """The promise of a plan.

    Attributes:
      epsilon, delta: at the protection window.
      unit: the privacy unit ("event").
      relation: which neighbours.
      window: protection window in ticks; None: forever.
      expiration: losses at W, 2W, 10W, 100W ticks.
      statement: the promise in a sentence for people.
      copies: of an id that was forgotten; empty where ids are remembered for the whole run.
    """

    epsilon: float
    delta: float
    unit: str
    relation: Relation
    window: int | None
    expiration: tuple[Expiration, ...]
    statement: str
    copies: tuple[Copies, ...] = ()

"""What a plan may cost one of its units, as a ledger keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from weir.dpcore.accounting.grid import Grid
from weir.dpcore.accounting.guarantee import PrivacyLoss, Relation
from weir.dpcore.errors import ConfigError

Unit = Literal["event", "user"]


@dataclass(frozen=True)
class Point:
    """The loss of whoever changes in ``periods`` periods of a plan, against all that is released
    until ``horizon`` microseconds after the last of them; None: for ever."""

    periods: int
    horizon: int | None
    loss: PrivacyLoss


@dataclass(frozen=True)
class Price:
    """Loss of one unit against one plan, for so many periods and against so much of its output.

    Attributes:
      unit, relation: of the plan.
      first, last: its event times, microseconds; [first, last), None: without end.
      points: prices; a loss rises with periods and horizon, so that each bounds all smaller ones.
      slack: probability beside the losses that nothing is promised at all, for one period: of a
        selection of keys, or the delta of a promise that is known as (epsilon, delta) only.
      grid: the periods of a plan of users; None: the unit is an event.
    """

    unit: Unit
    relation: Relation
    first: int
    last: int | None
    points: tuple[Point, ...]
    slack: float = 0.0
    grid: Grid | None = None

    def __post_init__(self) -> None:
        if self.last is not None and self.last <= self.first:
            raise ConfigError("to", self.last, f"must be after from = {self.first}.")
        if not 0 <= self.slack < 1:
            raise ConfigError("delta", self.slack, "must be 0 or more and below 1.")
        if (self.grid is None) != (self.unit == "event"):
            raise ConfigError("unit", self.unit, "has periods if it is a user, and only then.")
        for point in self.points:
            if not point.loss.value >= 0:
                raise ConfigError("loss", point.loss.value, "must be 0 or more.")

    def at(self, periods: int, horizon: int | None) -> PrivacyLoss | None:
        """The smallest price that covers so many periods and so long a horizon (rounded toward
        more spent); None where none does."""
        fitting = [
            point.loss
            for point in self.points
            if point.periods >= periods
            and (point.horizon is None or (horizon is not None and point.horizon >= horizon))
        ]
        return min(fitting, key=lambda loss: loss.value, default=None)

    def scaled(self, factor: float) -> Price:
        """The same plan with noise of 1 / factor times as much."""
        points = tuple(replace(point, loss=point.loss.scaled(factor)) for point in self.points)
        return replace(self, points=points)

    def to_json(self) -> dict[str, Any]:
        """JSON-able and exact: numbers as hexadecimal floats."""
        return {
            "unit": self.unit,
            "relation": self.relation,
            "first": self.first,
            "last": self.last,
            "grid": None if self.grid is None else self.grid.to_json(),
            "slack": self.slack.hex(),
            "points": [
                [point.periods, point.horizon, point.loss.kind, point.loss.value.hex()]
                for point in self.points
            ],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Price:
        """As ``to_json`` wrote it."""
        return cls(
            found["unit"],
            found["relation"],
            found["first"],
            found["last"],
            tuple(
                Point(periods, horizon, PrivacyLoss(kind, float.fromhex(value)))
                for periods, horizon, kind, value in found["points"]
            ),
            float.fromhex(found["slack"]),
            None if found["grid"] is None else Grid(**found["grid"]),
        )


def known_bound(
    epsilon: float, delta: float, kind: Literal["pure", "gdp", "zcdp"]
) -> tuple[PrivacyLoss, float]:
    """What another system promised, as (loss, slack), rounded toward more spent.

    pure: (epsilon, delta) of anything. It is as private as something that tells all with
    probability delta and is epsilon-DP otherwise (Kairouz, Oh, Viswanath 2015, Theorem 3.1), so
    delta adds beside the losses. gdp, zcdp: of one who knows that the noise was Gaussian and was
    calibrated by its exact curve, or that the promise came from zCDP: the loss behind the numbers.

    Raises:
      ConfigError: a promise of Gaussian noise without delta.
    """
    from weir.dpcore.accounting import calibrate

    if kind == "pure":
        return PrivacyLoss("pure", epsilon), delta
    up = 1 + 2.0**-30  # the searches round down, by less than 2^-35
    if kind == "gdp":
        return PrivacyLoss("gdp", calibrate.gdp_mu(epsilon, delta) * up), 0.0
    return PrivacyLoss("zcdp", calibrate.zcdp_rho(epsilon, delta) * up), 0.0

"""The number of events, or of users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.aggregates.output import Noisy, Output
from weir.dpcore.aggregates.people import refuse_user_ticks, tick_by_tick
from weir.dpcore.algorithm import Bias, Takes
from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import refusal

SHOWN = {
    "events": "events",
    "users": "users per tick",
    "newcomers": "users, each once a period",
}


class Count(Aggregate):
    """Counts events, or users."""

    kind: ClassVar[str] = "count"
    words: ClassVar[str] = "events"

    count: Literal["events", "users"] = Field(
        description="events; or users, each once a key and tick, over: 1 (privacy.unit: user).",
        examples=["events", "users"],
    )
    per: Literal["period"] | None = Field(
        default=None,
        description="period: a user counts once a key and period, at the first tick of theirs that "
        "counts there, so that sums count everybody once in a period (count: users).",
        examples=["period"],
    )

    @model_validator(mode="before")
    @classmethod
    def _tick_by_tick(cls, data: Any) -> Any:
        users = isinstance(data, dict) and data.get("count") == "users"
        return tick_by_tick(data, users and data.get("per") is None)

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        if self.per is not None and self.count == "events":
            raise refusal("per", self.per, "is for count: users; remove it.")
        if self.per is not None and self.where is not None:
            raise refusal(
                "where",
                self.where,
                "cannot stand beside per: period: a user counts at the first of all their ticks "
                "there, whether or not its events satisfy it. Take over: 1 without per, or the "
                "config's own where, which holds for everything.",
            )
        if self.takes == "users":
            refuse_user_ticks(
                self.over, "or per: period, which counts everybody once a period over any span"
            )
        return self

    @property
    def takes(self) -> Takes:
        """What counts."""
        if self.count == "events":
            return "events"
        return "users" if self.per is None else "newcomers"

    @property
    def what(self) -> str:
        """See Aggregate."""
        return SHOWN[self.takes]

    @property
    def column(self) -> str | None:
        """None."""
        return None

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        """See Aggregate."""
        return None if self.count == "events" else ("count", "users", "write count: events")

    @property
    def between(self) -> tuple[float | None, float | None]:
        """See Aggregate."""
        return (0.0, None)

    @property
    def left_out(self) -> Bias:
        """See Aggregate."""
        return Bias((), self.takes, lowers=True)

    def reach(self, events: float) -> float:
        """See Aggregate."""
        return events

    def output(self, name: str, layout: Layout) -> Output:
        """See Aggregate."""
        return CountOutput(name, None, self.overs, self.weight, layout.count(self.takes))


@dataclass(frozen=True)
class CountOutput(Output):
    """A noisy count.

    Attributes:
      count: index of its channel.
    """

    count: int

    kind: ClassVar[str] = "count"

    def importance(self) -> dict[int, float]:
        """See Output."""
        return {self.count: self.weight}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """See Output."""
        value, stddev = noisy(self.count)
        return value, np.broadcast_to(stddev, value.shape)

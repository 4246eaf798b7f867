"""The number of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dpcore.aggregates.aggregate import Aggregate
from dpcore.aggregates.layout import Layout
from dpcore.aggregates.output import Noisy, Output
from dpcore.arrays import Floats


class Count(Aggregate):
    """Counts events."""

    kind: ClassVar[str] = "count"
    words: ClassVar[str] = "events"

    count: Literal["events"] = Field(description="Counts events.", examples=["events"])

    @property
    def column(self) -> str | None:
        """None."""
        return None

    def reach(self, events: float) -> float:
        """See Aggregate."""
        return events

    def output(self, name: str, layout: Layout) -> Output:
        """See Aggregate."""
        return CountOutput(name, None, self.overs, self.weight, layout.count())


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

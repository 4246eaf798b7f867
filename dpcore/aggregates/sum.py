"""The sum of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from dpcore.aggregates.clipped import Clipped
from dpcore.aggregates.layout import Layout
from dpcore.aggregates.output import Noisy, Output
from dpcore.arrays import Floats
from dpcore.config.event import Column


class Sum(Clipped):
    """Sums a column within a clip."""

    kind: ClassVar[str] = "sum"
    words: ClassVar[str] = "sum of {column}"

    sum: Column = Field(description="Sums this column.", examples=["dollar_value"])

    @property
    def column(self) -> str:
        """What is summed."""
        return self.sum

    def reach(self, events: float) -> float:
        """See Aggregate."""
        return events * max(map(abs, self.bounds))

    def output(self, name: str, layout: Layout) -> Output:
        """See Aggregate."""
        low, high = self.bounds
        value, centre = layout.value(self.sum, low, high)
        count = layout.count() if centre else None
        bound = max(abs(low), abs(high))
        return SumOutput(name, self.sum, self.overs, self.weight, value, count, centre, bound)


@dataclass(frozen=True)
class SumOutput(Output):
    """A noisy sum, (centred sum) + centre * count.

    Attributes:
      value, count: indices of its channels; None: nothing is taken off. centre: what is taken off.
      bound: one event's largest effect.
    """

    value: int
    count: int | None
    centre: float
    bound: float

    kind: ClassVar[str] = "sum"

    @property
    def unit(self) -> float:
        """The largest clipped value."""
        return self.bound

    def importance(self) -> dict[int, float]:
        """See Output."""
        parts = {self.value: self.weight / self.bound**2}
        if self.count is not None:
            parts[self.count] = self.weight * self.centre**2 / self.bound**2
        return parts

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """See Output."""
        total, total_std = noisy(self.value)
        if self.count is None:
            return total, np.broadcast_to(total_std, total.shape)
        n, n_std = noisy(self.count)
        std = np.sqrt(total_std**2 + (self.centre * n_std) ** 2)
        return total + self.centre * n, np.broadcast_to(std, total.shape)

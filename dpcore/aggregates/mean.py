"""The mean of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from weir.dpcore.aggregates.clipped import Clipped
from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.aggregates.output import Noisy, Output
from weir.dpcore.aggregates.people import takes
from weir.dpcore.arrays import Floats
from weir.dpcore.config.event import Column


class Mean(Clipped):
    """Averages a column within a clip."""

    kind: ClassVar[str] = "mean"
    words: ClassVar[str] = "mean of {column}"
    averages: ClassVar[bool] = True

    mean: Column = Field(description="Averages this column.", examples=["dollar_value"])

    @property
    def column(self) -> str:
        """What is averaged."""
        return self.mean

    @property
    def centred(self) -> tuple[str, float, float] | None:
        """Its column and clip; averages of users are centred by themselves."""
        if self.of == "users":
            return None
        return self.mean, *self.bounds

    @property
    def between(self) -> tuple[float | None, float | None]:
        """See Aggregate."""
        return self.bounds

    def reach(self, events: float) -> float:
        """See Aggregate."""
        return self.bounds[1] - self.bounds[0]

    def output(self, name: str, layout: Layout) -> Output:
        """See Aggregate."""
        low, high = self.bounds
        who = takes(self.of)
        value, centre = layout.value(self.mean, low, high, who)
        common = (name, self.mean, self.overs, self.weight, value, layout.count(who))
        return MeanOutput(*common, low, high, centre)


class Centred(NamedTuple):
    """A noisy mean less its centre, and what it was made of.

    Attributes:
      mean: (n, K, 1), in the clip. floor: the count that was divided by.
      total_std, n_std: of the noise in sum and count.
    """

    mean: Floats
    floor: Floats
    total_std: Floats
    n_std: Floats


@dataclass(frozen=True)
class MeanOutput(Output):
    """Noisy sum over noisy count.

    Attributes:
      value, count: indices of its channels. low, high: the clip. centre: what is taken off.
    """

    value: int
    count: int
    low: float
    high: float
    centre: float

    kind: ClassVar[str] = "mean"

    @property
    def between(self) -> tuple[float, float] | None:
        """See Output."""
        return self.low, self.high

    @property
    def half(self) -> float:
        """Largest distance of a clipped value from the centre."""
        return max(abs(self.low - self.centre), abs(self.high - self.centre))

    @property
    def unit(self) -> float:
        """One event's largest effect on (count x mean)."""
        return self.half

    def importance(self) -> dict[int, float]:
        """See Output."""
        return {self.value: self.weight / self.half**2, self.count: self.weight}

    def centred(self, noisy: Noisy) -> Centred:
        """Dividing by a noisy count near 0 explodes: its floor, event or noise, is public."""
        total, total_std = noisy(self.value)
        n, n_std = noisy(self.count)
        floor = np.maximum(n, np.maximum(1.0, n_std))
        mean = np.clip(total / floor, self.low - self.centre, self.high - self.centre)
        return Centred(mean, floor, total_std, n_std)

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """See Output."""
        mean, floor, total_std, n_std = self.centred(noisy)
        std = np.sqrt(total_std**2 + (mean * n_std) ** 2) / floor
        return mean + self.centre, np.minimum(std, self.high - self.low)

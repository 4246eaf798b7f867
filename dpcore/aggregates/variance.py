"""The variance of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from weir.dpcore.aggregates.clipped import Clipped
from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.aggregates.mean import MeanOutput
from weir.dpcore.aggregates.output import Noisy, Output
from weir.dpcore.aggregates.people import takes
from weir.dpcore.arrays import Floats
from weir.dpcore.config.event import Column


class Variance(Clipped):
    """Variance of a column within a clip."""

    kind: ClassVar[str] = "variance"
    words: ClassVar[str] = "variance of {column}"
    averages: ClassVar[bool] = True

    variance: Column = Field(description="Variance of this column.", examples=["dollar_value"])

    @property
    def column(self) -> str:
        """What varies."""
        return self.variance

    @property
    def centred(self) -> tuple[str, float, float] | None:
        """Its column and clip; averages of users are centred by themselves."""
        if self.of == "users":
            return None
        return self.variance, *self.bounds

    @property
    def between(self) -> tuple[float | None, float | None]:
        """See Aggregate."""
        return (0.0, self.reach(1))

    def reach(self, events: float) -> float:
        """See Aggregate."""
        return ((self.bounds[1] - self.bounds[0]) / 2) ** 2

    def output(self, name: str, layout: Layout) -> Output:
        """See Aggregate."""
        low, high = self.bounds
        who = takes(self.of)
        value, centre = layout.value(self.variance, low, high, who)
        common = (name, self.variance, self.overs, self.weight, value, layout.count(who))
        square = layout.square(self.variance, low, high, who)
        return VarianceOutput(*common, low, high, centre, square)


@dataclass(frozen=True)
class VarianceOutput(MeanOutput):
    """Noisy mean square less the square of the noisy mean.

    Attributes:
      square: index of the channel of centred squares.
    """

    square: int

    kind: ClassVar[str] = "variance"

    @property
    def between(self) -> tuple[float, float] | None:
        """See Output."""
        return 0.0, self.half**2

    @property
    def unit(self) -> float:
        """One event's largest effect on (count x variance)."""
        return self.half**2

    def importance(self) -> dict[int, float]:
        """The worst case over the true mean m and second moment q, which are private (with the
        square centred at half^2 / 2 the coefficient of sigma_N is at most 1.5 half^2)."""
        w, h = self.weight, self.half
        return {self.square: w / h**4, self.value: 4 * w / h**2, self.count: 2.25 * w}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """See Output."""
        mean, floor, total_std, n_std = self.centred(noisy)
        square, square_std = noisy(self.square)
        q = square / floor
        variance = np.clip(q + self.half**2 / 2 - mean**2, 0.0, self.half**2)
        std = (
            np.sqrt(square_std**2 + 4 * (mean * total_std) ** 2 + ((2 * mean**2 - q) * n_std) ** 2)
            / floor
        )
        return variance, np.minimum(std, self.half**2)

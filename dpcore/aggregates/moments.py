"""Sums, means and variances of a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from weir.dpcore.aggregates.aggregate import AggregateOutput, Noisy, takes
from weir.dpcore.aggregates.bounding import CLIP, BoundedAggregate, ClippedAggregate
from weir.dpcore.aggregates.channel import Layout
from weir.dpcore.algorithm import Bias
from weir.dpcore.arrays import Floats
from weir.dpcore.config.schema import Column
from weir.dpcore.config.section import Pair, refusal


class Sum(BoundedAggregate):
    """Sums a column within a clip."""

    kind: ClassVar[str] = "sum"
    words: ClassVar[str] = "sum of {column}"

    sum: Column = Field(description="Sums this column.", examples=["dollar_value"])
    clip: Pair | None = Field(default=None, description=CLIP, examples=[[0, 200]])
    clip_user: Pair | None = Field(
        default=None,
        description="In place of clip: [low, high] of what all events of a user in a key and tick "
        "add up to; a total outside is moved to the nearer bound (privacy.unit: user). Public.",
        examples=[[0, 200]],
    )

    @model_validator(mode="before")
    @classmethod
    def _one_clip(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if data.get("clip") is None and data.get("clip_user") is None:
            raise refusal(
                "clip",
                None,
                "is missing; a sum needs public bounds for its values, like `clip: [0, 200]`.",
            )
        if data.get("clip") is not None and data.get("clip_user") is not None:
            raise refusal(
                "clip_user",
                data["clip_user"],
                "cannot be combined with clip: bound each event by clip, or a user's own total by "
                "clip_user; remove one.",
            )
        return data

    @property
    def clips(self) -> tuple[str, tuple[float, ...]]:
        if self.clip_user is not None:
            return "clip_user", self.clip_user
        assert self.clip is not None
        return "clip", self.clip

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        if self.clip_user is None:
            return None
        shown = f"write clip: {list(self.clip_user)}, of each event"
        return "clip_user", list(self.clip_user), shown

    @property
    def left_out(self) -> Bias:
        low, high = self.bounds
        if self.clip_user is None:
            return Bias((self.moved,), lowers=low >= 0)
        total = f"what a user adds to a key and tick counts within [{low:g}, {high:g}]"
        return Bias((total,), "totals", low >= 0)

    def refused(self, name: str) -> Iterator[str]:
        if self.clip_user is None:
            yield from super().refused(name)
            return
        low, high = self.bounds
        yield (
            f"{name}: what the events of a user in a key and tick add up to is moved into "
            f"[{low:g}, {high:g}]; missing and non-finite values of {self.column} count as 0"
        )

    @property
    def between(self) -> tuple[float | None, float | None]:
        low, high = self.bounds
        return (0.0 if low >= 0 else None, 0.0 if high <= 0 else None)

    def reach(self, events: float) -> float:
        return events * max(map(abs, self.bounds))

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        low, high = self.bounds
        totals = self.clip_user is not None
        value, centre = layout.value(self.sum, low, high, "totals" if totals else "events")
        count = layout.count() if centre else None
        bound = max(abs(low), abs(high))
        return SumOutput(name, self.sum, self.overs, self.weight, value, count, centre, bound)


@dataclass(frozen=True)
class SumOutput(AggregateOutput):
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
        parts = {self.value: self.weight / self.bound**2}
        if self.count is not None:
            parts[self.count] = self.weight * self.centre**2 / self.bound**2
        return parts

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        total, total_std = noisy(self.value)
        if self.count is None:
            return total, np.broadcast_to(total_std, total.shape)
        n, n_std = noisy(self.count)
        std = np.sqrt(total_std**2 + (self.centre * n_std) ** 2)
        return total + self.centre * n, np.broadcast_to(std, total.shape)


class Mean(ClippedAggregate):
    """Averages a column within a clip."""

    kind: ClassVar[str] = "mean"
    words: ClassVar[str] = "mean of {column}"
    averages: ClassVar[bool] = True

    mean: Column = Field(description="Averages this column.", examples=["dollar_value"])

    @property
    def centred(self) -> tuple[str, float, float] | None:
        """Its column and clip; averages of users are centred by themselves."""
        if self.of == "users":
            return None
        return self.mean, *self.bounds

    @property
    def between(self) -> tuple[float | None, float | None]:
        return self.bounds

    def reach(self, events: float) -> float:
        return self.bounds[1] - self.bounds[0]

    def output(self, name: str, layout: Layout) -> AggregateOutput:
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
class MeanOutput(AggregateOutput):
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
        return {self.value: self.weight / self.half**2, self.count: self.weight}

    def centred(self, noisy: Noisy) -> Centred:
        """Dividing by a noisy count near 0 explodes: its floor, event or noise, is public."""
        total, total_std = noisy(self.value)
        n, n_std = noisy(self.count)
        floor = np.maximum(n, np.maximum(1.0, n_std))
        mean = np.clip(total / floor, self.low - self.centre, self.high - self.centre)
        return Centred(mean, floor, total_std, n_std)

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        mean, floor, total_std, n_std = self.centred(noisy)
        std = np.sqrt(total_std**2 + (mean * n_std) ** 2) / floor
        return mean + self.centre, np.minimum(std, self.high - self.low)


class Variance(ClippedAggregate):
    """Variance of a column within a clip."""

    kind: ClassVar[str] = "variance"
    words: ClassVar[str] = "variance of {column}"
    averages: ClassVar[bool] = True

    variance: Column = Field(description="Variance of this column.", examples=["dollar_value"])

    @property
    def centred(self) -> tuple[str, float, float] | None:
        """Its column and clip; averages of users are centred by themselves."""
        if self.of == "users":
            return None
        return self.variance, *self.bounds

    @property
    def between(self) -> tuple[float | None, float | None]:
        return (0.0, self.reach(1))

    def reach(self, events: float) -> float:
        return ((self.bounds[1] - self.bounds[0]) / 2) ** 2

    def output(self, name: str, layout: Layout) -> AggregateOutput:
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
        mean, floor, total_std, n_std = self.centred(noisy)
        square, square_std = noisy(self.square)
        q = square / floor
        variance = np.clip(q + self.half**2 / 2 - mean**2, 0.0, self.half**2)
        std = (
            np.sqrt(square_std**2 + 4 * (mean * total_std) ** 2 + ((2 * mean**2 - q) * n_std) ** 2)
            / floor
        )
        return variance, np.minimum(std, self.half**2)

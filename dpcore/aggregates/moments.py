"""Sums, means and variances of a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from weir.dpcore.aggregates.aggregate import AggregateOutput, Noisy, Solved, takes
from weir.dpcore.aggregates.bounding import CLIP, BoundedAggregate, ClippedAggregate
from weir.dpcore.aggregates.layout import Layout, Term
from weir.dpcore.aggregates.learned import Clip, Learn, LearnClip, LearnedOutput
from weir.dpcore.aggregates.margins import ratio_margin, square_range
from weir.dpcore.algorithm import Bias, Takes
from weir.dpcore.arrays import Floats
from weir.dpcore.config.schema import Column
from weir.dpcore.config.section import Pair, refusal


class Sum(BoundedAggregate):
    """Sums a column within a clip."""

    kind: ClassVar[str] = "sum"
    words: ClassVar[str] = "sum of {column}"

    sum: Column = Field(description="Sums this column.", examples=["dollar_value"])
    clip: Clip = Field(
        default=None,
        description=f"{CLIP} Or {{learn: ...}}: learned in private from the first ticks.",
        examples=[[0, 200], "{learn: {ticks: 30, top: 1e6, start: 100}}"],
    )
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
                "is missing; a sum needs public bounds for its values, like `clip: [0, 200]`; or "
                "learn one in private: `clip: {learn: {ticks: 30, top: 1e6, start: 100}}`.",
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
        if self.learn is not None:
            return "clip", (-self.learn.top, self.learn.top)
        assert isinstance(self.clip, tuple)
        return "clip", self.clip

    @property
    def learn(self) -> Learn | None:
        """How its clip is learned; None: it is public."""
        return self.clip.learn if isinstance(self.clip, LearnClip) else None

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        if self.clip_user is None:
            return None
        shown = f"write clip: {list(self.clip_user)}, of each event"
        return "clip_user", list(self.clip_user), shown

    @property
    def left_out(self) -> Bias:
        if self.learn is not None:
            first = f"nothing of the first {self.learn.ticks:,} ticks is in it"
            return Bias((first, "values beyond the learned bound count as the bound"), "events")
        low, high = self.bounds
        # A value below a clip from 0 on, or a total, would be raised to 0.
        below = f"if no value of {self.sum} is below 0" if low == 0 else None
        if self.clip_user is None:
            return Bias((self.moved,), "events", low >= 0, below)
        total = f"what a user adds to a key and tick counts within [{low:g}, {high:g}]"
        return Bias((total,), "totals", low >= 0, below)

    def refused(self, name: str) -> Iterator[str]:
        if self.learn is not None:
            yield (
                f"{name}: values of {self.column} count within a bound that is learned from the "
                f"first {self.learn.ticks:,} ticks; missing and non-finite ones count as 0"
            )
            return
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

    @property
    def may_be_centred(self) -> tuple[str, float, float] | None:
        low, high = self.bounds
        return None if self.clip_user is not None or low == -high else (self.sum, low, high)

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        if self.learn is not None:
            channels = layout.by_size(self.sum, self.learn.edges)
            return LearnedOutput(name, self.sum, self.overs, self.weight, *channels, self.learn)
        low, high = self.bounds
        totals = self.clip_user is not None
        who: Takes = "totals" if totals else "events"
        value, terms = layout.total(self.sum, low, high, who, self.overs)
        bound = max(abs(low), abs(high))
        return SumOutput(name, self.sum, self.overs, self.weight, value, terms, bound)


@dataclass(frozen=True)
class SumOutput(AggregateOutput):
    """A noisy sum, (sum of a channel) + factors * counts.

    Attributes:
      value: index of its channel. terms: what is added to it: channels of counts, and factors.
      bound: one event's largest effect.
    """

    value: int
    terms: tuple[Term, ...]
    bound: float

    kind: ClassVar[str] = "sum"

    @property
    def unit(self) -> float:
        """The largest clipped value."""
        return self.bound

    def importance(self) -> dict[int, float]:
        parts = {self.value: self.weight / self.bound**2}
        for count, factor in self.terms:
            parts[count] = self.weight * factor**2 / self.bound**2
        return parts

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        total, std = noisy(self.value)
        for count, factor in self.terms:
            n, n_std = noisy(count)
            std = np.sqrt(std**2 + (factor * n_std) ** 2)
            total = total + factor * n
        return total, np.broadcast_to(std, total.shape)


class Mean(ClippedAggregate):
    """Averages a column within a clip."""

    kind: ClassVar[str] = "mean"
    words: ClassVar[str] = "mean of {column}"
    averages: ClassVar[bool] = True

    mean: Column = Field(description="Averages this column.", examples=["dollar_value"])

    @property
    def between(self) -> tuple[float | None, float | None]:
        return self.bounds

    def reach(self, events: float) -> float:
        return self.bounds[1] - self.bounds[0]

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        low, high = self.bounds
        who = takes(self.of)
        value, centre = layout.value(self.mean, low, high, who, self.presence)
        count = layout.count(who, self.mean, self.presence)
        common = (name, self.mean, self.overs, self.weight, value, count)
        return MeanOutput(*common, low, high, centre)


class Centred(NamedTuple):
    """A noisy mean less its centre, and what it was made of.

    Attributes:
      mean: (n, K, 1), in the clip. floor: the count that was divided by.
      total, n: noisy sums. total_std, n_std: of the noise in them.
    """

    mean: Floats
    floor: Floats
    total: Floats
    n: Floats
    total_std: Floats
    n_std: Floats

    def margin(self, between: tuple[float, float], z: float) -> tuple[Floats, Floats]:
        """Ends of the means within ``between`` that z standard deviations allow."""
        return ratio_margin(self.total, self.n, self.total_std, self.n_std, between, z)


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
    interval: ClassVar[bool] = True

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
        return Centred(mean, floor, total, n, total_std, n_std)

    @property
    def clip(self) -> tuple[float, float]:
        """The clip less the centre."""
        return self.low - self.centre, self.high - self.centre

    def solve(self, noisy: Noisy) -> Solved:
        """Value, standard deviation to first order, and Fieller's interval within the clip, which
        holds the true mean in 95 % of all cases, however few values are present. It is widened to
        the value, which is divided by a floor where the count is below it."""
        of = self.centred(noisy)
        std = np.sqrt(of.total_std**2 + (of.mean * of.n_std) ** 2) / of.floor
        low, high = of.margin(self.clip, noisy.band())
        ends = (np.minimum(low, of.mean) + self.centre, np.maximum(high, of.mean) + self.centre)
        return of.mean + self.centre, np.minimum(std, self.high - self.low), *ends


class Variance(ClippedAggregate):
    """Variance of a column within a clip."""

    kind: ClassVar[str] = "variance"
    words: ClassVar[str] = "variance of {column}"
    averages: ClassVar[bool] = True

    variance: Column = Field(description="Variance of this column.", examples=["dollar_value"])

    @property
    def between(self) -> tuple[float | None, float | None]:
        return (0.0, self.reach(1))

    def reach(self, events: float) -> float:
        return ((self.bounds[1] - self.bounds[0]) / 2) ** 2

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        low, high = self.bounds
        who = takes(self.of)
        value, centre = layout.value(self.variance, low, high, who, self.presence)
        count = layout.count(who, self.variance, self.presence)
        common = (name, self.variance, self.overs, self.weight, value, count)
        square = layout.square(self.variance, low, high, who, self.presence)
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

    def solve(self, noisy: Noisy) -> Solved:
        """Value, standard deviation to first order, and an interval that holds the true variance in
        95 % of all cases: it follows from Fieller's sets of mean and second moment, each missed in
        2.5 %. It is widened to the value."""
        of = self.centred(noisy)
        square, square_std = noisy(self.square)
        q, most, shift = square / of.floor, self.half**2, self.half**2 / 2
        variance = np.clip(q + shift - of.mean**2, 0.0, most)
        slope = 2 * of.mean**2 - q
        error = square_std**2 + 4 * (of.mean * of.total_std) ** 2 + (slope * of.n_std) ** 2
        std = np.sqrt(error) / of.floor
        z = noisy.band(0.025)
        least, largest = square_range(*of.margin(self.clip, z))
        low, high = ratio_margin(square, of.n, square_std, of.n_std, (-shift, shift), z)
        low = np.minimum(np.clip(low + shift - largest, 0.0, most), variance)
        high = np.maximum(np.clip(high + shift - least, 0.0, most), variance)
        return variance, np.minimum(std, most), low, high

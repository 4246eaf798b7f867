"""The sum of a column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from weir.dpcore.aggregates.clipped import CLIP, Bounded
from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.aggregates.output import Noisy, Output
from weir.dpcore.algorithm import Bias
from weir.dpcore.arrays import Floats
from weir.dpcore.config.event import Column
from weir.dpcore.config.numbers import Pair
from weir.dpcore.config.section import refusal


class Sum(Bounded):
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
                "cannot stand beside clip: bound each event by clip, or a user's own total by "
                "clip_user; remove one.",
            )
        return data

    @property
    def clips(self) -> tuple[str, tuple[float, ...]]:
        """See Bounded."""
        if self.clip_user is not None:
            return "clip_user", self.clip_user
        assert self.clip is not None
        return "clip", self.clip

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        """See Aggregate."""
        if self.clip_user is None:
            return None
        shown = f"write clip: {list(self.clip_user)}, of each event"
        return "clip_user", list(self.clip_user), shown

    @property
    def left_out(self) -> Bias:
        """See Aggregate."""
        low, high = self.bounds
        if self.clip_user is None:
            return Bias((self.moved,), lowers=low >= 0)
        total = f"what a user adds to a key and tick counts within [{low:g}, {high:g}]"
        return Bias((total,), "totals", low >= 0)

    def refused(self, name: str) -> Iterator[str]:
        """See Aggregate."""
        if self.clip_user is None:
            yield from super().refused(name)
            return
        low, high = self.bounds
        yield (
            f"{name}: what the events of a user in a key and tick add up to is moved into "
            f"[{low:g}, {high:g}]; missing and non-finite values of {self.column} count as 0"
        )

    @property
    def column(self) -> str:
        """What is summed."""
        return self.sum

    @property
    def between(self) -> tuple[float | None, float | None]:
        """See Aggregate."""
        low, high = self.bounds
        return (0.0 if low >= 0 else None, 0.0 if high <= 0 else None)

    def reach(self, events: float) -> float:
        """See Aggregate."""
        return events * max(map(abs, self.bounds))

    def output(self, name: str, layout: Layout) -> Output:
        """See Aggregate."""
        low, high = self.bounds
        totals = self.clip_user is not None
        value, centre = layout.value(self.sum, low, high, "totals" if totals else "events")
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

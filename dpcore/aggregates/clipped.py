"""Aggregates of a column whose values are moved into public bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

from pydantic import Field, model_validator

from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.aggregates.people import OF, Of
from weir.dpcore.algorithm import Bias
from weir.dpcore.config.limits import FARTHEST, NEAREST
from weir.dpcore.config.numbers import Pair
from weir.dpcore.config.section import refusal

CLIP = (
    "[low, high]: values outside are moved to the nearer bound. Public: choose it from what you "
    "know, never from the data."
)


class Bounded(Aggregate):
    """An aggregate of values that are moved into public bounds, by a field that ``clips`` names."""

    @property
    @abstractmethod
    def clips(self) -> tuple[str, tuple[float, ...]]:
        """Name and value of the field that bounds values."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The clip."""
        _, (low, high) = self.clips
        return float(low), float(high)

    @model_validator(mode="after")
    def _check(self) -> Self:
        name, (low, high) = self.clips
        if not (math.isfinite(low) and math.isfinite(high)):
            raise refusal(name, [low, high], "must be two finite numbers: [low, high].")
        if low >= high:
            raise refusal(name, [low, high], "must be [low, high] with low below high.")
        if max(abs(low), abs(high)) > FARTHEST or high - low < NEAREST:
            raise refusal(
                name,
                [low, high],
                f"must lie in [-{FARTHEST:g}, {FARTHEST:g}], its bounds {NEAREST:g} or more "
                "apart; rescale the column.",
            )
        return self

    @property
    def left_out(self) -> Bias:
        """See Aggregate."""
        return Bias((self.moved,))

    @property
    def moved(self) -> str:
        """What the clip does to values, in words."""
        low, high = self.bounds
        empty = min(max(0.0, low), high)
        return (
            f"values outside [{low:g}, {high:g}] count as the nearer bound, missing ones as "
            f"{empty:g}"
        )

    def refused(self, name: str) -> Iterator[str]:
        """See Aggregate."""
        low, high = self.bounds
        yield (
            f"{name}: values of {self.column} are moved into [{low:g}, {high:g}]; "
            "missing and non-finite ones count as 0"
        )


class Clipped(Bounded):
    """An aggregate with a clip of every event's value, of events or of users."""

    clip: Pair = Field(description=CLIP, examples=[[0, 200]])
    of: Of = Field(default="events", description=OF, examples=["users"])

    @property
    def clips(self) -> tuple[str, tuple[float, ...]]:
        """See Bounded."""
        return "clip", self.clip

    @property
    def what(self) -> str:
        """See Aggregate."""
        if self.of == "users":
            return self.words.format(column=f"users' own means of {self.column}")
        return super().what

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        """See Aggregate."""
        return None if self.of == "events" else ("of", "users", "remove it")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, data: Any) -> Any:
        if isinstance(data, dict) and "clip" not in data:
            raise refusal(
                "clip",
                None,
                f"is missing; a {cls.kind} needs public bounds for its values, like "
                "`clip: [0, 200]`.",
            )
        return data

"""Aggregates of a column whose values are moved into public bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Self

from pydantic import Field, model_validator

from dpcore.aggregates.aggregate import Aggregate
from dpcore.config.limits import FARTHEST, NEAREST
from dpcore.config.numbers import Pair
from dpcore.config.section import refusal


class Clipped(Aggregate):
    """An aggregate with a clip."""

    clip: Pair = Field(
        description="[low, high]: values outside are moved to the nearer bound. Public: choose it "
        "from what you know, never from the data.",
        examples=[[0, 200]],
    )

    @property
    def bounds(self) -> tuple[float, float]:
        """The clip."""
        low, high = self.clip
        return float(low), float(high)

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

    @model_validator(mode="after")
    def _check(self) -> Self:
        low, high = self.clip
        if not (math.isfinite(low) and math.isfinite(high)):
            raise refusal("clip", list(self.clip), "must be two finite numbers: [low, high].")
        if low >= high:
            raise refusal("clip", list(self.clip), "must be [low, high] with low below high.")
        if max(abs(low), abs(high)) > FARTHEST or high - low < NEAREST:
            raise refusal(
                "clip",
                list(self.clip),
                f"must lie in [-{FARTHEST:g}, {FARTHEST:g}], its bounds {NEAREST:g} or more "
                "apart; rescale the column.",
            )
        return self

    def refused(self, name: str) -> Iterator[str]:
        """See Aggregate."""
        low, high = self.bounds
        yield (
            f"{name}: values of {self.column} are moved into [{low:g}, {high:g}]; "
            "missing and non-finite ones count as 0"
        )

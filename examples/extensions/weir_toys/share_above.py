"""The share of events above a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from weir.dpcore.aggregates.aggregate import Aggregate, AggregateOutput, Noisy
from weir.dpcore.aggregates.channel import Layout
from weir.dpcore.arrays import Floats
from weir.dpcore.config.schema import Column
from weir.dpcore.config.section import Says

Threshold = Annotated[float, Field(allow_inf_nan=False), Says("must be a finite number.")]


class ShareAbove(Aggregate):
    """The share of events whose value is at or above a threshold."""

    kind: ClassVar[str] = "share_above"
    words: ClassVar[str] = "share of events with high {column}"
    averages: ClassVar[bool] = True

    share_above: Column = Field(description="Column that is compared.", examples=["delay"])
    threshold: Threshold = Field(description="Least value that counts. Public.", examples=[15])

    @property
    def column(self) -> str:
        """What is compared."""
        return self.share_above

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        """Two bins: below, and at or above."""
        edges = (-math.inf, float(self.threshold), math.inf)
        bins = layout.bins(self.share_above, edges)
        return ShareOutput(name, self.share_above, self.overs, self.weight, bins)


@dataclass(frozen=True)
class ShareOutput(AggregateOutput):
    """The second of two noisy counts over their sum.

    Attributes:
      bins: index of its channel.
    """

    bins: int

    kind: ClassVar[str] = "share_above"

    def importance(self) -> dict[int, float]:
        """At worst both counts matter."""
        return {self.bins: 2 * self.weight}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """The noisy share, and its error."""
        counts, stddev = noisy(self.bins)
        floor = np.maximum(counts.sum(axis=2, keepdims=True), np.maximum(1.0, stddev[:, :, :1]))
        share = np.clip(counts[:, :, 1:] / floor, 0.0, 1.0)
        error = np.sqrt((1 - share) ** 2 + share**2) * stddev[:, :, 1:] / floor
        return share, np.minimum(error, 1.0)

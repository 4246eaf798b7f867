"""Counts of events, or of users, by a column's value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.aggregates.output import Noisy, Output
from weir.dpcore.aggregates.people import OF, Of, refuse_user_ticks, takes, tick_by_tick
from weir.dpcore.algorithm import Bias
from weir.dpcore.arrays import Floats
from weir.dpcore.config.event import Column
from weir.dpcore.config.section import Says, as_tuple, refusal

Edges = Annotated[
    tuple[float, ...],
    Field(min_length=2),
    BeforeValidator(as_tuple),
    Says("must hold at least two edges."),
]


class Histogram(Aggregate):
    """Counts events, or users, by a column's value."""

    kind: ClassVar[str] = "histogram"
    words: ClassVar[str] = "events by {column}"
    in_bins: ClassVar[bool] = True

    histogram: Column = Field(
        description="Counts events by this column's value.", examples=["number_of_cds"]
    )
    edges: Edges = Field(
        description="Edges e0 < e1 < ...: bins [e_i, e_i+1), the last one closed; .inf and -.inf "
        "may stand at the ends; a value outside is counted as out of range and adds nothing.",
        examples=[[1, 2, 3, 5, 10]],
    )

    of: Of = Field(default="events", description=OF, examples=["users"])

    @property
    def what(self) -> str:
        """See Aggregate."""
        who = "users per tick" if self.of == "users" else "events"
        return f"{who} by {self.column}"

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        """See Aggregate."""
        return None if self.of == "events" else ("of", "users", "remove it")

    @property
    def column(self) -> str:
        """What chooses the bin."""
        return self.histogram

    @property
    def bounds(self) -> tuple[float, ...]:
        """The edges."""
        return tuple(float(edge) for edge in self.edges)

    @property
    def between(self) -> tuple[float | None, float | None]:
        """See Aggregate."""
        return (0.0, None)

    @property
    def left_out(self) -> Bias:
        """See Aggregate."""
        low, *_, high = self.bounds
        outside = f"outside [{low:g}, {high:g}]"
        if math.isinf(low) or math.isinf(high):
            outside = f"below {low:g}" if math.isinf(high) else f"above {high:g}"
        every = math.isinf(low) and math.isinf(high)
        clauses = () if every else (f"values {outside} are left out",)
        return Bias(clauses, takes(self.of), lowers=True)

    @model_validator(mode="before")
    @classmethod
    def _given(cls, data: Any) -> Any:
        if isinstance(data, dict) and "edges" not in data:
            raise refusal("edges", None, "is missing; write something like `edges: [1, 2, 5]`.")
        return tick_by_tick(data, isinstance(data, dict) and data.get("of") == "users")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(not low < high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise refusal("edges", list(self.edges), "must rise strictly from left to right.")
        if self.of == "users":
            refuse_user_ticks(self.over, "or of: events, which any span adds up")
        return self

    def reach(self, events: float) -> float:
        """See Aggregate."""
        return events

    def output(self, name: str, layout: Layout) -> Output:
        """See Aggregate."""
        bins = layout.bins(self.histogram, self.bounds, takes(self.of))
        common = (name, self.histogram, self.overs, self.weight, bins)
        return HistogramOutput(*common, bin_labels(self.bounds))

    def refused(self, name: str) -> Iterator[str]:
        """See Aggregate."""
        first, *_, last = self.bounds
        yield f"{name}: values of {self.column} outside [{first:g}, {last:g}] add nothing"


def bin_labels(edges: tuple[float, ...]) -> tuple[str, ...]:
    """ "[1, 2)" for each bin; the last one is closed, as in numpy.histogram."""
    pairs = list(zip(edges[:-1], edges[1:], strict=True))
    labels = [f"[{low:g}, {high:g})" for low, high in pairs]
    low, high = pairs[-1]
    labels[-1] = f"[{low:g}, inf)" if high == float("inf") else f"[{low:g}, {high:g}]"
    return tuple(labels)


@dataclass(frozen=True)
class HistogramOutput(Output):
    """Noisy counts of bins.

    Attributes:
      bins: index of its channel. names: of the bins.
    """

    bins: int
    names: tuple[str, ...]

    kind: ClassVar[str] = "histogram"

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the bins."""
        return self.names

    def importance(self) -> dict[int, float]:
        """See Output."""
        return {self.bins: self.weight}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """See Output."""
        value, stddev = noisy(self.bins)
        return value, np.broadcast_to(stddev, value.shape)

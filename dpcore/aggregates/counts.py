"""Counts and histograms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.aggregates.aggregate import (
    OF,
    Aggregate,
    AggregateOutput,
    Noisy,
    Of,
    refuse_user_ticks,
    takes,
    tick_by_tick,
)
from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.algorithm import Bias, Takes
from weir.dpcore.arrays import Floats
from weir.dpcore.config.schema import Column
from weir.dpcore.config.section import FARTHEST, Says, Section, as_tuple, refusal
from weir.dpcore.config.yaml import with_numbers

SHOWN = {
    "events": "events",
    "users": "users per tick",
    "newcomers": "users, each once a period",
    "active": "distinct users of the span",
}
LONGEST = 4096
"""Ticks of a span in which distinct users are counted, at most: a key keeps a number for each."""


class Count(Aggregate):
    """Counts events, or users."""

    kind: ClassVar[str] = "count"
    words: ClassVar[str] = "events"

    count: Literal["events", "users"] = Field(
        description="events; or users (privacy.unit: user), each once a key and tick (over: 1), or "
        "once in the last N ticks (over: N, like 7d), which gives weekly or monthly active users.",
        examples=["events", "users"],
    )
    per: Literal["period"] | None = Field(
        default=None,
        description="period: a user counts once a key and period, at the first tick of theirs that "
        "counts there, so that sums count everybody once in a period (count: users).",
        examples=["period"],
    )

    at: Literal["events"] | None = Field(
        default=None,
        description="events: only users with contributions.events events or more in the key and "
        "tick, so that the bound may have left out some (count: users).",
        examples=["events"],
    )

    @model_validator(mode="before")
    @classmethod
    def _tick_by_tick(cls, data: Any) -> Any:
        users = isinstance(data, dict) and data.get("count") == "users"
        return tick_by_tick(data, users and data.get("per") is None)

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        if self.per is not None and self.count == "events":
            raise refusal("per", self.per, "is for count: users; remove it.")
        if self.per is not None and self.where is not None:
            raise refusal(
                "where",
                self.where,
                "cannot be combined with per: period: a user counts at the first of all their "
                "ticks there, whether or not its events satisfy it. Take over: 1 without per, or "
                "the config's own where, which holds for everything.",
            )
        if self.at is not None and (self.count == "events" or self.per is not None):
            raise refusal("at", self.at, "is for count: users without per; remove it.")
        if self.at is not None and self.takes == "active":
            raise refusal("at", self.at, "is for the users of single ticks; write over: 1.")
        if self.at is not None and self.where is not None:
            raise refusal(
                "where",
                self.where,
                "cannot be combined with at: events, which looks at all events of a user there; "
                "remove one, or take the config's own where.",
            )
        if self.count == "users" and self.per is None and self.over != (1,):
            self._check_active()
        return self

    def _check_active(self) -> None:
        """Raises unless distinct users of the last N ticks can be counted."""
        if "all" in self.over:
            raise refusal(
                "over",
                "all",
                "has no users that leave again: write per: period for users who are each counted "
                "once a period, or a number of ticks, like over: 28d, for users of the last N.",
            )
        if self.where is not None:
            raise refusal(
                "where",
                self.where,
                "cannot be combined with distinct users of several ticks: a user counts by all of "
                "their ticks, whether or not its events satisfy it. Take over: 1, or the config's "
                "own where, which holds for everything.",
            )
        longest = max(over for over in self.over if over != "all")
        if longest > LONGEST:
            raise refusal(
                "over",
                longest,
                f"must be at most {LONGEST:,} ticks where distinct users are counted; take a "
                "longer clock.period, like 1h or 1d.",
            )

    @property
    def takes(self) -> Takes:
        """What counts."""
        if self.count == "events":
            return "events"
        if self.per is not None:
            return "newcomers"
        # "all" is of the only tick of a plan without a clock.
        return "users" if self.over in ((1,), ("all",)) else "active"

    @property
    def distinct(self) -> bool:
        return self.takes == "active"

    @property
    def what(self) -> str:
        return SHOWN[self.takes] + (" at their bound on events" if self.at else "")

    @property
    def column(self) -> str | None:
        """None."""
        return None

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        return None if self.count == "events" else ("count", "users", "write count: events")

    @property
    def between(self) -> tuple[float | None, float | None]:
        return (0.0, None)

    @property
    def left_out(self) -> Bias:
        return Bias((), self.takes, lowers=True, below="")

    def reach(self, events: float) -> float:
        return events

    def of_one_tick(self, finds_keys: bool) -> Self:
        # Users of the only tick are users of the period: the count that finds keys serves both.
        same = finds_keys and self.count == "users" and self.where is None and self.at is None
        return super().of_one_tick(finds_keys).model_copy(update={"per": "period"} if same else {})

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        common = (name, None, self.overs, self.weight)
        if self.at is not None:
            return CountOutput(*common, layout.full())
        count, *absent = layout.everyone(self.takes, self.overs)
        return BothOutput(*common, count, *absent) if absent else CountOutput(*common, count)


@dataclass(frozen=True)
class CountOutput(AggregateOutput):
    """A noisy count.

    Attributes:
      count: index of its channel.
    """

    count: int

    kind: ClassVar[str] = "count"

    def importance(self) -> dict[int, float]:
        return {self.count: self.weight}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        value, stddev = noisy(self.count)
        return value, np.broadcast_to(stddev, value.shape)


@dataclass(frozen=True)
class BothOutput(CountOutput):
    """A noisy count of those that have a number, and one of those that have not, added up.

    Attributes:
      absent: index of the channel of the others.
    """

    absent: int

    def importance(self) -> dict[int, float]:
        return {self.count: self.weight, self.absent: self.weight}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        (some, some_std), (others, others_std) = noisy(self.count), noisy(self.absent)
        value = some + others
        return value, np.broadcast_to(np.sqrt(some_std**2 + others_std**2), value.shape)


MOST_BINS = 4096


class EvenEdges(Section):
    """So many bins of one width."""

    linear: Annotated[list[float], Field(min_length=3, max_length=3)] = Field(
        description="[low, high, bins]: bins of one width between two edges.",
        examples=[[0, 100, 50]],
    )


class LogEdges(Section):
    """So many bins, each as many times as wide as the one before."""

    log: Annotated[list[float], Field(min_length=3, max_length=3)] = Field(
        description="[low, high, bins]: bins whose edges have one ratio; low is above 0.",
        examples=[[1, 10000, 64]],
    )


def even_edges(value: Any) -> Any:
    """[...] | {linear: [low, high, bins]} | {log: [low, high, bins]} -> edges that rise."""
    value = with_numbers(value)
    if isinstance(value, dict):
        value = _between(value)
    if not isinstance(value, (list, tuple)) or len(value) < 3:
        raise ValueError(
            "must be {log: [low, high, bins]}, {linear: [low, high, bins]}, or at least three "
            "edges in a list."
        )
    if len(value) > MOST_BINS + 1:
        raise ValueError(f"must make at most {MOST_BINS:,} bins.")
    for item in value:
        if (
            isinstance(item, bool)
            or not isinstance(item, (int, float))
            or not abs(item) <= FARTHEST
        ):
            raise ValueError(f"must be finite numbers in [-{FARTHEST:g}, {FARTHEST:g}].")
    if any(not low < high for low, high in zip(value, value[1:], strict=False)):
        raise ValueError("must rise strictly from left to right.")
    return tuple(map(float, value))


def _between(value: dict[str, Any]) -> Sequence[float]:
    """Edges between two; rounded to 12 digits, so that every machine has the same."""
    (kind, argument), *more = value.items() or (("", None),)
    shape = "must be like {log: [1, 10000, 64]}: [low, high, bins] under log or linear"
    if more or kind not in ("log", "linear"):
        raise ValueError(f"{shape}.")
    if not isinstance(argument, (list, tuple)) or len(argument) != 3:
        raise ValueError(f"{shape}.")
    if any(isinstance(item, bool) or not isinstance(item, (int, float)) for item in argument):
        raise ValueError(f"{shape}, all of them numbers.")
    low, high, bins = argument
    if bins != int(bins) or not 2 <= bins <= MOST_BINS:
        raise ValueError(f"must have from 2 to {MOST_BINS:,} bins.")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("must have low below high, both finite.")
    if kind == "log" and low <= 0:
        raise ValueError("must begin above 0 under log: logarithms of 0 there are none.")
    n = int(bins)
    if kind == "log":
        inner = [low * (high / low) ** (i / n) for i in range(1, n)]
    else:
        inner = [low + (high - low) * (i / n) for i in range(1, n)]
    return [float(low), *(float(f"{item:.12g}") for item in inner), float(high)]


EvenlyEdged = Annotated[
    tuple[float, ...],
    BeforeValidator(
        even_edges,
        json_schema_input_type=Annotated[list[float], Field(min_length=3)] | EvenEdges | LogEdges,
    ),
]

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
        who = "users per tick" if self.of == "users" else "events"
        return f"{who} by {self.column}"

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        return None if self.of == "events" else ("of", "users", "remove it")

    @property
    def bounds(self) -> tuple[float, ...]:
        """The edges."""
        return tuple(float(edge) for edge in self.edges)

    @property
    def between(self) -> tuple[float | None, float | None]:
        return (0.0, None)

    @property
    def left_out(self) -> Bias:
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
        return events

    def output(self, name: str, layout: Layout) -> AggregateOutput:
        bins = layout.bins(self.histogram, self.bounds, takes(self.of))
        common = (name, self.histogram, self.overs, self.weight, bins)
        return HistogramOutput(*common, bin_labels(self.bounds))

    def refused(self, name: str) -> Iterator[str]:
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
class HistogramOutput(CountOutput):
    """Noisy counts of bins.

    Attributes:
      names: of the bins.
    """

    names: tuple[str, ...]

    kind: ClassVar[str] = "histogram"

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the bins."""
        return self.names

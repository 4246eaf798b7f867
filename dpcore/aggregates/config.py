"""One output of an aggregates section: what is summed, its bounds, and over which ticks."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dpcore.config.limits import FARTHEST, MOST_TICKS, NEAREST
from dpcore.config.section import Section, refusal

Kind = Literal["count", "sum", "mean", "variance", "histogram"]
KINDS: tuple[Kind, ...] = ("count", "sum", "mean", "variance", "histogram")


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _overs(value: Any) -> Any:
    """all | N | [all, N, ...] -> a tuple."""
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    if not listed:
        raise ValueError("must hold at least one of: all, or a number of ticks.")
    for over in listed:
        if over == "all":
            continue
        if isinstance(over, bool) or not isinstance(over, int) or over < 1:
            raise ValueError("must be all, a number of ticks (1 or more), or a list of these.")
        if over > MOST_TICKS:
            raise ValueError("must be at most 2^40 ticks; write all for the sum since the start.")
    if len(set(listed)) != len(listed):
        raise ValueError("names the same span twice; keep one.")
    return tuple(listed)


Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_tuple)]
Span = Literal["all"] | int
Overs = Annotated[
    tuple[Span, ...], BeforeValidator(_overs, json_schema_input_type=Span | list[Span])
]


class Aggregate(Section):
    """Exactly one of count, sum, mean, variance, histogram, with its bounds."""

    count: Literal["events"] | None = Field(
        default=None, description="Counts events.", examples=["events"]
    )
    sum: str | None = Field(
        default=None, description="Sums this column.", examples=["dollar_value"]
    )
    mean: str | None = Field(
        default=None, description="Averages this column.", examples=["dollar_value"]
    )
    variance: str | None = Field(
        default=None, description="Variance of this column.", examples=["dollar_value"]
    )
    histogram: str | None = Field(
        default=None,
        description="Counts events by this column's value.",
        examples=["number_of_cds"],
    )
    clip: Numbers | None = Field(
        default=None,
        description="[low, high]: values outside are moved to the nearer bound. Public: choose it "
        "from what you know, never from the data.",
        examples=[[0, 200]],
    )
    edges: Numbers | None = Field(
        default=None,
        description="Edges e0 < e1 < ...: bins [e_i, e_i+1), the last one closed; .inf and -.inf "
        "may stand at the ends; a value outside is counted as out of range and adds nothing.",
        examples=[[1, 2, 3, 5, 10]],
    )
    over: Overs = Field(
        default=("all",),
        description="all: since the start; N: the last N ticks; 1: each tick alone; or a list.",
        examples=[["all", 7]],
    )
    weight: float = Field(
        default=1.0,
        description="How much this output's accuracy counts when the noise is split.",
        examples=[1.0],
    )

    @property
    def kind(self) -> Kind:
        """Which of the five it is."""
        found: list[Kind] = [kind for kind in KINDS if getattr(self, kind) is not None]
        return found[0]

    @property
    def column(self) -> str | None:
        """The column it reads; None for a count."""
        value: str | None = getattr(self, self.kind)
        return None if self.kind == "count" else value

    @property
    def overs(self) -> tuple[int | None, ...]:
        """Spans in ticks, in the order asked; None: since the start."""
        return tuple(None if over == "all" else over for over in self.over)

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise refusal(
                "",
                " and ".join(kinds) or None,
                f"must hold exactly one of {', '.join(KINDS)}, like `count: events`.",
            )
        kind = kinds[0]
        if self.column is not None and (not self.column or self.column.startswith("@")):
            raise refusal(kind, self.column, "must name a column; names with @ are reserved.")
        if kind in ("sum", "mean", "variance"):
            self._check_clip(kind)
        elif self.clip is not None:
            raise refusal("clip", list(self.clip), f"does not belong to a {kind}; remove it.")
        if kind == "histogram":
            self._check_edges()
        elif self.edges is not None:
            raise refusal("edges", list(self.edges), f"belongs to a histogram, not to a {kind}.")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise refusal("weight", self.weight, "must be a finite number above 0.")
        return self

    def _check_clip(self, kind: str) -> None:
        if self.clip is None:
            raise refusal(
                "clip",
                None,
                f"is missing; a {kind} needs public bounds for its values, like `clip: [0, 200]`.",
            )
        if len(self.clip) != 2 or not all(math.isfinite(bound) for bound in self.clip):
            raise refusal("clip", list(self.clip), "must be two finite numbers: [low, high].")
        low, high = self.clip
        if low >= high:
            raise refusal("clip", list(self.clip), "must be [low, high] with low below high.")
        if max(abs(low), abs(high)) > FARTHEST or high - low < NEAREST:
            raise refusal(
                "clip",
                list(self.clip),
                f"must lie in [-{FARTHEST:g}, {FARTHEST:g}], its bounds {NEAREST:g} or more "
                "apart; rescale the column.",
            )

    def _check_edges(self) -> None:
        if self.edges is None:
            raise refusal("edges", None, "is missing; write something like `edges: [1, 2, 5]`.")
        if len(self.edges) < 2:
            raise refusal("edges", list(self.edges), "must hold at least two edges.")
        if any(not low < high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise refusal("edges", list(self.edges), "must rise strictly from left to right.")

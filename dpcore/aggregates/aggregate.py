"""What every aggregate is in a config. A new kind is one file here and one line in the registry.

A kind is a section whose field of the kind's own name says what it is of (``sum: column``). It owns
its other fields, says in words what it is, and makes the ``Output`` that runs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.aggregates.output import Output
from weir.dpcore.algorithm import Bias
from weir.dpcore.config.limits import MOST_TICKS
from weir.dpcore.config.numbers import Lengths, Span, Weight
from weir.dpcore.config.section import Section
from weir.dpcore.neighbours import Family


def _overs(value: Any) -> Any:
    """all | N | [all, N, ...] -> a tuple."""
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    if not listed:
        raise ValueError("must hold at least one of: all, or a number of ticks.")
    for over in listed:
        if over == "all":
            continue
        if isinstance(over, bool) or not isinstance(over, int) or over < 1:
            raise ValueError(
                "must be all, a number of ticks (1 or more), a duration like 7d, or a list of "
                "these."
            )
        if over > MOST_TICKS:
            raise ValueError("must be at most 2^40 ticks; write all for the sum since the start.")
    if len(set(listed)) != len(listed):
        raise ValueError("names the same span twice; keep one.")
    return tuple(listed)


Spans = Annotated[list[Span | Lengths], Field(min_length=1)]
Overs = Annotated[
    tuple[Span, ...], BeforeValidator(_overs, json_schema_input_type=Span | Spans | Lengths)
]


class Aggregate(Section):
    """One output of an aggregates section.

    Class attributes:
      kind: its name, and that of the field that says what it is of.
      words: what it is, for people; {column} stands for what it reads.
      averages: whether its error falls with the number of events.
      in_bins: whether its components are bins of one axis.
      noted: what the plan says of its error, where it is not in the unit of its values.
      reading: how its picture is to be read, where bands do not speak for themselves.

    A plan of users has aggregates of users too: what they count, and what only such a plan can
    (``of_users``), a kind says for itself.
    """

    over: Overs = Field(
        default=("all",),
        description="all: since the start; N: the last N ticks, or a duration like 7d; 1: each "
        "tick alone; or a list.",
        examples=[["all", 7], "7d"],
    )
    weight: Weight = Field(
        default=1.0,
        description="How much this output's accuracy counts when the noise is split.",
        examples=[1.0],
    )

    where: str | None = Field(
        default=None,
        description="Public predicate, as the config's own where: only events that satisfy both "
        "count here.",
        examples=["amount > 100"],
    )

    kind: ClassVar[str]
    words: ClassVar[str]
    averages: ClassVar[bool] = False
    in_bins: ClassVar[bool] = False
    noted: ClassVar[str] = ""
    reading: ClassVar[str] = ""
    neighbours: ClassVar[Family] = Family(
        ("first", "last"), "corners", "what an event adds is largest at an end of its clip"
    )

    @property
    @abstractmethod
    def column(self) -> str | None:
        """The column it reads; None for a count."""

    @property
    def overs(self) -> tuple[int | None, ...]:
        """Spans in ticks, in the order asked; None: since the start."""
        return tuple(None if over == "all" else over for over in self.over)

    @property
    def what(self) -> str:
        """What it is, in words."""
        return self.words.format(column=self.column)

    @property
    def bounds(self) -> tuple[float, ...]:
        """Public numbers between which its values are expected; () where it has none."""
        return ()

    @property
    def between(self) -> tuple[float | None, float | None]:
        """Public bounds of the true output; None: it has none on that side."""
        return (None, None)

    @property
    def left_out(self) -> Bias:
        """What public bounds do to its values."""
        return Bias()

    @property
    def centred(self) -> tuple[str, float, float] | None:
        """(column, low, high) whose middle is taken off before it is summed; None: nothing."""
        return None

    def reach(self, events: float) -> float:
        """How large a value, or how far apart two, that many events of the span can make; infinite
        where nobody says."""
        return math.inf

    @property
    def of_users(self) -> tuple[str, Any, str] | None:
        """Field and value by which it asks for users, and what to write where the unit is an event;
        None: it asks for none."""
        return None

    @abstractmethod
    def output(self, name: str, layout: Layout) -> Output:
        """What runs, over channels of a leaf that it asks the layout for."""

    def refused(self, name: str) -> Iterator[str]:
        """Which values are moved or do not count, in words; ``name``: the user's for it."""
        return iter(())

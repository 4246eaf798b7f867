"""Base classes of an aggregate: its section in a config, and the output that runs.

What every aggregate is in a config. A new kind is one file here and one line in the registry.

A kind is a section whose field of the kind's own name says what it is of (``sum: column``). It owns
its other fields, says in words what it is, and makes the ``AggregateOutput`` that runs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from weir.dpcore.aggregates.layout import Average, Layout
from weir.dpcore.algorithm import Bias, Takes
from weir.dpcore.arrays import Floats
from weir.dpcore.config.durations import MOST_TICKS
from weir.dpcore.config.section import Lengths, Section, Span, Weight, refusal
from weir.dpcore.neighbours import Family
from weir.dpcore.pricing.calibration import band_of

Solved = tuple[Floats, Floats] | tuple[Floats, Floats | None, Floats, Floats]
"""Value and standard deviation, and low and high where the margin is an interval of its own; then
there may be no standard deviation."""


@dataclass(frozen=True)
class Noisy:
    """The noisy sums of channels, for one ``over``.

    Attributes:
      read: channel index -> (value (n, K, m), stddev (n, 1, m)) in the user's units.
      noise: its name in a config.
    """

    read: Callable[[int], tuple[Floats, Floats]]
    noise: str = "gaussian"

    def __call__(self, channel: int) -> tuple[Floats, Floats]:
        """Value and standard deviation of a channel's sums."""
        return self.read(channel)

    def band(self, outside: float = 0.05) -> float:
        """Standard deviations beyond which, on both sides, no larger share of the noise lies."""
        return band_of(self.noise, outside)


@dataclass(frozen=True)
class AggregateOutput(ABC):
    """One aggregate as the user named it.

    Attributes:
      name: the user's name for it. column: what it reads.
      overs: which windows are released (None: since the start).
      weight: how much its accuracy counts when the noise is split.
      kind: what it is (of the class). interval: whether it gives low and high itself.
      additive: whether it gives a standard deviation.
    """

    name: str
    column: str | None
    overs: tuple[int | None, ...]
    weight: float

    kind: ClassVar[str]
    interval: ClassVar[bool] = False
    additive: ClassVar[bool] = True

    @property
    def between(self) -> tuple[float, float] | None:
        """Public ends that its values never leave, where it has both."""
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the components; ("",) for a single number."""
        return ("",)

    @property
    def unit(self) -> float:
        """One event's largest effect, in the user's unit: the output's own sensitivity."""
        return 1.0

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels it reads."""
        return tuple(self.importance())

    def canonical(self) -> tuple[Any, ...]:
        """What shapes its values next to its name, kind, column and spans: JSON-able."""
        return ()

    @abstractmethod
    def importance(self) -> dict[int, float]:
        """Channel -> weight of its noise variance in this output's squared relative error.

        The relative error is in units of one event's largest effect: 1 for a count or a bin, the
        clip for a sum, half the clip's width for a mean (times N), its square for a variance (times
        N), and the worst case over the true moments, which are private.
        """

    @abstractmethod
    def solve(self, noisy: Noisy) -> Solved:
        """Noisy channels -> (value, stddev), each (n, K, m); and (low, high) of an interval."""


Of = Literal["events", "users"]

OF = (
    "events; or users (privacy.unit: user): of each user's own mean in a key and tick, which "
    "counts once however many events are in it; a histogram counts each once in every bin of "
    "theirs, over: 1."
)
ONLY = (
    "needs to know users, and this plan protects events; set privacy.unit: user with privacy.per "
    "and privacy.contributions, and name the column of users in schema.unit. Or {instead}."
)
"""What a plan of events says to an aggregate of users."""


def takes(of: Of) -> Takes:
    """What a channel counts."""
    return "users" if of == "users" else "events"


def tick_by_tick(data: Any, counts_users: bool) -> Any:
    """A count of users is of each tick, unless the config says otherwise."""
    if counts_users and isinstance(data, Mapping) and data.get("over") is None:
        return {**data, "over": 1}
    return data


def refuse_user_ticks(over: tuple[Any, ...], remedy: str) -> None:
    """Raises an error unless users are counted over single ticks: a sum over several counts who
    comes in three of them three times, and distinct users of several ticks are no sum."""
    if over != (1,):
        shown = list(over) if len(over) > 1 else over[0]
        raise refusal(
            "over",
            shown,
            "would count a user once for each tick that they come in, which is no number of users: "
            f"write over: 1, the users of each tick alone, {remedy}.",
        )


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
      reading: how its picture is to be read, where margins do not speak for themselves.

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
    def column(self) -> str | None:
        """The column it reads, which the field of the kind's own name has; None for a count."""
        return str(getattr(self, self.kind))

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
    def average(self) -> Average | None:
        """The values that it averages, whose sum another aggregate may have of it; None: none."""
        return None

    @property
    def may_be_centred(self) -> tuple[str, float, float] | None:
        """The same, where it pays to do so only if the events are counted too; None: it cannot."""
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

    @property
    def distinct(self) -> bool:
        """Whether it counts each user once in a span of several ticks, wherever they come in it."""
        return False

    @abstractmethod
    def output(self, name: str, layout: Layout) -> AggregateOutput:
        """What runs, over channels of a leaf that it asks the layout for."""

    def of_one_tick(self, finds_keys: bool) -> Self:
        """The same where there is a single tick: all spans are one, and none is named.

        Args:
          finds_keys: whether keys are found in private, by a count of users.
        """
        return self.model_copy(update={"over": ("all",)})

    def refused(self, name: str) -> Iterator[str]:
        """Which values are moved or do not count, in words; ``name``: the user's for it."""
        return iter(())

"""The privacy guarantee that a config asks for, and contribution bounds of users."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.config import durations
from weir.dpcore.config.durations import months_of, ticks_in_words
from weir.dpcore.config.section import (
    DurationText,
    Lengths,
    PeriodText,
    Says,
    Section,
    TicksText,
    refusal,
    same,
)
from weir.dpcore.config.ticks import ticks_of
from weir.dpcore.leaves.clock import Clock

MOST = (1 << 16) - 1

Cap = Annotated[
    int, Field(ge=1, le=MOST), Says(f"must be a whole number from 1 to {MOST:,}: below 2^16.")
]


def _per(value: Any) -> Any:
    if isinstance(value, str) and (value == "all" or months_of(value)):
        return value
    remedy = "must be a duration like 1d or 30d, months like 1 month, or all."
    try:
        microseconds = durations.duration(value)
    except ValueError:
        raise ValueError(remedy) from None
    if microseconds == 0:
        raise ValueError(remedy)
    return value


Per = Annotated[
    str,
    BeforeValidator(_per, json_schema_input_type=Literal["all"] | DurationText | PeriodText),
]


class Contributions(Section):
    """What counts of a user in one period: what is beyond these caps is left out, by a rule that
    looks at nobody else. Public: choose them by what you know, never by the data."""

    ticks: Cap | None = Field(
        default=None,
        description="Ticks with events of the user. Needed with a clock, unless nothing but "
        "distinct users of several ticks is released: all ticks of the period count then, for 4 % "
        "of noise.",
        examples=[8],
    )
    keys: Cap = Field(description="Keys in one of these ticks.", examples=[3])
    events: Cap = Field(description="Events of a key in one of these ticks.", examples=[5])
    spacing: Annotated[Cap, BeforeValidator(same, json_schema_input_type=Cap | Lengths)] = Field(
        default=1,
        description="Fewest ticks, or time, from one of these ticks to the next; 1 sets no bound.",
        examples=[1],
    )
    ticks_per_key: Cap | None = Field(
        default=None, description="Ticks with events of one key; without it: ticks.", examples=[4]
    )
    period_keys: Cap | None = Field(
        default=None, description="Keys in the whole period; without it: any.", examples=[30]
    )
    total: Cap | None = Field(
        default=None,
        description="Pairs of a key and a tick in the whole period; without it: any.",
        examples=[60],
    )
    order: (
        Annotated[
            Literal["time", "hash"],
            Says(
                "must be 'time' or 'hash': which pairs of a key and a tick count where these "
                "bounds are binding."
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Which pairs of a key and a tick stay. time: the first, the default. hash: "
        "those of the smallest keyed hashes, so that late ticks count as much as early ones; for "
        "files and frames. Without a clock it is always hash.",
        examples=["hash"],
    )


def _protect_for(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("must be a duration like 365d, a number of ticks like 30 ticks, or all.")
    if isinstance(value, int):
        if value < 1:
            raise ValueError("must be at least 1 tick; 0 ticks would protect nothing.")
        raise ValueError(
            f"has no unit. Write a time like {value}d, or {value} ticks for so many periods of the "
            "clock."
        )
    if value == "all" or months_of(value) or ticks_in_words(value):
        return value
    try:
        microseconds = durations.duration(value)
    except ValueError:
        raise ValueError(
            "must be a duration like 365d, a number of ticks like 30 ticks, months on a clock of "
            "months, or all."
        ) from None
    if microseconds == 0:
        raise ValueError("must be at least one tick; 0 would protect nothing.")
    return value


Epsilon = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    Says("must be a finite number above 0, like 1.0."),
]
Delta = Annotated[
    float,
    Field(ge=0, le=0.5, allow_inf_nan=False),
    Says(
        "must be 0 or more and below 1, like 1e-6; above 0.5 it would guarantee next to nothing, "
        "and is not served."
    ),
]
Lasting = Annotated[
    str,
    BeforeValidator(
        _protect_for, json_schema_input_type=Literal["all"] | DurationText | PeriodText | TicksText
    ),
]


class Privacy(Section):
    """What is guaranteed, to whom, and for how long."""

    epsilon: Epsilon = Field(
        description="Privacy loss of one event within the window; smaller is more private.",
        examples=[1.0],
    )
    delta: Delta = Field(
        description="Chance-like slack of the guarantee, well below one over the number of people; "
        "0 needs a pure mechanism.",
        examples=["1e-6"],
    )
    protect_for: Lasting | None = Field(
        default=None,
        description="How long an event is protected: a duration, so many ticks, or all. Needed "
        "with a clock.",
        examples=["365d"],
    )
    unit: (
        Annotated[
            Literal["event", "user"],
            Says(
                "must be 'event' or 'user': what is protected. Name the column of users in "
                "schema.unit."
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="What a neighbour changes; event if absent. user: all events of a user in one "
        "period, within the contribution bounds of contributions.",
        examples=["event"],
    )
    per: Per | None = Field(
        default=None,
        description="With unit: user: the period in which a user is protected and the contribution "
        "bounds hold, "
        "a duration from clock.start on, months of the calendar (1 month), or all.",
        examples=["30d"],
    )
    contributions: Contributions | None = Field(
        default=None,
        description="With unit: user: what counts of a user in a period.",
        examples=["{ticks: 8, keys: 3, events: 5}"],
    )
    relation: Literal["add_remove", "replace_one", "replace_anywhere"] = Field(
        default="add_remove",
        description="add_remove: an event is there or not. replace_one: its payload changes, key "
        "and tick stay. replace_anywhere: key and tick may change too. Without it: add_remove for "
        "aggregates, replace_one for a model. With unit: user, add_remove (a user's events of a "
        "period are there or not) or replace_one (they are replaced by any others).",
        examples=["add_remove"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.unit != "user":
            for name in ("per", "contributions"):
                if getattr(self, name) is not None:
                    raise refusal(
                        name, getattr(self, name), "belongs to unit: user; set it, or remove this."
                    )
            return self
        if self.contributions is None:
            raise refusal(
                "contributions",
                None,
                "is missing: unit: user needs contribution bounds on what a user may add in a "
                "period, like contributions: {ticks: 8, keys: 3, events: 5} (without ticks where "
                "there is no clock).",
            )
        if self.relation == "replace_anywhere":
            raise refusal(
                "relation",
                self.relation,
                "is for unit: event: a user has keys and ticks of their own; use add_remove, or "
                "replace_one for a user's events of a period against any others.",
            )
        return self

    def window_ticks(self, clock: Clock) -> int | None:
        """The protection horizon W in ticks; None for all.

        Raises:
          ConfigError: a duration that is not a whole number of the clock's periods.
        """
        if self.protect_for is None or self.protect_for == "all":
            return None
        return ticks_of("privacy.protect_for", self.protect_for, clock, "all")

"""The public release clock, and what is promised to whom for how long."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.config import durations
from weir.dpcore.config.contributions import Contributions, Per
from weir.dpcore.config.durations import months_of
from weir.dpcore.config.numbers import DurationText, PeriodText, Ticks
from weir.dpcore.config.section import Says, Section, refusal
from weir.dpcore.config.spans import ticks_of
from weir.dpcore.config.zones import calendar_of, has_offset, moment_in, wall_of, zone_of
from weir.dpcore.leaves.calendar import DAY, Calendar
from weir.dpcore.leaves.clock import Clock

AHEAD = "1h"
"""``clock.ahead`` of a clock without end: what waits for its tick is
stored until then, and a device whose clock is wrong may name any."""


def _duration(text: Any) -> Any:
    durations.duration(text)
    return text


def _timestamp(moment: Any) -> Any:
    text = durations.written(moment)
    durations.timestamp(text)
    return text


Duration = Annotated[str, BeforeValidator(_duration, json_schema_input_type=DurationText)]
Timestamp = Annotated[str, BeforeValidator(_timestamp)]


def _period(text: Any) -> Any:
    if isinstance(text, str) and months_of(text):
        return text
    try:
        return _duration(text)
    except ValueError as error:
        also = "; or months, like 1 month." if str(error).startswith("must") else "."
        raise ValueError(f"{str(error).removesuffix('.')}{also}") from None


def _moment(moment: Any) -> Any:
    """Whether a zone is missing follows from clock.zone."""
    text = durations.written(moment)
    moment_in(text, "UTC")
    return text


def _zone(text: Any) -> Any:
    zone_of(text)
    return text


Period = Annotated[str, BeforeValidator(_period, json_schema_input_type=DurationText | PeriodText)]
Moment = Annotated[str, BeforeValidator(_moment)]
Zone = Annotated[str, BeforeValidator(_zone)]


def _protect_for(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("must be a number of ticks, a duration like 365d, or all.")
    if isinstance(value, int):
        if value < 1:
            raise ValueError("must be at least 1 tick; 0 ticks would protect nothing.")
    elif value != "all" and not months_of(value):
        try:
            microseconds = durations.duration(value)
        except ValueError:
            raise ValueError(
                "must be a number of ticks, a duration like 365d, months on a clock of months, or "
                "all."
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
        "must be 0 or more and below 1, like 1e-6; above 0.5 it would promise next to nothing, and "
        "is not served."
    ),
]
Lasting = Annotated[
    int | str,
    BeforeValidator(
        _protect_for, json_schema_input_type=Ticks | Literal["all"] | DurationText | PeriodText
    ),
]


class ClockConfig(Section):
    """The public release clock."""

    start: Moment = Field(
        description="Start of tick 0: ISO 8601 with an offset or Z, or without one in the zone; a "
        "day alone is one of the zone, of UTC where there is none.",
        examples=["1997-01-01T00:00:00Z"],
    )
    period: Period = Field(
        description="Length of a tick: number and unit (us, ms, s, m, h, d, w), or months of the "
        "calendar (1 month).",
        examples=["1d"],
    )
    zone: Zone | None = Field(
        default=None,
        description="With ticks of days or months: the time zone in which they begin; UTC without "
        "it. Any other needs clock.end.",
        examples=["Europe/Berlin"],
    )
    end: Moment | None = Field(
        default=None,
        description="End of the last tick, a whole number of periods after the start; without it "
        "the clock runs for ever.",
        examples=["1998-07-01T00:00:00Z"],
    )
    delay: Duration = Field(
        default="0s",
        description="How long after its event time an event may arrive and still count.",
        examples=["10m"],
    )
    ahead: Duration | None = Field(
        default=None,
        description="How far an event time may lie behind the record's own arrival stamp in the "
        "future; beyond, the record is refused as early. Without it: 1h on a clock without end, "
        "no bound on one that ends.",
        examples=["1h"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if months_of(self.period) is None and durations.duration(self.period) == 0:
            raise refusal("period", self.period, "must be longer than nothing, like 1d or 15m.")
        start = self._micros("start", self.start)
        calendar = self._calendar
        if self.end is None:
            return self
        period = durations.duration(self.period) if calendar is None else calendar.shortest
        clock, end = Clock(start, period, calendar=calendar), self._micros("end", self.end)
        ticks = clock.tick_at(end)
        if ticks < 1:
            first = self._as_written(clock.tick_start(1))
            raise refusal(
                "end",
                self.end,
                "must be at least one period after clock.start: "
                + (f"{first} or later." if first else "take a shorter clock.period."),
            )
        if clock.tick_start(ticks) != end:
            near = [self._as_written(clock.tick_start(ticks + more)) for more in (0, 1)]
            raise refusal(
                "end",
                self.end,
                "lies within a tick, which would never be released. Write "
                f"{' or '.join(filter(None, near))}, where a tick ends.",
            )
        return self

    def _as_written(self, moment: int) -> str:
        """A moment as the end is written: with an offset, or by the clocks of the zone; empty
        beyond the calendar."""
        try:
            if self.zone is None or self.end is None or has_offset(self.end):
                return durations.show_timestamp(moment)
            return wall_of(moment, self.zone)
        except OverflowError:
            return ""

    def _micros(self, name: str, text: str) -> int:
        """A moment of the clock in microseconds since 1970."""
        try:
            return durations.timestamp(text) if self.zone is None else moment_in(text, self.zone)
        except ValueError as error:
            raise refusal(name, text, str(error)) from None

    @property
    def _calendar(self) -> Calendar | None:
        """Where days or months begin; None: ticks of a fixed length."""
        zone, months = self.zone or "UTC", months_of(self.period)
        if months is not None:
            return calendar_of(self.start, 0, months, zone, self.end)
        if zone == "UTC":
            return None
        days, rest = divmod(durations.duration(self.period), DAY)
        if rest:
            raise refusal(
                "zone",
                zone,
                f"is for ticks of whole days or months, not of {self.period}, which is as long "
                "everywhere: remove it, or take period: 1d or 1 month.",
            )
        return calendar_of(self.start, days, 0, zone, self.end)

    def to_clock(self) -> Clock:
        """The clock in microseconds."""
        ahead = self.ahead
        if ahead is None and self.end is None:
            ahead = AHEAD
        calendar = self._calendar
        return Clock(
            start=self._micros("start", self.start),
            period=durations.duration(self.period) if calendar is None else calendar.shortest,
            end=None if self.end is None else self._micros("end", self.end),
            delay=durations.duration(self.delay),
            ahead=None if ahead is None else durations.duration(ahead),
            calendar=calendar,
        )


class Privacy(Section):
    """What is promised, to whom, and for how long."""

    epsilon: Epsilon = Field(
        description="Privacy loss of one event within the window; smaller is more private.",
        examples=[1.0],
    )
    delta: Delta = Field(
        description="Chance-like slack of the promise, well below one over the number of people; "
        "0 needs a pure mechanism.",
        examples=["1e-6"],
    )
    protect_for: Lasting = Field(
        description="How long an event is protected: ticks, a duration, or all.", examples=["365d"]
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
        "period, within the caps of contributions.",
        examples=["event"],
    )
    per: Per | None = Field(
        default=None,
        description="With unit: user: the period in which a user is protected and the caps hold, "
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
        if self.per is None:
            raise refusal(
                "per",
                None,
                "is missing: unit: user protects a user in a period; write per: 1d, per: 30d, "
                "per: 1 month, or per: all.",
            )
        if self.contributions is None:
            raise refusal(
                "contributions",
                None,
                "is missing: unit: user needs caps on what a user may add in a period, like "
                "contributions: {ticks: 8, keys: 3, events: 5}.",
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
        """The protection window W in ticks; None for all.

        Raises:
          ConfigError: a duration that is not a whole number of the clock's periods.
        """
        if self.protect_for == "all":
            return None
        return ticks_of("privacy.protect_for", self.protect_for, clock, "all")

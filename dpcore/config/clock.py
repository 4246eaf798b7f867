"""The public release clock of a config, and calendars of time zones.

Days and months of a time zone as a table of moments.

The rules of zones are data of the machine, and change: they are read here, when a plan is made, and
what they say goes into the plan. Nothing that runs it looks them up again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Self
from zoneinfo import ZoneInfo

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.accounting.price import calendar_start
from weir.dpcore.config import durations
from weir.dpcore.config.durations import EPOCH, months_of
from weir.dpcore.config.section import DurationText, PeriodText, Section, refusal
from weir.dpcore.leaves.clock import DAY, Calendar, Clock

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

    def canonical(self, clock: Clock) -> dict[str, Any]:
        """What of the clock shapes a release, JSON-able."""
        calendar = clock.calendar
        return {
            "start": clock.start,
            "period": clock.period if calendar is None else calendar.canonical(),
            "end": clock.end,
            "delay": clock.delay,
            # The default is part of the version.
            **({} if self.ahead is None else {"ahead": clock.ahead}),
        }


MOST: Final = 100_000
"""Ticks of a table."""
_MICROSECOND = timedelta(microseconds=1)


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its IANA name.

    Raises:
      ValueError: there is none; the remedy is its text.
    """
    try:
        return ZoneInfo(name)
    except (TypeError, AttributeError, ValueError, OSError, KeyError):
        raise ValueError(
            "must be a time zone that this machine knows, like Europe/Berlin (IANA names; where "
            "a system has none, pip install tzdata)."
        ) from None


def moment_in(text: str, zone: str) -> int:
    """ISO 8601 -> microseconds since 1970Z; without an offset it is of the zone, of two such the
    first.

    Raises:
      ValueError: not a timestamp.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError("must be a timestamp like 2025-01-01T00:00:00.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone_of(zone))
    return (moment - EPOCH) // _MICROSECOND


def has_offset(text: str) -> bool:
    """Whether a timestamp says its own offset."""
    return datetime.fromisoformat(text).tzinfo is not None


def wall_of(moment: int, zone: str) -> str:
    """Microseconds since 1970Z as the clocks of a zone show them: what ``moment_in`` reads.

    Raises:
      OverflowError: beyond the years 1 to 9999.
    """
    local = (EPOCH + moment * _MICROSECOND).astimezone(zone_of(zone))
    return local.replace(tzinfo=None).isoformat()


def calendar_of(start: str, days: int, months: int, zone: str, end: str | None) -> Calendar:
    """The calendar of a clock.

    Raises:
      ConfigError: a start that is not the first moment of a day or month, an end that is missing
        or too far away.
    """
    first = _first(start, bool(months), zone)
    if zone == "UTC":
        return Calendar(days, months, zone, first)
    if end is None:
        raise refusal(
            "end",
            None,
            f"is needed with a zone: when its days begin is decided by people, and a plan has to "
            f"say it of all its ticks. Set an end, or remove zone: {zone} (UTC needs none).",
        )
    try:
        edges, skipped = _table(first, days, months, zone, moment_in(end, zone))
    except OverflowError:
        raise refusal(
            "end", end, f"must be at most {MOST:,} ticks after clock.start, and before 9999."
        ) from None
    return Calendar(days, months, zone, first, edges, skipped)


def _first(start: str, months: bool, zone: str) -> int:
    """The day or month, counted from 1970 on, that begins with the start."""
    micros, known = moment_in(start, zone), zone_of(zone)
    try:
        date = (EPOCH + timedelta(microseconds=micros)).astimezone(known).date()
    except OverflowError:
        raise refusal("start", start, "is before the year 1 or after 9999.") from None
    first = date.replace(day=1) if months else date
    label = (
        (first.year - 1970) * 12 + first.month - 1
        if months
        else first.toordinal() - EPOCH.toordinal()
    )
    if calendar_start(label, months, known) != micros:
        raise refusal(
            "start",
            start,
            f"must be the first moment of a {'month' if months else 'day'} of {zone}, where ticks "
            f"are of the calendar: {first.isoformat()}T00:00:00.",
        )
    return label


@lru_cache(maxsize=16)
def _table(
    first: int, days: int, months: int, name: str, end: int
) -> tuple[bytes, tuple[int, ...]]:
    """Edges of all ticks that begin by the end, and days that there were not.

    Raises:
      OverflowError: too many, or beyond the calendar's last year.
    """
    zone, step = zone_of(name), months or days
    edges, skipped, label = [calendar_start(first, bool(months), zone)], list[int](), first
    if (end - edges[0]) // ((days + 28 * months) * DAY) > MOST:
        raise OverflowError
    while len(edges) < 2 or edges[-1] <= end:
        label += step
        try:
            edge = calendar_start(label, bool(months), zone)
        except ValueError:
            raise OverflowError from None
        if edge > edges[-1]:
            edges.append(edge)
        else:
            # Its midnight and the next one are the same moment.
            skipped.append(label - step)
    return np.asarray(edges, dtype="<i8").tobytes(), tuple(skipped)

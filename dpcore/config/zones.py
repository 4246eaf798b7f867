"""Days and months of a time zone as a table of moments.

The rules of zones are data of the machine, and change: they are read here, when a plan is made, and
what they say goes into the plan. Nothing that runs it looks them up again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np

from weir.dpcore.config.section import refusal
from weir.dpcore.leaves.calendar import DAY, Calendar

MOST: Final = 100_000
"""Ticks of a table."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    return (moment - _EPOCH) // _MICROSECOND


def has_offset(text: str) -> bool:
    """Whether a timestamp says its own offset."""
    return datetime.fromisoformat(text).tzinfo is not None


def wall_of(moment: int, zone: str) -> str:
    """Microseconds since 1970Z as the clocks of a zone show them: what ``moment_in`` reads.

    Raises:
      OverflowError: beyond the years 1 to 9999.
    """
    local = (_EPOCH + moment * _MICROSECOND).astimezone(zone_of(zone))
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
        date = (_EPOCH + timedelta(microseconds=micros)).astimezone(known).date()
    except OverflowError:
        raise refusal("start", start, "is before the year 1 or after 9999.") from None
    first = date.replace(day=1) if months else date
    label = (
        (first.year - 1970) * 12 + first.month - 1
        if months
        else first.toordinal() - _EPOCH.toordinal()
    )
    if _begins(label, months, known) != micros:
        raise refusal(
            "start",
            start,
            f"must be the first moment of a {'month' if months else 'day'} of {zone}, where ticks "
            f"are of the calendar: {first.isoformat()}T00:00:00.",
        )
    return label


def _begins(label: int, months: bool, zone: ZoneInfo) -> int:
    """First microsecond of a day or month, counted from 1970 on. A midnight that clocks jump over
    is the moment at which they jump; of two midnights it is the first."""
    if months:
        local = datetime(1970 + label // 12, label % 12 + 1, 1, tzinfo=zone)
    else:
        local = (datetime(1970, 1, 1) + timedelta(days=label)).replace(tzinfo=zone)
    return (local - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=16)
def _table(
    first: int, days: int, months: int, name: str, end: int
) -> tuple[bytes, tuple[int, ...]]:
    """Edges of all ticks that begin by the end, and days that there were not.

    Raises:
      OverflowError: too many, or beyond the calendar's last year.
    """
    zone, step = zone_of(name), months or days
    edges, skipped, label = [_begins(first, bool(months), zone)], list[int](), first
    if (end - edges[0]) // ((days + 28 * months) * DAY) > MOST:
        raise OverflowError
    while len(edges) < 2 or edges[-1] <= end:
        label += step
        try:
            edge = _begins(label, bool(months), zone)
        except ValueError:
            raise OverflowError from None
        if edge > edges[-1]:
            edges.append(edge)
        else:
            # Its midnight and the next one are the same moment.
            skipped.append(label - step)
    return np.asarray(edges, dtype="<i8").tobytes(), tuple(skipped)

"""Durations and timestamps as text -> microseconds. Exact; reads no clock."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

MOST_TICKS = 1 << 40
"""Longest span of ticks: 34,865 years of seconds."""

UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
PATTERN = r"^(\d+(us|ms|s|m|h|d|w))+$"
"""How a duration is written."""
MONTHS = r"^([1-9]\d{0,2}) months?$"
"""How a number of calendar months is written."""
TICKS = r"^([1-9]\d*) ticks?$"
"""How a number of ticks is written, where a length of time may stand."""
_PART = re.compile(r"(\d+)(us|ms|s|m|h|d|w)")
_WHOLE = re.compile(r"(?:\d+(?:us|ms|s|m|h|d|w))+\Z")
_DAY = re.compile(r"\d{4}-?\d{2}-?\d{2}\Z")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX = 2**62


def duration(text: str) -> int:
    """``1d``, ``6h``, ``1h30m``, ``500ms`` -> microseconds.

    Raises:
      ValueError: not a duration, with a remedy as its text.
    """
    if not isinstance(text, str) or not _WHOLE.match(text):
        raise ValueError("must be a duration with a unit, like 1d, 6h, 15m, 30s or 500ms.")
    total = sum(int(number) * UNITS[unit] for number, unit in _PART.findall(text))
    if total >= MAX:
        raise ValueError("is longer than time can be counted in microseconds.")
    return total


def months_of(text: str) -> int | None:
    """Months of a length that is written in months; None: it is not."""
    result = re.match(MONTHS, text)
    return None if result is None else int(result[1])


def ticks_in_words(text: str) -> int | None:
    """Ticks of a length that is written in ticks; None: it is not."""
    result = re.match(TICKS, text)
    return None if result is None else int(result[1])


def is_length(value: object) -> bool:
    """Whether a value is a duration or months, as text."""
    if not isinstance(value, str):
        return False
    return bool(_WHOLE.match(value)) or months_of(value) is not None


def written(moment: Any) -> Any:
    """A date, or a moment, that a reader of YAML 1.1 made of a text: as text again."""
    return moment.isoformat() if isinstance(moment, date) else moment


def timestamp(text: str) -> int:
    """ISO 8601 with a zone, or a day of UTC -> microseconds since 1970-01-01T00:00:00Z.

    Raises:
      ValueError: not a timestamp, or a time of day without a zone; the remedy is its text.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError("must be a timestamp like 1997-01-01T00:00:00Z.") from None
    if moment.tzinfo is None and _DAY.match(text):
        moment = moment.replace(tzinfo=UTC)
    if moment.tzinfo is None:
        raise ValueError(
            "must say its zone: add Z for UTC, or an offset like +01:00 (1997-01-01T00:00:00Z)."
        )
    return (moment - EPOCH) // timedelta(microseconds=1)


def show_duration(microseconds: int) -> str:
    """Microseconds -> the shortest duration text that means the same."""
    if microseconds == 0:
        return "0s"
    parts = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, microseconds = divmod(microseconds, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def show_timestamp(microseconds: int) -> str:
    """Microseconds since 1970 -> ISO text in UTC, as short as it can be."""
    moment = EPOCH + timedelta(microseconds=microseconds)
    text = moment.replace(tzinfo=None).isoformat(timespec="auto")
    return f"{text}Z"

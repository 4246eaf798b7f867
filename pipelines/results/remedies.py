"""What to do about records and values that were rejected, by the reason of most of them."""

from __future__ import annotations

from collections.abc import Sequence

from weir.transforms.runtime.reasons import Refused

SHOWN = 4
"""Reasons that a sentence names."""

_TIME = "Name the column of the time in schema.time.column, and how it is written in its format"
_RANGE = "Choose clock.start and clock.end so that the events lie between them"
_TEXT = "Correct the values of {field}: text and whole numbers can be read"
_KIND = "Correct the values of {field}, or name another column"
_REMEDIES = {
    "malformed": "Check the format of the source, its delimiter, quotes and encoding",
    "too_long": "Set limits.line_bytes to the longest line that is right",
    "no_value": "Leave records without a value (tombstones) out of the topic",
    "stamp_ahead": "Correct the clocks of the producers, or raise limits.ahead",
    "missing_time": _TIME,
    "unreadable_time": _TIME,
    "unreadable_key": _TEXT,
    "unreadable_id": _TEXT,
    "unreadable_unit": _TEXT,
    "before_start": _RANGE,
    "after_end": _RANGE,
    "late": "Raise clock.delay",
    "early": "Correct the clocks of the senders, or raise clock.ahead",
    "overdue": "Raise clock.delay",
    "unknown_key": "Declare these keys in key.declared, or leave their events out, like "
    '`where: {field} in ["a", "b"]`',
    "missing_id": "Give each event an id in {field}",
    "key_too_long": "Raise key.discover.max_bytes",
    "no_user": "Leave events without a user out, like `where: {field} is not None`",
    "not_a_number": _KIND,
    "not_text": _KIND,
    "not_a_boolean": _KIND,
    "not_a_time": _KIND,
    "not_a_list": _KIND,
}


def reasons(rows: Sequence[Refused]) -> str:
    """Fields, reasons and counts in one line: ``country: unknown key 59,217; malformed 420``."""
    named = [
        f"{row.field + ': ' if row.field else ''}{row.reason.replace('_', ' ')} {row.count:,}"
        for row in rows[:SHOWN]
    ]
    more = len(rows) - SHOWN
    return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])


def remedy(rows: Sequence[Refused]) -> str:
    """A sentence on what to do about the first reason, without its full stop."""
    if not rows:
        return "Correct the events or the config"
    return _REMEDIES[rows[0].reason].format(field=rows[0].field or "COLUMN")


__all__ = ["reasons", "remedy"]

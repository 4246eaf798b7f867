"""Why a record or a value is refused, how that is counted by field, and read back again.

A record is rejected only if it is no record, or if its time, key, id or unit cannot be read; if it
lies outside the clock, is late, of an unknown key, or of nobody where users are protected. Any
other value that cannot be read counts as missing, and its record stays: else a neighbour could make
a record vanish by spoiling a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

UNREAD = (
    "malformed",
    "too_long",
    "no_value",
    "stamp_ahead",
    "missing_time",
    "unreadable_time",
    "unreadable_key",
    "unreadable_id",
    "unreadable_unit",
)
"""Reasons of records that never become events."""

REASONS = (
    *UNREAD,
    "before_start",
    "after_end",
    "late",
    "early",
    "overdue",
    "unknown_key",
    "missing_id",
    "key_too_long",
    "no_user",
    "duplicate",
    "over_capacity",
    "not_a_number",
    "not_text",
    "not_a_boolean",
    "not_a_time",
    "not_a_list",
)
"""Every reason of a dead letter. Codes are stable; positions in this tuple are not."""

VALUES = ("not_a_number", "not_text", "not_a_boolean", "not_a_time", "not_a_list")
"""Reasons of values that count as missing; their records are not rejected. All others are reasons
of records that are. ``not_a_time``: an arrival stamp."""

MISSING = "missing"
"""Counted by field like a reason, but nothing is refused: the value is absent or empty."""

_IN = "_in_"
_EXPECTED = frozenset({"duplicate", "over_capacity"})
_PLAIN = re.compile(rb"[^A-Za-z0-9]")
_ESCAPED = re.compile(rb"_(_|[0-9a-f]{2})")


class Refused(NamedTuple):
    """A line of the table of what was refused.

    Attributes:
      field: the column as the config spells it; "" where it is the whole record.
      reason: one of REASONS.
      count: of records or values; a private number.
      put_aside: whether records vanished; else values counted as missing and their records stayed.
    """

    field: str
    reason: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks for
    put_aside: bool


def counter_of(field: str, reason: str) -> str:
    """The counter of a reason in a field, like ``not_a_number_in_dollar__value``.

    Runners turn what is neither letter, digit nor underscore into underscores, so other bytes are
    spelled ``_2e`` and an underscore twice; no two columns share a counter.
    """
    spelled = _PLAIN.sub(lambda m: b"__" if m[0] == b"_" else b"_%02x" % m[0][0], field.encode())
    return f"{reason}{_IN}{spelled.decode()}"


def by_field(counters: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """Counters of any kind -> {(field, reason): n} of those that ``counter_of`` names."""
    results = {}
    for name, count in counters.items():
        reason, among, spelled = name.partition(_IN)
        if among and (reason in REASONS or reason == MISSING):
            field = _ESCAPED.sub(
                lambda m: b"_" if m[1] == b"_" else bytes([int(m[1], 16)]), spelled.encode()
            )
            results[field.decode(errors="replace"), reason] = count
    return results


def words(field: str, reason: str) -> str:
    """For people: ``rating: not a number``."""
    said = reason.replace("_", " ")
    return f"{field}: {said}" if field else said


def refused_by_field(counters: Mapping[str, int]) -> list[Refused]:
    """What was refused, by field and reason, the most frequent first.

    Counts each record that was rejected once, under the one reason it was rejected for, and each
    value that could not be read, in records that stayed (so a record with two such values counts
    twice among the values, and never among the records). Duplicates and what is beyond the room of
    a cell are not counted, because they are rejected by design; nor what ``where`` leaves out, nor
    values that are merely absent or empty.

    Args:
      counters: a run's counters by name.
    """
    fields = {pair: n for pair, n in by_field(counters).items() if pair[1] in REASONS}
    named: dict[str, int] = {}
    for (_, reason), count in fields.items():
        named[reason] = named.get(reason, 0) + count
    whole = {("", reason): counters.get(reason, 0) - named.get(reason, 0) for reason in REASONS}
    rows = [
        Refused(field, reason, count, reason not in VALUES)
        for (field, reason), count in {**fields, **whole}.items()
        if count > 0 and reason not in _EXPECTED
    ]
    return sorted(rows, key=lambda row: (-row.count, row.field, row.reason))

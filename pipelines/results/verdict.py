"""What a run rejected, whether its releases may be published, and the result of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.dpcore.errors import WeirError
from weir.dpcore.plan import Plan
from weir.pipelines.terminal import count
from weir.transforms.runtime.reasons import UNREAD, Refused, refused_by_field

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


_VALUES = "values of "


@dataclass(frozen=True)
class Verdict:
    """What a run over files rejected, and how much it may.

    Attributes:
      limit: ``limits.refused``, a share of the records.
      records: that were read, rejected or not.
      rows: what was rejected. Private numbers, like the next.
      known: whether the runner told its counts.
      files: that were read. lost_files: of which nothing could be read.
      size: bytes of all files. lost_bytes: those that could not be read. How many records they
        held cannot be known, so no limit allows any.
      filtered: events that ``where`` left out.
    """

    limit: float
    records: int
    rows: tuple[Refused, ...]
    known: bool = True
    files: int = 0
    lost_files: int = 0
    size: int = 0
    lost_bytes: int = 0
    filtered: int = 0

    @property
    def put_aside(self) -> int:
        """Records that were rejected."""
        return sum(row.count for row in self.rows if row.put_aside)

    @property
    def excess(self) -> tuple[str, int] | None:
        """(what, how many) is beyond the limit: records, or the values of one field."""
        values: dict[str, int] = {}
        for row in self.rows:
            if not row.put_aside:
                values[row.field] = values.get(row.field, 0) + row.count
        named = {f"{_VALUES}{field}": n for field, n in values.items()}
        for what, n in {"records": self.put_aside, **named}.items():
            if n and n / max(1, self.records) > self.limit:
                return what, n
        return None

    @property
    def lost(self) -> float:
        """Share of the bytes that could not be read."""
        return self.lost_bytes / max(1, self.size, self.lost_bytes)

    @property
    def loss(self) -> str:
        """What of the files could not be read, in words."""
        share = "less than 0.01 %" if self.lost < 1e-4 else f"{100 * self.lost:.3g} %"
        if self.lost_files:
            return (
                f"{self.lost_files:,} of {count(self.files, 'file')} could not be read "
                f"({share} of the bytes of all)"
            )
        return f"{share} of the bytes of {count(self.files, 'file')} could not be read"

    @property
    def passes(self) -> bool:
        """Whether the releases may be published without anybody's word."""
        return self.known and self.excess is None and not self.lost_bytes

    @property
    def note(self) -> str | None:
        """What to say of a run that passes and yet left records out, or had none; else None."""
        if not self.known or not self.passes:
            return None
        if self.records == 0:
            return (
                "no record was read, so the releases are noise alone. Check that the source names "
                "the right files."
            )
        if self.filtered >= self.records:
            return (
                f"`where` left out all of {count(self.records, 'record')}, so the releases are "
                "noise alone. Check the predicate."
            )
        if not self.rows:
            return None
        values = sum(row.count for row in self.rows if not row.put_aside)
        said = " and ".join(
            clause
            for clause, n in (
                (f"rejected {self.put_aside:,} of {count(self.records, 'record')}", self.put_aside),
                (f"could not read {count(values, 'value')}", values),
            )
            if n
        )
        return (
            f"the run {said} ({reasons(self.rows)}); limits.refused = {self.limit:g} allows that. "
            f"{self.remedy}."
        )

    @property
    def remedy(self) -> str:
        """What to do about what holds the run back, or was rejected; without a full stop."""
        if self.lost_bytes:
            return "Write the damaged files again, or leave them out of the source"
        return remedy(self._blamed)

    @property
    def _blamed(self) -> tuple[Refused, ...]:
        """What was rejected, as far as it is beyond the limit where anything is."""
        if self.excess is None or self.excess[0] == "records":
            return tuple(row for row in self.rows if row.put_aside) or self.rows
        named = self.excess[0].removeprefix(_VALUES)
        return tuple(row for row in self.rows if row.field == named and not row.put_aside)

    def to_json(self) -> dict[str, Any]:
        """For ``weir run --json``."""
        return {
            "limit": self.limit,
            "records": self.records,
            "put_aside": self.put_aside,
            "files": self.files,
            "lost_files": self.lost_files,
            "bytes": self.size,
            "lost_bytes": self.lost_bytes,
            "reasons": [row._asdict() for row in self.rows],
        }

    def __str__(self) -> str:
        """Why it does not pass."""
        if not self.known:
            return "the runner does not tell how many records were rejected"
        if self.lost_bytes:
            return f"{self.loss}, and no limit allows damaged files"
        what, beyond = self.excess or ("records", self.put_aside)
        allowed = (
            f"limits.refused = {self.limit:g} allows {math.floor(self.limit * self.records):,}"
        )
        said = f"{beyond:,} of {self.records:,} records were rejected"
        if what != "records":
            said = f"{beyond:,} {what} in {self.records:,} records could not be read"
        return f"{said} ({reasons(self._blamed)}), and {allowed}"


class InputRejected(WeirError):
    """Nothing is given back, because too much of the input was rejected.

    Attributes:
      field: ``limits.refused``, the setting that decides. value: what it is.
      records: that were read, rejected or not; a private number, like the next.
      rejected: what was rejected, the most frequent first, each with ``field``, ``reason`` and
        ``count``.
      remedy: what to do about it.

    Args:
      verdict: of the run. counted: what a ledger counts of it, in words.

        >>> import weir
        >>> events = [{"at": "2025-01-01T10:00:00Z"}, {"at": "yesterday"}]
        >>> try:
        ...     weir.release(events, '''
        ... name: visits
        ... schema: {time: at}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
        ... aggregates: {visits: {count: events}}
        ... ''')
        ... except weir.InputRejected as error:
        ...     [(one.field, one.reason, one.count) for one in error.rejected]
        [('at', 'unreadable_time', 1)]
    """

    def __init__(self, verdict: Verdict, counted: str = "") -> None:
        self.field, self.value = "limits.refused", verdict.limit
        self.records, self.rejected = verdict.records, verdict.rows
        self.remedy = (
            f"{verdict.remedy}; or allow more: limits.refused is the share of the records that may "
            "be rejected."
        )
        said = f"nothing is given back: {verdict}{f', {counted}' if counted else ''}"
        super().__init__(f"{said}. {self.remedy}")


def judge(counters: Mapping[str, int], limit: float) -> Verdict:
    """Holds the counts of a finished run against ``limits.refused``.

    Args:
      counters: by name. A run that released something and counted nothing has a runner that does
        not tell.
      limit: the share of the records that may be rejected.
    """
    rows = tuple(refused_by_field(counters))
    unread = sum(row.count for row in rows if row.reason in UNREAD)
    known = counters.get("ticks_released", 0) > 0
    return Verdict(
        limit,
        counters.get("events", 0) + unread,
        rows,
        known,
        files=counters.get("source_files", 0),
        lost_files=counters.get("lost_files", 0),
        size=counters.get("bytes", 0),
        lost_bytes=counters.get("lost_bytes", 0),
        filtered=counters.get("filtered", 0),
    )


COUNTERS = {
    "events": "events read",
    "filtered": "left out by `where`",
    "lost_files": "files of which nothing could be read",
    "lost_bytes": "bytes of files that could not be read",
    "malformed": "malformed",
    "too_long": "longer than limits.line_bytes",
    "no_value": "without a value (tombstones)",
    "stamp_ahead": "stamped by their producer more than limits.ahead after the reader's clock",
    "missing_time": "without an event time",
    "unreadable_time": "whose time cannot be read",
    "unreadable_key": "whose key cannot be read",
    "unreadable_id": "whose id cannot be read",
    "unreadable_unit": "whose unit cannot be read",
    "before_start": "before clock.start",
    "after_end": "after clock.end",
    "late": "late",
    "early": "of a time ahead of their arrival (clock.ahead)",
    "overdue": "behind a released tick",
    "duplicate": "duplicates",
    "unknown_key": "of no declared key",
    "missing_id": "without an id",
    "key_too_long": "of a key with too long a name",
    "no_user": "of nobody: schema.unit is missing or empty",
    "over_capacity": "beyond the bound of a cell",
    "capped_events": "beyond contributions.events of their user, key and tick",
    "capped_keys": "of keys beyond contributions.keys of their user and tick",
    "capped_ticks": "of ticks beyond contributions.ticks of their user",
    "capped_spacing": "of ticks within contributions.spacing of their user's last",
    "capped_ticks_per_key": "of keys with contributions.ticks_per_key used up by their user",
    "capped_period_keys": "of keys beyond contributions.period_keys of their user",
    "capped_total": "beyond contributions.total of their user",
    "clipped": "values moved by a clip",
    "non_finite": "values missing or not finite, counted as 0 (in no bin; no model learns of them)",
    "out_of_range": "values outside a histogram, or events outside model.inputs",
    "stamps_behind": "arrival stamps moved to stamps_behind before their publication",
    "stamps_ahead": "arrival stamps moved to stamps_ahead after their publication",
    "source_errors": "calls to the source that failed",
    "leases_given_up": "messages that waited too long for a checkpoint, and come again",
    "divergent": "releases that came twice and differ (ALARM)",
}
DIVERGENT = "divergent"
"""Counter of releases that were computed twice, with different content."""


@dataclass(frozen=True)
class Result:
    """What a run did.

    Attributes:
      plan: what ran. folder: of the results, or None. sink: where they are, in words.
      counters: the operator's counts; private numbers.
      seconds: how long it took.
      fresh_secret: whether the secret is lost with this process.
      dead_letters: folder of the dead letters, or None.
      notes: what else to know.
      state: done, held (nothing is published), stopped (with what it needs to go on) or running (on
        a cluster, by itself).
      verdict: what a run over files rejected, and how much it may; None where nobody asks.
      ledger: how the budget stands with this run; None where no ledger was asked.
      divergent: releases of this job that came twice and differ; counters are of all jobs.
    """

    plan: Plan
    folder: Path | None
    sink: str
    counters: Mapping[str, int]
    seconds: float
    fresh_secret: bool
    dead_letters: str | None = None
    notes: tuple[str, ...] = field(default=())
    state: str = "done"
    verdict: Verdict | None = None
    ledger: Mapping[str, Any] | None = None
    divergent: int = 0

    @property
    def fails(self) -> bool:
        """Whether more was rejected than ``limits.refused`` allows, a file was damaged, or two
        releases differ."""
        return self.divergent > 0 or (self.verdict is not None and not self.verdict.passes)

    def to_json(self) -> dict[str, Any]:
        """For ``weir run --json``."""
        guarantee = self.plan.guarantee
        return {
            "name": self.plan.name,
            "digest": self.plan.digest,
            "sink": self.sink,
            "complete": self.state == "done",
            "state": self.state,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "window": guarantee.window,
            "seconds": round(self.seconds, 3),
            "fresh_secret": self.fresh_secret,
            "dead_letters": self.dead_letters,
            "operator": dict(self.counters),
            "refused": None if self.verdict is None else self.verdict.to_json(),
            **({} if self.ledger is None else {"ledger": dict(self.ledger)}),
            "notes": list(self.notes),
        }

"""Whether enough of the input could be read for its releases to be published by themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transforms.runtime.reasons import UNREAD, Refused, refused_by_field


@dataclass(frozen=True)
class Verdict:
    """What a run over files refused, and how much it may.

    Attributes:
      limit: ``limits.refused``, a share of the records.
      records: that were read, refused or not.
      rows: what was refused. Private numbers, like the next.
      known: whether the runner told its counts.
    """

    limit: float
    records: int
    rows: tuple[Refused, ...]
    known: bool = True

    @property
    def put_aside(self) -> int:
        """Records that were refused."""
        return sum(row.count for row in self.rows if row.put_aside)

    @property
    def excess(self) -> tuple[str, int] | None:
        """(what, how many) is beyond the limit: records, or the values of one field."""
        values: dict[str, int] = {}
        for row in self.rows:
            if not row.put_aside:
                values[row.field] = values.get(row.field, 0) + row.count
        named = {f"values of {field}": count for field, count in values.items()}
        for what, count in {"records": self.put_aside, **named}.items():
            if count and count / max(1, self.records) > self.limit:
                return what, count
        return None

    @property
    def passes(self) -> bool:
        """Whether the releases may be published without anybody's word."""
        return self.known and self.excess is None

    def to_json(self) -> dict[str, Any]:
        """For ``weir run --json``."""
        return {
            "limit": self.limit,
            "records": self.records,
            "put_aside": self.put_aside,
            "reasons": [row._asdict() for row in self.rows],
        }

    def __str__(self) -> str:
        """Why it does not pass."""
        if not self.known:
            return "the runner does not tell how many records were refused"
        what, count = self.excess or ("records", self.put_aside)
        allowed = math.floor(self.limit * self.records)
        return (
            f"{count:,} {what} of {self.records:,} were refused, and limits.refused = "
            f"{self.limit:g} allows {allowed:,}"
            if what == "records"
            else f"{count:,} {what} in {self.records:,} records could not be read, and "
            f"limits.refused = {self.limit:g} allows {allowed:,}"
        )


def judge(counters: Mapping[str, int], limit: float) -> Verdict:
    """Holds the counts of a finished run against ``limits.refused``.

    Args:
      counters: by name. A run that released something and counted nothing has a runner that does
        not tell.
      limit: the share of records that may be refused.
    """
    rows = tuple(refused_by_field(counters))
    unread = sum(row.count for row in rows if row.reason in UNREAD)
    known = counters.get("ticks_released", 0) > 0
    return Verdict(limit, counters.get("events", 0) + unread, rows, known)

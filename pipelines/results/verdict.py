"""Whether enough of the input could be read for its releases to be published by themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.pipelines.terminal import count
from weir.transforms.runtime.reasons import UNREAD, Refused, refused_by_field


@dataclass(frozen=True)
class Verdict:
    """What a run over files refused, and how much it may.

    Attributes:
      limit: ``limits.refused``, a share of the records, and of the bytes of files.
      records: that were read, refused or not.
      rows: what was refused. Private numbers, like the next.
      known: whether the runner told its counts.
      files: that were read. lost_files: of which nothing could be read.
      size: bytes of all files. lost_bytes: those that could not be read: nobody knows how many
        records they held, so they are held against the limit by themselves.
    """

    limit: float
    records: int
    rows: tuple[Refused, ...]
    known: bool = True
    files: int = 0
    lost_files: int = 0
    size: int = 0
    lost_bytes: int = 0

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
        named = {f"values of {field}": n for field, n in values.items()}
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
        share = f"{100 * self.lost:.3g} %"
        if self.lost_files:
            return (
                f"{self.lost_files:,} of {count(self.files, 'file')} could not be read "
                f"({share} of the bytes of all)"
            )
        return f"{share} of the bytes of {count(self.files, 'file')} could not be read"

    @property
    def passes(self) -> bool:
        """Whether the releases may be published without anybody's word."""
        return self.known and self.excess is None and self.lost <= self.limit

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
            return "the runner does not tell how many records were refused"
        if self.lost > self.limit:
            return f"{self.loss}, and limits.refused = {self.limit:g} allows {100 * self.limit:g} %"
        what, beyond = self.excess or ("records", self.put_aside)
        allowed = math.floor(self.limit * self.records)
        return (
            f"{beyond:,} {what} of {self.records:,} were refused, and limits.refused = "
            f"{self.limit:g} allows {allowed:,}"
            if what == "records"
            else f"{beyond:,} {what} in {self.records:,} records could not be read, and "
            f"limits.refused = {self.limit:g} allows {allowed:,}"
        )


def judge(counters: Mapping[str, int], limit: float) -> Verdict:
    """Holds the counts of a finished run against ``limits.refused``.

    Args:
      counters: by name. A run that released something and counted nothing has a runner that does
        not tell.
      limit: the share of records that may be refused, and of the bytes of files that may be lost.
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
    )

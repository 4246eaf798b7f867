"""What a run came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir.dpcore.plan import Plan
from weir.pipelines.results.verdict import Verdict

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
    "over_capacity": "beyond the room of a cell",
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

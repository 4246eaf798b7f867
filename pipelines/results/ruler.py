"""Where the ticks of a run lie in time, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.dpcore.leaves.clock import Calendar


@dataclass(frozen=True)
class Ruler:
    """Ticks in time. On a clock with a zone a time is what the clocks on its walls show, in
    microseconds since 1970 as if they showed UTC.

    Attributes:
      start: of tick 0. period: of a tick; of a calendar clock about. calendar: None: ticks of a
        fixed length.
    """

    start: int
    period: int
    calendar: Calendar | None = None

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any]) -> Ruler | None:
        """Of a calendar clock, by what ``_plan.json`` says; None: it is none."""
        told = (plan.get("clock") or {}).get("period")
        if not isinstance(told, Mapping):
            return None
        calendar = Calendar(
            int(told.get("days", 0)),
            int(told.get("months", 0)),
            str(told["zone"]),
            int(told["first"]),
            skipped=tuple(told.get("skipped", ())),
        )
        return cls(int(calendar.walls(np.zeros(1, np.int64))[0]), calendar.nominal, calendar)

    def at(self, tick: int) -> int:
        """Where a tick begins."""
        if self.calendar is None:
            return self.start + int(tick) * self.period
        return int(self.calendar.walls(np.asarray([tick]))[0])

    def place(self, stamp: int) -> float:
        """A time as a tick and a fraction of it."""
        if self.calendar is None:
            return (stamp - self.start) / self.period
        tick = (stamp - self.start) // self.period
        while self.at(tick) > stamp:
            tick -= 1
        while self.at(tick + 1) <= stamp:
            tick += 1
        begin = self.at(tick)
        return tick + (stamp - begin) / (self.at(tick + 1) - begin)

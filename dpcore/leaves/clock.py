"""The public release clock: ticks of fixed length, or of the calendar, from a fixed start.
Arithmetic only; nothing reads the time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.calendar import Calendar, shown_unit


@dataclass(frozen=True)
class Clock:
    """tick t covers event times [tick_start(t), tick_start(t + 1)): [start + t * period,
    start + (t + 1) * period) where ticks are of a fixed length.

    Attributes:
      start: microseconds since 1970-01-01T00:00:00Z.
      period: microseconds, > 0. Of a calendar clock, no tick is shorter: good for waiting, not for
        finding a tick.
      end: microseconds, or None for a stream without end. The last tick is the last whole one
        before it; a config must say where a tick ends.
      delay: microseconds by which a message may arrive after its event time and still count.
      ahead: microseconds by which it may arrive before its event time and still count; None: any.
      calendar: where its days or months begin; None: ticks of a fixed length.
    """

    start: int
    period: int
    end: int | None = None
    delay: int = 0
    ahead: int | None = None
    calendar: Calendar | None = None

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise ConfigError(
                "clock.period", self.period, "must be longer than nothing, like 1d or 15m."
            )
        if self.delay < 0:
            raise ConfigError("clock.delay", self.delay, "must be 0s or more.")
        if self.ahead is not None and self.ahead < 0:
            raise ConfigError("clock.ahead", self.ahead, "must be 0s or more.")
        if self.end is not None and self.end < self.tick_start(1):
            raise ConfigError(
                "clock.end", self.end, "must be at least one period after clock.start."
            )

    @property
    def ticks(self) -> int | None:
        """How many ticks there are; None without end."""
        return None if self.end is None else self.tick_at(self.end)

    def tick_of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Event times in microseconds (n,) -> ticks (n,); negative before the start."""
        if self.calendar is not None:
            return self.calendar.tick_of(times)
        return np.floor_divide(times - self.start, self.period)

    def tick_at(self, moment: int) -> int:
        """The tick of one moment in microseconds: as many are over by then."""
        if self.calendar is not None:
            return int(self.calendar.tick_of(np.asarray([moment]))[0])
        return (moment - self.start) // self.period

    def tick_start(self, tick: int) -> int:
        """First microsecond of a tick; tick_start(t + 1) is the end of t."""
        if self.calendar is not None:
            return int(self.calendar.starts(np.asarray([tick]))[0])
        return self.start + tick * self.period

    def starts(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """First microseconds of ticks (n,)."""
        if self.calendar is not None:
            return self.calendar.starts(ticks)
        return self.start + self.period * ticks

    def ticks_in(self, length: int) -> tuple[int, int]:
        """Whole ticks of a duration in microseconds, and what is left. A duration is of days where
        ticks are days of a zone; none is a number of months."""
        calendar = self.calendar
        if calendar is None:
            return divmod(length, self.period)
        return divmod(length, calendar.nominal) if calendar.days else (0, length)

    @property
    def unit(self) -> str | None:
        """What a tick of a calendar clock is, in words; None: ticks of a fixed length."""
        if self.calendar is None:
            return None
        return shown_unit(self.calendar.days, self.calendar.months, self.calendar.zone)

"""The public release clock: ticks of fixed length from a fixed start. Arithmetic only; nothing
reads the time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError


@dataclass(frozen=True)
class Clock:
    """tick t covers event times [start + t * period, start + (t + 1) * period).

    Attributes:
      start: microseconds since 1970-01-01T00:00:00Z.
      period: microseconds, > 0.
      end: microseconds, or None for a stream without end. The last tick is the last whole one
        before it.
      delay: microseconds by which a message may arrive after its event time and still count.
      ahead: microseconds by which it may arrive before its event time and still count; None: any.
    """

    start: int
    period: int
    end: int | None = None
    delay: int = 0
    ahead: int | None = None

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise ConfigError(
                "clock.period", self.period, "must be longer than nothing, like 1d or 15m."
            )
        if self.delay < 0:
            raise ConfigError("clock.delay", self.delay, "must be 0s or more.")
        if self.ahead is not None and self.ahead < 0:
            raise ConfigError("clock.ahead", self.ahead, "must be 0s or more.")
        if self.end is not None and self.end < self.start + self.period:
            raise ConfigError(
                "clock.end", self.end, "must be at least one period after clock.start."
            )

    @property
    def ticks(self) -> int | None:
        """How many ticks there are; None without end."""
        return None if self.end is None else (self.end - self.start) // self.period

    def tick_of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Event times in microseconds (n,) -> ticks (n,); negative before the start."""
        return np.floor_divide(times - self.start, self.period)

    def tick_start(self, tick: int) -> int:
        """First microsecond of a tick; tick_start(t + 1) is the end of t."""
        return self.start + tick * self.period

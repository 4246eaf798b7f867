"""Stream time: the wall clock, or, while a recorded stream is replayed, what it stands for."""

from __future__ import annotations

import time
from dataclasses import dataclass

from weir.dpcore.errors import ConfigError


@dataclass(frozen=True)
class StreamTime:
    """stream time = origin + speed * (wall - started). All three of the present by default.

    One value must do for a whole job: heartbeats, watermarks and arrival stamps all follow it, so
    a replay decides what is late as the live stream did, at any speed.

    Attributes:
      origin: event time at which the replay starts, microseconds since 1970.
      started: wall time at which it starts, microseconds since 1970.
      speed: times real time.
    """

    origin: int = 0
    started: int = 0
    speed: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.speed < float("inf"):
            raise ConfigError(
                "source.pubsub.replay.speed", self.speed, "must be a finite number above 0."
            )

    def at(self, wall: int) -> int:
        """Wall time -> stream time; both microseconds since 1970."""
        if self.speed == 1:
            return self.origin + wall - self.started
        return self.origin + int(self.speed * (wall - self.started))

    def wall(self, moment: int) -> int:
        """Stream time -> wall time; both microseconds since 1970."""
        if self.speed == 1:
            return self.started + moment - self.origin
        return self.started + int((moment - self.origin) / self.speed)

    def now(self) -> int:
        """Microseconds since 1970."""
        return self.at(time.time_ns() // 1000)


PRESENT = StreamTime()
"""Stream time of a live stream: the wall clock."""

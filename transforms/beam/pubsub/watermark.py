"""Wall time for a reader, which a step of the machine's clock does not move on.

On a silent stream nothing but the wall clock says how far the stream is, and what was released in a
step ahead would make all that follows overdue. So time goes on as the clock of the running machine
counts it, and comes nearer to a wall clock that is ahead by a hundredth of what passes. Where that
one is right, and ours was behind, publish times of the server say so at once. A wall clock that is
behind is followed: a frontier never goes back, and waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from weir.transforms.runtime.stream_time import StreamTime

CATCH_UP = 0.01
"""Seconds gained in each second on a wall clock that is ahead."""


def running() -> float:
    """Seconds that this machine has been there, asleep or not; no step moves them."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SteadyTime:
    """Thread-safe: messages come in threads of the client.

    Args:
      wall: seconds since 1970. count: seconds of a clock that no step moves.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, count: Callable[[], float] = running
    ) -> None:
        self._wall, self._count = wall, count
        self._lock = threading.Lock()
        self._at, self._counted = wall(), count()

    def __call__(self) -> float:
        """Seconds since 1970."""
        with self._lock:
            counted = self._count()
            most = self._at + (counted - self._counted) * (1 + CATCH_UP)
            self._at, self._counted = min(self._wall(), most), counted
            return self._at

    def prove(self, moment: float) -> None:
        """The server has set this time: it is not earlier now, unless our wall clock says so."""
        with self._lock:
            self._at = max(self._at, min(moment, self._wall()))


BACKLOG = 60_000_000
"""Microseconds of answers that say how far a reader with a backlog has come."""


class Frontier:
    """The estimate of one reader. All times are microseconds since 1970.

    Args:
      stream: wall time of a publication -> the earliest arrival that it may have.
      slack: wall microseconds until a published message can be pulled.
      hold: wall microseconds of the ack deadline.
      started: wall time of the start.
      before: wall time since which no reader of before can have been given messages; None: that is
        not known, so until the start it may.
    """

    def __init__(
        self,
        stream: StreamTime,
        slack: int,
        hold: int,
        started: int,
        before: int | None = None,
    ) -> None:
        self._stream, self._slack, self._hold = stream, slack, hold
        self._until = started + hold
        if before is not None:  # what is back by now takes the slack to come, as anything does
            self._until = min(self._until, max(before + hold, started + slack) + slack)
        self._answers: deque[tuple[int, int]] = deque()
        self._full_since: int | None = None
        self._last_full = started - slack
        self._idle_since: int | None = None
        self._last: int | None = None
        self._looked = started
        self._at: int | None = None

    def answered(self, wall: int, first: int, full: bool) -> None:
        """Messages were sent on, none of which can have arrived before ``first``, stream time."""
        self._answers.append((wall, first))
        self._last, self._idle_since = wall, None
        if full:
            self._last_full = wall
            if self._full_since is None:
                self._full_since = wall
        elif wall - self._last_full >= self._slack:
            self._full_since = None

    def silent(self, asked: int) -> None:
        """Nothing was there for a question of ``asked``, nor for any since the last message."""
        if self._idle_since is None:
            self._idle_since = asked if self._last is None else self._last
        self._looked = max(self._looked, asked)
        if self.is_idle():
            self._answers.clear()
            self._full_since = None

    def failed(self, wall: int) -> None:
        """A call failed: what the server sent may be lost, and comes again."""
        self._until = wall + self._hold
        self._last = self._idle_since = None

    def is_held(self, wall: int) -> bool:
        """Whether messages of before the start may still come again."""
        return wall < self._until

    def is_idle(self) -> bool:
        """Whether for the slack nothing came, as the last answer says too."""
        return self._idle_since is not None and self._looked - self._idle_since >= self._slack

    def at(self, wall: int, cap: int | None = None) -> int | None:
        """Stream time; None while nothing is known. Never goes back; nothing new past ``cap``, nor
        past what the slack leaves of the present."""
        if not self.is_held(wall):
            result = self._estimate(wall)
            if result is not None:
                latest = self._stream.at(wall - self._slack)  # what came since may still be coming
                result = min(result, latest, result if cap is None else cap)
                self._at = result if self._at is None else max(self._at, result)
        return self._at

    def _estimate(self, wall: int) -> int | None:
        if self.is_idle():
            return self._stream.at(self._looked - self._slack)
        span = self._slack
        if self._full_since is not None:
            if wall - self._full_since < BACKLOG:
                return None
            span = BACKLOG
        while self._answers and self._answers[0][0] < wall - max(span, self._slack):
            self._answers.popleft()
        return min((first for _, first in self._answers), default=None)

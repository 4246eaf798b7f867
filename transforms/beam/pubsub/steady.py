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
from collections.abc import Callable

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

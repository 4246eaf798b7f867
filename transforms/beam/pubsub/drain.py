"""Noticing a drain on a runner that does not tell of it.

Where Flink drains a job it calls a splittable DoFn again and again, at once, until nothing is left
of it: for a stream that never ends, for ever. Beam's ``truncate`` would say so, and is not called
there. What shows is that a wait which the DoFn asks for is not kept.

Apache's job servers keep whole seconds of a wait and drop the rest, so the short waits of every
day show nothing. A long one is a test: it is asked for when no bundle has been safe for a while, as
a drain makes none safe before it is through, and where a DoFn has the time anyway. Where
checkpoints come on time there are two or three tests in the first seconds of a process. A job
server that keeps shorter waits too shows it by keeping one; from then on one that is cut is reason
enough for a test, so that a drain is noticed at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

TEST = 1.05
"""Seconds of the wait that is asked for as a test: somewhat more than may be kept of it."""
SHORT = 0.2
"""Seconds of a wait that a job server keeps, or not, as it keeps all shorter than a second."""
KEPT = 0.95
"""Seconds after which a test may have been kept: a job server keeps a second of it, and a machine
that is busy may call so late though it keeps nothing."""
LOST = 2.0
"""Seconds after which what was seen before says nothing: the job may have gone back to a checkpoint
from a drain that failed."""
CUT = 3
"""Tests that were cut, less those that may have been kept: a drain. A wall clock that jumps cuts
one. From twice as many on, no more are counted."""
PATIENCE, MOST_PATIENCE = 4.0, 600.0
"""Seconds without a safe bundle before a test; a test that is kept doubles them, up to a limit."""


class DrainWatch:
    """The calls of one element of a splittable DoFn, whatever instance of it gets them.

    Args:
      watching: whether drains show in no other way; else none is ever noticed.
      now: seconds of a clock that never jumps, for tests.

    Attributes:
      began: wall microseconds at which who calls noticed the drain; None: there is none.
    """

    def __init__(self, watching: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._watching, self._now = watching, now
        self._ended = self._safe = now()
        self._patience = PATIENCE
        self._cut = 0
        self._testing = self._drains = False
        self._asked = 0.0
        self._keeps_short = self._cut_short = False
        self.began: int | None = None

    @property
    def suspects(self) -> bool:
        """Whether a wait was cut: what a drain must not see waits for one that is kept."""
        return self._cut > 0 or self._cut_short

    def safe(self) -> None:
        """The runner has kept a bundle for good, as it never does within a drain."""
        self._safe = self._now()

    def drains(self) -> bool:
        """A call begins. Whether the job is being drained: the element is to end now."""
        if not self._watching:
            return False
        now = self._now()
        if SHORT <= self._asked < TEST:
            retained = now - self._ended >= self._asked * 0.8
            self._cut_short = self._keeps_short and now - self._ended < self._asked / 2
            self._keeps_short |= retained
        if self._testing:
            self._testing = False
            waited = now - self._ended
            if waited < KEPT:
                self._cut = min(self._cut + 1, 2 * CUT)
                self._drains |= self._cut >= CUT
            elif self._cut and waited < LOST:
                self._cut -= 1
                self._drains &= self._cut > 0
            else:
                if not self._cut and now - self._safe >= self._patience:
                    self._safe = now
                    self._patience = min(2 * self._patience, MOST_PATIENCE)
                self._cut, self._drains, self._cut_short = 0, False, False
        return self._drains

    def wait(self, seconds: float) -> float:
        """A call ends that wants to be called again after some seconds; returns what to ask for."""
        self._ended = now = self._now()
        suspect = self.suspects or now - self._safe >= self._patience
        self._testing = self._watching and (suspect or seconds >= TEST)
        self._asked = max(seconds, TEST) if self._testing else seconds
        return self._asked


class DrainWatches:
    """One ``DrainWatch`` for each name in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, DrainWatch] = {}

    def of(self, name: str, watching: bool) -> DrainWatch:
        """That of a name."""
        with self._lock:
            return self._found.setdefault(name, DrainWatch(watching))


DRAIN_WATCHES = DrainWatches()

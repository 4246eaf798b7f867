"""How far a reader has come: a moment before which nothing that it has not sent on can arrive.

Publish times alone decide it: of what a message says nothing is read here, so that no message can
hold the stream or move it on. Pub/Sub promises no order, so this is an estimate, as in every reader
of it:
- An answer that holds nothing, where nothing has come for the slack: the moment of its question
  less the slack, for that is how long a published message may take until it can be pulled. The
  silence begins with the last messages, for another question has waited since. A question without
  an answer says nothing by itself.
- An answer that is not full: the earliest of the last slack's answers.
- A full answer says that more is waiting, in whatever order: the earliest of a minute of answers,
  and nothing before a minute of them is known.
- After a start, and after a call that failed: held for one ack deadline, because messages that
  somebody received and did not acknowledge come again that late.
What still comes behind it is counted as overdue by whoever released the tick.
"""

from __future__ import annotations

from collections import deque

from weir.transforms.runtime.stream_time import StreamTime

BACKLOG = 60_000_000
"""Microseconds of answers that say how far a reader with a backlog has come."""


class Frontier:
    """The estimate of one reader. All times are microseconds since 1970.

    Args:
      stream: wall time of a publication -> the earliest arrival that it may have.
      slack: wall microseconds until a published message can be pulled.
      hold: wall microseconds of the ack deadline.
      started: wall time of the start.
    """

    def __init__(self, stream: StreamTime, slack: int, hold: int, started: int) -> None:
        self._stream, self._slack, self._hold = stream, slack, hold
        self._until = started + hold
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
            found = self._estimate(wall)
            if found is not None:
                latest = self._stream.at(wall - self._slack)  # what came since may still be coming
                found = min(found, latest, found if cap is None else cap)
                self._at = found if self._at is None else max(self._at, found)
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

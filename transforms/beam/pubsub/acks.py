"""When pulled messages may be acknowledged: not before a checkpoint holds them.

When a checkpoint is complete, Flink's runner declares every bundle safe that has ended by then.
Those that ended behind its barrier are not in it: were they acknowledged, and went the job back to
that checkpoint, their messages would be lost. So there a bundle is believed one checkpoint later:
when another is declared safe that began after this one was. With one checkpoint at a time, its
default, Flink tells a worker that it is complete before the barrier of the next reaches it, so what
had ended by the first news is in the second checkpoint.

The same turn says how far a job may go back: see ``acked``.

The price: a job that was stopped gets the messages of its last checkpoint or two again. Where
events have ids, these are dropped. Where they have none, to be counted twice is worse than to be
lost in a crash, and the runner's word is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence


class Confirmations:
    """Those of one reader. Thread-safe: runners declare bundles safe in threads of their own.

    Args:
      acknowledge: takes ack ids of messages that are safe, and the last turn of messages that a
        checkpoint has for sure.
      later: whether to believe a bundle one checkpoint later than the runner says.
    """

    def __init__(self, acknowledge: Callable[[Sequence[str], int], None], later: bool) -> None:
        self._acknowledge, self._later = acknowledge, later
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._news = self._restarted = 0
        self._ended = self._stored = -1

    def began(self) -> int:
        """A bundle begins; returns what ``safe`` needs to know of it: how much news there was."""
        return self._news

    def safe(self, began: int, ids: Sequence[str], turn: int) -> None:
        """The runner declares the bundle of a turn safe that holds these messages, maybe none."""
        with self._lock:
            if began < self._restarted:
                return
            ready: Sequence[str] = ()
            if began == self._news:
                self._news += 1
                ready, self._waiting = self._waiting, []
                self._stored = self._ended
            if self._later:
                self._waiting.extend(ids)
            else:
                ready = ids
            if ids:
                self._ended = max(self._ended, turn)
            stored = self._stored
        if ready:
            self._acknowledge(ready, stored)

    def restart(self) -> None:
        """The job went back to a checkpoint: what is not acknowledged comes again."""
        with self._lock:
            self._waiting = []
            self._ended = self._stored
            self._news += 1
            self._restarted = self._news

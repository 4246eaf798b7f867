"""Messages that were sent on and wait for their bundle to be safe: kept, then acknowledged.

Pub/Sub gives a message again when its ack deadline passes, so the deadline is moved on until the
runner says that the bundle is safe, or until that is not to be expected any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from weir.transforms.runtime import counters
from weir.transforms.runtime.acked import ReadTurn
from weir.transforms.runtime.pubsub_client import patiently

CALL = 1_000
"""Ack ids of one call: well below the 512 KiB that a call may have."""
GIVEN_UP = 1_800.0
"""Seconds after which a bundle that nobody declared safe is left to come again."""
MOVED = 5.0
"""Seconds within which a deadline is moved on, or is not."""
ACK_SECONDS = 60.0
"""How long an acknowledgement is tried; what fails comes again, and its ids are known."""

_log = logging.getLogger("weir.pubsub")


class Leases:
    """What one reader holds. Thread-safe; a daemon thread moves the deadlines on.

    Args:
      client: a SubscriberClient.
      subscription: its full name.
      seconds: the subscription's ack deadline.
      may_extend: whether deadlines may be moved on, asked each time.
    """

    def __init__(
        self,
        client: Any,
        subscription: str,
        seconds: int,
        may_extend: Callable[[], bool] = lambda: True,
    ) -> None:
        self._client, self._subscription, self._seconds = client, subscription, seconds
        self._may_extend = may_extend
        self._held: dict[str, float] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, ids: Sequence[str]) -> None:
        """Keeps messages from now on."""
        now = time.monotonic()
        with self._lock:
            self._held.update(dict.fromkeys(ids, now))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
                self._thread.start()

    def acknowledge(self, ids: Sequence[str]) -> None:
        """The messages are safe with the runner: the server may forget them."""
        with self._lock:
            for item in ids:
                self._held.pop(item, None)
        for start in range(0, len(ids), CALL):
            self._client.acknowledge(
                subscription=self._subscription,
                ack_ids=list(ids[start : start + CALL]),
                retry=patiently(ACK_SECONDS),
                timeout=10.0,
            )

    def give_back(self, ids: Sequence[str] | None = None) -> None:
        """Lets messages (all, without ids) come again now; they never were safe with the runner."""
        with self._lock:
            gone = list(self._held) if ids is None else list(ids)
            for item in gone:
                self._held.pop(item, None)
        self._modify(gone, 0)

    def close(self) -> None:
        """Moves no deadline on any more."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._seconds / 3):
            self.extend()

    def extend(self) -> None:
        """Moves on the deadlines of what has been held for a while; gives up what is hopeless."""
        now = time.monotonic()
        with self._lock:
            lost = [item for item, since in self._held.items() if now - since > GIVEN_UP]
            for entry in lost:
                del self._held[entry]
            due = [item for item, since in self._held.items() if now - since > self._seconds / 4]
        if lost:
            counters.add("leases_given_up", len(lost))
        if due and self._may_extend():
            self._modify(due, self._seconds)

    def _modify(self, ids: Sequence[str], seconds: int) -> None:
        for start in range(0, len(ids), CALL):
            try:
                self._client.modify_ack_deadline(
                    subscription=self._subscription,
                    ack_ids=list(ids[start : start + CALL]),
                    ack_deadline_seconds=seconds,
                    retry=None,
                    timeout=MOVED,
                )
            except Exception as error:
                # The server is away. What it gives again is a repeat, which its id shows.
                _log.warning("ack deadlines could not be moved: %s", type(error).__name__)
                return


class Confirmations:
    """Those of one reader. Thread-safe: runners declare bundles safe in threads of their own.

    Args:
      acknowledge: takes ack ids of messages that are safe, and the last turn of messages that a
        checkpoint has for sure.
      later: whether to believe a bundle one checkpoint later than the runner says.
    """

    def __init__(self, acknowledge: Callable[[Sequence[str], ReadTurn], None], later: bool) -> None:
        self._acknowledge, self._later = acknowledge, later
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._news = self._restarted = 0
        self._ended = self._stored = ReadTurn(-1, 0)

    def began(self) -> int:
        """A bundle begins; returns what ``safe`` needs to know of it: how much news there was."""
        return self._news

    def safe(self, began: int, ids: Sequence[str], turn: ReadTurn) -> None:
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

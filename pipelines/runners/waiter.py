"""Waiting for a job in a way that Ctrl-C and SIGTERM reach us, and not Beam."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


class KeptMetrics:
    """The last metrics of a job, which Beam asks of a job server that will be gone."""

    def __init__(self, result: Any) -> None:
        self._found = result.metrics().query()

    def metrics(self) -> KeptMetrics:
        """As Beam's own result."""
        return self

    def query(self) -> Any:
        """As Beam's own metrics."""
        return self._found


class Waiter:
    """Waits for Beam's result in a thread, so that Ctrl-C reaches us and not Beam."""

    def __init__(self, result: Any) -> None:
        self.error: Exception | None = None
        self._result = result
        self._thread = threading.Thread(target=self._wait, name="wait", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        try:
            self._result.wait_until_finish()
        except Exception as error:
            self.error = error

    def join(self, seconds: float) -> bool:
        """Waits so long at most; whether the job has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM is Ctrl-C here: whoever stops a service gets a savepoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

"""Readers that live in the worker process, longer than the DoFns that use them.

A runner makes and drops DoFns as it likes; between two calls of a reader in the same process
nothing of it is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class Closes(Protocol):
    """What holds connections."""

    def close(self) -> None:
        """Lets go of them."""


R = TypeVar("R", bound=Closes)


class ProcessReaders(Generic[R]):
    """Readers of this process by run and number. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[tuple[str, int], R] = {}
        self._users: dict[str, int] = {}

    def join(self, run: str) -> None:
        """A DoFn of a run is set up."""
        with self._lock:
            self._users[run] = self._users.get(run, 0) + 1

    def leave(self, run: str) -> None:
        """A DoFn of a run is gone; with the last one its readers close."""
        with self._lock:
            self._users[run] -= 1
            if self._users[run]:
                return
            del self._users[run]
            closing = [self._readers.pop(key) for key in list(self._readers) if key[0] == run]
        for reader in closing:
            reader.close()

    def reader(self, run: str, number: int, make: Callable[[], R]) -> R:
        """The reader of a run with this number; made if this process has none.

        Raises:
          RuntimeError: all DoFns of the run are gone. Beam begins bundles of a cancelled job after
            it tore its DoFns down, and nobody would close what they read with.
        """
        with self._lock:
            if run not in self._users:
                raise RuntimeError("the job was cancelled: nothing more is read.")
            if (run, number) not in self._readers:
                self._readers[run, number] = make()
            return self._readers[run, number]


__all__ = ["Closes", "ProcessReaders"]

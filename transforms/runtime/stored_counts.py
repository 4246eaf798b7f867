"""Counts of all jobs on a stream: each worker keeps its own in the state folder, the next go on.

Runners count from nothing at each start. Counts are private, so they lie where the state does. A
crash repeats what came after the last checkpoint, and counts it again; what a killed worker counted
in its last two seconds may be missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Mapping

from weir.dpcore.errors import in_words
from weir.transforms.runtime import counters, files
from weir.transforms.runtime.fence import Claim, Fence

FOLDER = "_counts"
EVERY = 2.0
"""Seconds between two looks at what has been counted."""


class _Keeper:
    """Keeps the counts of this process for one job."""

    def __init__(self, of: Claim) -> None:
        name = f"{of.epoch:06d}-{socket.gethostname()}-{os.getpid()}.json"
        self._path = files.join(files.join(of.folder, FOLDER), name)
        self._kept: Mapping[str, int] = {}
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="counts", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Writes what has been counted by now; where it cannot, checkpoints say so too."""
        with self._lock, contextlib.suppress(OSError):
            result = counters.snapshot()
            if result != self._kept:
                files.replace(self._path, json.dumps(result, sort_keys=True).encode())
                self._kept = result

    def end(self) -> None:
        """Writes for the last time."""
        self.flush()
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(EVERY):
            self.flush()


_lock = threading.Lock()
_keepers: dict[Claim, _Keeper] = {}


def keep(around: Fence) -> None:
    """From now on the counts of this process are kept, if it can reach the state folder."""
    if around.state is None or around.reachable is None:
        return
    with _lock:
        if around.state not in _keepers:
            _keepers[around.state] = _Keeper(around.state)


def flush(around: Fence) -> None:
    """Keeps what has been counted by now."""
    result = None if around.state is None else _keepers.get(around.state)
    if result is not None:
        result.flush()


def leave(around: Fence) -> None:
    """The job is over, and this process goes on: it keeps nothing more of it."""
    with _lock:
        result = None if around.state is None else _keepers.pop(around.state, None)
    if result is not None:
        result.end()


@in_words
def _counts_in(data: bytes) -> dict[str, int]:
    return {str(what): int(count) for what, count in json.loads(data).items()}


def kept(folder: str, before: int | None = None) -> dict[str, int]:
    """Sums of all jobs.

    Args:
      folder: of the state. before: number of the first job that is left out; None: of none.
    """
    inside, totals = files.join(folder, FOLDER), dict[str, int]()
    for name in files.names(inside):
        number = name.partition("-")[0]
        if not name.endswith(".json") or not number.isdigit():
            continue
        if before is not None and int(number) >= before:
            continue
        for what, count in _counts_in(files.read(files.join(inside, name)) or b"{}").items():
            totals[what] = totals.get(what, 0) + count
    return totals

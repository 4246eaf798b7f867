"""Counts for the operator of a run: of this process, and as metrics of the job that runs it.

Counts of events are private numbers. They go to the operator's metrics and terminal, and
never to a sink.
"""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager

UNREAD = "unread_records_"
"""Gauges of a stream's source: how many records of a partition are not read yet. With its number
behind; where there are holes in its offsets, at most so many."""


class Metrics:
    """Metrics of a job; these are of none. A runner's replace them (``report_to``)."""

    def add(self, name: str, n: int) -> None:
        """Adds n to a counter."""

    def show(self, name: str, value: int) -> None:
        """Sets a gauge."""


_lock = threading.Lock()
_counts: dict[str, int] = {}
_aside = threading.local()
_metrics = Metrics()


def report_to(metrics: Metrics) -> None:
    """From here on counts of this process are also those of a job's metrics."""
    global _metrics
    _metrics = metrics


def add(name: str, n: int = 1) -> None:
    """Adds n to the count of this process and to the job's metric of the same name."""
    if n == 0:
        return
    held: Counts[str] | None = getattr(_aside, "held", None)
    if held is not None:
        held[name] += n
        return
    _metrics.add(name, n)
    with _lock:
        _counts[name] = _counts.get(name, 0) + n


@contextmanager
def aside() -> Iterator[Counts[str]]:
    """What this thread adds is held, for a thread that the runner knows to add."""
    held: Counts[str] = Counts()
    _aside.held = held
    try:
        yield held
    finally:
        _aside.held = None


def show(name: str, value: int) -> None:
    """Sets the job's gauge of this name: the value now, not a sum. Not part of the snapshot."""
    _metrics.show(name, value)


def snapshot() -> dict[str, int]:
    """What was counted in this process since the last reset."""
    with _lock:
        return dict(_counts)


def reset() -> None:
    """Starts again from nothing; call before a run."""
    with _lock:
        _counts.clear()

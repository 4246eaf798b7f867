"""Counts for the operator: Beam metrics, and a process-local counts for the progress line.

Counts of events are private numbers. They go to the operator's metrics and terminal, and
never to a sink.
"""

from __future__ import annotations

import threading
from collections import Counter as Counts
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import Counter, Gauge

NAMESPACE = "weir"

_lock = threading.Lock()
_counts: dict[str, int] = {}
_aside = threading.local()


@cache
def _counter(name: str) -> Counter:
    return Metrics.counter(NAMESPACE, name)


def add(name: str, n: int = 1) -> None:
    """Adds n to the count of this process and to the job's metric of the same name."""
    if n == 0:
        return
    held: Counts[str] | None = getattr(_aside, "held", None)
    if held is not None:
        held[name] += n
        return
    _counter(name).inc(n)
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


@cache
def _gauge(name: str) -> Gauge:
    return Metrics.gauge(NAMESPACE, name)


def show(name: str, value: int) -> None:
    """Sets the job's gauge of this name: the value now, not a sum. Not part of the snapshot."""
    _gauge(name).set(value)


def snapshot() -> dict[str, int]:
    """What was counted in this process since the last reset."""
    with _lock:
        return dict(_counts)


def reset() -> None:
    """Starts again from nothing; call before a run."""
    with _lock:
        _counts.clear()

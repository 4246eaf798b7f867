"""Counts for the operator: Beam metrics, and a process-local counts for the progress line.

Counts of events are private numbers. They go to the operator's metrics and terminal, and
never to a sink.
"""

from __future__ import annotations

import threading
from functools import cache

from apache_beam.metrics import Metrics
from apache_beam.metrics.metric import Counter, Gauge

NAMESPACE = "weir"

_lock = threading.Lock()
_counts: dict[str, int] = {}


@cache
def _counter(name: str) -> Counter:
    return Metrics.counter(NAMESPACE, name)


def add(name: str, n: int = 1) -> None:
    """Adds n to the count of this process and to the job's metric of the same name."""
    if n == 0:
        return
    _counter(name).inc(n)
    with _lock:
        _counts[name] = _counts.get(name, 0) + n


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

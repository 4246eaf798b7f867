"""What a run has done so far: counts of this process, or of the job where workers are elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any


class Watch:
    """Counts while a job runs: of this process, or the job's metrics where workers are elsewhere.

    Args:
      here: the counts of this process.
      every: seconds between two questions to a job.
    """

    def __init__(self, here: Callable[[], Mapping[str, int]], every: float = 5.0) -> None:
        self._here = here
        self._every = every
        self._job: Any = None
        self._asked = -math.inf
        self._there: Mapping[str, int] = {}

    def follow(self, job: Any) -> None:
        """From here on the job may be asked too."""
        self._job = job

    def __call__(self) -> Mapping[str, int]:
        counts = self._here()
        if counts or self._job is None:
            return counts
        if time.monotonic() - self._asked >= self._every:
            self._there = counters(self._job, {})
            self._asked = time.monotonic()
        return self._there


def counters(result: Any, here: Mapping[str, int]) -> dict[str, int]:
    """The operator's counts: of this process, or the job's metrics if workers are elsewhere."""
    if here.get("events") or result is None:
        return dict(here)
    try:
        results = result.metrics().query()["counters"]
    except Exception:  # a runner without metrics
        return dict(here)
    totals: dict[str, int] = {}
    for entry in results:
        if entry.key.metric.namespace == "weir":
            value = entry.committed if entry.committed is not None else entry.attempted
            totals[entry.key.metric.name] = totals.get(entry.key.metric.name, 0) + int(value or 0)
    return totals or dict(here)


def added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Counts of both."""
    return {name: counts.get(name, 0) + more.get(name, 0) for name in sorted({*counts, *more})}

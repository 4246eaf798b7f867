"""What a run has done so far: counts of this process, or of the job where workers are elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.run.progress import Total


class Watch:
    """Counts while a job runs: of this process, or the job's metrics where workers are elsewhere.

    Args:
      here: the tally of this process.
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


def total_of(job: JobConfig, plan: Plan) -> Total:
    """How much there is to read and to step, as far as that is cheap to know."""
    rows: int | None = None
    size: int | None = None
    source = job.source
    if source is not None and source.path is not None:
        try:
            paths = files_of(source.path)
            size = sum(path.stat().st_size for path in paths)
            if source.kind == "parquet":
                import pyarrow.parquet as pq

                rows = sum(pq.read_metadata(path).num_rows for path in paths)
        except Exception:  # the run itself will say what is wrong with the files
            return Total(ticks=plan.clock.ticks, blocks=len(plan.keys.live_blocks))
    return Total(rows, size, plan.clock.ticks, len(plan.keys.live_blocks))


def files_of(pattern: str) -> list[Path]:
    """Local files of a path or glob; none for a bucket."""
    if "://" in pattern:
        return []
    import glob

    return [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]


def counters(result: Any, here: Mapping[str, int]) -> dict[str, int]:
    """The operator's counts: of this process, or the job's metrics if workers are elsewhere."""
    if here.get("events") or result is None:
        return dict(here)
    try:
        found = result.metrics().query()["counters"]
    except Exception:  # a runner without metrics
        return dict(here)
    totals: dict[str, int] = {}
    for entry in found:
        if entry.key.metric.namespace == "weir":
            value = entry.committed if entry.committed is not None else entry.attempted
            totals[entry.key.metric.name] = totals.get(entry.key.metric.name, 0) + int(value or 0)
    return totals or dict(here)

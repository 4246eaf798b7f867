"""A recorded file as ``make stack`` replays it: in order of arrival, from its first event on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed.feed import moments_of, read_batches

LEAD = 45.0
"""Seconds from now at which a replay begins: by then the job runs."""

JITTER = 2.0
"""Seconds that a message may be on its way; a replay makes ``speed`` times as much of them."""


@dataclass(frozen=True)
class Replay:
    """A recorded file fed at a multiple of its own speed.

    Attributes:
      file: any format that ``weir feed --from`` takes; read as a whole, so it must fit in memory.
      speed: times real time.
    """

    file: Path
    speed: float

    def __post_init__(self) -> None:
        if not 0 < self.speed < float("inf"):
            raise ConfigError("--speed", self.speed, "must be a finite number above 0.")

    def prepare(self, job: JobConfig, folder: Path) -> Prepared:
        """Sorts the file into ``folder``.

        Raises:
          ConfigError: it cannot be read, or holds no event.
        """
        batches = list(read_batches(self.file, job))
        moments = np.concatenate([np.empty(0, np.int64), *(moments_of(b, job) for b in batches)])
        if not len(moments):
            raise ConfigError("--from", str(self.file), "holds no event.")
        order = np.argsort(moments, kind="stable")
        table = pa.Table.from_batches(batches).take(pa.array(order))
        path = folder / "recording.arrow"
        with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=1 << 14)
        clock = job.clock.to_clock()
        origin = clock.start + (int(moments[order[0]]) - clock.start) // clock.period * clock.period
        started = int((time.time() + LEAD) * 1e6)
        delay = max(clock.delay, int(JITTER * self.speed * 1e6))
        return Prepared(path, self.speed, origin, started, delay)


@dataclass(frozen=True)
class Prepared:
    """A replay that can begin. Times are microseconds, ``origin`` and ``started`` since 1970.

    Attributes:
      file: sorted. origin: event time at which it begins, the start of a tick.
      started: wall time at which it begins. delay: by which an event may arrive and still count.
    """

    file: Path
    speed: float
    origin: int
    started: int
    delay: int

    @property
    def source(self) -> str:
        """What the source section says of it."""
        origin, started = (
            durations.show_timestamp(self.origin),
            durations.show_timestamp(self.started),
        )
        return f"replay: {{origin: '{origin}', started: '{started}', speed: {self.speed:g}}}"

    @property
    def settings(self) -> dict[str, str]:
        """Other fields of the config."""
        return {"clock.delay": durations.show_duration(self.delay)}

"""How long after the end of a tick is its release there?

    python -m benchmarks.stream_delay [--seconds 150] [--only 0 1] [--against CHECKOUT]
    python -m benchmarks.stream_delay --bundle-time 50ms

Real time, ticks of 1 s, `clock.delay: 500ms` (how late an event may be; it is part of every
figure). Pub/Sub or Kafka -> Flink (a JobManager, two TaskManagers of one slot, a Python worker
each, a checkpoint every 2 s) -> one Parquet file a tick. The delay of a tick is the moment at which
its file is in place, whole, less the end of the tick. Rows: stream, events per second, and keys.
The first minute, in which the JVMs compile, is left out. With --against each load is run by another
checkout of Weir first, in the same run. Short: the first load for 15 s, all of it; nothing is
written.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Bench, main
from benchmarks.stream_load import Load, publishing, streaming

STARTS = 60
"""Seconds until Flink and the job are there."""
SKIPPED = 60
SIZES = (
    ("pubsub", 1_000, 100, 24),
    ("kafka", 1_000, 100, 24),
    ("pubsub", 20_000, 500, 24),
    ("kafka", 20_000, 500, 24),
    ("pubsub", 20_000, 500, 1_000),
    ("pubsub", 20_000, 500, 10_000),
)
"""(stream, events per second, events a message, keys)."""


def delays(folder: Path, start: int, skipped: int) -> np.ndarray[Any, Any]:
    """Seconds from the end of each tick to its file."""
    found = []
    for path in sorted(folder.glob("ticks-*.parquet")):
        tick = int(path.name.split("-")[1])
        if tick >= skipped:
            found.append(path.stat().st_mtime - (start + tick + 1))
    return np.array(found)


def run(folder: Path, load: Load, build: Path | None, bundle_time: str, skipped: int) -> Any:
    """One load, to the end of the job."""
    blocks = 4 if load.keys <= 2048 else 16  # every block is an element of its own in each bundle
    flags = ["--set", f"engine.bundle_time={bundle_time}"]
    end = load.start + load.seconds + 120
    with (
        streaming(folder, load, flags=flags, blocks=blocks, build=build) as job,
        publishing(job.host, load),
    ):
        while job.process.alive and time.time() < end:
            time.sleep(0.5)
        assert (job.out / "_COMPLETE").exists(), (folder / "job.log").read_text()[-3000:]
    late = delays(job.out, load.start, skipped)
    return {
        "build": "this" if build is None else build.name,
        "stream": load.stream,
        "bundle_time": bundle_time,
        "events_per_s": load.rate,
        "events_per_message": load.size,
        "keys": load.keys,
        "ticks": len(late),
        "p50_s": round(float(np.quantile(late, 0.5)), 3),
        "p99_s": round(float(np.quantile(late, 0.99)), 3),
        "max_s": round(float(late.max()), 3),
        "load_average": round(os.getloadavg()[0], 1),
    }


def measure(bench: Bench) -> None:
    """The loads, one after the other."""
    args, bench.keys = bench.args, ("build", "stream", "bundle_time", "events_per_s", "keys")
    only, seconds, skipped = ([0], 15, 0) if bench.short else (args.only, args.seconds, SKIPPED)
    with bench.folder() as folder:
        for i, (stream, rate, size, keys) in enumerate(SIZES):
            for build in (args.against, None) if args.against else (None,):
                if not only or i in only:
                    start = int(time.time()) + STARTS
                    load = Load(start, seconds, rate, size, keys, stream=stream)
                    where = folder / f"{i}-{build is None}"
                    bench.row(**run(where, load, build, args.bundle_time, skipped))


if __name__ == "__main__":
    main(
        measure,
        seconds=150,
        only={"type": int, "nargs": "*", "help": "numbers of loads"},
        bundle_time={"default": "20ms", "help": "engine.bundle_time"},
        against={"type": Path, "help": "another checkout, to compare with"},
    )

"""How long after the end of a tick is its release there?

    python -m benchmarks.stream_delay [--seconds 150] [--only 0] [--beside CHECKOUT]
    python -m benchmarks.stream_delay --bundle-time 20ms

Real time, ticks of 1 s, `clock.delay: 500ms` (how late an event may be; it is part of every
figure). Pub/Sub -> Flink (a JobManager, two TaskManagers of one slot, a Python worker each, a
checkpoint every 2 s) -> one Parquet file a tick. The delay of a tick is the moment at which its
file is in place, whole, less the end of the tick. Rows: events per second, and keys. The first
minute, in which the JVMs compile, is left out. With --beside each load is run by another checkout
of Weir first, by turns, in the same run. Writes benchmarks/results/stream_delay.csv.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.stream_load import Load, publishing, streaming, write

STARTS = 60
"""Seconds until Flink and the job are there."""
SKIPPED = 60
SIZES = ((1_000, 100, 24), (20_000, 500, 24), (20_000, 500, 1_000), (20_000, 500, 10_000))
"""(events per second, events a message, keys)."""


def delays(folder: Path, start: int) -> np.ndarray[Any, Any]:
    """Seconds from the end of each tick to its file."""
    found = []
    for path in sorted(folder.glob("ticks-*.parquet")):
        tick = int(path.name.split("-")[1])
        if tick >= SKIPPED:
            found.append(path.stat().st_mtime - (start + tick + 1))
    return np.array(found)


def measure(
    folder: Path,
    seconds: int,
    rate: int,
    size: int,
    keys: int,
    build: Path | None = None,
    bundle_time: str = "50ms",
) -> dict[str, Any]:
    """One load."""
    load = Load(int(time.time()) + STARTS, seconds, rate, size, keys)
    blocks = 4 if keys <= 2048 else 16  # every block is an element of its own in each bundle
    flags = ["--set", f"engine.bundle_time={bundle_time}"]
    with streaming(folder, load, flags=flags, blocks=blocks, build=build) as job:
        process = publishing(job.server.host, job.post.topic, load)
        outcome = job.running.wait(STARTS + seconds + 120)
        process.join()
    late = delays(job.out, load.start)
    return {
        "build": "this" if build is None else build.name,
        "bundle_time": bundle_time,
        "events_per_s": rate,
        "events_per_message": size,
        "keys": keys,
        "ticks": len(late),
        "p50_s": round(float(np.quantile(late, 0.5)), 3),
        "p99_s": round(float(np.quantile(late, 0.99)), 3),
        "max_s": round(float(late.max()), 3),
        "load_average": round(os.getloadavg()[0], 1),
        "exit": outcome,
    }


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=150)
    parser.add_argument("--only", type=int, help="number of one load")
    parser.add_argument("--bundle-time", default="50ms", help="engine.bundle_time")
    parser.add_argument("--beside", type=Path, help="another checkout, to compare with")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="weir-delay-") as folder:
        for i, size in enumerate(SIZES):
            if given.only not in (None, i):
                continue
            for build in (given.beside, None) if given.beside else (None,):
                where = Path(folder) / f"{i}-{build is None}"
                rows.append(measure(where, given.seconds, *size, build, given.bundle_time))
                print(rows[-1], flush=True)
                write("stream_delay.csv", rows)


if __name__ == "__main__":
    main()

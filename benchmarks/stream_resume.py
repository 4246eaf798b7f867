"""How long after a crash with a backlog are there releases again?

    python -m benchmarks.stream_resume [--only kafka] [--outage 30]       # 3 min a stream

A job of `benchmarks.stream_delay` over 24 keys takes 2,000 events a second for a minute of real
time. Then its client is killed and the job is cancelled, which leaves the last checkpoint. Events
go on. After the outage `weir run --resume latest` goes on on the same Flink, whose TaskManagers
stayed. Rows, in seconds from that command on: until Flink has the job, until all of its steps run,
until the first release of a tick that was not there, and until the newest tick is released within
5 s of its end. Short: an outage of 5 s; nothing is written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, main
from benchmarks.stream_load import ROOT, Load, Streaming, command, publishing, started, streaming

STARTS, RUNS = 60, 60
"""Seconds until the job is there, and for which it runs before the crash."""
PROMPT = 5.0
"""Seconds behind its end at which a tick is not late."""
PATIENCE = 240.0


def newest(job: Streaming) -> int:
    """The last tick that is released; -1: none."""
    return max((int(one.name.split("-")[1]) for one in job.out.glob("ticks-*.parquet")), default=-1)


def passed(began: float, what: str, done: Callable[[], bool]) -> float:
    """Seconds from a moment until something is so."""
    while not done():
        if time.time() - began > PATIENCE:
            raise RuntimeError(f"not within {PATIENCE:.0f} s: {what}")
        time.sleep(0.1)
    return round(time.time() - began, 1)


def resumed(folder: Path, load: Load, outage: float) -> dict[str, Any]:
    """A stream, a crash, and what comes after."""
    with streaming(folder, load, after=None, blocks=4) as job, publishing(job.host, load):
        rest = job.cluster.rest
        time.sleep(max(0.0, load.start + RUNS - time.time()))
        job.process.kill()
        (before,) = (one["jid"] for one in rest.jobs(live=True))
        rest.cancel(before)
        rest.wait_for(before, "CANCELED")
        last = newest(job)
        time.sleep(outage)
        words, began = command(folder / "load.yaml", job.cluster, "--resume", "latest"), time.time()

        def states() -> list[str]:
            jobs = rest.jobs(live=True)
            return (
                [one["status"] for one in rest.get(f"/jobs/{jobs[0]['jid']}")["vertices"]]
                if jobs
                else []
            )

        with started(words, folder, job.server, ROOT):
            found = {
                "submitted_s": passed(began, "Flink has the job", lambda: bool(states())),
                "running_s": passed(began, "steps run", lambda: set(states()) == {"RUNNING"}),
                "released_s": passed(began, "a release", lambda: newest(job) > last),
                "caught_up_s": passed(
                    began,
                    "caught up",
                    lambda: time.time() - (load.start + newest(job) + 1) < PROMPT,
                ),
            }
    return {"ticks_behind": int(began - load.start) - last, **found}


def measure(bench: Bench) -> None:
    """Each stream."""
    bench.keys = ("stream",)
    outage = 5.0 if bench.short else bench.args.outage
    with bench.folder() as folder:
        for stream in ("pubsub", "kafka"):
            if bench.args.only not in (None, stream):
                continue
            seconds = int(RUNS + outage + PATIENCE)
            load = Load(int(time.time()) + STARTS, seconds, 2_000, 100, 24, stream=stream)
            row = resumed(folder / stream, load, outage)
            bench.row(
                stream=stream, outage_s=outage, **row, load_average=round(os.getloadavg()[0], 1)
            )


if __name__ == "__main__":
    main(measure, only={"choices": ["pubsub", "kafka"]}, outage={"type": float, "default": 30.0})

"""Does anything grow while a stream runs?

    python -m benchmarks.stream_soak --minutes 5.7 --speed 300   # 10^5 ticks, in time-lapse
    python -m benchmarks.stream_soak --minutes 30                # ticks of a second, in real time
    python -m benchmarks.stream_soak --minutes 1 --jar JAR       # with another job server
    python -m benchmarks.stream_soak --minutes 4 --speed 20 --endless

Pub/Sub -> Flink (a JobManager, two TaskManagers of one slot, a Python worker each, two readers, a
checkpoint every 2 s) -> Parquet: 24 keys, ids of the last 60 ticks, 200 events a second. Twenty
times in the run each TaskManager is asked for a full collection, and what is left is counted: its
heap, and the tables in it that hold keyed state. In addition the size of the last checkpoint and
the resident memory of the Python workers. All must be flat: `grown` is the mean of the last five
looks over that of five after the first quarter (the start, when ids are still gathered, is left
out). With --endless the clock has no end and every tick a file of its own, so that what the sink
keeps of a file must be forgotten. Writes results/stream_soak.csv (stream_soak_endless,
stream_soak_other), one line a look and one for the whole. Short: ten looks in 20 s; nothing is
written.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, main, process_memory
from benchmarks.stream_load import Load, Streaming, publishing, streaming
from weir.pipelines.engines.processes import EngineFailed

STARTS = 45
"""Seconds until Flink and the job are there."""
LOOKS = 20
AVERAGED = 5
TABLE = "org.apache.flink.runtime.state.heap.CopyOnWriteStateTable"
"""What Flink's heap backend makes for every name of keyed state."""


def heap(process: int) -> tuple[int, int]:
    """Bytes of living objects in a JVM, and tables of state among them, after a collection."""
    command = ["jcmd", str(process), "GC.class_histogram"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines() if line.strip()]
    tables = sum(int(row[1]) for row in rows if len(row) > 3 and row[3] == TABLE)
    return int(rows[-1][2]), tables


def workers(process: int) -> int:
    """Bytes of memory that the Python workers of a TaskManager hold: all that it started."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    return sum(process_memory(int(one)) for path in children for one in path.read_text().split())


def look(job: Streaming, began: float) -> dict[str, Any]:
    """What is there now."""
    managers = [manager.pid for manager in job.cluster.taskmanagers.values()]
    found = [heap(process) for process in managers]
    rest, last = job.cluster.rest, dict[str, Any]()
    with suppress(EngineFailed):  # Flink refuses to answer for a job that is being made
        for entry in rest.jobs(live=True):  # none yet, where all starts slowly
            last = rest.checkpoints(entry["jid"])["latest"]["completed"] or {}
    return {
        "minute": round((time.time() - began) / 60, 2),
        "ticks": last_tick(job.out),
        "heap_mb": round(sum(size for size, _ in found) / 1e6, 1),
        "tables": sum(tables for _, tables in found),
        "checkpoint_kb": round(int(last.get("state_size", 0)) / 1e3, 1),
        "workers_mb": round(sum(map(workers, managers)) / 1e6, 1),
    }


def last_tick(folder: Path) -> int:
    """The last tick that is in a file, and one."""
    ends = [int(path.stem.split("-")[2]) for path in folder.glob("ticks-*.parquet")]
    return max(ends, default=-1) + 1


def grown(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means of the last looks over those after the first quarter."""
    early = rows[len(rows) // 4 :][:AVERAGED]
    late = rows[-AVERAGED:]
    found: dict[str, Any] = {"minute": "grown", "ticks": rows[-1]["ticks"]}
    for name in ("heap_mb", "tables", "checkpoint_kb", "workers_mb"):
        before, after = (sum(row[name] for row in part) for part in (early, late))
        found[name] = round(after / before, 3) if before else 0.0
    return found


def measure(bench: Bench) -> None:
    """The looks of one run."""
    args = bench.args
    seconds, looks = (20, 10) if bench.short else (round(args.minutes * 60), LOOKS)
    table = "_endless" if args.endless else "" if args.jar is None else "_other"
    load = Load(int(time.time()) + STARTS, seconds, 200, 20, 24, speed=args.speed)
    flags = [] if args.jar is None else ["--flink-job-server-jar", args.jar]
    every, after = (1, None) if args.endless else (max(10, round(10 * args.speed)), 10)
    rows: list[dict[str, Any]] = []
    with (
        bench.folder() as folder,
        streaming(folder, load, every=every, after=after, flags=flags, blocks=4) as job,
        publishing(job.server.host, load),
    ):
        for number in range(looks):
            due = load.start + (number + 1) * seconds / looks
            time.sleep(max(0.0, due - time.time()))
            rows.append(look(job, load.start))
            bench.row(table, **rows[-1])
    bench.row(table, **grown(rows))


if __name__ == "__main__":
    main(
        measure,
        minutes=30.0,
        speed=1.0,
        endless={"action": "store_true", "help": "a clock without end"},
        jar={"help": "of a job server, in place of that of `make flink`"},
    )

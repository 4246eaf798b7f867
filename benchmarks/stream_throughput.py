"""How many events a second does a stream take, from Pub/Sub through Flink into files?

    python -m benchmarks.stream_throughput                    # all cases, 4 to 5 min each
    python -m benchmarks.stream_throughput --only 0           # one of them
    git worktree add ../weir-before REVISION
    python -m benchmarks.stream_throughput --only 0 --beside ../weir-before [--jar JAR]

More is published than the job can take, at an even rate, each event of the present: NDJSON with 500
events a message and with one, and Arrow; on one slot and on two; over 24 and 10,000 keys. A job
deduplicates by id, sums, steps ticks of 1 s and writes a Parquet file every 10 ticks; a checkpoint
is taken every 2 s. Counted is what is acknowledged, and a message is acknowledged when a checkpoint
holds it: the slope from the first checkpoint under load until 95 % are acknowledged.

Ids are remembered for 5 s of the public clock. A reader with a backlog knows how far the stream is
after a minute of full answers, so a run is long enough that ticks are released and ids forgotten
while it goes on: `crossed` says how many horizons were released before the last mark. With --beside
each case is run by another checkout of Weir first, on a job server of its own (--jar). Server,
publisher, Flink and the Python workers share the machine's cores. Writes
benchmarks/results/stream_throughput.csv, in place of the lines there of the same cases.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.stream_load import RESULTS, Load, Streaming, publishing, streaming, write

STARTS = 45
"""Seconds until Flink and the job are there, and the messages are made."""
PATIENCE = 240
HORIZON = 5
"""Seconds."""
EVERY = 10
"""Ticks of a file."""
HEAP = 2 << 30
"""Bytes of a TaskManager: ids of more than a minute."""
CASES = (
    ("ndjson", 500, 24, 2, 900_000),
    ("arrow", 500, 24, 2, 1_200_000),
    ("ndjson", 500, 24, 1, 400_000),
    ("ndjson", 500, 10_000, 2, 400_000),
    ("ndjson", 1, 24, 2, 8_000),
    ("ndjson", 1, 24, 1, 8_000),
)
"""(form, events a message, keys, slots, events published a second)."""
SAME = ("build", "form", "events_per_message", "keys", "slots")
"""Columns that say which case a line is of."""


def slope(job: Streaming, load: Load) -> tuple[float, int]:
    """Acknowledged messages per second, and how many there were at the end."""
    marks: list[tuple[float, int]] = []
    end = load.start + load.seconds + PATIENCE
    while time.time() < end:
        acked = job.acked()
        if acked and (not marks or acked > marks[-1][1]):
            marks.append((time.time(), acked))
        if acked >= 0.95 * load.messages:
            break
        if job.running.process.poll() is not None:
            break
        time.sleep(0.2)
    if len(marks) < 2:
        return 0.0, marks[-1][1] if marks else 0
    (began, first), (ended, last) = marks[0], marks[-1]
    return (last - first) / (ended - began), last


Case = tuple[str, int, int, int, int]


def measure(
    folder: Path, seconds: int, case: Case, build: Path | None = None, jar: str | None = None
) -> dict[str, Any]:
    """One case, by a checkout (None: this one)."""
    form, size, keys, slots, rate = case
    start = int(time.time()) + STARTS + rate * seconds // 400_000
    load = Load(start, seconds, rate, size, keys, form=form)
    flags = [f"--parallelism={slots}"]
    if build is not None and jar is not None:
        flags += ["--flink-job-server-jar", jar]
    with streaming(folder, load, EVERY, 60, flags, horizon=HORIZON, build=build, heap=HEAP) as job:
        process = publishing(job.server.host, job.post.topic, load)
        late = time.time() > load.start
        per_second, acked = slope(job, load)
        took = time.time() - load.start
        released = EVERY * sum(1 for _ in job.out.glob("ticks-*.parquet"))
        process.terminate()
        process.join()
    return {
        "build": "this" if build is None else build.name,
        "form": form,
        "events_per_message": size,
        "keys": keys,
        "slots": slots,
        "offered_events_per_s": rate,
        "messages_per_s": round(per_second),
        "events_per_s": round(per_second * size),
        "acked_share": round(acked / load.messages, 3),
        "seconds": round(took),
        "crossed": released // HORIZON,
        "began_late": late,
        "load_average": round(os.getloadavg()[0], 1),
    }


def keep(row: dict[str, Any]) -> None:
    """Writes a line in place of that of the same case."""
    name = "stream_throughput.csv"
    rows: list[dict[str, Any]] = []
    if (RESULTS / name).exists():
        with (RESULTS / name).open(newline="") as file:
            rows = [dict(line) for line in csv.DictReader(file)]
    rows = [line for line in rows if line.keys() == row.keys()]
    same = [line for line in rows if any(str(line[name]) != str(row[name]) for name in SAME)]
    write(name, [*same, row])


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--only", type=int, help="number of one case")
    parser.add_argument("--beside", type=Path, help="another checkout, to compare with")
    parser.add_argument("--jar", help="job server of the other checkout")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-throughput-") as folder:
        for i, case in enumerate(CASES):
            if given.only not in (None, i):
                continue
            for build in (given.beside, None) if given.beside else (None,):
                where = Path(folder) / f"{i}-{build is None}"
                row = measure(where, given.seconds, case, build, given.jar)
                print(row, flush=True)
                keep(row)


if __name__ == "__main__":
    main()

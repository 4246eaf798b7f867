"""How many events a second does a stream take, from Pub/Sub through Flink into files?

    python -m benchmarks.stream_throughput [--seconds 20]

More is published than the job can take, at an even rate, each event of the present: NDJSON with 500
events a message and with one, and Arrow; on one slot and on two; over 24 and 10,000 keys. A job
deduplicates by id (horizon 5 s, so that the run crosses it several times and ids are forgotten as
fast as they come), sums, steps ticks of 1 s and writes a Parquet file every 10 ticks; a checkpoint
is taken every 2 s. Counted is what is acknowledged, and a message is acknowledged when a checkpoint
holds it: the slope from the first checkpoint under load until 95 % are acknowledged. Server,
publisher, Flink and the Python workers share the machine's cores. Writes
benchmarks/results/stream_throughput.csv.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.stream_load import Load, Streaming, publishing, streaming, write

STARTS = 45
"""Seconds until Flink and the job are there, and the messages are made."""
PATIENCE = 240
HORIZON = 5
"""Seconds."""
CASES = (
    ("ndjson", 500, 24, 2, 400_000),
    ("arrow", 500, 24, 2, 600_000),
    ("ndjson", 500, 24, 1, 400_000),
    ("ndjson", 500, 10_000, 2, 400_000),
    ("ndjson", 1, 24, 2, 8_000),
    ("ndjson", 1, 24, 1, 8_000),
)
"""(form, events a message, keys, slots, events published a second)."""


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


def measure(folder: Path, seconds: int, case: Case) -> dict[str, Any]:
    """One case."""
    form, size, keys, slots, rate = case
    start = int(time.time()) + STARTS + rate * seconds // 400_000
    load = Load(start, seconds, rate, size, keys, form=form)
    flags = [f"--parallelism={slots}"]
    with streaming(folder, load, every=10, after=60, flags=flags, horizon=HORIZON) as job:
        process = publishing(job.server.host, job.post.topic, load)
        late = time.time() > load.start
        per_second, acked = slope(job, load)
        process.terminate()
        process.join()
    return {
        "form": form,
        "events_per_message": size,
        "keys": keys,
        "slots": slots,
        "offered_events_per_s": rate,
        "messages_per_s": round(per_second),
        "events_per_s": round(per_second * size),
        "acked_share": round(acked / load.messages, 3),
        "began_late": late,
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first so many")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="weir-throughput-") as folder:
        for i, case in enumerate(CASES[: given.cases]):
            rows.append(measure(Path(folder) / str(i), given.seconds, case))
            print(rows[-1], flush=True)
            write("stream_throughput.csv", rows)


if __name__ == "__main__":
    main()

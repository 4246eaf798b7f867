"""How many events a second does a stream take, from Pub/Sub or Kafka through Flink into files?

    python -m benchmarks.stream_throughput                    # all cases, 3 to 6 min each
    python -m benchmarks.stream_throughput --only 0 6         # some of them
    git worktree add ../weir-before REVISION
    python -m benchmarks.stream_throughput --only 0 --against ../weir-before [--jar JAR]

More is published than the job can take, at an even rate, each event of the present: NDJSON with 500
events a message and with one, and Arrow; on one slot and on two; over 24 and 10,000 keys. A job
deduplicates by id, sums, steps ticks of 1 s and writes a Parquet file every 10 ticks; a checkpoint
is taken every 2 s. Counted is what is acknowledged, of Kafka what is committed for monitors: both
happen when a checkpoint holds it. It is the slope from the first checkpoint with 30 % of the load
until 95 % are counted: before that the JVMs compile, which takes half of a TaskManager's time;
busy_us_per_event is the processor time of TaskManagers and workers over that span, in microseconds
an event, without server and publisher.

Ids are remembered for 5 s of the public clock. `crossed` says how many of these horizons were
released before the last mark: ticks are released and ids forgotten while a run goes on. Messages of
a case lie in memory, 70 bytes an event, at publisher and Pub/Sub server. With --against each case
is run by another checkout of Weir first, on a job server of its own (--jar). Server, publisher,
Flink and the Python workers share the machine's cores. Rows of other cases stay in the file. Short:
the first case for 10 s; nothing is written.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import Bench, main
from benchmarks.stream_load import Load, Streaming, publishing, streaming

STARTS = 45
"""Seconds until Flink and the job are there, and the messages are made."""
COMPILED = 0.3
"""Share of a load after which the JVMs have compiled what they run most."""
PATIENCE = 240
HORIZON = 5
"""Seconds."""
EVERY = 10
"""Ticks of a file."""
HEAP = 2 << 30
"""Bytes of a TaskManager: ids of more than a minute."""


class Case(NamedTuple):
    """A form of messages, events of one, keys, slots, events published a second, the stream."""

    form: str
    events_per_message: int
    keys: int
    slots: int
    offered_events_per_s: int
    stream: str = "pubsub"


CASES = (
    Case("ndjson", 500, 24, 2, 2_400_000),
    Case("arrow", 500, 24, 2, 1_200_000),
    Case("ndjson", 500, 24, 1, 400_000),
    Case("ndjson", 500, 10_000, 2, 400_000),
    Case("ndjson", 1, 24, 2, 30_000),
    Case("ndjson", 1, 24, 1, 8_000),
    Case("ndjson", 500, 24, 2, 2_400_000, "kafka"),
    Case("ndjson", 1, 24, 2, 150_000, "kafka"),
)


def load_of(case: Case, seconds: int) -> Load:
    """Of a case; it starts when Flink, the job and the messages are there."""
    rate = case.offered_events_per_s
    start = int(time.time()) + STARTS + rate * seconds // 400_000
    size = case.events_per_message
    return Load(start, seconds, rate, size, case.keys, form=case.form, stream=case.stream)


class Slope(NamedTuple):
    """Messages acknowledged per second, processor seconds of each, and how many at the end."""

    per_second: float
    busy: float
    acked: int


def slope(job: Streaming, load: Load) -> Slope:
    """From 30 % on until 95 % are acknowledged."""
    marks: list[tuple[float, int, float]] = []
    acked, end = 0, load.start + load.seconds + PATIENCE
    while time.time() < end:
        acked = job.acked()
        if acked >= COMPILED * load.messages and (not marks or acked > marks[-1][1]):
            marks.append((time.time(), acked, job.busy()))
        if acked >= 0.95 * load.messages or not job.process.alive:
            break
        time.sleep(0.2)
    if len(marks) < 2:
        return Slope(0.0, 0.0, acked)
    (began, first, before), (ended, last, after) = marks[0], marks[-1]
    return Slope((last - first) / (ended - began), (after - before) / (last - first), last)


def taken(job: Streaming, load: Load) -> dict[str, Any]:
    """What a job takes of a load, while it is published."""
    with publishing(job.host, load):
        late = time.time() > load.start
        per_second, busy, acked = slope(job, load)
    return {
        "messages_per_s": round(per_second),
        "events_per_s": round(per_second * load.size),
        "busy_us_per_event": round(busy / load.size * 1e6, 2),
        "acked_share": round(acked / load.messages, 3),
        "seconds": round(time.time() - load.start),
        "began_late": late,
        "load_average": round(os.getloadavg()[0], 1),
    }


def run(
    folder: Path, seconds: int, case: Case, build: Path | None = None, jar: str | None = None
) -> dict[str, Any]:
    """One case, by a checkout (None: this one)."""
    load = load_of(case, seconds)
    flags = [f"--parallelism={case.slots}"]
    if build is not None and jar is not None:
        flags += ["--flink-job-server-jar", jar]
    with streaming(folder, load, EVERY, 60, flags, horizon=HORIZON, build=build, heap=HEAP) as job:
        found = taken(job, load)
        released = EVERY * sum(1 for _ in job.out.glob("ticks-*.parquet"))
    name = "this" if build is None else build.name
    return {"build": name, **case._asdict(), **found, "crossed": released // HORIZON}


def measure(bench: Bench) -> None:
    """The cases, one after the other."""
    args = bench.args
    bench.keys = ("build", "stream", "form", "events_per_message", "keys", "slots")
    only, seconds = ([0], 10) if bench.short else (args.only, args.seconds)
    with bench.folder() as folder:
        for i, case in enumerate(CASES):
            for build in (args.against, None) if args.against else (None,):
                if not only or i in only:
                    where = folder / f"{i}-{build is None}"
                    bench.row(**run(where, seconds, case, build, args.jar))


if __name__ == "__main__":
    main(
        measure,
        seconds=30,
        only={"type": int, "nargs": "*", "help": "numbers of cases"},
        against={"type": Path, "help": "another checkout, to compare with"},
        jar={"help": "job server of the other checkout"},
    )

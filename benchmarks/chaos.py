"""What is left of a stream whose every part is killed, twenty times over?

    python -m benchmarks.chaos [--kills 20] [--seed 1] [--program sums]

A recorded stream (10 % duplicates, 10 % late, shuffled, six empty hours; 24 keys, one tick a
second) goes through a real Pub/Sub server to a real Flink cluster: a JobManager, two TaskManagers
of one slot, a Python worker beside each, two readers, a checkpoint a second. In random order, at
random moments, each of these dies by kill -9: a TaskManager (another takes its place), a Python
worker, both workers at the moment a pull lies in one of them (the reader), the client `weir run`
with its job server, and the JobManager (resumed from the last retained checkpoint by a new client;
in place of a client that is dead already). Between two kills the job gets one checkpoint, as any
cluster does that is to make progress at all. At the end the releases are held against `simulate`,
which is what an undisturbed run gives. Writes benchmarks/results/chaos.csv, one line a kill and one
for the whole.
"""

from __future__ import annotations

import argparse
import csv
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.runners.kills import Siege, longest_gap
from tests.runners.messages import Pace, Post, Publisher, over_messages
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.pubsub import PubSubServer

RESULTS = Path(__file__).parent / "results"
PARTS = ("taskmanager", "worker", "reader", "client", "jobmanager")
SECONDS_A_KILL = 24
"""How long the stream is made for each kill: a kill, a restart, a checkpoint."""


def strike(siege: Siege, part: str, dice: random.Random, server: PubSubServer, topic: str) -> str:
    """Kills one part; returns what exactly."""
    number = dice.randrange(2)
    if part == "client" and siege.client.process.poll() is not None:
        part = "jobmanager"
    if part == "taskmanager":
        siege.kill_taskmanager(number)
    elif part == "worker":
        siege.kill_worker(number)
    elif part == "reader":
        seen = server.counts(topic)["deliveries"]
        end = time.monotonic() + 10
        while server.counts(topic)["deliveries"] == seen and time.monotonic() < end:
            time.sleep(0.002)
        for each in (0, 1):
            siege.kill_worker(each)
    elif part == "client":
        siege.kill_client()
    else:
        siege.kill_jobmanager()
    return f"{part} {number}" if part in ("taskmanager", "worker") else part


def order(kills: int, dice: random.Random) -> list[str]:
    """Every part about as often as the others, shuffled."""
    parts = [PARTS[i % len(PARTS)] for i in range(kills)]
    dice.shuffle(parts)
    return parts


def besiege(folder: Path, kills: int, seed: int, program: str) -> list[dict[str, Any]]:
    """Runs it all; one row a kill and a last one of the whole."""
    dice = random.Random(seed)
    recording = Recording(program, ticks=kills * SECONDS_A_KILL + 20, events=kills * 2_000)
    rows: list[dict[str, Any]] = []
    with (
        PubSubServer() as server,
        FlinkCluster(environment={"PUBSUB_EMULATOR_HOST": server.host}) as cluster,
        Post(server.host, "chaos") as post,
    ):
        pace = Pace.soon(20, 3600)
        often = "engine: {checkpoint_every: 1s}\n"
        job = over_messages(folder, recording, post, pace, ", readers: 2", every=1, extra=often)
        publisher = Publisher(post, recording, pace, size=10)
        publisher.start()
        environment = {"PUBSUB_EMULATOR_HOST": server.host}
        with Siege(job, cluster, pace, environment=environment) as siege:
            siege.settle(3)
            for i, part in enumerate(order(kills, dice)):
                time.sleep(dice.uniform(0, 3))
                began = time.time()
                what = strike(siege, part, dice, server, post.topic)
                siege.settle()
                rows.append(row(str(i + 1), what, time.time() - began))
                print(rows[-1], flush=True)
            early = time.time() < pace.wall_of_tick(recording.ticks)
            outcome = siege.finish(deadline=600)
        publisher.finish()
        counts = server.counts(post.topic)
    stored = sum(pq.read_metadata(path).num_rows for path in job.out.glob("ticks-*.parquet"))
    lost = recording.releases.keys() - outcome.cells.keys()
    wrong = sum(
        outcome.cells.get(cell, value) != value for cell, value in recording.releases.items()
    )
    reasons = Counter(letter["reason"] for letter in job.letters())
    rows.append(
        row("all", f"{kills} kills", longest_gap(job, pace.wall_of_tick(2)))
        | {
            "releases": len(recording.releases),
            "lost": len(lost),
            "doubled": stored - len(outcome.cells),
            "other_bits": wrong,
            "overdue": reasons["overdue"],
            "redelivered": counts["deliveries"] - counts["messages"],
            "stream_outlived_the_kills": early,
        }
    )
    print(rows[-1], flush=True)
    return rows


def row(number: str, what: str, seconds: float) -> dict[str, Any]:
    """A line of the results; seconds: of a kill until the next checkpoint, of all the longest gap
    between releases (one is due every second; the first a tick and the delay after the start)."""
    return {"kill": number, "what": what, "seconds": round(seconds, 1)}


def main() -> None:
    """Runs and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", default="sums")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weir-chaos-") as folder:
        rows = besiege(Path(folder), given.kills, given.seed, given.program)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "chaos.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[-1]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()

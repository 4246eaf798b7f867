"""Does a stream that an earlier checkout began go on under this one, with the same releases?

    git worktree add ../weir-before REVISION
    python -m tests.runners.upgrade ../weir-before [--stream kafka] [--checkpoint]     # 3 min

A game day on a Flink of this machine. The earlier checkout (client and workers) runs a recorded
stream from Pub/Sub or Kafka, and is stopped with a savepoint in the middle, or with --checkpoint is
killed and leaves its last checkpoint. This one goes on from there with `--resume`. Every release
must be there once, with the bits that `dpcore.simulate` has in the checkout that made it, nothing
overdue and nothing divergent: prints so for a program of sums over a window and one that learns, or
ends with exit 1. Where the simulations of the two differ it says by how much.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.runners.besieged import besieged
from tests.runners.jobs import differences, on
from tests.runners.kills import Siege
from tests.runners.recording import Cells, Recording
from tests.runners.topics import besieged_topic
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.engines.servers import PubSubServer

LINES = 20
EVERY, TICKS = 4, 120
PROGRAMS = ("sums", "learner")
Environment = Mapping[str, str]
Begun = tuple[FlinkCluster, Siege]


@contextmanager
def from_pubsub(recording: Recording, folder: Path, older: Environment) -> Iterator[Begun]:
    """A stream of Pub/Sub that the earlier checkout runs."""
    with PubSubServer() as server:
        variables = {"PUBSUB_EMULATOR_HOST": server.host}
        os.environ.update(variables)
        with (
            FlinkCluster(environment=variables) as cluster,
            besieged(
                cluster, server.host, recording, folder, EVERY, environment=variables | older
            ) as (siege, post),
        ):
            post.publish(data for data, _ in recording.messages(LINES, shuffled=True))
            yield cluster, siege


@contextmanager
def from_kafka(recording: Recording, folder: Path, older: Environment) -> Iterator[Begun]:
    """A stream of Kafka that the earlier checkout runs.

    All records are in the topic before the clock starts: of an empty topic the wall clock alone
    ends ticks, and records that came after them would be overdue.
    """
    values = [data for data, _ in recording.messages(LINES, shuffled=True)]
    with (
        KafkaBroker() as broker,
        FlinkCluster() as cluster,
        besieged_topic(
            cluster, broker, recording, folder, EVERY, values, led=True, environment=older
        ) as (siege, _, _),
    ):
        yield cluster, siege


STREAMS = {"pubsub": from_pubsub, "kafka": from_kafka}


SIMULATE = """\
import pickle, sys
from tests.runners.recording import Recording
recording = Recording(sys.argv[1], ticks=int(sys.argv[2]))
pickle.dump((recording.plan.digest, recording.releases), sys.stdout.buffer)
"""


def simulated(program: str, checkout: Path) -> tuple[Any, Cells]:
    """Digest of the plan that a checkout makes of a program, and what it releases under it."""
    words = [sys.executable, "-c", SIMULATE, program, str(TICKS)]
    done = subprocess.run(words, cwd=checkout, check=True, stdout=subprocess.PIPE)
    digest, cells = pickle.loads(done.stdout)
    return digest, cells


def go_on(stream: str, program: str, before: Path, folder: Path, crash: bool) -> str:
    """What is wrong with the releases of a stream that two checkouts ran; empty if nothing is."""
    recording = Recording(program, ticks=TICKS)
    digest, releases = simulated(program, before)
    if digest != recording.plan.digest:
        return "the two checkouts make other plans of it, and none goes on under another"
    if changed := differences(releases, recording.releases):
        print(f"{program}: this checkout simulates something else: {changed}", flush=True)
    older = {"PYTHONPATH": str(before.resolve())}
    with STREAMS[stream](recording, folder, older) as (cluster, siege):
        job = siege.job
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        if crash:
            siege.kill_client()
            cluster.rest.cancel(siege.id)
        else:
            siege.client.process.send_signal(signal.SIGINT)
            siege.client.wait()
        cluster.rest.wait_for(siege.id, "FINISHED", "CANCELED")
        there = job.cells()
        if len(there) == len(releases):
            return "the earlier checkout was not stopped in time"
        due = {cell[0] for cell in there}
        expected = {cell: value for cell, value in releases.items() if cell[0] in due}
        if problem := differences(there, expected):
            return f"the earlier checkout released something else: {problem}"
        outcome = job.run("flink", *on(cluster), "--resume")
        wrong = {"overdue", "divergent"} & outcome.counters.keys()
        shown = f"{len(there)} of {len(outcome.cells)} releases were there when it stopped"
        print(f"{stream}, {program}: {shown}", flush=True)
        expected = {**recording.releases, **expected}
        return differences(outcome.cells, expected) or ", ".join(sorted(wrong))


def main() -> None:
    """Runs both, and says how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="the earlier checkout")
    parser.add_argument("--stream", choices=STREAMS, default="pubsub", help="what is read")
    parser.add_argument("--checkpoint", action="store_true", help="after a crash")
    given = parser.parse_args()
    failed = False
    for program in PROGRAMS:
        with tempfile.TemporaryDirectory(prefix="weir-upgrade-") as folder:
            problem = go_on(given.stream, program, given.before, Path(folder), given.checkpoint)
        failed |= bool(problem)
        print(f"{program}: {problem or 'every release is there, with the same bits'}", flush=True)
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()

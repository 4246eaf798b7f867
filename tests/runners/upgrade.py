"""Does a stream that an earlier checkout began go on under this one, with the same releases?

    git worktree add ../weir-before REVISION
    python -m tests.runners.upgrade ../weir-before [--stream kafka] [--checkpoint]     # 3 min

A game day on a Flink of this machine. The earlier checkout (client and workers) runs a recorded
stream from Pub/Sub or Kafka, and is stopped with a savepoint in the middle, or with --checkpoint is
killed and leaves its last checkpoint. This one goes on from there with `--resume`. Every release
must be there once, with the bits of `dpcore.simulate`, nothing overdue and nothing divergent:
prints so for a program of sums over a window and one that learns, or ends with exit 1. So it does,
without a stream, where the two checkouts simulate other bits of the same events.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.runners.besieged import besieged
from tests.runners.jobs import ROOT, differences, on
from tests.runners.kills import Siege
from tests.runners.recording import Recording
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
import hashlib, sys
from tests.runners.recording import Recording
cells = Recording(sys.argv[1], ticks=int(sys.argv[2])).releases
print(hashlib.sha256(repr(sorted(cells.items(), key=str)).encode()).hexdigest())
"""


def simulated(program: str, checkout: Path) -> str:
    """Digest of what a checkout simulates of a program's recording."""
    words = [sys.executable, "-c", SIMULATE, program, str(TICKS)]
    return subprocess.run(words, cwd=checkout, check=True, capture_output=True, text=True).stdout


def go_on(stream: str, program: str, before: Path, folder: Path, crash: bool) -> str:
    """What is wrong with the releases of a stream that two checkouts ran; empty if nothing is."""
    if simulated(program, before) != simulated(program, ROOT):
        return "the two checkouts simulate other bits: what changed them, and does it say so?"
    recording = Recording(program, ticks=TICKS)
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
        if len(there) == len(recording.releases):
            return "the earlier checkout was not stopped in time"
        due = {cell[0] for cell in there}
        expected = {cell: one for cell, one in recording.releases.items() if cell[0] in due}
        if problem := differences(there, expected):
            return f"the earlier checkout released something else: {problem}"
        outcome = job.run("flink", *on(cluster), "--resume")
        wrong = {"overdue", "divergent"} & outcome.counters.keys()
        shown = f"{len(there)} of {len(outcome.cells)} releases were there when it stopped"
        print(f"{stream}, {program}: {shown}", flush=True)
        return differences(outcome.cells, recording.releases) or ", ".join(sorted(wrong))


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

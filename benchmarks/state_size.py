"""How big is the state of a job: against keys, protection window and time?

    python -m benchmarks.state_size                 # what Tick stores, in this process (15 s)
    python -m benchmarks.state_size --stream        # the checkpoints of a stream on Flink (3 min)

First the stored bytes of Tick per key, over keys, protect_for and the number of ticks gone by, for
a count with `over: [all, 7]` and a sum, mechanism as the plan chooses it. Then a stream of 10,000
ticks through Pub/Sub and Flink (parallelism 2, a checkpoint a second), with deduplication by id
over a horizon of 64 ticks: the size of every checkpoint as Flink tells it. Both must be flat in
time: `against_a_tenth` compares the end with the tenth part. Writes
benchmarks/results/state_size.csv or, with --stream, state_size_stream.csv.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.runners.jobs import launch, on
from tests.runners.messages import Post
from tests.runners.recording import SECRET
from tests.transforms.blocks import Block, bytes_of
from weir.dpcore.config import durations
from weir.dpcore.plan import Plan
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.pubsub import PubSubServer
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.tick.noise_source import KeyedNoiseSource

RESULTS = Path(__file__).parent / "results"
CONFIG = """\
name: size
schema: {schema}
key: {{column: store, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1s{more}}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: {window}}}
aggregates:
  visits: {{count: events, over: [all, 7]}}
  paid: {{sum: amount, clip: [0, 50]}}
"""
STREAM = """\
deduplicate: {{horizon: 64s}}
source:
  pubsub:
    subscription: {subscription}
    replay: {{origin: 2024-01-01T00:00:00Z, started: {started}, speed: {speed}}}
secret: {{file: {folder}/secret.key}}
sink: {{parquet: {folder}/out, every: 128}}
engine: {{checkpoint_every: 1s, checkpoints: {folder}/state}}
"""
START = durations.timestamp("2024-01-01T00:00:00Z")
EVENTS = 100
"""Of a message; about ten messages a second."""
SIZES = (
    *((keys, 256, 10_000) for keys in (1, 10, 100, 1_000)),
    (10_000, 256, 1_000),
    *((100, window, 10_000) for window in (16, 64, 1_024, 4_096, 16_384)),
)
"""(keys, window, ticks)."""


def plan_of(keys: int, window: int) -> Plan:
    """A plan of so many declared keys."""
    names = ", ".join(f"k{i:05d}" for i in range(keys))
    return Plan.from_yaml(CONFIG.format(keys=names, window=window, schema="{time: at}", more=""))


def stored(keys: int, window: int, ticks: int) -> Iterator[tuple[int, int]]:
    """(ticks gone by, bytes stored in all blocks), at a few moments."""
    plan = plan_of(keys, window)
    noise = KeyedNoiseSource(SecretRef.fresh(), plan.name, plan.digest)
    blocks = [Block(plan, noise, block=block, every=1 << 20) for block in plan.keys.live_blocks]
    moments = sorted({10, 100, 1_000, ticks // 10, ticks})
    first = 0
    for stop in (moment for moment in moments if moment <= ticks):
        for block in blocks:
            for _ in block.advance([], first, stop):
                pass
        first = stop
        cells = [cell for block in blocks for cell in bytes_of(block.cells).values()]
        yield stop, sum(len(data) for cell in cells for data in cell)


def measure() -> list[dict[str, Any]]:
    """One row per size and moment."""
    found = []
    for keys, window, ticks in SIZES:
        told = dict(stored(keys, window, ticks))
        for gone, size in told.items():
            found.append(
                {
                    "keys": keys,
                    "window": window,
                    "ticks": gone,
                    "bytes": size,
                    "bytes_per_key": round(size / keys, 1),
                    "against_a_tenth": round(told[ticks] / told[ticks // 10], 4),
                }
            )
            print(found[-1], flush=True)
    return found


def checkpoints(ticks: int, speed: int, folder: Path) -> list[dict[str, Any]]:
    """A stream on Flink at so many ticks a second; (tick, bytes) of every checkpoint seen."""
    began = int(time.time()) + 40
    with (
        PubSubServer() as server,
        FlinkCluster(environment={"PUBSUB_EMULATOR_HOST": server.host}) as cluster,
        Post(server.host, "size") as post,
    ):
        (folder / "secret.key").write_text(SECRET.hex())
        (folder / "secret.key").chmod(0o600)
        config = folder / "size.yaml"
        config.write_text(
            CONFIG.format(
                keys=", ".join(f"k{i:05d}" for i in range(100)),
                window=256,
                schema="{time: {column: at, format: epoch_us}, id: id}",
                more=f", end: {durations.show_timestamp(START + ticks * 1_000_000)}, delay: 60s",
            )
            + STREAM.format(
                subscription=post.subscription,
                started=durations.show_timestamp(began * 1_000_000),
                speed=speed,
                folder=folder,
            )
        )
        environment = {"PUBSUB_EMULATOR_HOST": server.host}
        found: dict[int, dict[str, Any]] = {}
        with launch(config, "flink", *on(cluster), env=environment) as running:
            sent = 0
            while running.process.poll() is None:
                tick = int((time.time() - began) * speed)
                if 0 <= tick < ticks:
                    post.publish([message(sent, tick)])
                    sent += EVENTS
                for job in cluster.rest.jobs(live=True):
                    latest = cluster.rest.checkpoints(job["jid"])["latest"]["completed"]
                    if latest is not None and 0 <= tick < ticks:
                        row = {"tick": tick, "bytes": latest["state_size"]}
                        found.setdefault(latest["id"], row)
                time.sleep(0.1)
    return list(found.values())


def message(first: int, tick: int) -> bytes:
    """Events of one tick."""
    at = START + tick * 1_000_000
    return b"".join(
        b'{"at":%d,"store":"k%05d","amount":%d,"id":"%d"}\n' % (at, i % 100, i % 60, first + i)
        for i in range(EVENTS)
    )


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Rows as CSV."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stream", action="store_true")
    if not parser.parse_args().stream:
        write("state_size.csv", measure())
        return
    with tempfile.TemporaryDirectory(prefix="weir-size-") as folder:
        rows = checkpoints(10_000, 100, Path(folder))
    write("state_size_stream.csv", rows)
    middle = [row["bytes"] for row in rows if 1_000 <= row["tick"] < 5_500]
    end = [row["bytes"] for row in rows if row["tick"] >= 5_500]
    print(f"checkpoints: at most {max(middle)} bytes in ticks 1,000 to 5,500, {max(end)} after")


if __name__ == "__main__":
    main()

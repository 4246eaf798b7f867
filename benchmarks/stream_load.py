"""Load for the benchmarks of streams, and the job that takes it: Pub/Sub -> Flink -> a folder.

Messages are made beforehand and published on time by a process of their own. The server, the
publisher, Flink and the Python workers share one machine.
"""

from __future__ import annotations

import csv
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.runners.jobs import Running, launch, on
from tests.runners.messages import Post
from tests.runners.recording import SECRET
from weir.dpcore.config import durations
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.flink_config import Memory
from weir.pipelines.engines.pubsub import PubSubServer
from weir.transforms.runtime.pubsub_client import publisher

RESULTS = Path(__file__).parent / "results"
CONFIG = """\
name: load
schema: {{time: {{column: at, format: epoch_us}}, id: id}}
key: {{column: store, declared: [{keys}]}}
clock: {{start: {start}, period: 1s, {end}delay: 500ms}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 3600}}
aggregates:
  visits: {{count: events, over: [all, 60]}}
  paid: {{sum: amount, clip: [0, 50]}}
deduplicate: {{horizon: {horizon}s}}
blocks: {blocks}
source: {{pubsub: {{subscription: {subscription}, payload: {form}, readers: 2{replay}}}}}
secret: {{file: {folder}/secret.key}}
sink: {{parquet: {folder}/out, every: {every}}}
engine: {{checkpoint_every: 2s, checkpoints: {folder}/state}}
"""


@dataclass(frozen=True)
class Load:
    """Events at an even rate, each of the moment at which its message is published.

    Attributes:
      start: wall time of the first event, whole seconds. seconds: how long.
      rate: events per second. size: events of a message. keys: how many.
      speed: seconds of event time in a second of the wall clock.
      form: of a message, ndjson or arrow.
    """

    start: int
    seconds: int
    rate: int
    size: int
    keys: int
    seed: int = 3
    speed: float = 1.0
    form: str = "ndjson"

    @property
    def end(self) -> float:
        """Event time of the end of the load."""
        return self.start + self.seconds * self.speed

    @property
    def messages(self) -> int:
        """How many in all."""
        return self.rate * self.seconds // self.size

    def moment(self, message: int) -> float:
        """When a message is due: when its last event has happened."""
        return self.start + (message + 1) * self.size / self.rate

    def made(self) -> Iterator[bytes]:
        """The messages in order."""
        random = np.random.default_rng(self.seed)
        step = 1e6 / self.rate * self.speed
        for message in range(self.messages):
            first = message * self.size
            at = (self.start * 1_000_000 + (first + np.arange(self.size)) * step).astype(np.int64)
            keys = random.integers(0, self.keys, self.size)
            amounts = random.integers(0, 60, self.size)
            if self.form == "arrow":
                yield in_arrow(at, keys, amounts, first)
                continue
            rows = zip(at.tolist(), keys.tolist(), amounts.tolist(), strict=True)
            yield b"".join(
                b'{"at":%d,"store":"k%05d","amount":%d,"id":"%d"}\n' % (t, k, a, first + i)
                for i, (t, k, a) in enumerate(rows)
            )


def in_arrow(at: Any, keys: Any, amounts: Any, first: int) -> bytes:
    """The same events as an IPC stream."""
    columns = {
        "at": pa.array(at),
        "store": pa.array([f"k{key:05d}" for key in keys.tolist()]),
        "amount": pa.array(amounts),
        "id": pa.array([str(first + i) for i in range(len(at))]),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def publish(host: str, topic: str, load: Load, ready: Any) -> None:
    """Makes all messages, says so, and publishes each when it is due; what is due goes together."""
    made = list(load.made())
    client = publisher(host)
    ready.set()
    sent = 0
    while sent < len(made):
        due, now = sent, time.time()
        while due < len(made) and load.moment(due) <= now and due - sent < 200:
            due += 1
        if due == sent:
            time.sleep(min(0.02, max(0.0, load.moment(sent) - now)))
            continue
        client.publish(topic=topic, messages=[{"data": data} for data in made[sent:due]])
        sent = due


def publishing(host: str, topic: str, load: Load) -> Any:
    """Starts a process that publishes; returns when its messages are made."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=publish, args=(host, topic, load, ready), daemon=True)
    process.start()
    if not ready.wait(600):
        raise RuntimeError("the publisher did not get ready")
    return process


@dataclass(frozen=True)
class Streaming:
    """A job that runs. Attributes: folder of the releases; post, server and cluster it is on."""

    out: Path
    running: Running
    post: Post
    server: PubSubServer
    cluster: FlinkCluster

    def acked(self) -> int:
        """Messages that a checkpoint holds."""
        counts = self.server.counts(self.post.topic)
        return counts["messages"] - counts["unacked"]


@contextmanager
def streaming(
    folder: Path,
    load: Load,
    every: int = 1,
    after: int | None = 5,
    flags: Sequence[str] = (),
    blocks: int = 16,
    horizon: int = 60,
    build: Path | None = None,
    heap: int | None = None,
) -> Iterator[Streaming]:
    """Server, cluster and job of a load; ended on leaving.

    Args:
      folder: empty. every: ticks of a file.
      after: seconds the clock runs on behind the load; None: for ever.
      flags: of ``weir run``. blocks: few are quick, many are shared evenly by the workers.
      horizon: seconds of event time for which ids are remembered.
      build: checkout of Weir that the job runs, client and workers; None: this one.
      heap: bytes of each TaskManager's tasks; None: as the cluster has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    memory = None if heap is None else Memory(heap=heap)
    with (
        PubSubServer() as server,
        FlinkCluster(environment={"PUBSUB_EMULATOR_HOST": server.host}, memory=memory) as cluster,
        Post(server.host, "load") as post,
    ):
        config = config_of(folder, load, post.subscription, every, after, blocks, horizon)
        environment = {"PUBSUB_EMULATOR_HOST": server.host}
        if build is not None:
            environment["PYTHONPATH"] = str(build.resolve())
        with launch(config, "flink", *on(cluster), *flags, env=environment) as running:
            yield Streaming(folder / "out", running, post, server, cluster)


def config_of(
    folder: Path,
    load: Load,
    subscription: str,
    every: int = 1,
    after: int | None = 5,
    blocks: int = 16,
    horizon: int = 60,
) -> Path:
    """Writes the config of a job, and its secret. Arguments as of ``streaming``."""
    (folder / "secret.key").write_text(SECRET.hex())
    (folder / "secret.key").chmod(0o600)
    config = folder / "load.yaml"
    config.write_text(
        CONFIG.format(
            blocks=blocks,
            horizon=horizon,
            keys=", ".join(f"k{i:05d}" for i in range(load.keys)),
            start=durations.show_timestamp(load.start * 1_000_000),
            end="" if after is None else f"end: {end_of(load, after)}, ",
            form=load.form,
            replay="" if load.speed == 1 else replay(load),
            subscription=subscription,
            folder=folder,
            every=every,
        )
    )
    return config


def end_of(load: Load, after: int) -> str:
    """End of a clock."""
    return durations.show_timestamp(int((load.end + after * load.speed) * 1e6))


def replay(load: Load) -> str:
    """What the source is told of a load in time-lapse."""
    start = durations.show_timestamp(load.start * 1_000_000)
    return f", replay: {{origin: {start}, started: {start}, speed: {load.speed}}}"


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """Rows as CSV in benchmarks/results."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)

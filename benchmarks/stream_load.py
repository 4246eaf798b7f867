"""Load for the benchmarks of streams, and the job that takes it: Pub/Sub or Kafka -> Flink -> a
folder.

Messages are made beforehand and published on time by a process of their own. The server, the
publisher, Flink and the Python workers share one machine.
"""

from __future__ import annotations

import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.harness import process_seconds
from weir.dpcore.config import durations
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.flink_config import TaskManagerMemory
from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.engines.processes import Process
from weir.pipelines.engines.servers import PubSubServer
from weir.transforms.formats.registry import FORMATS
from weir.transforms.runtime.pubsub_client import EMULATOR, publisher, subscriber
from weir.transforms.sources.kafka.clients import library

ROOT = Path(__file__).resolve().parents[1]
SECRET = bytes(range(32)).hex()
TOPIC = "projects/benchmarks/topics/load"
SUBSCRIPTION = "projects/benchmarks/subscriptions/load"
KAFKA_TOPIC, PARTITIONS = "load", 2
CONFIG = """\
name: load
schema: {{time: {{column: at, format: epoch_us}}, id: id}}
key: {{column: store, declared: [{keys}]}}
clock: {{start: {start}, period: 1s, {end}delay: 500ms}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 3600 ticks}}
aggregates:
  visits: {{count: events, over: [all, 60]}}
  paid: {{sum: amount, clip: [0, 50]}}
deduplicate: {{horizon: {horizon}s}}
blocks: {blocks}
source: {{{source}, payload: {form}, readers: 2{replay}}}}}
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
      form: of a message, ndjson, arrow or avro.
      stream: what it goes through, pubsub or kafka.
    """

    start: int
    seconds: int
    rate: int
    size: int
    keys: int
    seed: int = 3
    speed: float = 1.0
    form: str = "ndjson"
    stream: str = "pubsub"

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
            if self.form != "ndjson":
                yield in_columns(at, keys, amounts, first, self.form)
                continue
            rows = zip(at.tolist(), keys.tolist(), amounts.tolist(), strict=True)
            yield b"".join(
                b'{"at":%d,"store":"k%05d","amount":%d,"id":"%d"}\n' % (t, k, a, first + i)
                for i, (t, k, a) in enumerate(rows)
            )


def in_columns(at: Any, keys: Any, amounts: Any, first: int, form: str) -> bytes:
    """The same events as an IPC stream, or as a container of Avro."""
    columns = {
        "at": pa.array(at),
        "store": pa.array([f"k{key:05d}" for key in keys.tolist()]),
        "amount": pa.array(amounts),
        "id": pa.array([str(first + i) for i in range(len(at))]),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    if form == "avro":
        return FORMATS[form].encode(batch, [False] * len(at))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def publish(host: str, load: Load, ready: Any) -> None:
    """Makes all messages, says so, and publishes each when it is due; what is due goes together."""
    made = list(load.made())
    send = into_kafka(host) if load.stream == "kafka" else into_pubsub(host)
    ready.set()
    sent = 0
    while sent < len(made):
        due, now = sent, time.time()
        while due < len(made) and load.moment(due) <= now and due - sent < 200:
            due += 1
        if due == sent:
            time.sleep(min(0.02, max(0.0, load.moment(sent) - now)))
            continue
        send(made[sent:due])
        sent = due


def into_pubsub(host: str) -> Callable[[Sequence[bytes]], None]:
    """Sends messages, and returns when the server has them."""
    client = publisher(host)
    return lambda part: client.publish(topic=TOPIC, messages=[{"data": data} for data in part])


def into_kafka(host: str) -> Callable[[Sequence[bytes]], None]:
    """Sends messages, and returns when the broker has them."""
    producer = library().Producer({"bootstrap.servers": host, "linger.ms": 1})

    def send(part: Sequence[bytes]) -> None:
        for data in part:
            producer.produce(KAFKA_TOPIC, data)
        producer.flush()

    return send


@contextmanager
def publishing(host: str, load: Load) -> Iterator[None]:
    """A process that publishes; entered when its messages are made, ended on leaving."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=publish, args=(host, load, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(600):
            raise RuntimeError("the publisher did not get ready in 600 s")
        yield
    finally:
        process.terminate()
        process.join()


class Streaming(NamedTuple):
    """A job that runs. Attributes: folder of the releases; process, server and cluster; where the
    load is published."""

    out: Path
    process: Process
    server: PubSubServer
    cluster: FlinkCluster
    host: str

    def acked(self) -> int:
        """Messages that a checkpoint holds."""
        if self.host != self.server.host:
            return committed(self.host)
        counts = self.server.counts(TOPIC)
        return counts["messages"] - counts["unacked"]

    def busy(self) -> float:
        """Processor seconds of TaskManagers and workers, without server and publisher."""
        return sum(process_seconds(one.pid) for one in self.cluster.taskmanagers.values())


@contextmanager
def engines(heap: int | None = None) -> Iterator[tuple[PubSubServer, FlinkCluster]]:
    """A server with a topic and its subscription, and a cluster whose workers know it.

    Args:
      heap: bytes of each TaskManager's tasks; None: as the cluster has it.
    """
    memory = None if heap is None else TaskManagerMemory(heap=heap)
    with (
        PubSubServer() as server,
        FlinkCluster(environment={EMULATOR: server.host}, memory=memory) as cluster,
    ):
        publisher(server.host).create_topic(name=TOPIC)
        made = {"name": SUBSCRIPTION, "topic": TOPIC, "ack_deadline_seconds": 10}
        subscriber(server.host).create_subscription(request=made)
        yield server, cluster


@contextmanager
def served(load: Load, heap: int | None = None) -> Iterator[tuple[PubSubServer, FlinkCluster, str]]:
    """``engines``, and where the load is published: at the Pub/Sub server, or at a broker."""
    with engines(heap) as (server, cluster):
        if load.stream != "kafka":
            yield server, cluster, server.host
            return
        with KafkaBroker() as broker:
            make_topic(broker.address)
            yield server, cluster, broker.address


@contextmanager
def started(words: Sequence[str], folder: Path, server: PubSubServer, path: Path) -> Iterator[Any]:
    """A Python process of a checkout that submits a job; ended with all its children on leaving."""
    environment = {EMULATOR: server.host, "PYTHONPATH": str(path.resolve())}
    command = [sys.executable, *words]
    process = Process("the job", command, folder / "job.log", environment, folder)
    try:
        yield process
    finally:
        process.stop()


def command(config: Path, cluster: FlinkCluster, *flags: str) -> list[str]:
    """What Python runs to submit a job of two workers."""
    words = ["-m", "weir.pipelines.cli.main", "run", str(config), "--json", "--runner", "flink"]
    return [*words, f"--flink-master={cluster.master}", "--parallelism=2", *flags]


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
      heap: see ``engines``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with served(load, heap) as (server, cluster, host):
        config = config_of(folder, load, every, after, blocks, horizon, host)
        words = command(config, cluster, *flags)
        with started(words, folder, server, build or ROOT) as process:
            yield Streaming(folder / "out", process, server, cluster, host)


def committed(host: str) -> int:
    """Records of the topic that the job's group has committed."""
    client = library()
    watcher = client.Consumer({"bootstrap.servers": host, "group.id": KAFKA_TOPIC})
    places = [client.TopicPartition(KAFKA_TOPIC, number) for number in range(PARTITIONS)]
    try:
        offsets = [place.offset for place in watcher.committed(places, timeout=10)]
    except client.KafkaException:  # a broker that has just started does not know its groups yet
        return 0
    finally:
        watcher.close()
    return sum(max(0, offset) for offset in offsets)


def make_topic(host: str) -> None:
    """A topic that is stamped by its broker."""
    client = library()
    admin = client.admin.AdminClient({"bootstrap.servers": host})
    stamps = {"message.timestamp.type": "LogAppendTime"}
    topic = client.admin.NewTopic(KAFKA_TOPIC, PARTITIONS, 1, config=stamps)
    admin.create_topics([topic], request_timeout=60)[KAFKA_TOPIC].result()


def config_of(
    folder: Path,
    load: Load,
    every: int = 1,
    after: int | None = 5,
    blocks: int = 16,
    horizon: int = 60,
    host: str = "",
) -> Path:
    """Writes the config of a job, and its secret. Arguments as of ``streaming``; host: of Kafka."""
    source = f"pubsub: {{subscription: {SUBSCRIPTION}"
    if load.stream == "kafka":
        source = f"kafka: {{brokers: '{host}', topic: {KAFKA_TOPIC}, group: {KAFKA_TOPIC}, "
        source += "start: earliest"
    (folder / "secret.key").write_text(SECRET)
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
            source=source,
            folder=folder,
            every=every,
        )
    )
    return config


def end_of(load: Load, after: int) -> str:
    """End of a clock: of a tick of a second."""
    return durations.show_timestamp(math.ceil(load.end + after * load.speed) * 1_000_000)


def replay(load: Load) -> str:
    """What the source is told of a load in time-lapse."""
    start = durations.show_timestamp(load.start * 1_000_000)
    return f", replay: {{origin: {start}, started: {start}, speed: {load.speed}}}"

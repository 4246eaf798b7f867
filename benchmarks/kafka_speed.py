"""How many events a second does a reader of Kafka take, compared with one of Pub/Sub?

    make kafka pubsub
    python -m benchmarks.kafka_speed [--short]        # two minutes

A broker and a Pub/Sub server hold the same messages before a round begins: NDJSON with one event a
message, and with 500. A round reads all of them in this process, from messages to canonical
batches: the client library, the reader and the decoder, without a runner, from the first batch on.
Pub/Sub's are acknowledged as they come. Server and reader share the machine. Rows: events a second
of either by the clock, and by processor seconds of this process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import Bench, Took, main, median
from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.engines.servers import PubSubServer
from weir.transforms.beam.kafka.position import TopicPosition
from weir.transforms.beam.kafka.reader import TopicReader
from weir.transforms.beam.pubsub.messages import MessageDecoder, Subscription
from weir.transforms.beam.pubsub.reader import Reader
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.runtime.pubsub_client import publisher, subscriber
from weir.transforms.sources.kafka.clients import library
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.topic import KafkaTopic

SIZES = ((1, 40_000), (500, 1_000_000))
"""(events a message, events)."""
SHORT = 10
"""In the short form, of so many events one."""
GOAL = 1.5
WAIT = 0.02
SCHEMA = EventSchema.build(Stamp("at", "epoch_us"), key="store", id="id", numbers=["amount"])
PROJECT = "projects/benchmarks"
FIRST = 1_700_000_000_000_000
"""Microseconds since 1970."""


def messages(events: int, size: int) -> Iterator[bytes]:
    """Messages of so many events each."""
    for first in range(0, events, size):
        yield b"".join(
            b'{"at":%d,"store":"k%d","amount":1.5,"id":"%d"}\n' % (FIRST + i, i % 24, i)
            for i in range(first, first + size)
        )


def fill_topic(broker: KafkaBroker, name: str, events: int, size: int) -> None:
    """A topic of two partitions that holds the messages."""
    client = library()
    properties = {"bootstrap.servers": broker.address}
    admin = client.admin.AdminClient(properties)
    admin.create_topics([client.admin.NewTopic(name, 2, 1)], request_timeout=60)[name].result()
    producer = client.Producer({**properties, "linger.ms": 50})
    for i, data in enumerate(messages(events, size)):
        producer.produce(name, data, partition=i % 2)
        if i % 1000 == 0:
            producer.flush()
    producer.flush()


def fill_subscriptions(
    server: PubSubServer, name: str, events: int, size: int, count: int
) -> list[str]:
    """As many subscriptions, each of which gives the messages once."""
    client, topic = publisher(server.host), f"{PROJECT}/topics/{name}"
    client.create_topic(name=topic)
    paths = [f"{PROJECT}/subscriptions/{name}-{i}" for i in range(count)]
    for path in paths:
        subscriber(server.host).create_subscription(
            request={"name": path, "topic": topic, "ack_deadline_seconds": 60}
        )
    every = [{"data": data} for data in messages(events, size)]
    step = 1000 // min(size, 100)  # a call holds at most 10 MB
    for first in range(0, len(every), step):
        client.publish(topic=topic, messages=every[first : first + step])
    return paths


def decoded(decoder: MessageDecoder, batch: Any) -> int:
    """Events of what a reader took."""
    outputs = decoder.decode(batch.messages)
    return sum(output.events.num_rows for output in outputs if output.events is not None)


def read_topic(broker: KafkaBroker, name: str) -> Iterator[int]:
    """Events of each batch of a topic."""
    reader = TopicReader(KafkaTopic(name, ClientProperties(broker.address)))
    decoder = MessageDecoder("ndjson", SCHEMA, name)
    reader.begin(TopicPosition())
    try:
        while True:
            reader.look()
            batch = reader.take(WAIT)
            if batch is not None:
                yield decoded(decoder, batch)
                reader.took(batch)
    finally:
        reader.close()


def read_subscription(server: PubSubServer, path: str) -> Iterator[int]:
    """Events of each batch of a subscription."""
    reader = Reader(Subscription(path, host=server.host))
    decoder = MessageDecoder("ndjson", SCHEMA, path)
    reader.begin(0)
    try:
        while True:
            pulled = reader.take(WAIT)
            if pulled is not None:
                yield decoded(decoder, pulled)
                reader.leases.acknowledge(pulled.ids)
    finally:
        reader.close()


def seconds_each(batches: Iterator[int], events: int) -> Took:
    """Seconds of an event, from the first batch on."""
    count = first = next(batches)
    wall, cpu = time.perf_counter(), time.process_time()
    for size in batches:
        count += size
        if count >= events:
            break
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Took(wall / (count - first), cpu / (count - first))


def measure(bench: Bench) -> None:
    """Both sizes of messages."""
    bench.keys = ("events_per_message",)
    with bench.folder() as folder, KafkaBroker(Path(folder) / "kafka") as broker:
        for size, full in SIZES:
            events = full // SHORT if bench.short else full
            name = f"speed-{size}"
            fill_topic(broker, name, events, size)
            ours, peer = list[Took](), list[Took]()
            with PubSubServer() as server:
                for path in fill_subscriptions(server, name, events, size, bench.rounds + 1):
                    peer.append(seconds_each(read_subscription(server, path), events))
                    ours.append(seconds_each(read_topic(broker, name), events))
            ours, peer = ours[1:], peer[1:]  # the first round warms up
            what, bound = f"reading Kafka, {size} events a message", "reading Pub/Sub"
            bench.note(what, bound, [t.wall for t in ours], [t.wall for t in peer], GOAL)
            kafka, pubsub = median(ours), median(peer)
            bench.row(
                events_per_message=size,
                kafka_events_per_s=1 / kafka.wall,
                pubsub_events_per_s=1 / pubsub.wall,
                kafka_events_per_cpu_s=1 / kafka.cpu,
                pubsub_events_per_cpu_s=1 / pubsub.cpu,
            )


if __name__ == "__main__":
    main(measure)

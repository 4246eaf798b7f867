"""The reader of Kafka against a real broker, on Prism: what it reads, and what it refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.runners.kafka_security import LISTENER, PASSWORD, USER, add_user
from tests.runners.pulling import SCHEMA, SECOND, Reading, prism_flags, until
from tests.runners.topics import Topic
from tests.transforms.running import keep
from tests.transforms.schema_registry import registry
from tests.transforms.test_kafka_values import framed
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.pipelines.cli.main import main
from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.feed.kafka import PARTITIONS as PARTITIONS_MADE
from weir.pipelines.sources.kafka import KafkaSource
from weir.transforms.beam.kafka.source import ReadKafka
from weir.transforms.beam.pubsub.messages import MessageDecoder
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sources.kafka import faults
from weir.transforms.sources.kafka.clients import LATEST, KafkaClients
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.registry import SchemaRegistry
from weir.transforms.sources.kafka.topic import KafkaTopic
from weir.transforms.sources.kafka.values import ConfluentAvro

PARTITIONS = 3


@contextmanager
def reading(
    prism: Path, topic: Topic, seconds: int | None, form: str = "ndjson", **options: Any
) -> Iterator[Reading]:
    """A reader over a clock of one-second ticks from now on; cancelled on exit."""
    start = time.time_ns() // 1000 // SECOND * SECOND
    clock = Clock(start, SECOND, None if seconds is None else start + seconds * SECOND)
    properties = options.pop("properties", ClientProperties(topic.broker.address))
    line_bytes = options.pop("line_bytes", 1 << 20)
    pipeline = beam.Pipeline(options=PipelineOptions(prism_flags(prism)))
    decoder = MessageDecoder(form, SCHEMA, topic.name, line_bytes)
    read = pipeline | "Read" >> ReadKafka(
        KafkaTopic(topic.name, properties, **options), decoder, clock
    )
    events, dead = keep(read.events, "events"), keep(read.dead, "dead")
    result = pipeline.run()
    try:
        yield Reading(result, events, dead)
    finally:
        if not PipelineState.is_terminal(result.state):
            result.cancel()


def line(name: object, **other: Any) -> bytes:
    now = time.time_ns() // 1000
    return json.dumps({"at": now, "id": str(name), "x": 1.0, **other}).encode() + b"\n"


def test_all_is_read_and_ended_with_the_clock(
    kafka_broker: KafkaBroker, prism_location: Path
) -> None:
    """Keys or none, headers, every compression, transactions, tombstones, poison, 10 MB at once."""
    topic = Topic(kafka_broker, "all", PARTITIONS)
    for kind in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": kafka_broker.address, "compression.type": kind})
        for i in range(200):
            more = {"key": b"k", "headers": [("a", b"b")]} if i % 2 else {}
            producer.produce(topic.name, line(f"{kind}-{i}"), **more)
        assert producer.flush(30) == 0
    topic.transaction([line("committed")], commit=True)
    topic.transaction([line("aborted")], commit=False)
    before = topic.ends()[0]
    topic.send(None, 0, key=b"gone")
    topic.send(b"\x00poison\xff", 0)
    topic.send(b"", 0)
    large = [line(f"large-{i}", y="z" * 1_000_000) for i in range(10)]
    topic.publish([b"".join(large)])
    wanted = [
        f"{kind}-{i}" for kind in ("none", "gzip", "snappy", "lz4", "zstd") for i in range(200)
    ]
    with reading(prism_location, topic, 4, readers=2, line_bytes=2 << 20) as job:
        until(job.done)
        large_ids = [f"large-{i}" for i in range(10)]
        assert sorted(job.ids()) == sorted([*wanted, "committed", *large_ids])
        name = topic.name
        assert job.letters() == [
            (f"{name}#0@{before}", -1, "", "no_value"),
            (f"{name}#0@{before + 1}", 1, "", "malformed"),
            (f"{name}#0@{before + 2}", -1, "", "malformed"),
        ]


def test_a_silent_topic_ends_with_its_clock_and_an_open_transaction_holds_it(
    kafka_broker: KafkaBroker, prism_location: Path
) -> None:
    topic = Topic(kafka_broker, "silent", PARTITIONS)
    with (
        topic.open_transaction([line("open")]) as end,
        reading(prism_location, topic, 2) as job,
    ):
        time.sleep(8)
        assert not job.done() and job.ids() == []
        end(True)
        until(job.done)
        assert job.ids() == ["open"]


def test_partitions_that_are_added_are_read_from_their_start(
    kafka_broker: KafkaBroker, prism_location: Path
) -> None:
    """Those of before are read from where their readers began, whenever that was."""
    topic = Topic(kafka_broker, "grown", 2)
    with reading(prism_location, topic, None, readers=2, start="latest") as job:

        def both_have_begun() -> bool:
            topic.publish([line("a")], partition=0)
            topic.publish([line("b")], partition=1)
            return {"a", "b"} <= set(job.ids())

        until(both_have_begun)
        topic.grow(5)
        topic.publish(line(i) for i in range(50))

        def numbers() -> list[int]:
            return sorted(int(id) for id in job.ids() if id.isdigit())

        until(lambda: len(numbers()) == 50)
        assert numbers() == list(range(50))
        assert all(topic.ends()[added] for added in (2, 3, 4))


def test_a_schema_that_evolves_in_mid_stream(
    kafka_broker: KafkaBroker, prism_location: Path
) -> None:
    topic = Topic(kafka_broker, "schemas", PARTITIONS)
    fields = [{"name": "at", "type": "long"}, {"name": "id", "type": "string"}]
    old = {"type": "record", "name": "event", "fields": [*fields, {"name": "x", "type": "int"}]}
    new = {**old, "fields": [{"name": "y", "type": "string"}, *old["fields"][:2]]}
    with registry() as held:
        for id, schema in ((1, old), (2, new)):
            held.schemas[id] = {"schema": json.dumps(schema)}
        now = time.time_ns() // 1000
        row = {"at": now, "x": 1, "y": "y"}
        topic.publish(framed(1, old, {**row, "id": f"old-{i}"}) for i in range(20))
        topic.publish([framed(2, new, {**row, "id": "new"}), framed(9, old, {**row, "id": "no"})])
        values = ConfluentAvro(SchemaRegistry(held.url))
        with reading(prism_location, topic, 3, "avro", values=values) as job:
            until(job.done)
            assert sorted(job.ids()) == sorted([*(f"old-{i}" for i in range(20)), "new"])
            assert [letter[1:] for letter in job.letters()] == [(-1, "", "malformed")]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, []),
        ({"message.timestamp.type": "CreateTime"}, ["CreateTime"]),
        ({"cleanup.policy": "compact"}, ["is compacted"]),
        (None, ["does not exist"]),
    ],
)
def test_a_topic_is_looked_at_before_a_run(
    kafka_broker: KafkaBroker, config: dict[str, str] | None, words: list[str]
) -> None:
    name = "none" if config is None else Topic(kafka_broker, "looked-at", 1, config).name
    section = {"brokers": kafka_broker.address, "topic": name, "start": "earliest"}
    source = KafkaSource.model_validate({"kafka": section})
    if config is None:
        with pytest.raises(ConfigError, match=words[0]):
            list(source.check())
    else:
        said = list(source.check())
        assert len(said) == len(words) and all(a in b for a, b in zip(words, said, strict=True))


def test_a_broker_that_is_killed_costs_nothing(
    kafka_broker: KafkaBroker, prism_location: Path
) -> None:
    topic = Topic(kafka_broker, "killed", PARTITIONS)
    topic.publish(line(i) for i in range(100))
    with reading(prism_location, topic, None) as job:
        until(lambda: len(job.ids()) == 100)
        kafka_broker.kill()
        time.sleep(5)
        assert not job.done()
        kafka_broker.start()
        topic.publish(line(i) for i in range(100, 200))
        until(lambda: len(job.ids()) >= 200)
        assert sorted(map(int, job.ids())) == list(range(200))


def test_a_topic_that_is_deleted_ends_the_reader(
    kafka_broker: KafkaBroker, prism_location: Path
) -> None:
    topic = Topic(kafka_broker, "deleted", 1)
    topic.publish([line(1)])
    with reading(prism_location, topic, None) as job:
        until(lambda: job.ids() == ["1"])
        topic.delete()
        until(job.done, 60)
        assert job.result.state == PipelineState.FAILED


def test_a_feed_makes_a_topic_and_fills_it_by_the_options_of_the_config(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(PASSWORD)
    (tmp_path / "job.yaml").write_text(
        "name: fed\nschema: {time: at, id: id}\nkey: {column: x, declared: [a, b]}\n"
        "clock: {start: 2026-01-01T00:00:00Z, period: 1s}\n"
        "privacy: {epsilon: 1, delta: 1e-6, protect_for: 10m}\n"
        "aggregates: {visits: {count: events}}\n"
        f"source: {{kafka: {{brokers: '{kafka_broker.address_of(LISTENER)}', topic: fed, "
        "start: earliest, options: {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, "
        f"ssl.ca.location: {kafka_broker.folder / 'ca.pem'}, sasl.username: {USER}, "
        f"sasl.password: {{file: {key}}}}}}}}}\n"
    )
    to = f"kafka://{kafka_broker.address_of(LISTENER)}/fed"
    words = ["feed", str(tmp_path / "job.yaml"), "--to", to, "--events", "1000"]
    done = CliRunner().invoke(main, [*words, "--per-message", "10", "--create"])
    assert done.exit_code == 0 and "made the topic fed" in done.output, done.output
    clients = KafkaClients(KafkaTopic("fed", ClientProperties(kafka_broker.address)))
    ends = clients.offsets(clients.bounds(range(PARTITIONS_MADE), LATEST, 10.0))
    clients.close()
    assert sum(ends.values()) == 100


@pytest.mark.parametrize("right", [True, False])
def test_a_broker_with_tls_and_a_password(
    kafka_broker: KafkaBroker,
    prism_location: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    right: bool,
) -> None:
    """By SCRAM; the test of the feed sends it (PLAIN)."""
    add_user(kafka_broker.address)
    topic = Topic(kafka_broker, "secured", 1)
    topic.publish([line(1)])
    monkeypatch.setitem(faults.REFUSALS, "_AUTHENTICATION", 3.0)
    key = tmp_path / "key"
    key.write_text(PASSWORD if right else "wrong")
    plain = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(kafka_broker.folder / "ca.pem"),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": USER,
    }
    secrets = (("sasl.password", PropertyReference(file=str(key))),)
    properties = ClientProperties(kafka_broker.address_of(LISTENER), tuple(plain.items()), secrets)
    with reading(prism_location, topic, 3, properties=properties) as job:
        until(job.done, 60)
        assert job.ids() == (["1"] if right else [])
        assert job.result.state == (PipelineState.DONE if right else PipelineState.FAILED)


def test_offsets_are_committed_for_monitors_and_not_after_the_end(
    kafka_broker: KafkaBroker,
) -> None:
    topic = Topic(kafka_broker, "committed", 1)
    topic.publish(line(i) for i in range(3))
    named = KafkaTopic(topic.name, ClientProperties(kafka_broker.address), group="monitors")
    clients = KafkaClients(named)
    clients.assign({0: 0})
    clients.commit({0: 2})
    watcher = Consumer({"bootstrap.servers": kafka_broker.address, "group.id": "monitors"})
    place = TopicPartition(topic.name, 0)
    until(lambda: watcher.committed([place], 10)[0].offset == 2)
    watcher.close()
    clients.close()
    clients.commit({0: 3})

"""The section of a config that speaks of Kafka: what is refused, and what readers are made with."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from tests.pipelines.conftest import SMALL
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.feed.targets import open_target
from weir.pipelines.sinks.kafka import DeadKafka, KafkaSink
from weir.pipelines.sources.kafka import KafkaSource
from weir.pipelines.sources.source import Limits
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sources.kafka import clients
from weir.transforms.sources.kafka.properties import SECRETS

KAFKA = "brokers: 'b-1:9092,b-2:9092', topic: purchases, start: earliest"
STREAM = SMALL.replace("source: {csv: events.csv}", f"source: {{kafka: {{{KAFKA}}}}}")
PASSWORD = "correct-horse-battery"


def stream(*sets: str) -> JobConfig:
    return loads(STREAM, sets)


def topic(*sets: str) -> Any:
    job = stream(*sets)
    assert isinstance(job.source, KafkaSource)
    return job.source.topic(Plan.from_config(job.plan_config()), job.limits)


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("brokers=kafka", "brokers", "HOST:PORT"),
        ("brokers=kafka:99999", "brokers", "HOST:PORT"),
        ("topic='a b'", "topic", "letters, digits"),
        ("start=yesterday", "start", "earliest, latest, or a time"),
        ("readers=0", "readers", "1 to 256"),
        ("slack=1ms", "slack", "100ms"),
        ("payload=xml", "payload", "ndjson"),
        ("isolation=none", "isolation", "read_committed"),
        ("options={group.id: a}", "options.group.id", "source.kafka.group"),
        ("options={enable.auto.commit: true}", "options.enable.auto.commit", "set by the source"),
        ("options={a: [1]}", "options.a", "must be text, a number"),
        ("options={sasl.password: {file: k}}", "options.sasl.password.file", "absolute path"),
        ("options={sasl.password: {env: 'a b'}}", "options.sasl.password.env", "environment"),
        ("options={a: {env: A, file: /b}}", "options.a", "exactly one"),
        ("payload=confluent_avro", "registry", "needs it"),
        ("registry=http://r", "registry", "is not for payload ndjson"),
        ("payload=protobuf", "descriptors", "needs it"),
    ],
)
def test_what_is_refused(text: str, field: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        stream(f"source.kafka.{text}")
    assert refused.value.field == f"source.kafka.{field}"


def test_a_start_has_to_be_said() -> None:
    with pytest.raises(ConfigError) as refused:
        loads(STREAM.replace(", start: earliest", ""))
    assert refused.value.field == "source.kafka.start"


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_the_config_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(ConfigError, match="is a secret") as refused:
        stream(f"source.kafka.options={{{name}: {PASSWORD}}}")
    assert PASSWORD not in str(refused.value)


def test_what_a_topic_is_read_by() -> None:
    source = topic("source.kafka.start=2026-01-01T00:00:00Z", "source.kafka.readers=3")
    assert (source.name, source.start, source.readers) == ("purchases", 1_767_225_600_000_000, 3)
    assert (source.slack, source.ahead, source.committed) == (500_000, 300_000_000, True)
    assert (source.stamps_behind, source.stamps_ahead, source.group) == (0, 0, None)
    declared = topic("schema.arrival=seen", "limits.ahead=1m", "source.kafka.stamps_behind=3s")
    assert (declared.stamps_behind, declared.stamps_ahead) == (3_000_000, 3_600_000_000)
    assert declared.ahead == 60_000_000
    again = topic("source.kafka.options.security.protocol=SSL")
    assert again.properties.plain == (("security.protocol", "SSL"),)


def test_secrets_are_read_by_clients_and_are_in_nothing_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans, graphs and state are made of what is pickled here, and logs of its texts."""
    key = tmp_path / "key"
    key.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("KAFKA_USER", PASSWORD)
    options = f"{{sasl.password: {{file: {key}}}, sasl.username: {{env: KAFKA_USER}}}}"
    job = stream(f"source.kafka.options={options}")
    source = topic(f"source.kafka.options={options}")
    assert source.properties.read()["sasl.password"] == PASSWORD
    assert source.properties.read()["sasl.username"] == PASSWORD
    assert isinstance(job.source, KafkaSource)
    read = job.source.open(Plan.from_config(job.plan_config()), Limits())
    texts = [pickle.dumps(source).decode("latin1"), repr(source), repr(read), job.model_dump_json()]
    assert not [text for text in texts if PASSWORD in text]


@pytest.mark.parametrize(
    "reference", [PropertyReference(file="/nowhere/key"), PropertyReference(env="NO_SUCH")]
)
def test_a_secret_that_is_not_there_is_named_by_its_place(reference: PropertyReference) -> None:
    with pytest.raises(ConfigError, match=r"Put the secret there") as refused:
        reference.read("source.kafka.options.sasl.password")
    assert refused.value.field == "source.kafka.options.sasl.password"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ("{no.such.property: 1}", "options.no.such.property"),
        ("{security.protocol: NONE}", "options.security.protocol"),
    ],
)
def test_properties_that_librdkafka_refuses_are_named(options: str, field: str) -> None:
    with pytest.raises(ConfigError, match="librdkafka") as refused:
        clients.KafkaClients(topic(f"source.kafka.options={options}"))
    assert refused.value.field == f"source.kafka.{field}"


@pytest.mark.slow
def test_brokers_that_are_away_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("weir.pipelines.connectors.kafka.ANSWER", 1.0)
    away = {"brokers": "127.0.0.1:1", "topic": "purchases"}
    job = stream("source.kafka.brokers=127.0.0.1:1")
    assert job.source is not None
    (said,) = job.source.check()
    KafkaSink(kafka=away).prepare(None, (), False)  # type: ignore[arg-type]
    DeadKafka(kafka=away).prepare()  # type: ignore[arg-type]
    for text in (said, *caplog.messages):
        assert "purchases cannot be looked up from here" in text
    assert len(caplog.messages) == 2


def test_a_compacted_topic_takes_no_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"cleanup.policy": "compact,delete"}
    monkeypatch.setattr("weir.pipelines.sinks.kafka.look_up", lambda _: settings)
    letters = DeadKafka(kafka={"brokers": "b:1", "topic": "t"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"Set cleanup\.policy=delete") as refused:
        letters.prepare()
    assert refused.value.field == "dead_letters.kafka.topic"
    settings["cleanup.policy"] = "delete"
    letters.prepare()


@pytest.mark.parametrize("runner", ["local", "direct"])
def test_a_runner_that_ends_with_its_input_names_those_that_do_not(runner: str) -> None:
    source = stream().source
    assert source is not None
    assert source.read(Plan.from_config(stream().plan_config()), Limits()) is None
    with pytest.raises(ConfigError, match="a topic has no end: --runner prism") as refused:
        source.check_runner(runner)
    assert refused.value.field == "--runner"


@pytest.mark.parametrize("runner", ["PrismRunner", "FlinkRunner", "DataflowRunner"])
def test_every_runner_gets_the_same_reader_and_no_secret(
    runner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph is built without a look at a broker or a secret."""
    key = tmp_path / "key"
    key.write_text(PASSWORD)
    job = stream(f"source.kafka.options={{sasl.password: {{file: {key}}}}}")
    monkeypatch.setattr(clients, "library", lambda _: pytest.fail("it asks for clients"))
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--streaming"]))
    pipeline.options.view_as(StandardOptions).runner = runner
    assert job.source is not None
    read = pipeline | "Read" >> job.source.open(Plan.from_config(job.plan_config()), job.limits)
    assert read.events.element_type is pa.RecordBatch and read.dead is not None
    graph = pipeline.to_runner_api()
    payloads = b"".join(t.spec.payload for t in graph.components.transforms.values())
    assert PASSWORD.encode() not in graph.SerializeToString() + payloads
    unbounded = [
        each for each in graph.components.pcollections.values()
        if each.is_bounded == beam_runner_api_pb2.IsBounded.UNBOUNDED
    ]  # fmt: skip
    assert unbounded


@pytest.mark.parametrize("where", ["kafka://host/t", "kafka://host:1", "kafka://host:1/a/b"])
def test_a_feed_needs_brokers_and_a_topic(where: str) -> None:
    with pytest.raises(ConfigError, match="kafka://HOST:PORT/TOPIC") as refused:
        open_target(where, "ndjson")
    assert refused.value.field == "--to"


def test_payloads_of_kafka_alone_are_read_as_those_of_all_streams(tmp_path: Path) -> None:
    job = stream(
        "source.kafka.payload=confluent_avro",
        "source.kafka.registry=https://registry.example",
        "source.kafka.registry_login={env: LOGIN}",
    )
    assert isinstance(job.source, KafkaSource)
    assert (job.source.payload, job.source.form) == ("avro", "avro")
    assert job.source.open(Plan.from_config(job.plan_config()), Limits()) is not None
    file = tmp_path / "shop.desc"
    sets = (
        "source.kafka.payload=protobuf",
        "source.kafka.message=shop.Purchase",
        f"source.kafka.descriptors={file}",
    )
    source = stream(*sets).source
    assert isinstance(source, KafkaSource) and (source.payload, source.form) == ("json", "ndjson")
    with pytest.raises(ConfigError, match="cannot be read") as refused:
        source.open(Plan.from_config(stream(*sets).plan_config()), Limits())
    assert refused.value.field == "source.kafka.descriptors"

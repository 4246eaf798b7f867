"""Releases and dead letters into topics of a real broker."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from tests.runners.jobs import differences
from tests.runners.recording import Cells, Recording, cells_of
from tests.runners.topics import Topic, besieged_topic
from tests.transforms.releases import PLAN, batch
from weir.dpcore.errors import ConfigError
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.sinks.kafka import DeadKafka, KafkaSink
from weir.transforms.beam.kafka.sink import WriteDeadTopic, WriteTopic
from weir.transforms.release.few import shape_for
from weir.transforms.runtime.dead_letters import dead_letters
from weir.transforms.sinks.kafka import KeyedRecord, ReleaseRecords, TopicRefused, TopicServer
from weir.transforms.sources.kafka.properties import ClientProperties

COMPACT = {"cleanup.policy": "compact"}
WRITE = ReleaseRecords(shape_for(PLAN, "flat"))


def server(topic: Topic) -> TopicServer:
    return TopicServer(topic.name, ClientProperties(topic.broker.address, section="sink.kafka"))


def publish(sink: beam.PTransform, batches: list[pa.RecordBatch]) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    source = pipeline | beam.Create(batches, reshuffle=False).with_output_types(pa.RecordBatch)
    source | sink
    pipeline.run().wait_until_finish()


def of_keys(topic: Topic) -> dict[bytes, bytes]:
    """The value of each key; a key with two is an error."""
    values: dict[bytes, bytes] = {}
    for key, value in topic.written():
        assert key is not None and value is not None
        assert values.setdefault(key, value) == value, f"{key!r} was written with other bytes"
    return values


def test_a_reader_that_keeps_one_record_of_a_key_has_every_release_once(
    kafka_broker: KafkaBroker,
) -> None:
    topic = Topic(kafka_broker, "releases", 2, COMPACT)
    for _ in range(2):
        publish(WriteTopic(server(topic), WRITE), [batch(0, 8, [b"a", b"b"])])
    assert len(topic.written()) == 2 * len(of_keys(topic)) == 2 * 8 * 2 * 4
    letters = Topic(kafka_broker, "dead")
    rejected = [dead_letters("s#m7", np.array([3, -1]), "malformed")]
    publish(WriteDeadTopic(server(letters)), rejected)
    ((key, value),) = letters.written()
    assert key is None and value is not None
    assert [json.loads(line)["position"] for line in value.splitlines()] == [-1, 3]


def test_writing_waits_for_a_broker_that_is_away(kafka_broker: KafkaBroker) -> None:
    topic = Topic(kafka_broker, "waiting")
    kafka_broker.kill()
    back = threading.Timer(4.0, kafka_broker.start)
    back.start()
    began = time.monotonic()
    publish(WriteTopic(server(topic), WRITE), [batch(0, 2, [b"a"])])
    assert time.monotonic() - began > 3
    back.join()
    assert len(of_keys(topic)) == 2 * 4


def test_a_topic_is_looked_up_before_a_run(kafka_broker: KafkaBroker) -> None:
    topic = Topic(kafka_broker, "looked-up")
    where = {"brokers": kafka_broker.address, "topic": topic.name}
    KafkaSink.model_validate({"kafka": where}).prepare(PLAN, (), False)  # type: ignore[arg-type]
    none = {"kafka": {**where, "topic": "none"}}
    with pytest.raises(ConfigError, match=r"sink\.kafka\.topic.*does not exist"):
        KafkaSink.model_validate(none).prepare(PLAN, (), False)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"dead_letters\.kafka\.topic.*does not exist"):
        DeadKafka.model_validate(none).prepare()
    compacted = Topic(kafka_broker, "compacted", 1, COMPACT)
    with pytest.raises(ConfigError, match=r"dead_letters\.kafka\.topic.*cleanup\.policy=delete"):
        DeadKafka.model_validate({"kafka": {**where, "topic": compacted.name}}).prepare()
    with pytest.raises(TopicRefused, match="takes no records without a key"):
        one = server(compacted)
        one.connect()
        one.send([KeyedRecord(None, b"{}")])


def test_a_record_that_is_too_large_ends_the_job_with_what_to_do(
    kafka_broker: KafkaBroker,
) -> None:
    topic = Topic(kafka_broker, "small", 1, {"max.message.bytes": "100"})
    one = server(topic)
    one.connect()
    with pytest.raises(TopicRefused, match=r"Raise max\.message\.bytes"):
        one.send(list(WRITE(batch(0, 1, [b"a"]))))


def test_releases_survive_three_kills(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Of a worker, a TaskManager and the broker: nothing is lost, and a repeat has equal bytes."""
    recording = Recording("sums", ticks=80)
    out = Topic(kafka_broker, "released", 2, COMPACT)
    sink = f"kafka: {{brokers: '{kafka_broker.address}', topic: {out.name}}}"
    with besieged_topic(
        flink_cluster, kafka_broker, recording, tmp_path, 1, led=True, fed=True, published=sink
    ) as (siege, _, feed):
        assert feed is not None
        siege.settle(1)
        siege.kill_worker(0)
        siege.settle(1)
        kafka_broker.kill()
        siege.kill_taskmanager(1)
        kafka_broker.start()
        feed.finish()
        assert siege.client.wait(240) == 0, siege.client.account
    cells: Cells = cells_of([json.loads(value) for value in of_keys(out).values()])
    assert not differences(cells, recording.releases)

"""Releases and dead letters into topics of a real server, and a feed out of a file."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from click.testing import CliRunner

from tests.pipelines.conftest import SMALL
from tests.pipelines.test_pubsub_config import STREAM
from tests.runners.messages import Post
from tests.transforms.releases import PLAN, batch
from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import loads
from weir.pipelines.connectors import pubsub as connectors
from weir.pipelines.engines.servers import PubSubServer
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.sources import pubsub
from weir.transforms.beam.publish import PublishReleases
from weir.transforms.beam.sinks import PublishDead
from weir.transforms.runtime.codec import batch_from_bytes
from weir.transforms.runtime.dead_letters import dead_letters


def publish(sink: beam.PTransform, batches: list[pa.RecordBatch]) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    source = pipeline | beam.Create(batches, reshuffle=False).with_output_types(pa.RecordBatch)
    source | sink
    pipeline.run().wait_until_finish()


@pytest.mark.parametrize("form", ["ndjson", "arrow"])
def test_a_consumer_that_keeps_the_first_of_an_id_has_every_release_once(
    pubsub_server: PubSubServer, form: str
) -> None:
    """The second run cuts its strides elsewhere, as a replay does."""
    with Post(pubsub_server.host, "releases") as post:
        sink = PublishReleases(post.topic, PLAN, form)
        publish(sink, [batch(0, 8, [b"a", b"b"])])
        publish(sink, [batch(0, 3, [b"a", b"b"]), batch(3, 5, [b"a", b"b"])])
        found = post.drain(post.subscription)
        assert len(found) == 16
        kept = {message.attributes["id"]: message.data for message in found}
        rows: list[dict[str, Any]] = []
        for data in kept.values():
            rows += (
                batch_from_bytes(data).to_pylist()
                if form == "arrow"
                else [json.loads(line) for line in data.splitlines()]
            )
        cells = {(row["key"], row["tick"], row["name"], row["over"], row["index"]) for row in rows}
        assert len(kept) == 8 and len(rows) == len(cells) == 8 * 2 * 4


def test_publishing_waits_for_a_server_that_is_away(pubsub_server: PubSubServer) -> None:
    with Post(pubsub_server.host, "waiting") as post:
        pubsub_server.down()
        back = threading.Timer(4.0, pubsub_server.up)
        back.start()
        began = time.monotonic()
        publish(PublishReleases(post.topic, PLAN), [batch(0, 2, [b"a"])])
        assert time.monotonic() - began > 3
        back.join()
        found = {message.attributes["id"] for message in post.drain(post.subscription)}
        assert len(found) == 2


def test_dead_letters_reach_their_topic_without_content(pubsub_server: PubSubServer) -> None:
    with Post(pubsub_server.host, "dead") as post:
        publish(PublishDead(post.topic), [dead_letters("s#m7", np.array([3, -1]), "malformed")])
        (message,) = post.drain(post.subscription)
        assert [json.loads(line) for line in message.data.splitlines()] == [
            {"source": "s#m7", "position": -1, "field": "", "reason": "malformed"},
            {"source": "s#m7", "position": 3, "field": "", "reason": "malformed"},
        ]


def test_a_subscription_is_looked_up_before_a_job_starts(
    pubsub_server: PubSubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(name: str, **more: str) -> list[str]:
        section = pubsub.SubscriptionConfig(subscription=name, **more)
        return list(pubsub.PubSubSource(pubsub=section).check())

    with Post(pubsub_server.host, "looked-up", ack_deadline=30) as post:
        with pytest.raises(ConfigError, match=r"ack_deadline.*write 30s"):
            asked(post.subscription)
        assert asked(post.subscription, ack_deadline="30s") == []
        with pytest.raises(ConfigError, match="does not exist"):
            asked(post.subscription + "-not")
        pubsub_server.down()
        monkeypatch.setattr(connectors, "ANSWER", 2.0)
        (note,) = asked(post.subscription, ack_deadline="30s")
        assert "cannot be looked up from here (ServiceUnavailable)" in note
        pubsub_server.up()  # channels wait a while before they look for a server again
        monkeypatch.setattr(connectors, "ANSWER", 60.0)
        assert asked(post.subscription, ack_deadline="30s") == []


def test_topics_are_looked_up_before_a_job_starts(
    pubsub_server: PubSubServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def prepare(role: str, topic: str) -> None:
        parts = parts_of(loads(STREAM, [f"{role}={{pubsub: {topic}}}"]))
        if role == "sink":
            parts.sink.prepare(parts.plan, parts.secrets, False)
        elif parts.letters is not None:
            parts.letters.prepare()

    monkeypatch.setattr(connectors, "ANSWER", 60.0)  # a busy machine takes its time
    with Post(pubsub_server.host, "looked-up") as post:
        for role in ("sink", "dead_letters"):
            prepare(role, post.topic)
            with pytest.raises(ConfigError, match="does not exist; create it") as refused:
                prepare(role, post.topic + "-not")
            assert refused.value.field == f"{role}.pubsub"
        assert not caplog.records
        pubsub_server.down()
        monkeypatch.setattr(connectors, "ANSWER", 2.0)
        prepare("dead_letters", post.topic)
        assert "cannot be looked up from here" in caplog.text


def test_a_recorded_stream_is_fed_at_its_speed_into_what_it_makes(
    pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    """Two hours at 3600 times real time are two seconds; the job is told how to follow."""
    config = tmp_path / "live.yaml"
    names = "projects/rehearsal/{}/fed-" + str(time.time_ns())
    topic, subscription = names.format("topics"), names.format("subscriptions")
    source = f"source: {{pubsub: {{subscription: {subscription}}}}}"
    config.write_text(SMALL.replace("source: {csv: events.csv}", source))
    hours = [f"2024-01-01T0{i // 50}:{i % 50:02d}:00Z,e{i},north,1\n" for i in range(150)]
    recorded = tmp_path / "r.csv"
    recorded.write_text("at,id,store,amount\n" + "".join(hours))
    words = ["feed", config, "--from", recorded, "--speed", 3600, "--create", "--to", topic]
    began = time.monotonic()
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    assert 2.5 < time.monotonic() - began < 20
    assert "made the topic" in result.stderr and "made the subscription" in result.stderr
    assert 'source.pubsub.replay={origin: "2024-01-01T00:00:00Z"' in result.stderr
    published = pubsub_server.messages(topic)
    events = [json.loads(line) for one in published for line in one.data.splitlines()]
    assert [event["id"] for event in events] == [f"e{i}" for i in range(150)]
    assert len(published) < 120, "several events a message"

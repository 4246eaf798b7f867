"""The sections of a config that speak of Pub/Sub, and the graphs that they build."""

from __future__ import annotations

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from google.api_core.exceptions import NotFound
from google.pubsub_v1.types import SeekRequest

from tests.pipelines.conftest import SMALL
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.sources.pubsub import PubSubSource
from weir.transforms.beam.publish import PublishReleases
from weir.transforms.beam.pubsub.read import ReadPubSub
from weir.transforms.beam.sinks import PublishDead
from weir.transforms.runtime.stream_time import PRESENT

SUB = "projects/acme-shop/subscriptions/purchases"
STREAM = SMALL.replace("source: {csv: events.csv}", f"source: {{pubsub: {{subscription: {SUB}}}}}")
TOPIC = "projects/acme-1/topics/all"


def stream(*sets: str) -> JobConfig:
    return loads(STREAM, sets)


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("source.pubsub.readers=0", "source.pubsub.readers", "1 to 256"),
        ("source.pubsub.ack_deadline=5s", "source.pubsub.ack_deadline", "10s to 600s"),
        ("source.pubsub.ack_deadline=10500ms", "source.pubsub.ack_deadline", "whole seconds"),
        ("source.pubsub.slack=10ms", "source.pubsub.slack", "100ms"),
        ("source.pubsub.replay={speed: 2}", "source.pubsub.replay.origin", "missing"),
        (
            "source.pubsub.replay={origin: 2024-01-01T00:00:00Z, started: 2026-01-01T00:00:00Z, "
            "speed: 0}",
            "source.pubsub.replay.speed",
            "above 0",
        ),
        ("sink={pubsub: releases}", "sink.pubsub", "projects/P/topics/T"),
        ("sink={parquet: out, format: arrow}", "sink.format", "for pubsub only"),
        (
            "dead_letters={pubsub: projects/acme-1/dead}",
            "dead_letters.pubsub",
            "projects/P/topics/T",
        ),
    ],
)
def test_what_is_refused(text: str, field: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        stream(text)
    assert refused.value.field == field


def test_what_a_subscription_is_read_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:1")
    job = stream("source.pubsub.timestamp=sent", "source.pubsub.ack_deadline=2m")
    assert isinstance(job.source, PubSubSource)
    found = job.source.subscription(Plan.from_config(job.plan_config()))
    assert (found.name, found.ack_seconds, found.slack) == (SUB, 120, 500_000)
    assert (found.timestamp, found.host, found.stream) == ("sent", "localhost:1", PRESENT)
    plain = loads(SMALL).source
    assert plain is not None and job.source.stream == PRESENT == plain.stream
    text = "{origin: 2024-01-01T00:00:00Z, started: 2026-01-01T00:00:00Z, speed: 24}"
    again = stream(f"source.pubsub.replay={text}").source
    assert again is not None
    replayed = again.stream
    assert replayed.at(replayed.started + 1_000_000) == replayed.origin + 24_000_000


def test_stamps_are_bounded_where_senders_say_when_events_arrived() -> None:
    """And only there do releases wait for them; heartbeats wait as long as the reader does."""
    replay = "{origin: 2024-01-01T00:00:00Z, started: 2026-01-01T00:00:00Z, speed: 24}"
    second, moment = 1_000_000, 1_800_000_000_000_000
    plain = ["source.pubsub.stamps_behind=5s", "source.pubsub.stamps_ahead=2m"]
    for sets, behind, ahead in (
        ([], 0, 0),
        (plain, 0, 0),
        (["schema.arrival=seen"], 2, 3600),
        (["source.pubsub.timestamp=sent"], 2, 3600),
        ([*plain, "schema.arrival=seen"], 5, 120),
        ([*plain, "source.pubsub.timestamp=sent", f"source.pubsub.replay={replay}"], 5, 120),
    ):
        job = stream(*sets)
        plan = Plan.from_config(job.plan_config())
        assert isinstance(job.source, PubSubSource)
        found = job.source.subscription(plan)
        assert (found.behind, found.ahead) == (behind * second, ahead * second)
        before = job.source.stream.at(moment - behind * second)
        assert job.source.arrivals(plan).at(moment) == before
    files = loads(SMALL).source
    assert files is not None and files.arrivals(plan) == PRESENT


@pytest.mark.parametrize("runner", ["", "DataflowRunner"])
def test_dataflow_gets_its_own_connector(runner: str) -> None:
    job = stream(*(["source.pubsub.id=copy"] if runner else []))
    plan = Plan.from_config(job.plan_config())
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(["--streaming"]))
    pipeline.options.view_as(StandardOptions).runner = runner or None
    assert job.source is not None
    transform = job.source.open(plan, job.limits)
    assert isinstance(transform, ReadPubSub)
    read = pipeline | "Read" >> transform
    assert read.events.element_type is pa.RecordBatch and read.dead is not None
    labels: list[str] = []

    class Look(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
            labels.append(f"{node.full_label} {type(node.transform).__name__}")

    pipeline.visit(Look())
    native = any("ReadNative" in label for label in labels)
    assert native == bool(runner), labels


class Seeks:
    """A server with snapshots, as far as they are asked for."""

    def __init__(self) -> None:
        self.asked: list[SeekRequest] = []

    def seek(self, request: dict[str, str], timeout: float) -> None:
        self.asked.append(SeekRequest(request))
        if not request["snapshot"].endswith("/before"):
            raise NotFound("no such snapshot")


def test_a_subscription_is_taken_back_to_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Seeks()
    monkeypatch.setattr("weir.transforms.runtime.pubsub_client.subscriber", lambda _: server)
    source = stream().source
    assert source is not None
    source.rewind("projects/acme-1/snapshots/before")
    (asked,) = server.asked
    assert (asked.subscription, asked.snapshot) == (SUB, "projects/acme-1/snapshots/before")
    assert not asked.time, "to a snapshot, not to a moment"
    with pytest.raises(ConfigError, match=r"--rewind.*NotFound.*projects/P/snapshots/NAME"):
        source.rewind("projects/acme-1/snapshots/gone")
    files = loads(SMALL).source
    assert files is not None
    with pytest.raises(ConfigError, match="csv has no snapshots"):
        files.rewind("projects/acme-1/snapshots/before")


def test_topics_take_releases_and_dead_letters() -> None:
    job = stream(f"sink={{pubsub: {TOPIC}, format: arrow}}", f"dead_letters={{pubsub: {TOPIC}}}")
    plan = Plan.from_config(job.plan_config())
    assert job.sink is not None and job.dead_letters is not None
    assert isinstance(job.sink.open(plan), PublishReleases)
    assert isinstance(job.dead_letters.open(), PublishDead)
    assert job.sink.place is None and job.dead_letters.place is None

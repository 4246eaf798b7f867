"""Events from a topic of Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from weir.dpcore.config import durations
from weir.dpcore.config.clock import Duration
from weir.dpcore.config.section import refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.kafka import RegisteredTopic, look_up
from weir.pipelines.sources.payload import MessageFormat
from weir.pipelines.sources.pubsub import Replay
from weir.pipelines.sources.source import Limits, Source, schema_of
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

OURS = {
    "auto.offset.reset": "Write source.kafka.start.",
    "bootstrap.servers": "Write source.kafka.brokers.",
    "enable.auto.commit": "",
    "enable.auto.offset.store": "",
    "enable.partition.eof": "",
    "group.id": "Write source.kafka.group.",
    "group.instance.id": "",
    "isolation.level": "Write source.kafka.isolation.",
    "partition.assignment.strategy": "",
}
"""Properties that the source sets itself, as its guarantees need them -> what to write instead."""


class TopicConfig(RegisteredTopic):
    """Events from a topic of Kafka, every partition of it.

    An event's arrival stamp, by which it is late or not, is the column schema.arrival, within
    bounds, else the stamp of its record: the broker's (LogAppendTime), or the producer's
    (CreateTime).
    """

    section: ClassVar[str] = "source.kafka"
    ours: ClassVar[Mapping[str, str]] = OURS

    payload: Annotated[str, MessageFormat(("confluent_avro", "protobuf"))] = Field(
        default="ndjson",
        description="What the value of a record holds: one JSON object, lines of JSON, an Avro "
        "container, an Arrow stream, one Avro record with the id of its schema (registry), or one "
        "message of protocol buffers (descriptors). Keys and headers are not read.",
        examples=["ndjson"],
    )
    descriptors: str | None = Field(
        default=None,
        description="File of descriptors, as `protoc --include_imports --descriptor_set_out` "
        "writes it; for protobuf. It is read where the job is started.",
        examples=["/etc/weir/purchases.desc"],
    )
    message: str | None = Field(
        default=None,
        description="Full name of the type of the messages; for protobuf.",
        examples=["acme.shop.Purchase"],
    )
    start: str = Field(
        description="Where a new stream begins: earliest (all that the topic still holds), latest "
        "(what comes from now on), or the time of the first record.",
        examples=["earliest"],
    )
    readers: int = Field(
        default=1,
        description="Over how many readers the partitions are spread, each with a consumer of its "
        "own. A stream keeps the number that it began with.",
        examples=[2],
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed",
        description="Whether records of transactions count when they are committed, or at once.",
        examples=["read_committed"],
    )
    slack: Duration = Field(
        default="500ms",
        description="How long after its stamp a record may become readable, and clocks of brokers "
        "and workers may differ.",
        examples=["500ms"],
    )
    stamps_behind: Duration = Field(
        default="2s",
        description="How long before the stamp of its record an arrival (schema.arrival) may lie; "
        "an earlier one counts as this long before. Where arrivals are declared, releases wait so "
        "much longer. A replay takes arrivals as they are.",
        examples=["30s"],
    )
    stamps_ahead: Duration = Field(
        default="1h",
        description="How long after the stamp of its record an arrival may lie; a later one counts "
        "as this long after.",
        examples=["5m"],
    )
    group: str | None = Field(
        default=None,
        description="Consumer group that offsets are committed for, so that monitors show the lag. "
        "Nothing is read by it: offsets lie in checkpoints.",
        examples=["weir-purchases"],
    )
    replay: Replay | None = Field(
        default=None,
        description="Stream time of a recorded stream that is fed again.",
        examples=["{origin: 2013-01-01T05:00:00Z, started: 2026-01-01T12:00:00Z, speed: 24}"],
    )

    @property
    def begins(self) -> Any:
        """earliest, latest, or a time in microseconds since 1970."""
        if self.start in ("earliest", "latest"):
            return self.start
        return durations.timestamp(self.start)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.start not in ("earliest", "latest"):
            try:
                durations.timestamp(self.start)
            except ValueError:
                raise refusal(
                    "start",
                    self.start,
                    "is no place to begin. Write earliest, latest, or a time like "
                    "2026-01-01T00:00:00Z.",
                ) from None
        if not 1 <= self.readers <= 256:
            raise refusal("readers", self.readers, "must be from 1 to 256.")
        if durations.duration(self.slack) < 100_000:
            raise refusal("slack", self.slack, "must be 100ms or longer.")
        needs = {"confluent_avro": ("registry",), "protobuf": ("descriptors", "message")}
        self._check_needs(f"payload {self.payload}", needs)
        if self.descriptors is not None and not PurePosixPath(self.descriptors).is_absolute():
            raise refusal("descriptors", self.descriptors, "must be an absolute path.")
        return self


class KafkaSource(Source):
    """A topic of Kafka."""

    kind: ClassVar[str] = "kafka"
    bounded: ClassVar[bool] = False
    noun: ClassVar[str] = "a topic"

    kafka: TopicConfig = Field(
        description="A topic of Kafka.",
        examples=["{brokers: 'kafka.acme.example:9092', topic: purchases, start: earliest}"],
    )

    @property
    def form(self) -> str:
        return "ndjson" if self.payload == "json" else self.payload

    @property
    def payload(self) -> str:
        """What records hold, as all streams have it; see transforms.sources.kafka.values."""
        own = self.kafka.payload
        return {"confluent_avro": "avro", "protobuf": "json"}.get(own, own)

    def _values(self) -> Any:
        """What makes payloads of values; None where they are payloads."""
        from weir.transforms.sources.kafka.values import ConfluentAvro, Protobuf

        section = self.kafka
        registry = section.schemas
        if registry is not None:
            return ConfluentAvro(registry)
        if section.descriptors is None or section.message is None:
            return None
        try:
            descriptors = Path(section.descriptors).read_bytes()
        except OSError as error:
            raise ConfigError(
                "source.kafka.descriptors",
                section.descriptors,
                f"cannot be read ({type(error).__name__}). Write the path of a file of protoc.",
            ) from None
        return Protobuf(descriptors, section.message)

    @property
    def stream(self) -> StreamTime:
        return PRESENT if self.kafka.replay is None else self.kafka.replay.to_stream()

    def open(self, plan: Plan, limits: Limits) -> Any:
        """The reader of the topic. Connects to nothing."""
        from weir.transforms.beam.kafka.source import ReadKafka
        from weir.transforms.beam.pubsub.messages import MessageDecoder

        section = self.kafka
        decoder = MessageDecoder(self.payload, schema_of(plan), section.topic, limits.line_bytes)
        topic = replace(self.topic(plan, limits), values=self._values())
        return ReadKafka(topic, decoder, plan.clock)

    def arrivals(self, plan: Plan) -> StreamTime:
        earliest: StreamTime = self.topic(plan, Limits()).earliest
        return earliest

    def topic(self, plan: Plan, limits: Limits) -> Any:
        """As its reader takes it."""
        from weir.transforms.sources.kafka.topic import KafkaTopic

        section, declared = self.kafka, plan.config.schema_.arrival is not None
        behind, ahead = (
            durations.duration(length) if declared else 0
            for length in (section.stamps_behind, section.stamps_ahead)
        )
        return KafkaTopic(
            name=section.topic,
            properties=section.properties,
            start=section.begins,
            readers=section.readers,
            committed=section.isolation == "read_committed",
            slack=durations.duration(section.slack),
            ahead=durations.duration(limits.ahead),
            stamps_behind=behind,
            stamps_ahead=ahead,
            stream=self.stream,
            group=section.group,
        )

    def check(self) -> Iterator[str]:
        """Asks for the topic; brokers may be reachable for workers though not from here.

        Raises:
          ConfigError: there is none of that name, or a property or a secret is wrong.
        """
        section = self.kafka
        settings = look_up(section)
        if isinstance(settings, str):
            yield settings
            return
        if settings.get("message.timestamp.type") == "CreateTime":
            yield (
                f"topic {section.topic} has the stamps of its producers (CreateTime). Set "
                "message.timestamp.type=LogAppendTime: a replay of the topic then gives the same "
                "releases, and a backlog is released while it is read."
            )
        if "compact" in settings.get("cleanup.policy", ""):
            yield (
                f"topic {section.topic} is compacted: records that a later one of their key "
                "replaces may be gone before they are read. Set cleanup.policy=delete."
            )

    def seal(self, key: bytes) -> tuple[str | None, Source]:
        return f"{self.kafka.brokers}/{self.kafka.topic}", self


__all__ = ["KafkaSource", "TopicConfig"]

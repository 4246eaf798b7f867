"""Releases and dead letters as records of a Kafka topic."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.kafka import RegisteredTopic, TopicSection, look_up
from weir.pipelines.sinks.dead_letters import DeadLetters
from weir.pipelines.sinks.sink import Secrets, Sink

OURS = {
    "acks": "",
    "bootstrap.servers": "Write {}.brokers.",
    "delivery.timeout.ms": "",
    "enable.idempotence": "",
    "message.timeout.ms": "",
    "request.required.acks": "",
    "transactional.id": "",
}
"""Properties that a sink sets itself, so that no record is lost -> what to write instead."""
_log = logging.getLogger(__name__)


class ReleaseTopic(RegisteredTopic):
    """A topic that releases are written to.

    A record is a row, under a key of its own: what a replay writes again has the same bytes, so a
    reader keeps any record of a key. A compacted topic (cleanup.policy=compact) does that itself.
    """

    section: ClassVar[str] = "sink.kafka"
    ours: ClassVar[Mapping[str, str]] = {k: v.format("sink.kafka") for k, v in OURS.items()}

    format: Literal["json", "avro"] = Field(
        default="json",
        description="What a value holds: a JSON object, or one Avro record with the id of its "
        "schema (registry). Keys are JSON objects.",
        examples=["avro"],
    )

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        self._check_needs(f"format {self.format}", {"avro": ("registry",)})
        return self


class DeadTopicSection(TopicSection):
    """A topic that dead letters are written to, as JSON lines."""

    section: ClassVar[str] = "dead_letters.kafka"
    ours: ClassVar[Mapping[str, str]] = {k: v.format("dead_letters.kafka") for k, v in OURS.items()}


class KafkaSink(Sink):
    """A topic of Kafka."""

    kind: ClassVar[str] = "kafka"

    kafka: ReleaseTopic = Field(
        description="A topic of Kafka.",
        examples=["{brokers: 'kafka.acme.example:9092', topic: releases}"],
    )

    @property
    def named(self) -> str:
        return f"topic {self.kafka.topic} of Kafka"

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        settings = look_up(self.kafka)
        if isinstance(settings, str):
            _log.warning(settings)
        return False

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.kafka.sink import WriteTopic
        from weir.transforms.release.few import shape_for
        from weir.transforms.sinks.kafka import ReleaseRecords, TopicServer, columns_of

        section, shape = self.kafka, shape_for(plan, self.layout)
        columns = columns_of(plan, shape) if section.format == "avro" else None
        server = TopicServer(section.topic, section.properties, section.schemas, columns)
        return WriteTopic(server, ReleaseRecords(shape, columns))


class DeadKafka(DeadLetters):
    """A topic of Kafka."""

    kind: ClassVar[str] = "kafka"

    kafka: DeadTopicSection = Field(
        description="A topic of Kafka.",
        examples=["{brokers: 'kafka.acme.example:9092', topic: dead-letters}"],
    )

    def prepare(self) -> None:
        settings = look_up(self.kafka)
        if isinstance(settings, str):
            _log.warning(settings)
        elif "compact" in settings.get("cleanup.policy", ""):
            raise ConfigError(
                "dead_letters.kafka.topic",
                self.kafka.topic,
                "is compacted, which takes no records without a key, as dead letters are. Set "
                "cleanup.policy=delete.",
            )

    def open(self) -> Any:
        from weir.transforms.beam.kafka.sink import WriteDeadTopic
        from weir.transforms.sinks.kafka import TopicServer

        return WriteDeadTopic(TopicServer(self.kafka.topic, self.kafka.properties))


__all__ = ["DeadKafka", "KafkaSink", "ReleaseTopic"]

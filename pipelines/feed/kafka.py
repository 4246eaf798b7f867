"""A fed stream into a topic of Kafka: several events a record, in any payload a job can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.pipelines.feed.messages import MessageTarget
from weir.pipelines.sources.kafka import KafkaSource
from weir.pipelines.sources.source import Source
from weir.transforms.sources.kafka.clients import library
from weir.transforms.sources.kafka.properties import ClientProperties

SCHEME = "kafka://"
PARTITIONS = 4
"""Of a topic that is made."""
ANSWER = 60.0
"""Seconds that brokers have to take what is sent."""


def place_of(where: str) -> tuple[str, str]:
    """``kafka://HOST:PORT/TOPIC`` -> brokers and topic.

    Raises:
      ConfigError: it is written in another way.
    """
    brokers, slash, topic = where.removeprefix(SCHEME).partition("/")
    if not slash or ":" not in brokers or not topic or "/" in topic:
        raise ConfigError("--to", where, "must look like kafka://HOST:PORT/TOPIC.")
    return brokers, topic


def properties_of(brokers: str, source: Source | None) -> ClientProperties:
    """Of clients of these brokers: as the source of a config has them, where it reads Kafka."""
    if not isinstance(source, KafkaSource):
        return ClientProperties(brokers)
    own = source.kafka.properties
    return ClientProperties(brokers, own.plain, own.secrets)


class KafkaTarget(MessageTarget):
    """Sends; a write returns when the brokers have it. Records have no key.

    Args:
      where: kafka://HOST:PORT/TOPIC.
      payload: name of a format of messages.
      per_message: events of one record, at most.
      source: of the config, whose options its clients have.
    """

    def __init__(
        self,
        where: str,
        payload: str,
        per_message: int | None = None,
        source: Source | None = None,
    ) -> None:
        super().__init__(payload, per_message)
        brokers, self._topic = place_of(where)
        properties = properties_of(brokers, source).of_producer()
        self._producer = library().Producer({**properties, "enable.idempotence": True})

    def write(self, batch: pa.RecordBatch, broken: Sequence[bool]) -> None:
        """Sends every row, and waits."""
        refused: list[str] = []

        def note(error: Any, _: Any) -> None:
            if error is not None:
                refused.append(str(error.name()))

        for value in self.payloads(batch, broken):
            while True:
                try:
                    self._producer.produce(self._topic, value, on_delivery=note)
                    break
                except BufferError:
                    self._producer.poll(0.1)
        if self._producer.flush(ANSWER) or refused:
            code = refused[0] if refused else f"no answer for {ANSWER:.0f} s"
            raise ConfigError(
                "--to", self._topic, f"does not take what is sent ({code}). Correct the topic or "
                "the brokers, and begin again."
            )  # fmt: skip

    def close(self) -> None:
        """Nothing is left to be done."""


def create(where: str, source: Source | None) -> list[str]:
    """Makes a topic whose broker stamps its records, where there is none.

    Returns:
      what was made, as sentences.

    Raises:
      ConfigError: the brokers refuse.
    """
    brokers, topic = place_of(where)
    client = library()
    admin = client.admin.AdminClient(properties_of(brokers, source).of_producer())
    new = client.admin.NewTopic(
        topic, PARTITIONS, config={"message.timestamp.type": "LogAppendTime"}
    )
    try:
        admin.create_topics([new], request_timeout=ANSWER)[topic].result()
    except client.KafkaException as error:
        code = error.args[0].name()
        if code == "TOPIC_ALREADY_EXISTS":
            return []
        raise ConfigError("--to", where, f"cannot be made ({code}).") from None
    return [f"made the topic {topic}"]


__all__ = ["SCHEME", "KafkaTarget", "create"]

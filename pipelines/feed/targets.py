"""Where a fed stream goes: a file, standard output, or a topic, several events a message."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.pipelines.feed.messages import MessageTarget
from weir.pipelines.sources.source import Source
from weir.transforms.beam.publish import CALL_BYTES, CALL_MESSAGES, Outgoing, publish
from weir.transforms.decode.encoding import TextForm
from weir.transforms.formats.format import Flags, Format
from weir.transforms.formats.lines import iso_times
from weir.transforms.formats.registry import (
    FORMATS,
    file_formats,
    format_of,
    suffixes,
)
from weir.transforms.runtime.pubsub_client import emulator, publisher


class TopicTarget(MessageTarget):
    """Publishes into Pub/Sub; a write returns when the server has it.

    PUBSUB_EMULATOR_HOST is honoured, as in every Pub/Sub client.

    Args:
      topic: projects/P/topics/T.
      payload, per_message: as of MessageTarget.
      client: a PublisherClient, for tests.
    """

    def __init__(
        self, topic: str, payload: str, per_message: int | None = None, client: Any = None
    ) -> None:
        super().__init__(payload, per_message)
        self._topic = topic
        self._client = client or publisher(emulator())

    def write(self, batch: pa.RecordBatch, broken: Sequence[bool]) -> None:
        """One or several calls."""
        held: list[Outgoing] = []
        size = 0
        for data in self.payloads(batch, broken):
            if held and (len(held) >= CALL_MESSAGES or size + len(data) > CALL_BYTES):
                publish(self._client, self._topic, held)
                held, size = [], 0
            held.append(Outgoing(data, {}))
            size += len(data) + 100
        if held:
            publish(self._client, self._topic, held)

    def close(self) -> None:
        """Nothing is left to be done."""


def create(topic: str, source: Source | None) -> list[str]:
    """Makes a topic, and what a job reads it by, where they are not there yet.

    Args:
      topic: projects/P/topics/T, or kafka://HOST:PORT/TOPIC.
      source: of the job; None makes the topic only.

    Returns:
      what was made, as sentences.
    """
    if topic.startswith("kafka://"):
        from weir.pipelines.feed import kafka

        return kafka.create(topic, source)
    from google.api_core.exceptions import AlreadyExists

    built = []
    try:
        publisher(emulator()).create_topic(name=topic, timeout=30)
        built.append(f"made the topic {topic}")
    except AlreadyExists:
        pass
    return built if source is None else [*built, *source.subscribe(topic)]


class FeedTarget(Protocol):
    """Takes batches until it is closed."""

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        """Sends every row; those flagged as broken are sent as something that cannot be read."""

    def close(self) -> None:
        """Waits until everything is there."""


class FileTarget:
    """A file or standard output. Lines hold timestamps in ISO 8601."""

    def __init__(self, handle: BinaryIO, form: Format, text: TextForm | None) -> None:
        if text is not None and form.name == "csv":
            form = FORMATS.of(form.name, text)
        self._is_text, self._writer = form.is_text, form.writer(handle)

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        self._writer.write(iso_times(batch) if self._is_text else batch, broken)

    def close(self) -> None:
        self._writer.close()


def open_target(
    where: str,
    form: str | None,
    per_message: int | None = None,
    text: TextForm | None = None,
    source: Source | None = None,
) -> FeedTarget:
    """``-``, a file name, or a topic -> a target.

    Args:
      per_message: events of a message, for a topic.
      text: how CSV is written.
      source: of the config, whose options clients of Kafka have.

    Raises:
      ConfigError: what it is cannot be told, or a client library is missing.
    """
    if where == "-":
        named = _file_format(form or "ndjson")
        if not named.is_text:
            raise ConfigError("--format", form, "must be csv or ndjson on standard output.")
        return FileTarget(sys.stdout.buffer, named, text)
    if where.startswith("projects/") and "/topics/" in where:
        return TopicTarget(where, form or "ndjson", per_message)
    if where.startswith("kafka://"):
        from weir.pipelines.feed.kafka import KafkaTarget

        return KafkaTarget(where, form or "ndjson", per_message, source)
    result = format_of(where) if form is None else _file_format(form)
    if result is None:
        raise ConfigError(
            "--to",
            where,
            "must be -, a topic like projects/P/topics/T or kafka://HOST:PORT/TOPIC, or a file "
            f"that ends in {suffixes()}; or say --format.",
        )
    try:
        handle = Path(where).open("wb")  # noqa: SIM115 - the target closes it
    except OSError as error:
        raise ConfigError("--to", where, f"cannot be written: {error.strerror}.") from None
    return FileTarget(handle, result, text)


def _file_format(name: str) -> Format:
    if name not in file_formats():
        raise ConfigError("--format", name, f"must be one of {', '.join(file_formats())}.")
    return FORMATS[name]

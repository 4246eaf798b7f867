"""A fed stream into a Pub/Sub topic: several events a message, in any payload a job can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.pipelines.sources.source import Source
from weir.transforms.formats.registry import FORMATS, message_formats
from weir.transforms.runtime.pubsub_client import emulator, publisher
from weir.transforms.sinks.pubsub import CALL_BYTES, CALL_MESSAGES, Outgoing, publish

PER_MESSAGE = 100
"""Events of one message, where the payload holds several."""


class TopicTarget:
    """Publishes; a write returns when the server has it.

    PUBSUB_EMULATOR_HOST is honoured, as in every Pub/Sub client.

    Args:
      topic: projects/P/topics/T.
      payload: name of a format of messages.
      per_message: events of one message, at most.
      client: a PublisherClient, for tests.
    """

    def __init__(
        self, topic: str, payload: str, per_message: int | None = None, client: Any = None
    ) -> None:
        if payload not in message_formats():
            known = ", ".join(message_formats())
            raise ConfigError("--format", payload, f"must be one of {known} for a topic.")
        self._topic, self._format = topic, FORMATS[payload]
        most = self._format.most_per_message
        self._per = per_message or most or PER_MESSAGE
        if most is not None and self._per > most:
            raise ConfigError(
                "--per-message", per_message, f"must be {most} for {payload}; use ndjson."
            )
        self._client = client or publisher(emulator())

    def write(self, batch: pa.RecordBatch, broken: Sequence[bool]) -> None:
        """One or several calls."""
        held: list[Outgoing] = []
        size = 0
        for start in range(0, batch.num_rows, self._per):
            part = batch.slice(start, self._per)
            data = self._format.encode(part, broken[start : start + self._per])
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
      topic: projects/P/topics/T.
      source: of the job; None makes the topic only.

    Returns:
      what was made, as sentences.
    """
    from google.api_core.exceptions import AlreadyExists

    made = []
    try:
        publisher(emulator()).create_topic(name=topic, timeout=30)
        made.append(f"made the topic {topic}")
    except AlreadyExists:
        pass
    return made if source is None else [*made, *source.subscribe(topic)]

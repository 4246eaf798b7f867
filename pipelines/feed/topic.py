"""A fed stream into a Pub/Sub topic: several events a message, in any payload a job can read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.pipelines.feed.rows import avro_schema, lines_of, spoilt
from weir.pipelines.sources.source import Source
from weir.transforms.beam.publish import CALL_BYTES, CALL_MESSAGES, Outgoing, publish
from weir.transforms.runtime.codec import batch_to_bytes
from weir.transforms.runtime.pubsub_client import emulator, publisher

PAYLOADS = ("json", "ndjson", "avro", "arrow")
PER_MESSAGE = 100
"""Events of one message, where the payload holds several."""


class TopicTarget:
    """Publishes; a write returns when the server has it.

    PUBSUB_EMULATOR_HOST is honoured, as in every Pub/Sub client.

    Args:
      topic: projects/P/topics/T.
      payload: json, ndjson, avro or arrow.
      per_message: events of one message, at most; 1 for json.
      client: a PublisherClient, for tests.
    """

    def __init__(
        self, topic: str, payload: str, per_message: int | None = None, client: Any = None
    ) -> None:
        if payload not in PAYLOADS:
            raise ConfigError(
                "--format", payload, f"must be one of {', '.join(PAYLOADS)} for a topic."
            )
        if payload == "json" and per_message not in (None, 1):
            raise ConfigError("--per-message", per_message, "must be 1 for json; use ndjson.")
        self._topic, self._payload = topic, payload
        self._per = 1 if payload == "json" else per_message or PER_MESSAGE
        self._client = client or publisher(emulator())

    def write(self, batch: pa.RecordBatch, broken: Sequence[bool]) -> None:
        """One or several calls."""
        held: list[Outgoing] = []
        size = 0
        for start in range(0, batch.num_rows, self._per):
            part = batch.slice(start, self._per)
            data = encode(part, self._payload, broken[start : start + self._per])
            if held and (len(held) >= CALL_MESSAGES or size + len(data) > CALL_BYTES):
                publish(self._client, self._topic, held)
                held, size = [], 0
            held.append(Outgoing(data, {}))
            size += len(data) + 100
        if held:
            publish(self._client, self._topic, held)

    def close(self) -> None:
        """Nothing is left to be done."""


def encode(batch: pa.RecordBatch, payload: str, broken: Sequence[bool]) -> bytes:
    """Rows as the payload of one message."""
    if payload in ("json", "ndjson"):
        return b"\n".join(lines_of(batch, "ndjson", broken))
    batch = spoilt(batch, broken)
    if payload == "arrow":
        return batch_to_bytes(batch)
    import fastavro

    out = io.BytesIO()
    fastavro.writer(out, avro_schema(batch.schema), batch.to_pylist())
    return out.getvalue()


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

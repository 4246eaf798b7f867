"""Batches of a fed stream as messages of a topic, several events a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.formats.registry import FORMATS, message_formats

PER_MESSAGE = 100
"""Events of one message, where the payload holds several."""


class MessageTarget:
    """A topic of any kind.

    Args:
      payload: name of a format of messages.
      per_message: events of one message, at most.

    Raises:
      ConfigError: the format is not for messages, or not for so many events.
    """

    def __init__(self, payload: str, per_message: int | None = None) -> None:
        if payload not in message_formats():
            known = ", ".join(message_formats())
            raise ConfigError("--format", payload, f"must be one of {known} for a topic.")
        self._format = FORMATS[payload]
        most = self._format.most_per_message
        self._per = per_message or most or PER_MESSAGE
        if most is not None and self._per > most:
            raise ConfigError(
                "--per-message", per_message, f"must be {most} for {payload}; use ndjson."
            )

    def payloads(self, batch: pa.RecordBatch, broken: Sequence[bool]) -> Iterator[bytes]:
        """The payload of each message."""
        for start in range(0, batch.num_rows, self._per):
            part = batch.slice(start, self._per)
            yield self._format.encode(part, broken[start : start + self._per])

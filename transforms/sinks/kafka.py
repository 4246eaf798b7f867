"""Releases and dead letters as records of a Kafka topic.

The key of a release's record says what it is about (release, key, tick, name, over, index, label),
and the value what it says. A retry, a restart or a resume writes again what was written before:
records of the same keys and the same bytes, so it does not matter which of them a reader keeps. The
producer is idempotent, so that within one process no record is written twice, and none overtakes
another.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from weir.dpcore.errors import WeirError
from weir.dpcore.plan import Plan
from weir.transforms.release.few import FEW_SCHEMA, Shape
from weir.transforms.release.flat import Flat
from weir.transforms.release.table import (
    INTERVAL_SCHEMA,
    PACKED_SCHEMA,
    RELEASE_SCHEMA,
    has_intervals,
    releases_only,
)
from weir.transforms.runtime.fence import Fatal
from weir.transforms.sinks.formats import json_lines
from weir.transforms.sinks.sorted_table import file_table, sorted_table
from weir.transforms.sources.kafka.clients import library, refused_property
from weir.transforms.sources.kafka.faults import REFUSALS
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.registry import SchemaAway, SchemaRefused, SchemaRegistry

KEY = ("release", "key", "tick", "name", "over", "index", "label")
"""Columns of a record's key, as far as the layout has them."""
PATIENCE = 600.0
"""Seconds for which a record is sent again before its bundle fails."""
AGAIN = 1.0
"""Seconds between tries of what was refused."""
_ROWS = 1 << 14
_PRODUCER = {
    "enable.idempotence": True,
    "linger.ms": 5,
    "delivery.timeout.ms": int(PATIENCE * 1000),
    # As clients in Java choose partitions, so that topics can be joined by their keys.
    "partitioner": "murmur2_random",
}


class TopicRefused(Fatal):
    """A topic that is not there, may not be written to, or does not take these records."""


class KeyedRecord(NamedTuple):
    """A record to be written."""

    key: bytes | None
    data: bytes


@dataclass(frozen=True)
class ReleaseRecords:
    """Release batches -> records, one a row.

    Attributes:
      shape: how vectors become rows; None: as lists of every coordinate.
      columns: of rows as Avro, to which ``TopicServer`` adds the id of their schema; None: JSON.
    """

    shape: Shape | None
    columns: pa.Schema | None = None

    def __call__(self, batch: pa.RecordBatch) -> Iterator[KeyedRecord]:
        """Rows in the order of ticks, keys and names."""
        whole = sorted_table([releases_only(batch)]).table
        if self.shape is not None and whole.num_rows:
            whole = self.shape.table(whole)
        for start in range(0, whole.num_rows, _ROWS):
            rows = whole.slice(start, _ROWS)
            names = [name for name in KEY if name in rows.schema.names]
            values = self._values(rows)
            for key, value in zip(json_lines(rows.select(names)), values, strict=True):
                yield KeyedRecord(key[:-1].encode(), value)

    def _values(self, rows: pa.Table) -> Iterator[bytes]:
        if self.columns is None:
            yield from (line[:-1].encode() for line in json_lines(rows))
            return
        import fastavro

        schema = fastavro.parse_schema(avro_schema(self.columns))
        for row in file_table(rows).cast(self.columns).to_pylist():
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, row)
            yield out.getvalue()


def columns_of(plan: Plan, shape: Shape | None) -> pa.Schema:
    """Columns of the rows of a plan's releases."""
    if isinstance(shape, Flat):
        return RELEASE_SCHEMA
    if shape is not None:
        return FEW_SCHEMA
    return INTERVAL_SCHEMA if has_intervals(plan) else PACKED_SCHEMA


def avro_schema(columns: pa.Schema) -> dict[str, Any]:
    """The Avro schema of rows of releases; every field may be null, and is by default."""
    fields = [
        {"name": field.name, "type": ["null", _avro_type(field.type)], "default": None}
        for field in columns
    ]
    return {"type": "record", "name": "Release", "namespace": "weir", "fields": fields}


def _avro_type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _avro_type(kind.value_type)]}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_int32(kind):
        return "int"
    if pa.types.is_integer(kind):
        return "long"
    return "double" if pa.types.is_floating(kind) else "string"


class TopicServer:
    """Writes to a topic; see transforms.beam.publish.Server. Connects on the worker.

    Args:
      topic: its name. properties: of librdkafka's clients.
      registry: of schemas, where values are Avro. columns: of the rows, then.
      now, sleep: seconds, for tests.
    """

    def __init__(
        self,
        topic: str,
        properties: ClientProperties,
        registry: SchemaRegistry | None = None,
        columns: pa.Schema | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._topic, self._properties = topic, properties
        self._registry, self._columns = registry, columns
        self._now, self._sleep = now, sleep
        self._producer: Any = None
        self._prefix = b""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_producer": None}

    def connect(self) -> None:
        """Makes the producer.

        Raises:
          ConfigError: a secret cannot be read, a property is none of librdkafka's, or the library
            is not installed.
        """
        client = library(self._properties.section)
        properties = {**_PRODUCER, **self._properties.of_producer()}
        try:
            self._producer = client.Producer(properties)
        except client.KafkaException as error:
            raise refused_property(self._properties, error) from None

    def send(self, messages: Sequence[KeyedRecord]) -> None:
        """See Server."""
        if self._registry is not None and not self._prefix:
            self._prefix = b"\0" + self._id(self._registry).to_bytes(4, "big")
        if self._producer is None:
            self.connect()
        began, left = self._now(), list(messages)
        while left:
            failed = self._try(left)
            left = [message for message, _ in failed]
            for _, code in failed:
                if code not in REFUSALS:
                    self._producer = None  # after a fatal error it would take nothing any more
                    raise self._failure(code)
                if self._now() - began >= REFUSALS[code]:
                    raise self._refusal(code)
            if left:
                self._sleep(AGAIN)

    def _try(self, messages: Sequence[KeyedRecord]) -> list[tuple[KeyedRecord, str]]:
        """Sends each once; returns those that were not taken, each with the code of its error."""
        failed: list[tuple[int, str]] = []

        def delivered(place: int) -> Callable[[Any, Any], None]:
            def note(error: Any, _: Any) -> None:
                if error is not None:
                    failed.append((place, str(error.name())))

            return note

        client = library(self._properties.section)
        for place, message in enumerate(messages):
            value = self._prefix + message.data
            while True:
                try:
                    self._producer.produce(
                        self._topic, value, message.key, on_delivery=delivered(place)
                    )
                except BufferError:
                    self._producer.poll(0.1)
                    continue
                except client.KafkaException as error:
                    failed.append((place, str(error.args[0].name())))
                break
        self._producer.flush()
        return [(messages[place], code) for place, code in sorted(failed)]

    def _id(self, registry: SchemaRegistry) -> int:
        """The id of the schema; waits for a registry that is away."""
        schema = json.dumps(avro_schema(self._columns), separators=(",", ":"))
        began = self._now()
        while True:
            try:
                return registry.register(f"{self._topic}-value", schema)
            except SchemaRefused as refused:
                raise TopicRefused(
                    f"the schema registry does not take the schema of {self._topic}-value "
                    f"({refused}): another one is there already, or the login may not add any. "
                    "Write to a topic of its own, or correct the login."
                ) from None
            except SchemaAway as away:
                if self._now() - began >= PATIENCE:
                    raise WeirError(f"the schema registry does not answer: {away}.") from None
            self._sleep(AGAIN)

    def _failure(self, code: str) -> WeirError:
        if code == "MSG_SIZE_TOO_LARGE":
            return TopicRefused(
                f"a record is larger than topic {self._topic} takes. Raise max.message.bytes of "
                "the topic, or write sink.layout: flat."
            )
        if code == "INVALID_RECORD":
            return TopicRefused(
                f"topic {self._topic} takes no records without a key: it is compacted. Set "
                "cleanup.policy=delete, and start again from where this ended."
            )
        if code == "_MSG_TIMED_OUT":
            return WeirError(
                f"the brokers of topic {self._topic} take no records, for {PATIENCE:.0f} s by now "
                "(_MSG_TIMED_OUT). Start again from where this ended once they answer."
            )
        return WeirError(f"writing to topic {self._topic} failed: {code}.")

    def _refusal(self, code: str) -> TopicRefused:
        answers = f"topic {self._topic} answers {code}, for {REFUSALS[code]:.0f} s by now"
        if code.startswith(("UNKNOWN", "_UNKNOWN")):
            return TopicRefused(
                f"{answers}: it was deleted. Create it, and start again from where this ended."
            )
        return TopicRefused(
            f"{answers}: the workers may not write to it. Grant them the right, or correct "
            f"{self._properties.section}.options, and start again from where this ended."
        )


__all__ = [
    "KEY", "KeyedRecord", "ReleaseRecords", "TopicRefused", "TopicServer", "avro_schema",
    "columns_of",
]  # fmt: skip

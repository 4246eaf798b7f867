"""Dead letters for the operator: a folder of small files, named by their content, or a topic."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from weir.transforms.beam.publish import Outgoing, Publish
from weir.transforms.runtime.dead_letters import DEAD_SCHEMA
from weir.transforms.sinks import place

ROWS = 1 << 16
MESSAGE_ROWS = 1_000
"""Dead letters of one message."""


def encode(table: pa.Table, form: str) -> bytes:
    """Dead letters as parquet, csv or ndjson."""
    if form == "ndjson":
        return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    out = io.BytesIO()
    if form == "csv":
        pa.csv.write_csv(table, out)
    else:
        pq.write_table(table, out, store_schema=False)
    return out.getvalue()


class WriteDeadDoFn(beam.DoFn):
    """Batches of DEAD_SCHEMA -> names of files; a repeat of the same bundle makes the same file."""

    def __init__(self, folder: str, form: str) -> None:
        self._folder, self._form = folder, form
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._rows = [], 0

    def process(self, batch: pa.RecordBatch) -> None:
        """Gathers; a long bundle writes in between."""
        if not batch.schema.equals(DEAD_SCHEMA):
            raise TypeError("only dead letters go here.")
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROWS:
            self._write()

    def finish_bundle(self) -> None:
        """Writes what is left."""
        if self._rows:
            self._write()

    def _write(self) -> None:
        content = encode(in_order(self._held), self._form)
        name = f"dead-{hashlib.sha256(content).hexdigest()[:24]}.{self._form}"
        place.put(place.join(self._folder, name), content)
        self._held, self._rows = [], 0


def in_order(batches: list[pa.RecordBatch]) -> pa.Table:
    """Dead letters of several batches, sorted, without dictionaries."""
    table = pa.Table.from_batches(batches).unify_dictionaries()
    plain = table.cast(pa.schema([(f.name, _plain(f.type)) for f in table.schema]))
    return plain.sort_by([(name, "ascending") for name in plain.schema.names])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@beam.typehints.with_input_types(pa.RecordBatch)
class WriteDead(beam.PTransform[Any, Any]):
    """Dead letters -> a folder. Holds source, position, field and reason, never content."""

    def __init__(self, folder: str, form: str = "parquet") -> None:
        super().__init__()
        self._folder, self._form = folder, form

    def expand(self, dead: beam.PCollection[pa.RecordBatch]) -> Any:
        """See WriteDeadDoFn."""
        return dead | "Write" >> beam.ParDo(WriteDeadDoFn(self._folder, self._form))


def to_messages(batch: pa.RecordBatch) -> Iterator[Outgoing]:
    """Dead letters as lines of JSON; the attribute id is the same when they come again."""
    if not batch.schema.equals(DEAD_SCHEMA):
        raise TypeError("only dead letters go here.")
    table = in_order([batch])
    for start in range(0, table.num_rows, MESSAGE_ROWS):
        data = encode(table.slice(start, MESSAGE_ROWS), "ndjson")
        name = hashlib.blake2b(data, digest_size=16).hexdigest()
        yield Outgoing(data, {"id": name})


@beam.typehints.with_input_types(pa.RecordBatch)
class PublishDead(beam.PTransform[Any, Any]):
    """Dead letters -> a Pub/Sub topic, as lines of JSON: source, position, field, reason."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def expand(self, dead: beam.PCollection[pa.RecordBatch]) -> Any:
        """See Publish."""
        return dead | "Publish" >> beam.ParDo(Publish(self._topic, to_messages, "published_dead"))


__all__ = ["PublishDead", "WriteDead", "WriteDeadDoFn", "encode"]

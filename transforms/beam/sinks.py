"""Sinks of a Beam pipeline: releases are all they take, and dead letters go to those for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa

from weir.dpcore.plan import Plan
from weir.transforms.beam.publish import Outgoing, Publish, PubSubTopic
from weir.transforms.beam.step import Step
from weir.transforms.release.few import Few, shape_for
from weir.transforms.release.flat import Layout
from weir.transforms.release.table import has_intervals
from weir.transforms.runtime import fence
from weir.transforms.runtime.dead_letters import DEAD_SCHEMA
from weir.transforms.sinks.dead_letters import MESSAGE_ROWS, WriteDead, encode, in_order
from weir.transforms.sinks.targets import bigquery_schema, to_records


@beam.typehints.with_input_types(pa.RecordBatch)
class WriteBigQuery(beam.PTransform[Any, Any]):
    """Appends releases to a table through Beam's connector; a retry may append a row again.

    Readers keep one row of each (release, key, tick, name, over, index): repeats are identical.

    Args:
      table: project:dataset.table. plan: of the releases.
      layout: of vectors: a row a coordinate (flat), or repeated fields (packed).
    """

    def __init__(self, table: str, plan: Plan, layout: Layout = "flat") -> None:
        super().__init__()
        self._table, self._layout = table, layout
        self._shape, self._intervals = shape_for(plan, layout), has_intervals(plan)

    def expand(self, releases: beam.PCollection[pa.RecordBatch]) -> Any:
        """Release batches -> rows."""
        from apache_beam.io.gcp.bigquery import BigQueryDisposition, WriteToBigQuery

        records = releases | "Records" >> beam.FlatMap(
            to_records, self._shape, fence.current().inner
        ).with_output_types(dict)
        return records | "Append" >> WriteToBigQuery(
            self._table,
            schema=bigquery_schema(self._layout, isinstance(self._shape, Few), self._intervals),
            create_disposition=BigQueryDisposition.CREATE_IF_NEEDED,
            write_disposition=BigQueryDisposition.WRITE_APPEND,
        )


class WriteDeadDoFn(Step):
    """Batches of DEAD_SCHEMA -> files; a repeat of the same bundle makes the same file."""

    def __init__(self, folder: str, form: str) -> None:
        self._write = WriteDead(folder, form)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._write.reset()

    def process(self, batch: pa.RecordBatch) -> None:
        """Gathers; a long bundle writes in between."""
        self._write.process(batch)

    def finish_bundle(self) -> None:
        """Writes what is left."""
        self._write.finish()


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
        return dead | "Publish" >> beam.ParDo(
            Publish(PubSubTopic(self._topic), to_messages, "published_dead")
        )

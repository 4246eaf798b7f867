"""Dead letters for the operator: a folder of small files, named by their content."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from transforms import sinks_place
from transforms.dead_letters import DEAD_SCHEMA

ROWS = 1 << 16


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
        table = pa.Table.from_batches(self._held).unify_dictionaries()
        plain = table.cast(pa.schema([(f.name, _plain(f.type)) for f in table.schema]))
        content = encode(
            plain.sort_by([(name, "ascending") for name in plain.schema.names]), self._form
        )
        name = f"dead-{hashlib.sha256(content).hexdigest()[:24]}.{self._form}"
        sinks_place.put(sinks_place.join(self._folder, name), content)
        self._held, self._rows = [], 0


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@beam.typehints.with_input_types(pa.RecordBatch)
class WriteDead(beam.PTransform):
    """Dead letters -> a folder. Holds source, position and reason, never content."""

    def __init__(self, folder: str, form: str = "parquet") -> None:
        super().__init__()
        self._folder, self._form = folder, form

    def expand(self, dead: beam.PCollection[pa.RecordBatch]) -> Any:
        """See WriteDeadDoFn."""
        return dead | "Write" >> beam.ParDo(WriteDeadDoFn(self._folder, self._form))


__all__ = ["WriteDead", "WriteDeadDoFn", "encode"]

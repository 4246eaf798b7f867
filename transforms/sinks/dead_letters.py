"""Dead letters for the operator: a folder of small files, named by their content, or a topic."""

from __future__ import annotations

import hashlib
import io
import json

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

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


class WriteDead:
    """Batches of DEAD_SCHEMA -> files of a folder, each named by its content: a repeat makes the
    same file. They hold source, position, field and reason, never content."""

    def __init__(self, folder: str, form: str) -> None:
        self._folder, self._form = folder, form
        self.reset()

    def apart(self) -> WriteDead:
        """Another for the same folder: for a thread of its own."""
        return WriteDead(self._folder, self._form)

    def rest(self) -> list[pa.RecordBatch]:
        """What was not written, which is then forgotten."""
        held = self._held
        self.reset()
        return held

    def reset(self) -> None:
        """Drops what was not written."""
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def process(self, batch: pa.RecordBatch) -> None:
        """Gathers, and writes where many are there."""
        if not batch.schema.equals(DEAD_SCHEMA):
            raise TypeError("only dead letters go here.")
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROWS:
            self.finish()

    def finish(self) -> None:
        """Writes what is left."""
        if not self._rows:
            return
        content = encode(in_order(self._held), self._form)
        name = f"dead-{hashlib.sha256(content).hexdigest()[:24]}.{self._form}"
        place.put(place.join(self._folder, name), content)
        self.reset()


def in_order(batches: list[pa.RecordBatch]) -> pa.Table:
    """Dead letters of several batches, sorted, without dictionaries."""
    table = pa.Table.from_batches(batches).unify_dictionaries()
    plain = table.cast(pa.schema([(f.name, _plain(f.type)) for f in table.schema]))
    return plain.sort_by([(name, "ascending") for name in plain.schema.names])


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


__all__ = ["MESSAGE_ROWS", "WriteDead", "encode", "in_order"]

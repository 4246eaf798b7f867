"""Rows of a fed stream as text or Avro, and what a record looks like that cannot be read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from weir.transforms.decode.quoted_text import quoted_chunks
from weir.transforms.decode.text_form import TextForm

BROKEN = b'{"broken'
"""What a malformed line of a rehearsal looks like."""

Flags = Sequence[bool]


def lines_of(
    batch: pa.RecordBatch, form: str, broken: Flags, text: TextForm | None = None
) -> list[bytes]:
    """Rows as lines (with quoted newlines: records) of UTF-8 without their line ends.

    Args:
      form: csv or ndjson. text: how CSV is written.
    """
    if form == "csv":
        text = text or TextForm()
        if text.columns is not None:
            batch = _in_order(batch, text.columns)
        sink = io.BytesIO()
        options = pyarrow.csv.WriteOptions(
            include_header=False, quoting_style="needed", delimiter=text.delimiter
        )
        pyarrow.csv.write_csv(pa.Table.from_batches([_plain(batch)]), sink, options)
        data = sink.getvalue()
        lines = data.split(b"\n")[: batch.num_rows]
        if data.count(b"\n") != batch.num_rows:
            pieces = quoted_chunks(io.BytesIO(data).read, text.delimiter, line_bytes=len(data))
            lines = [line for piece in pieces for line in piece.lines()]
    else:
        lines = [orjson.dumps(row, option=orjson.OPT_UTC_Z) for row in _plain(batch).to_pylist()]
    return [BROKEN if bad else line for line, bad in zip(lines, broken, strict=True)]


def _in_order(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The columns of a file without a header; those that nothing needs are empty."""
    nothing = pa.nulls(batch.num_rows, pa.string())
    there = set(batch.schema.names)
    return pa.RecordBatch.from_arrays(
        [batch.column(name) if name in there else nothing for name in columns], list(columns)
    )


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Timestamps as ISO 8601 text that every reader takes."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            text = pa.compute.strftime(column, format="%Y-%m-%dT%H:%M:%S")
            column = pa.compute.binary_join_element_wise(text, "Z", "")
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


def spoilt(batch: pa.RecordBatch, broken: Flags) -> pa.RecordBatch:
    """A batch in which every column of a row flagged as broken is null."""
    if not any(broken):
        return batch
    good = pa.array([not bad for bad in broken])
    return pa.RecordBatch.from_pydict(
        {
            name: pa.compute.if_else(good, column, pa.scalar(None, column.type))
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
    )


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Arrow schema -> Avro record in which every field may be null."""

    def kind(arrow: pa.DataType) -> Any:
        if pa.types.is_timestamp(arrow):
            return {"type": "long", "logicalType": "timestamp-micros"}
        if pa.types.is_boolean(arrow):
            return "boolean"
        if pa.types.is_integer(arrow):
            return "long"
        if pa.types.is_list(arrow):
            return {"type": "array", "items": kind(arrow.value_type)}
        return "double" if pa.types.is_floating(arrow) else "string"

    return {
        "type": "record",
        "name": "event",
        "fields": [{"name": field.name, "type": ["null", kind(field.type)]} for field in schema],
    }

"""Where a fed stream goes: a file of any format, standard output, or a Pub/Sub topic."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq

from dpcore.errors import ConfigError, WeirError

SUFFIXES = {
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".avro": "avro",
}
BROKEN = b'{"broken'
"""What a malformed line of a rehearsal looks like."""

Flags = Sequence[bool]


class Target(Protocol):
    """Takes batches until it is closed."""

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        """Sends every row; those flagged as broken are sent as something that cannot be read."""

    def close(self) -> None:
        """Waits until everything is there."""


def open_target(where: str, form: str | None, header: bool = True) -> Target:
    """``-``, a file name, or a topic -> a target.

    Raises:
      ConfigError: what it is cannot be told, or a client library is missing.
    """
    if where == "-":
        return LineTarget(sys.stdout.buffer, _text_format(form or "ndjson"), header)
    if where.startswith("projects/") and "/topics/" in where:
        return PubSubTarget(where, form or "ndjson")
    form = form or SUFFIXES.get(Path(where).suffix.lower())
    if form is None:
        raise ConfigError(
            "--to",
            where,
            "must be -, a topic like projects/P/topics/T, or a file that ends in "
            f"{', '.join(SUFFIXES)}; or say --format.",
        )
    try:
        handle = Path(where).open("wb")  # noqa: SIM115 - the target closes it
    except OSError as error:
        raise ConfigError("--to", where, f"cannot be written: {error.strerror}.") from None
    if form in ("csv", "ndjson"):
        return LineTarget(handle, form, header)
    return BinaryTarget(handle, form)


def _text_format(form: str) -> str:
    if form not in ("csv", "ndjson"):
        raise ConfigError("--format", form, "must be csv or ndjson on standard output.")
    return form


def lines_of(batch: pa.RecordBatch, form: str, broken: Flags) -> list[bytes]:
    """Rows as lines without their line ends."""
    if form == "csv":
        sink = io.BytesIO()
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        pyarrow.csv.write_csv(pa.Table.from_batches([_plain(batch)]), sink, options)
        lines = sink.getvalue().split(b"\n")[: batch.num_rows]
    else:
        lines = [orjson.dumps(row, option=orjson.OPT_UTC_Z) for row in _plain(batch).to_pylist()]
    return [BROKEN if bad else line for line, bad in zip(lines, broken, strict=True)]


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Timestamps as ISO 8601 text that every reader takes."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            text = pa.compute.strftime(column, format="%Y-%m-%dT%H:%M:%S")
            column = pa.compute.binary_join_element_wise(text, "Z", "")
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


class LineTarget:
    """CSV or NDJSON lines into a file or standard output."""

    def __init__(self, handle: BinaryIO, form: str, header: bool) -> None:
        self._handle = handle
        self._form = form
        self._header = header and form == "csv"

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        if self._header:
            names = ",".join(f'"{name}"' if "," in name else name for name in batch.schema.names)
            self._handle.write(names.encode() + b"\n")
            self._header = False
        lines = lines_of(batch, self._form, broken)
        if lines:
            self._handle.write(b"\n".join(lines) + b"\n")
        self._handle.flush()

    def close(self) -> None:
        if self._handle is not sys.stdout.buffer:
            self._handle.close()


class BinaryTarget:
    """Parquet, Arrow IPC or Avro. A malformed row has nulls in all its columns."""

    def __init__(self, handle: BinaryIO, form: str) -> None:
        if form not in ("parquet", "arrow", "avro"):
            raise ConfigError("--format", form, "must be csv, ndjson, parquet, arrow or avro.")
        self._handle = handle
        self._form = form
        self._writer: Any = None
        self._rows: list[dict[str, Any]] = []
        self._schema: pa.Schema | None = None

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        if any(broken):
            good = pa.array([not bad for bad in broken])
            batch = pa.RecordBatch.from_pydict(
                {
                    name: pa.compute.if_else(good, column, pa.scalar(None, column.type))
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
            )
        if self._schema is None:
            self._schema = batch.schema
            if self._form == "parquet":
                self._writer = pq.ParquetWriter(self._handle, batch.schema)
            elif self._form == "arrow":
                self._writer = pa.ipc.new_file(self._handle, batch.schema)
        if self._form == "avro":
            self._rows.extend(batch.to_pylist())
        else:
            self._writer.write_batch(batch)

    def close(self) -> None:
        if self._form == "avro" and self._schema is not None:
            import fastavro

            fastavro.writer(self._handle, avro_schema(self._schema), self._rows)
        if self._writer is not None:
            self._writer.close()
        self._handle.close()


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """Arrow schema -> Avro record in which every field may be null."""

    def kind(arrow: pa.DataType) -> Any:
        if pa.types.is_timestamp(arrow):
            return {"type": "long", "logicalType": "timestamp-micros"}
        if pa.types.is_boolean(arrow):
            return "boolean"
        if pa.types.is_integer(arrow):
            return "long"
        return "double" if pa.types.is_floating(arrow) else "string"

    return {
        "type": "record",
        "name": "event",
        "fields": [{"name": field.name, "type": ["null", kind(field.type)]} for field in schema],
    }


class PubSubTarget:
    """One event a message. PUBSUB_EMULATOR_HOST is honoured, as in every Pub/Sub client."""

    def __init__(self, topic: str, form: str, client: Any = None) -> None:
        if form not in ("ndjson", "csv"):
            raise ConfigError("--format", form, "must be ndjson or csv for a Pub/Sub topic.")
        self._topic = topic
        self._form = form
        self._pending: list[Any] = []
        self._client = client or self._connect()

    def _connect(self) -> Any:
        try:
            from google.cloud import pubsub_v1
        except ImportError:
            raise ConfigError(
                "--to", self._topic, "needs google-cloud-pubsub: pip install weir[pubsub]."
            ) from None
        settings = pubsub_v1.types.BatchSettings(max_messages=1000, max_latency=0.05)
        return pubsub_v1.PublisherClient(batch_settings=settings)

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        publish: Callable[..., Any] = self._client.publish
        for line in lines_of(batch, self._form, broken):
            self._pending.append(publish(self._topic, line))
        if len(self._pending) > 50_000:
            self._wait()

    def _wait(self) -> None:
        for future in self._pending:
            try:
                future.result(timeout=60)
            except Exception as error:  # the client's errors are many; only their kind is told
                raise WeirError(
                    f"publishing to {self._topic} failed: {type(error).__name__}."
                ) from None
        self._pending.clear()

    def close(self) -> None:
        self._wait()

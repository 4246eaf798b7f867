"""Where a fed stream goes: a file of any format, standard output, or a Pub/Sub topic."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from weir.dpcore.errors import ConfigError
from weir.pipelines.feed.rows import Flags, avro_schema, lines_of, spoilt
from weir.pipelines.feed.topic import TopicTarget
from weir.transforms.decode.encoding import UTF_8
from weir.transforms.decode.text_form import TextForm

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
LINES = ("csv", "ndjson")
"""Formats that a terminal can show."""


class Target(Protocol):
    """Takes batches until it is closed."""

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        """Sends every row; those flagged as broken are sent as something that cannot be read."""

    def close(self) -> None:
        """Waits until everything is there."""


def open_target(
    where: str,
    form: str | None,
    per_message: int | None = None,
    text: TextForm | None = None,
) -> Target:
    """``-``, a file name, or a topic -> a target.

    Args:
      per_message: events of a message, for a topic.
      text: how CSV is written.

    Raises:
      ConfigError: what it is cannot be told, or a client library is missing.
    """
    if where == "-":
        return LineTarget(sys.stdout.buffer, _text_format(form or "ndjson"), text)
    if where.startswith("projects/") and "/topics/" in where:
        return TopicTarget(where, form or "ndjson", per_message)
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
    if form in LINES:
        return LineTarget(handle, form, text)
    return BinaryTarget(handle, form)


def _text_format(form: str) -> str:
    if form not in LINES:
        raise ConfigError("--format", form, "must be csv or ndjson on standard output.")
    return form


def _quoted(name: str, delimiter: str) -> str:
    """A name in a header."""
    odd = any(mark in name for mark in (delimiter, '"', "\r", "\n"))
    return '"' + name.replace('"', '""') + '"' if odd else name


class LineTarget:
    """CSV or NDJSON lines into a file or standard output."""

    def __init__(self, handle: BinaryIO, form: str, text: TextForm | None = None) -> None:
        self._handle = handle
        self._form = form
        self._text = TextForm() if text is None or form != "csv" else text
        self._header = form == "csv" and self._text.columns is None
        self._encoder = codecs.getincrementalencoder(self._text.encoding)()

    def write(self, batch: pa.RecordBatch, broken: Flags) -> None:
        if self._header:
            mark = self._text.delimiter
            names = mark.join(_quoted(name, mark) for name in batch.schema.names)
            self._put(names.encode() + b"\n")
            self._header = False
        lines = lines_of(batch, self._form, broken, self._text)
        if lines:
            self._put(b"\n".join(lines) + b"\n")
        self._handle.flush()

    def _put(self, data: bytes) -> None:
        if self._text.encoding != UTF_8:
            try:
                data = self._encoder.encode(data.decode())
            except UnicodeEncodeError:
                raise ConfigError(
                    "source.encoding",
                    self._text.encoding,
                    "has not all letters of these events; feed another format, or use utf-8.",
                ) from None
        self._handle.write(data)

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
        batch = spoilt(batch, broken)
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

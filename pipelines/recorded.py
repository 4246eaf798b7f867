"""Reading a recorded stream back, batch by batch, in the order of its file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from dpcore.errors import ConfigError
from pipelines.config import JobConfig
from pipelines.feed_targets import SUFFIXES
from transforms.event_schema import EPOCH_MICROSECONDS

ROWS = 1 << 14


def read_batches(path: Path, config: JobConfig) -> Iterator[pa.RecordBatch]:
    """A recorded file in batches.

    Raises:
      ConfigError: no such file, not a format known here, or not readable; never quotes its content.
    """
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise ConfigError("--from", str(path), f"must end in one of {', '.join(SUFFIXES)}.")
    try:
        for batch in _READERS[form](path):
            if config.schema_.time.column not in batch.schema.names:
                raise ConfigError(
                    "schema.time.column",
                    config.schema_.time.column,
                    f"is not a column of {path.name}: {', '.join(batch.schema.names)}.",
                )
            yield batch
    except FileNotFoundError:
        raise ConfigError("--from", str(path), "is no file.") from None
    except (pa.ArrowInvalid, orjson.JSONDecodeError, ValueError, OSError) as error:
        # A parser's text quotes the line it failed on.
        raise ConfigError(
            "--from", str(path), f"cannot be read as {form} ({type(error).__name__})."
        ) from None


def _csv(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as handle:
        names = handle.readline().decode().strip()
    columns = pyarrow.csv.read_csv(pa.BufferReader((names + "\n").encode())).schema.names
    convert = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()))
    yield from pyarrow.csv.open_csv(path, convert_options=convert)


def _ndjson(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as handle:
        while lines := list(islice(handle, ROWS)):
            rows = [orjson.loads(line) for line in lines if line.strip()]
            if rows:
                yield pa.RecordBatch.from_pylist(rows)


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(path).iter_batches(ROWS)


def _arrow(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as handle:
        try:
            reader = pa.ipc.open_file(handle)
            batches: Any = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pa.ArrowInvalid:
            handle.seek(0)
            batches = pa.ipc.open_stream(handle)
        yield from batches


def _avro(path: Path) -> Iterator[pa.RecordBatch]:
    import fastavro

    with path.open("rb") as handle:
        rows = iter(fastavro.reader(handle))
        while part := list(islice(rows, ROWS)):
            yield pa.RecordBatch.from_pylist(part)


_READERS = {
    "csv": _csv,
    "ndjson": _ndjson,
    "parquet": _parquet,
    "arrow": _arrow,
    "avro": _avro,
}


def times_of(batch: pa.RecordBatch, config: JobConfig) -> float:
    """Event time of the first row in seconds since 1970; only for pacing a replay.

    Raises:
      ConfigError: it does not match schema.time; never quotes it.
    """
    column = config.schema_.time
    value = batch.column(column.column)[0].as_py()
    try:
        if column.format in EPOCH_MICROSECONDS:
            return float(value) * EPOCH_MICROSECONDS[column.format] / 1e6
        if not isinstance(value, datetime):
            text = str(value)
            value = (
                datetime.strptime(text, column.format)
                if column.format
                else datetime.fromisoformat(text)
            )
        if value.tzinfo is None:
            value = value.replace(tzinfo=ZoneInfo(column.zone) if column.zone else UTC)
        return value.timestamp()
    except (TypeError, ValueError):
        raise ConfigError(
            "schema.time.format",
            column.format,
            "does not fit a recorded event, so --speed cannot pace it; use --rate.",
        ) from None

"""Reading a recorded stream back, batch by batch, in the order of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed.targets import SUFFIXES
from weir.pipelines.results.events import arrow_batches
from weir.transforms.decode.csv import parse_header
from weir.transforms.decode.encoding import UTF_8, Recoded
from weir.transforms.decode.lines import chunks, without_marks
from weir.transforms.decode.parquet import parquet_groups, whole_batches
from weir.transforms.decode.schema import Stamp
from weir.transforms.decode.text_form import TextForm
from weir.transforms.decode.time import to_time
from weir.transforms.sources.regular import require_regular

ROWS = 1 << 14


def read_batches(path: Path, config: JobConfig) -> Iterator[pa.RecordBatch]:
    """A recorded file in batches.

    Raises:
      ConfigError: no such file, a pipe, not a format known here, or not readable; never quotes its
        content.
    """
    form = SUFFIXES.get(path.suffix.lower())
    if form is None:
        raise ConfigError("--from", str(path), f"must end in one of {', '.join(SUFFIXES)}.")
    require_regular(str(path), "--from")
    try:
        for batch in _csv(path, config) if form == "csv" else _READERS[form](path):
            if config.schema_.time.column not in batch.schema.names:
                raise ConfigError(
                    "schema.time.column",
                    config.schema_.time.column,
                    f"is not a column of {path.name}; name one that is.",
                )
            yield batch
    except FileNotFoundError:
        raise ConfigError("--from", str(path), "is no file.") from None
    except ConfigError:
        raise
    except Exception as error:
        # Parsers raise whatever their input leads them to, and quote the line they failed on.
        raise ConfigError(
            "--from", str(path), f"cannot be read as {form} ({type(error).__name__})."
        ) from None


def _csv(path: Path, config: JobConfig) -> Iterator[pa.RecordBatch]:
    """CSV, written as the texts of the config's own source."""
    source = config.source
    text = TextForm() if source is None else source.text_form()
    parse = pyarrow.csv.ParseOptions(
        delimiter=text.delimiter, newlines_in_values=text.quoted_newlines
    )
    names = text.columns
    if names is None:
        with path.open("rb") as handle:
            read = handle.read if text.encoding == UTF_8 else _recoded(handle, text)
            first = next(chunks(read, chunk_bytes=ROWS), None)
            if first is None or not len(first):
                return
            names = parse_header(first.line(0), text.delimiter, path.name)
    yield from pyarrow.csv.open_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(
            column_names=list(names),
            skip_rows=0 if text.columns is not None else 1,
            encoding=text.encoding,
        ),
        parse_options=parse,
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def _recoded(handle: BinaryIO, text: TextForm) -> Callable[[int], bytes]:
    return Recoded(handle.read, text.encoding, text.line_bytes).read


def _ndjson(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as handle:
        while lines := list(islice(handle, ROWS)):
            rows = [orjson.loads(line) for line in map(without_marks, lines) if line.strip()]
            if rows:
                yield pa.RecordBatch.from_pylist(rows)


def _parquet(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file:
        groups = parquet_groups(file)
        if groups is None:
            raise ValueError
        yield from whole_batches(file, groups, ROWS)


def _arrow(path: Path) -> Iterator[pa.RecordBatch]:
    yield from arrow_batches(path)[1]


def _avro(path: Path) -> Iterator[pa.RecordBatch]:
    import fastavro

    with path.open("rb") as handle:
        rows = iter(fastavro.reader(handle))
        while part := list(islice(rows, ROWS)):
            yield pa.RecordBatch.from_pylist(part)


_READERS = {
    "ndjson": _ndjson,
    "parquet": _parquet,
    "arrow": _arrow,
    "avro": _avro,
}


def moments_of(batch: pa.RecordBatch, config: JobConfig) -> NDArray[np.int64]:
    """When each event arrived, as far as the recording says: (n,) microseconds since 1970.

    That is schema.arrival where it is declared, else the event time. Only for pacing a replay.

    Raises:
      ConfigError: a time cannot be read; never quotes it.
    """
    role = "time" if config.schema_.arrival is None else "arrival"
    column = config.schema_.arrival or config.schema_.time
    stamp = Stamp(column.column, column.format, column.zone or "UTC", f"schema.{role}")
    found = to_time(batch.column(column.column), stamp, "the recording")
    if found.null_count:
        raise ConfigError(
            f"schema.{role}.format",
            column.format,
            "does not fit a recorded event, so --speed cannot pace it; use --rate.",
        )
    return np.asarray(found.view(pa.int64()).to_numpy())

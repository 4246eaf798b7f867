"""The files of a folder of results: which there are, and their rows in one shape."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from numpy.typing import NDArray

from weir.pipelines.results.packed import GROUP, NONE_SPARSE, Sizes, packed, widened
from weir.transforms.release.few import INDICES
from weir.transforms.release.table import INTERVAL
from weir.transforms.sinks.formats import given_back

_FILE = re.compile(r"ticks-(\d+)-(\d+)(?:[-.].*)?\.(parquet|csv|ndjson)\Z")
HELD_FOLDER = "_held"
"""Folder inside it of what is not published yet."""
_BATCH_ROWS = 1 << 20
_TIME = pa.timestamp("us", tz="UTC")
TYPES: dict[str, pa.DataType] = {
    "release": pa.string(),
    "key": pa.string(),
    "tick": pa.int64(),
    "tick_start": _TIME,
    "tick_end": _TIME,
    "name": pa.string(),
    "over": pa.int64(),
    "value": pa.list_(pa.float64()),
    "stddev": pa.list_(pa.float64()),
    "epsilon": pa.float64(),
    "delta": pa.float64(),
    "window": pa.int64(),
    "plan": pa.string(),
}
"""Columns of a row in memory: one a vector."""
LIST_TYPES = TYPES | dict.fromkeys(INTERVAL, pa.list_(pa.float64()))
"""And the ends of margins of error, where they are read."""
FLAT_TYPES = (
    TYPES | {"index": pa.int64()} | dict.fromkeys(("value", "stddev", *INTERVAL), pa.float64())
)
"""Columns that are read of a file with a row for each coordinate."""
PACKED_TYPES = LIST_TYPES | {INDICES: pa.list_(pa.int32())}
"""Columns that are read of a file with a row for each vector, some without their zeros."""


@dataclass(frozen=True)
class ResultFile:
    """One file of results and the ticks it covers, both ends included."""

    path: Path
    first: int
    last: int

    @property
    def format(self) -> str:
        """parquet, csv or ndjson."""
        return self.path.suffix[1:]


def result_files(directory: Path) -> tuple[ResultFile, ...]:
    """The files of results in a folder, in order of ticks; anything else in it is passed over."""
    found = []
    for path in directory.iterdir() if directory.is_dir() else ():
        match = _FILE.match(path.name)
        if match:
            found.append(ResultFile(path, int(match[1]), int(match[2])))
    return tuple(sorted(found, key=lambda file: (file.first, file.last, file.path.name)))


def read_file(
    file: ResultFile, columns: Sequence[str], sizes: Sizes = NONE_SPARSE
) -> Iterator[pa.RecordBatch]:
    """Rows of one file with exactly these columns, one a vector, whichever layout the file has.

    Key and name are dictionary-encoded, value and stddev lists. sizes: of sparse vectors, whose
    zeros a flat file leaves out (``Run.sizes``).
    """
    there = columns_of(file)
    names = [name for name in columns if name not in INTERVAL or name in there]
    if len(names) < len(columns):  # an earlier version wrote it, or no margin is an interval
        for batch in read_file(file, names, sizes):
            ends = pa.nulls(batch.num_rows, LIST_TYPES[INTERVAL[0]])
            every = {
                **dict(zip(names, batch.columns, strict=True)),
                **dict.fromkeys(INTERVAL, ends),
            }
            yield pa.RecordBatch.from_arrays([every[name] for name in columns], list(columns))
        return
    if INDICES in there and "value" in names:
        more = [name for name in (INDICES, "name", "over") if name not in names]
        for batch in rows_in(file, PACKED_TYPES, [*names, *more]):
            yield widened(batch, sizes).select(names)
        return
    if "index" not in there:
        yield from rows_in(file, LIST_TYPES, names)
        return
    more = [name for name in ("index", *GROUP) if name not in names]
    for batch in packed(rows_in(file, FLAT_TYPES, [*names, *more]), sizes):
        yield batch.select(names)


def is_flat(file: ResultFile) -> bool:
    """Whether a file has a row for each coordinate, and not lists."""
    return "index" in columns_of(file)


def columns_of(file: ResultFile) -> list[str]:
    """Names of the columns of a file; none of an empty one."""
    if file.format == "parquet":
        return list(pq.read_schema(file.path).names)
    with open(file.path, encoding="utf-8") as text:
        line = text.readline()
    names = csv.reader([line]) if file.format == "csv" else iter([json.loads(line or "{}")])
    return list(next(names, ()))


def rows_in(
    file: ResultFile, types: Mapping[str, pa.DataType], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Rows as they are in a file."""
    if file.format == "parquet":
        reader = pq.ParquetFile(file.path, read_dictionary=["key", "name", "release", "plan"])
        raw: Iterator[pa.RecordBatch] = reader.iter_batches(_BATCH_ROWS, columns=names)
    elif file.format == "csv":
        kinds = {n: pa.string() if pa.types.is_list(types[n]) else types[n] for n in names}
        options = pa.csv.ConvertOptions(
            include_columns=names,
            column_types=kinds,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        lines = pa.csv.ParseOptions(newlines_in_values=True)
        raw = iter(pa.csv.open_csv(file.path, parse_options=lines, convert_options=options))
    elif not file.path.stat().st_size:
        raw = iter(())  # no key was live: Arrow knows no NDJSON without a line
    else:
        schema = pa.schema([(name, types[name]) for name in names])
        options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        raw = iter(pa.json.read_json(file.path, parse_options=options).to_batches())
    for batch in raw:
        columns = {name: batch.column(name) for name in names}
        if file.format == "csv":
            texts = (name for name in names if pa.types.is_string(types[name]))
            columns |= {name: given_back(columns[name]) for name in texts}
        arrays = [_normal(columns[name], name, types[name]) for name in names]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _normal(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if name in ("key", "name"):
        if not pa.types.is_dictionary(array.type):
            array = pc.dictionary_encode(pc.fill_null(pc.cast(array, pa.string()), ""))
        return array
    if pa.types.is_list(kind) and pa.types.is_string(array.type):
        return lists_of(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type == kind else pc.cast(array, kind)


def lists_of(text: pa.Array) -> pa.Array:
    """JSON lists of numbers as text -> list<double>; empty text and null -> null."""
    stripped = pc.utf8_trim(text, " []")
    stripped = pc.if_else(pc.equal(stripped, ""), pa.scalar(None, pa.string()), stripped)
    parts = pc.split_pattern(stripped, ",")
    flat = pc.utf8_trim_whitespace(parts.flatten())
    flat = pc.if_else(pc.is_in(flat, pa.array(["null", "NaN"])), "nan", flat)
    lengths = pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    valid = pc.is_valid(parts)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pc.cast(flat, pa.float64()), mask=pc.invert(valid)
    )


def matrix(array: pa.Array, rows: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    """Some rows of a list column: rows (n,) -> (n, width) float64, NaN where there is none."""
    out = np.full((len(rows), width), np.nan)
    if not len(rows) or not len(array.values):
        return out
    offsets = array.offsets.to_numpy()
    numbers = array.values.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    begin, length = offsets[rows], offsets[rows + 1] - offsets[rows]
    whole = length >= width
    if array.null_count:
        whole &= ~array.is_null().to_numpy(zero_copy_only=False)[rows]
    out[whole] = numbers[begin[whole][:, None] + np.arange(width)]
    return out

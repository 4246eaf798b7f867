"""Files of results: their names, and their rows in packed columns."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.transforms.release.few import INDICES
from weir.transforms.release.table import INTERVAL
from weir.transforms.sinks.formats import given_back

GROUP = ("key", "tick", "name", "over")
"""What the coordinates of a vector have in common."""

LISTS = ("value", "stddev", *INTERVAL)

Sizes = Mapping[tuple[str, int | None], int]
"""(name, over) of vectors that are written without their zeros -> how many coordinates those have.
"""

NONE_SPARSE: Sizes = {}
_UNREADABLE = (
    *(pa.ArrowException, OSError, ValueError, LookupError),
    *(csv.Error, RecursionError),
)
"""What readers of damaged files raise."""


def packed(
    batches: Iterator[pa.RecordBatch], sizes: Sizes = NONE_SPARSE
) -> Iterator[pa.RecordBatch]:
    """Rows that follow each other and belong to one vector become one row.

    A coordinate lies where ``index`` says; one that is not there is 0 in a sparse vector, else NaN.
    Of a sparse vector of more than ``MOST_DENSE`` coordinates a null alone stands for all of them.
    A vector that goes on in the next batch is carried there.

    Args:
      batches: with ``index``, the columns of GROUP, and any others; those of LISTS become lists.
      sizes: of sparse vectors.
    """
    retained: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if retained is not None:
            table = pa.concat_tables([retained, table]).unify_dictionaries().combine_chunks()
        start = starts(table)
        if len(start) < 2:
            retained = table
            continue
        last = int(start[-1])
        retained = table.slice(last)
        yield from gathered(table.slice(0, last), start[:-1], sizes).to_batches()
    if retained is not None and retained.num_rows:
        yield from gathered(retained, starts(retained), sizes).to_batches()


def starts(table: pa.Table) -> NDArray[np.int64]:
    """(vectors,) rows at which a vector begins."""
    if not table.num_rows:
        return np.zeros(0, dtype=np.int64)
    index = numbers_of(table["index"])
    fresh = np.ones(len(index), dtype=bool)
    fresh[1:] = index[1:] <= index[:-1]
    for name in GROUP:
        codes = numbers_of(table[name])
        fresh[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(fresh)


def numbers_of(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A column of whole numbers, or the codes of its words; -1 for null."""
    array = column.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.indices
    filled: NDArray[Any] = pc.fill_null(array, -1).to_numpy(zero_copy_only=False)
    return filled.astype(np.int64, copy=False)


def sizes_of(table: pa.Table, start: NDArray[np.int64], sizes: Sizes) -> NDArray[np.int64]:
    """(vectors,) coordinates of sparse vectors; 0 for others."""
    name = table["name"].combine_chunks()
    of_name, of_over = numbers_of(table["name"])[start], numbers_of(table["over"])[start]
    result = np.zeros(len(start), dtype=np.int64)
    for (item, over), size in sizes.items():
        code = name.dictionary.index(item).as_py()
        if code >= 0:
            result[(of_name == code) & (of_over == (-1 if over is None else over))] = size
    return result


def gathered(table: pa.Table, start: NDArray[np.int64], sizes: Sizes = NONE_SPARSE) -> pa.Table:
    """One row for each vector. start: (vectors,) rows at which one begins, the first at 0."""
    index = numbers_of(table["index"])
    end = np.append(start[1:], table.num_rows)
    width, fill = index[end - 1] + 1, np.full(len(start), np.nan)
    if sizes:
        whole = sizes_of(table, start, sizes)
        width, fill[whole > 0] = np.maximum(width, whole), 0.0
        if "value" in table.schema.names:
            first = table["value"].combine_chunks().take(pa.array(start)).is_null()
            silent = first.to_numpy(zero_copy_only=False) & (end - start == 1)
            fill[silent & (whole > MOST_DENSE)] = np.nan
    offsets = np.concatenate([[0], np.cumsum(width)])
    where = np.repeat(offsets[:-1], end - start) + index
    alone = len(start) == table.num_rows
    columns = {}
    for name in table.schema.names:
        column = table[name].combine_chunks()
        if name in LISTS:
            numbers = np.repeat(fill, width) if name == "value" else np.full(offsets[-1], np.nan)
            numbers[where] = column.to_numpy(zero_copy_only=False)
            known = column.is_valid().to_numpy(zero_copy_only=False)
            void = ~np.logical_or.reduceat(known, start) if column.null_count else None
            columns[name] = pa.ListArray.from_arrays(
                pa.array(offsets.astype(np.int32)),
                pa.array(numbers),
                mask=None if name == "value" or void is None else pa.array(void),
            )
        elif name != "index":
            columns[name] = column if alone else column.take(pa.array(start))
    return pa.table(columns)


def widened(batch: pa.RecordBatch, sizes: Sizes) -> pa.RecordBatch:
    """Packed rows of which some hold few coordinates, each with its place -> rows of all of them.

    Args:
      batch: with ``indices``, null where all are there. sizes: of vectors that have few; one that
        is not told ends at its last coordinate.
    """
    value, places = batch.column("value"), batch.column(INDICES)
    few = places.is_valid().to_numpy(zero_copy_only=False)
    if not few.any():
        return batch
    length = (
        pc.fill_null(pc.list_value_length(value), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    )
    numbers = value.flatten().to_numpy(zero_copy_only=False).astype(np.float64)
    rows = np.repeat(np.arange(len(few)), length)
    index = np.arange(len(rows)) - np.repeat(np.cumsum(length) - length, length)
    index[few[rows]] = places.flatten().to_numpy(zero_copy_only=False)
    table = pa.Table.from_batches([batch])
    whole = sizes_of(table, np.arange(len(few)), sizes)
    last = np.zeros(len(few), dtype=np.int64)
    np.maximum.at(last, rows, index + 1)
    width = np.where(few, np.maximum(last, whole), length)
    silent = np.zeros(len(few), dtype=bool)
    silent[rows[np.isnan(numbers)]] = True
    fill = np.where(few & ~(silent & (length == 1)), 0.0, np.nan)
    offsets = np.concatenate([[0], np.cumsum(width)])
    out = np.repeat(fill, width)
    out[offsets[rows] + index] = numbers
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(out))
    names = batch.schema.names
    return batch.set_column(names.index("value"), "value", lists)


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
    results = []
    for path in directory.iterdir() if directory.is_dir() else ():
        match = _FILE.match(path.name)
        if match:
            results.append(ResultFile(path, int(match[1]), int(match[2])))
    return tuple(sorted(results, key=lambda file: (file.first, file.last, file.path.name)))


@contextlib.contextmanager
def _damaged(file: ResultFile) -> Iterator[None]:
    """Says in words that a file cannot be read; faults of the disk stay what they are."""
    try:
        yield
    except _UNREADABLE as error:
        if isinstance(error, MemoryError | pa.ArrowCancelled):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ConfigError(
            "directory",
            str(file.path),
            f"cannot be read as a file of releases in {file.format}: it was damaged or changed. "
            "Put it back from a copy; weir verify says which files were changed.",
        ) from None


def read_file(
    file: ResultFile, columns: Sequence[str], sizes: Sizes = NONE_SPARSE
) -> Iterator[pa.RecordBatch]:
    """Rows of one file with exactly these columns, one a vector, whichever layout the file has.

    Key and name are dictionary-encoded, value and stddev lists. sizes: of sparse vectors, whose
    zeros a flat file leaves out (``Run.sizes``).

    Raises:
      ConfigError: the file is damaged.
    """
    with _damaged(file):
        yield from _read_file(file, columns, sizes)


def _read_file(file: ResultFile, columns: Sequence[str], sizes: Sizes) -> Iterator[pa.RecordBatch]:
    there = columns_of(file)
    names = [name for name in columns if name not in INTERVAL or name in there]
    if len(names) < len(columns):  # an earlier version wrote it, or no margin is an interval
        for batch in _read_file(file, names, sizes):
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
    with _damaged(file):
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
    """Rows as they are in a file. Raises ConfigError where it is damaged."""
    with _damaged(file):
        yield from _rows_in(file, types, names)


def _rows_in(
    file: ResultFile, types: Mapping[str, pa.DataType], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
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
    array = array if array.type == kind else pc.cast(array, kind)
    # Without a clock none is written: every row is of the only tick there is.
    return pc.fill_null(array, 0) if name == "tick" else array


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

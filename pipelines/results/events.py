"""Events of a file beside a run: those that a model is tried on, or is used for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import key_text
from weir.dpcore.leaves.sparse_rows import MOST_DENSE, Expanded, SparseRows
from weir.dpcore.models.predictor import Predictor

ARROW = (".arrow", ".arrows", ".ipc", ".feather")
ENDINGS = (".csv", ".parquet", ".ndjson", ".jsonl", *ARROW, ".avro")
ROWS = 1 << 17
"""Of a Parquet file so many rows are read at a time, of Arrow IPC a batch; the others are read
whole."""

MAPS = pa.map_(pa.string(), pa.float64())
"""Of places, as texts, to numbers."""


def tables(
    path: Path,
    wanted: Sequence[str],
    option: str,
    listed: ListColumn | None = None,
    numeric: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """A file's events, all their columns, in pieces.

    Args:
      wanted: columns that it must have. option: whose value the path is, for messages.
      listed: the list column; JSON objects in it are given as maps of place to number.
      numeric: columns of numbers; None: any may be. What looks like a time, or a number that would
        be written in another way (``007``), stays the text that it is in any other column.

    Raises:
      ConfigError: a file that is not there or cannot be read, or a column that it lacks.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(option, str(path), f"must end in one of {', '.join(ENDINGS)}.")
    if not path.is_file():
        raise ConfigError(option, str(path), "is no file.")
    try:
        if ending == ".parquet":
            yield from _parquet(path, wanted, option)
            return
        if ending in ARROW:
            schema, batches = arrow_batches(path)
            _check(schema.names, wanted, path, option)
            first = next(batches, None)
            yield schema.empty_table() if first is None else pa.Table.from_batches([first])
            for batch in batches:
                yield pa.Table.from_batches([batch])
            return
        objects = None if listed is None else listed.column
        if ending == ".avro":
            table = _avro(path)
        else:
            table = _csv(path, numeric) if ending == ".csv" else _json(path, objects)
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(option, str(path), f"cannot be read ({type(error).__name__}).") from None
    _check(table.schema.names, wanted, path, option)
    yield table


def _parquet(path: Path, wanted: Sequence[str], option: str) -> Iterator[pa.Table]:
    from weir.transforms.decode.parquet import parquet_groups, whole_batches

    with pa.OSFile(str(path)) as file:
        groups = parquet_groups(file)
        if groups is None:
            raise ValueError
        _check(groups.schema.names, wanted, path, option)
        if not sum(groups.rows):
            yield groups.schema.empty_table()
        for batch in whole_batches(file, groups, ROWS):
            yield pa.Table.from_batches([batch])


def _csv(path: Path, numeric: Sequence[str] | None) -> pa.Table:
    """CSV; columns besides ``numeric`` whose values would be written in another way are text."""
    table = pyarrow.csv.read_csv(path)
    if numeric is None:
        return table
    doubtful = [
        field.name
        for field in table.schema
        if field.name not in numeric and not pa.types.is_string(field.type)
    ]
    if len(set(table.schema.names)) < table.num_columns or not doubtful:
        return table
    kinds = dict.fromkeys(doubtful, pa.string())
    options = pyarrow.csv.ConvertOptions(include_columns=doubtful, column_types=kinds)
    texts = pyarrow.csv.read_csv(path, convert_options=options)
    for name in doubtful:
        own, text = table[name], texts[name]
        text = pc.if_else(own.is_valid(), text, pa.scalar(None, pa.string()))
        if not pc.all(pc.equal(own.cast(pa.string()), text)).as_py():
            table = table.set_column(table.schema.names.index(name), name, text)
    return table


def _json(path: Path, objects: str | None) -> pa.Table:
    """NDJSON; times are the text that they are there. Where the values of a column are objects, as
    maps: Arrow would make a field of each place, and could not tell a null from a place that is
    not there."""
    from weir.transforms.decode.lines import without_marks

    with path.open("rb") as file:
        head = next((line for line in map(without_marks, file) if line.strip()), b"{}")
    first = {} if objects is None else orjson.loads(head)
    if not isinstance(first, dict) or not isinstance(first.get(objects), dict):
        return _json_texts(pa.py_buffer(without_marks(path.read_bytes())))
    assert objects is not None
    lines: list[bytes] = []
    maps: list[Any] = []
    with path.open("rb") as file:
        for line in map(without_marks, file):
            if line.strip():
                record = orjson.loads(line)
                found = record.pop(objects, None)
                maps.append(list(found.items()) if isinstance(found, dict) else None)
                lines.append(orjson.dumps(record))
    table = _json_texts(pa.py_buffer(b"\n".join(lines)))
    return table.append_column(objects, pa.array(maps, MAPS))


def _json_texts(source: Any) -> pa.Table:
    """NDJSON; a text that looks like a time stays text."""
    table = pyarrow.json.read_json(source)
    times = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
    if not times:
        return table
    schema = pa.schema([(name, pa.string()) for name in times])
    options = pyarrow.json.ParseOptions(explicit_schema=schema)
    return pyarrow.json.read_json(source, parse_options=options).select(table.schema.names)


def arrow_batches(path: Path) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Schema and batches of an Arrow IPC file, or of a stream.

    Raises:
      ArrowInvalid: it is neither.
    """
    handle = pa.OSFile(str(path))
    try:
        reader = pa.ipc.open_file(handle)
        return reader.schema, (reader.get_batch(i) for i in range(reader.num_record_batches))
    except pa.ArrowInvalid:
        handle.seek(0)
        stream = pa.ipc.open_stream(handle)
        return stream.schema, iter(stream)


def _avro(path: Path) -> pa.Table:
    """Avro records.

    Raises:
      ValueError: no Avro.
    """
    import fastavro

    with path.open("rb") as file:
        try:
            reader = fastavro.reader(file)
            declared: Any = reader.writer_schema
            names = [str(field["name"]) for field in declared["fields"]]
            records: list[Any] = list(reader)
        except Exception as error:  # it raises whatever its input leads it to
            raise ValueError(type(error).__name__) from None
    return pa.table({name: pa.array([one[name] for one in records]) for name in names})


def _check(names: Sequence[str], wanted: Sequence[str], path: Path, option: str) -> None:
    for name in wanted:
        if name not in names:
            raise ConfigError(
                option, str(path), f"has no column {name}; {nearest(name, list(names))}"
            )


def numbers(table: pa.Table, name: str, option: str) -> Floats:
    """A column as (n,) float64, NaN where there is none.

    Raises:
      ConfigError: it holds anything else.
    """
    try:
        column = table[name].cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError(option, name, "must hold numbers.") from None
    return np.asarray(column.fill_null(math.nan).to_numpy(), dtype=np.float64)


def features_of(table: pa.Table, model: Predictor, option: str) -> dict[str, Any]:
    """What a model predicts from: feature -> (n,) float64, NaN where there is none; of a list
    column with more features than dense rows have, the column -> ``SparseRows``.

    Raises:
      ConfigError: a column holds anything else.
    """
    listed = model.listed
    if listed is None:
        return {name: numbers(table, name, option) for name in model.features}
    rows = lists_of(table, listed, option)
    if listed.size > MOST_DENSE:
        return {listed.name: rows}
    found = Expanded({listed.name: rows}, model.features)
    return {name: found[name] for name in model.features}


def lists_of(table: pa.Table, listed: ListColumn, option: str) -> SparseRows:
    """A list column, or a pair of them, as (n, size) rows; a row that is missing holds a NaN.

    Raises:
      ConfigError: a column holds anything else.
    """
    from weir.transforms.decode.lists import from_python, to_lists
    from weir.transforms.leaves.lists import to_rows

    columns = [table[name] for name in listed.columns]
    if pa.types.is_map(columns[0].type):
        rows = [None if one is None else dict(one) for one in columns[0].to_pylist()]
        return to_rows(from_python(rows, listed.size)[0], listed.size)
    places = columns[0] if len(columns) > 1 else None
    try:
        found, _ = to_lists(columns[-1], places, listed, option, "the file")
    except ConfigError as error:
        raise ConfigError(option, error.value, error.remedy) from None
    return to_rows(found, listed.size)


def without_numbers(given: Mapping[str, Any]) -> NDArray[np.bool_]:
    """(n,) which events lack a feature."""
    void: Any = False
    for column in given.values():
        if isinstance(column, SparseRows):
            bad = np.zeros(len(column), dtype=bool)
            bad[column.rows[~np.isfinite(column.values)]] = True
            void = void | bad
        else:
            void = void | ~np.isfinite(column)
    return np.asarray(void)


def keys_of(table: pa.Table, columns: Sequence[str]) -> NDArray[np.object_]:
    """(n,) the key of each event, as releases have it; () has one, the empty text."""
    if not columns:
        return np.full(len(table), "", dtype=object)
    values = [[str(one) for one in table[name].to_pylist()] for name in columns]
    if len(columns) == 1:
        return np.array(values[0], dtype=object)
    return np.array([key_text(several) for several in zip(*values, strict=True)], dtype=object)

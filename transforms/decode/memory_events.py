"""Events in memory -> canonical batches: frames of pandas and tables of Arrow as they lie there,
mappings and values with named fields one by one.

A column of a type is read as a column of a file is; one of Python objects value by value, each as
what it is, so that no record decides how another is read. pandas itself is imported by who has one.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.cast import plain, to_number
from weir.transforms.decode.columnar import BATCH_ROWS, check_columns, decode_batches
from weir.transforms.decode.mixed_columns import strings, typed_columns
from weir.transforms.decode.nested import steps, take
from weir.transforms.decode.schema import EventSchema

ALLOWED = (
    "dictionaries, beam.Row, NamedTuples or dataclasses with the config's columns, frames of "
    "pandas or tables of Arrow, or batches of decoded events"
)


def pick(event: Any, names: Iterable[str]) -> dict[str, Any] | None:
    """The named fields of an event; None if it has no fields with names.

    A field that is not there is None. NumPy's scalars, and times of libraries that extend
    ``datetime``, become Python's own.
    """
    fields = _mapping(event)
    if fields is None:
        return None
    return {name: native(take(fields, name, _mapping)) for name in names}


def _mapping(event: Any) -> Mapping[str, Any] | None:
    if isinstance(event, Mapping):
        return event
    kind = type(event)
    if _is_of_beam(event, "apache_beam.pvalue", "Row"):
        return dict(event.as_dict())
    if isinstance(event, tuple) and hasattr(kind, "_fields"):
        return dict(zip(kind._fields, event, strict=True))
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(event, field.name) for field in dataclasses.fields(kind)}
    return None


def native(value: Any) -> Any:
    """NumPy's scalars, and times of libraries that extend ``datetime``, as Python's own."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, np.generic):
        return value.item()
    if _is_of_beam(value, "apache_beam.utils.timestamp", "Timestamp"):
        return _moment(value)
    if isinstance(value, datetime) and type(value) is not datetime:
        return None if value != value else _plain_time(value)
    return value


def _is_of_beam(value: Any, module: str, name: str) -> bool:
    """Whether a value is of a class of Beam: where nobody has imported it, none is."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _moment(value: Any) -> datetime | None:
    """A moment of Beam's; None beyond the years of a calendar."""
    try:
        moment: datetime = value.to_utc_datetime(has_tz=True)
    except (OverflowError, ValueError):
        return None
    return moment


def _plain_time(value: datetime) -> datetime:
    moment = (value.year, value.month, value.day, value.hour, value.minute, value.second)
    return datetime(*moment, value.microsecond, value.tzinfo, fold=value.fold)


FRAME, TABLE = "the frame", "the table"
"""What they are called in messages and dead letters."""


def is_frame(value: Any) -> bool:
    """Whether it is a DataFrame of pandas, told without importing pandas."""
    kind = type(value)
    return kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"


def is_table(value: Any) -> bool:
    """Whether it is a table, a raw batch or a frame: something of which many events are read."""
    return isinstance(value, (pa.Table, pa.RecordBatch)) or is_frame(value)


def decode_table(
    given: Any, schema: EventSchema, first: int = 0, batch_rows: int = BATCH_ROWS
) -> Iterator[Decoded]:
    """A frame, a table or a batch -> canonical batches.

    Args:
      given: pandas.DataFrame, pyarrow.Table or pyarrow.RecordBatch. Of a frame, levels of the index
        are columns too, by their names.
      schema: the roles of columns.
      first: position of its first row. batch_rows: rows a batch.

    Raises:
      ConfigError: a needed column is not there or there twice, or its type cannot play its role.
    """
    if is_frame(given):
        yield from _decode_frame(given, schema, first, batch_rows)
        return
    table = pa.Table.from_batches([given]) if isinstance(given, pa.RecordBatch) else given
    check_columns(table.schema, schema, TABLE)
    there = table.schema.names
    held = dict.fromkeys(
        (item if item in there else (*steps(item), item)[0]) for item in schema.needed
    )
    some = [name for name in held if name in there]  # on a stream a table may lack a column
    batches = table.select(some or there[:1]).to_batches(max_chunksize=batch_rows)
    yield from decode_batches(batches, schema, TABLE, first)


def _decode_frame(
    frame: Any, schema: EventSchema, first: int, batch_rows: int
) -> Iterator[Decoded]:
    levels = [name for name in frame.index.names if name not in frame.columns]
    names = [name for name in (*frame.columns, *levels) if isinstance(name, str)]
    inside = [
        item
        for item in schema.needed
        if item not in names and steps(item)[:1] and steps(item)[0] in names
    ]
    schema.require([*names, *inside], FRAME)
    for start in range(0, len(frame), batch_rows):
        part = frame.iloc[start : start + batch_rows]
        typed: dict[str, Any] = {}
        plain: dict[str, list[Any]] = {}
        for name in schema.needed:
            if name in inside:
                held = part[steps(name)[0]]
                plain[name] = [_value(take({steps(name)[0]: item}, name)) for item in held]
                continue
            if name not in names:
                typed[name] = pa.nulls(len(part))
                continue
            column = part.index.get_level_values(name) if name in levels else part[name]
            array = _array(column)
            if array is None:
                plain[name] = [_value(item) for item in column]
            else:
                typed[name] = array
        yield assembled(typed, plain, schema, first + start, len(part))


def assembled(
    typed: dict[str, Any],
    plain: dict[str, list[Any]],
    schema: EventSchema,
    first: int,
    rows: int,
    source: str = FRAME,
) -> Decoded:
    """Columns of types, and columns of Python values -> a canonical batch.

    Args:
      first: position of the first row. rows: how many there are. source: what they are called.
    """
    lists = () if schema.listed is None else schema.listed.columns
    if any(name in plain for name in lists):  # a pair is read together
        plain |= {name: typed.pop(name).to_pylist() for name in lists if name in typed}
    raw: dict[str, Any] = dict(typed)
    spoilt: Mapping[str, Any] = {}
    for name, values in plain.items():
        if schema.columns.get(name) == "number":
            plain[name] = _with_numbers(values)
    if plain:
        read, spoilt = typed_columns(plain, schema, tuple(plain))
        raw |= read
    positions = np.arange(first, first + rows, dtype=np.int64)
    return assemble(raw, positions, schema, source, spoilt)


def _array(column: Any) -> Any:
    """A column of pandas as an Arrow array; None where its type says nothing of its values.

    Only the type decides: texts that Python keeps may be no UTF-8, and are read one by one.
    """
    if _holds_objects(column.dtype):
        return None
    try:
        array = pa.array(column, from_pandas=True)
    except (pa.ArrowNotImplementedError, TypeError):  # a type that Arrow does not have
        return None
    return plain(array) if isinstance(array, pa.ChunkedArray | pa.ExtensionArray) else array


def _holds_objects(kind: Any) -> bool:
    categories = getattr(kind, "categories", None)
    if categories is not None:
        return _holds_objects(categories.dtype)
    return kind == np.dtype(object) or getattr(kind, "storage", None) == "python"


def _with_numbers(values: list[Any]) -> list[Any]:
    """Texts as the numbers that they spell, as in a column of texts: a single word among numbers
    makes pandas read them all as texts, and must not change what the others are."""
    at = [place for place, value in enumerate(values) if type(value) is str]
    if at:
        spoilt = np.zeros(len(at), dtype=bool)
        numbers, bad = to_number(strings([values[place] for place in at], spoilt))
        wrong = spoilt if bad is None else spoilt | bad
        for place, number, gone in zip(at, numbers.to_pylist(), wrong.tolist(), strict=True):
            values[place] = values[place] if gone else number
    return values


def _value(value: Any) -> Any:
    """One value of a column of objects: what pandas takes for missing is None."""
    if value is None or type(value).__name__ == "NAType":
        return None
    if isinstance(value, (float, np.floating, datetime, np.datetime64)) and value != value:
        return None
    return value.tolist() if isinstance(value, np.ndarray) else native(value)

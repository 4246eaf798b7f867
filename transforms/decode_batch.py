"""Raw columns of any format -> canonical batches of events and dead letters. One place for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.dead_letters import dead_letters, reason_code
from transforms.decode_cast import (
    Bad,
    is_bytes,
    is_text,
    plain,
    to_boolean,
    to_number,
    to_presence,
    to_text,
)
from transforms.decode_time import to_time
from transforms.event_schema import EventSchema, Kind

KEY_TYPE = pa.dictionary(pa.int32(), pa.string())
MALFORMED = reason_code("malformed")
MISSING_TIME = reason_code("missing_time")
_KEPT = np.int8(-1)


class Decoded(NamedTuple):
    """Events and dead letters of one batch; either may be None."""

    events: pa.RecordBatch | None
    dead: pa.RecordBatch | None


class _Columns:
    """Collects canonical columns and which rows are spoilt."""

    def __init__(self, n: int, source: str) -> None:
        self.bad = np.zeros(n, dtype=bool)
        self.columns: dict[str, Any] = {}
        self.source = source

    def add(self, name: str, read: tuple[Any, Bad]) -> None:
        values, bad = read
        if bad is not None:
            self.bad |= bad
        self.columns[name] = values


def assemble(
    raw: Mapping[str, Any],
    positions: NDArray[np.int64],
    schema: EventSchema,
    source: str,
    bad: Bad = None,
    empty_is_null: bool = False,
) -> Decoded:
    """Raw columns by their own names -> canonical columns.

    Args:
      raw: every needed column, each (n,) of whatever type the reader gave.
      positions: (n,) int64, line or row numbers.
      schema: the roles of columns.
      source: path or topic.
      bad: (n,) bool, rows already known to be malformed (their values are placeholders).
      empty_is_null: an empty text is a missing one (CSV cannot tell them apart).

    Raises:
      ConfigError: a column's type cannot play its role.
    """
    n = len(positions)
    out = _Columns(n, source)
    if bad is not None:
        out.bad |= bad
    times = to_time(raw[schema.time.column], schema.time, source)
    out.columns["@time"] = times
    if schema.key is not None:
        out.add("@key", _key(raw[schema.key], schema, source, empty_is_null))
    if schema.id is not None:
        out.add("@id", _identity(raw[schema.id], schema.id, schema, source, empty_is_null))
    if schema.unit is not None:
        out.add("@unit", _identity(raw[schema.unit], schema.unit, schema, source, empty_is_null))
    if schema.arrival is not None:
        given = plain(raw[schema.arrival.column])
        arrivals = to_time(given, schema.arrival, source)
        present = to_presence(given)[0].is_valid()
        spoilt = pc.and_(present, arrivals.is_null()).to_numpy(zero_copy_only=False)
        out.add("@arrival", (arrivals, spoilt))
    out.columns["@position"] = pa.array(positions)
    for name, kind in schema.columns.items():
        out.add(name, _user(raw[name], kind, schema, name, source, empty_is_null))
    return _sort_out(out, positions, times)


def _sort_out(out: _Columns, positions: NDArray[np.int64], times: Any) -> Decoded:
    batch = pa.RecordBatch.from_arrays(
        list(out.columns.values()), names=list(out.columns), metadata={"source": out.source}
    )
    if not out.bad.any() and times.null_count == 0:
        return Decoded(batch if batch.num_rows else None, None)
    reasons = np.full(len(positions), _KEPT, dtype=np.int8)
    reasons[times.is_null().to_numpy(zero_copy_only=False)] = MISSING_TIME
    reasons[out.bad] = MALFORMED
    gone = reasons != _KEPT
    events = batch.filter(pa.array(~gone))
    dead = dead_letters(out.source, positions[gone], reasons[gone])
    return Decoded(events if events.num_rows else None, dead)


def _key(values: Any, schema: EventSchema, source: str, empty_is_null: bool) -> tuple[Any, Bad]:
    column = schema.key or ""
    field = schema.field_of(column)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = plain(values)
    encoded = pa.types.is_dictionary(values.type)
    if encoded and is_text(values.type.value_type):
        names, bad = to_text(values.dictionary, field, column, source, empty_is_null)
        if bad is None and names.null_count == 0:
            indices = values.indices.cast(pa.int32())
            return pa.DictionaryArray.from_arrays(indices, names), None
    text, bad = to_text(values, field, column, source, empty_is_null)
    return text.dictionary_encode().cast(KEY_TYPE), bad


def _identity(
    values: Any, column: str, schema: EventSchema, source: str, empty_is_null: bool
) -> tuple[Any, Bad]:
    values = plain(values)
    if is_bytes(values.type):
        return values.cast(pa.binary()), None
    return to_text(values, schema.field_of(column), column, source, empty_is_null)


def _user(
    values: Any, kind: Kind, schema: EventSchema, column: str, source: str, empty_is_null: bool
) -> tuple[Any, Bad]:
    field = schema.field_of(column)
    if kind == "number":
        return to_number(values, field, column, source)
    if kind == "text":
        return to_text(values, field, column, source, empty_is_null)
    if kind == "boolean":
        return to_boolean(values, field, column, source)
    return to_presence(values)

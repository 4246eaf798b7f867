"""Columns of values of several types, from Python or from Avro -> raw columns.

Each value is read as what it is, whatever the others of its column are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import (
    ARRIVAL,
    TIME,
    Decoded,
    Rows,
    Spoilt,
    assemble,
)
from weir.transforms.decode.cast import Bad, to_boolean, to_number, to_presence, to_text
from weir.transforms.decode.json_lines import NotText
from weir.transforms.decode.lists import from_python, to_float
from weir.transforms.decode.nested import take
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.decode.time import UTC_MICROSECONDS, to_time
from weir.transforms.runtime.dead_letters import dead_letters

Read = Callable[[Any], tuple[Any, Bad]]

_READERS: dict[str, tuple[Read, pa.DataType]] = {
    "number": (to_number, pa.float64()),
    "text": (to_text, pa.string()),
    "boolean": (to_boolean, pa.bool_()),
    "any": (to_presence, pa.bool_()),
}


class ColumnPart(NamedTuple):
    """Values of one type.

    Attributes:
      rows: (m,) int64, where in the column they are; None: they are all of it.
      values: (m,) of any Arrow type; null where there is none, or none that can be read.
      lost: (m,) bool, where one cannot be read, or None.
    """

    rows: NDArray[np.int64] | None
    values: Any
    lost: Bad = None


def read_parts(
    parts: Sequence[ColumnPart],
    count: int,
    schema: EventSchema,
    name: str,
    raw: dict[str, Any],
    spoilt: dict[str, Rows],
) -> None:
    """A column of parts -> what ``assemble`` takes, one column for each role that it plays.

    Args:
      parts: no row is in two of them; where none is, the column is null.
      count: n, rows of the column.
      schema: the roles of columns.
      name: of the column.
      raw: what is read is added to it.
      spoilt: and here, where a value is of a type that cannot play its role.
    """
    read_times(parts, count, schema, name, raw, spoilt)
    kind: str | None = schema.columns.get(name)
    if name in (*schema.keys, schema.id, schema.unit, *schema.joined):
        kind = "text"
    if kind is not None:
        raw[name], bad = _merged(parts, count, *_READERS[kind])
        if bad.any():
            spoilt[name] = bad


def read_times(
    parts: Sequence[ColumnPart],
    count: int,
    schema: EventSchema,
    name: str,
    raw: dict[str, Any],
    spoilt: dict[str, Rows],
) -> None:
    """As ``read_parts``, for a column of times and its other roles left out."""
    for role, stamp in ((TIME, schema.time), (ARRIVAL, schema.arrival)):
        if stamp is not None and stamp.column == name:
            raw[role], bad = _merged(parts, count, _times(stamp), UTC_MICROSECONDS)
            if bad.any():
                spoilt[role] = bad


def _times(stamp: Stamp) -> Read:
    """What type a value has is up to its record: it is never an error of the config."""
    lenient = replace(stamp, strict=False)

    def read(values: Any) -> tuple[Any, Bad]:
        times = to_time(values, lenient, "")
        return times, _valid(to_presence(values)[0]) & ~_valid(times)

    return read


def _merged(
    parts: Sequence[ColumnPart], count: int, read: Read, kind: pa.DataType
) -> tuple[Any, Rows]:
    places = np.full(count, -1, dtype=np.int64)
    bad: Rows = np.zeros(count, dtype=bool)
    pieces: list[Any] = [pa.nulls(0, kind)]
    base = 0
    for rows, values, known in parts:
        at = np.arange(count) if rows is None else rows
        try:
            piece, lost = read(values)
        except ConfigError:
            piece, lost = pa.nulls(len(values), kind), _valid(to_presence(values)[0])
        for more in (lost, known):
            if more is not None:
                bad[at[more]] = True
        if rows is None:
            return piece, bad
        places[rows] = np.arange(base, base + len(rows))
        base += len(rows)
        pieces.append(piece)
    return pa.concat_arrays(pieces).take(pa.array(places, mask=places < 0)), bad


def _valid(values: Any) -> Rows:
    valid: Rows = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


_NONE = type(None)
_NUMBERS: frozenset[type] = frozenset({int, float, Decimal, _NONE})
_TEXTS: frozenset[type] = frozenset({str, bytes, int, _NONE})


def columns_of(
    rows: Sequence[Mapping[str, Any]], schema: EventSchema
) -> tuple[dict[str, Any], Spoilt]:
    """Picks the needed columns and marks values of a wrong type.

    Args:
      rows: (n,) mappings; a field that is not there is null.
      schema: the roles of columns.

    Returns:
      raw columns for ``assemble``, and where values of them are malformed.
    """
    return typed_columns(
        {name: [take(row, name) for row in rows] for name in schema.needed}, schema
    )


def typed_columns(
    columns: Mapping[str, Sequence[Any]],
    schema: EventSchema,
    names: Sequence[str] | None = None,
) -> tuple[dict[str, Any], Spoilt]:
    """Gives columns of Python values their types and marks values of others.

    Args:
      columns: every needed column, each (n,).
      schema: the roles of columns.
      names: those that are Python values; None: all that are needed.

    Returns:
      raw columns for ``assemble``, and where values of them are malformed.
    """
    spoilt: dict[str, Any] = {}
    raw: dict[str, Any] = {}
    times = {stamp.column for stamp in schema.stamps}
    for name in schema.needed if names is None else names:
        values = columns[name]
        bad = np.zeros(len(values), dtype=bool)
        kind = schema.columns.get(name)
        if schema.listed is not None and name in schema.listed.columns:
            if name == schema.listed.name:
                places = schema.listed.indices
                spots = None if places is None else columns[places]
                raw[name], bad = from_python(values, schema.listed.size, spots)
                if bad.any():
                    spoilt[name] = bad
            continue
        if name in times:
            read_times(_by_type(values), len(values), schema, name, raw, spoilt)
        if name in (schema.id, schema.unit):
            raw[name] = _texts(values, bad, spelled=True)
        elif name in (*schema.keys, *schema.joined) or kind == "text":
            raw[name] = _texts(values, bad)
        elif kind == "number":
            raw[name] = _numbers(values, bad)
        elif kind == "boolean":
            raw[name] = pa.array(_only(values, frozenset({bool, _NONE}), bad), pa.bool_())
        elif kind == "any":
            raw[name] = pa.array([None if value is None else True for value in values], pa.bool_())
        if bad.any():
            spoilt[name] = bad
    return raw, spoilt


def _only(values: Sequence[Any], allowed: frozenset[type], bad: Any) -> Sequence[Any]:
    """Values of other types become None, and bad."""
    kinds = list(map(type, values))
    wrong = set(kinds) - allowed
    if not wrong:
        return values
    retained = list(values)
    for kind in wrong:
        at = -1
        for _ in range(kinds.count(kind)):
            at = kinds.index(kind, at + 1)
            bad[at] = True
            retained[at] = None
    return retained


def _numbers(values: Sequence[Any], bad: Any) -> pa.Array:
    values = _only(values, _NUMBERS, bad)
    try:
        return pa.array(values, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if v is None else to_float(v) for v in values], pa.float64())


def _texts(values: Sequence[Any], bad: Any, spelled: bool = False) -> pa.Array:
    """Text. Bytes are read as UTF-8; what is none is bad, or spelled out (\\xff say) in an id."""
    values = _only(values, _TEXTS, bad)
    kinds = set(map(type, values))
    if int in kinds:
        values = [str(value) if type(value) is int else value for value in values]
    if bytes in kinds:
        errors = "backslashreplace" if spelled else "surrogateescape"
        values = [v.decode(errors=errors) if type(v) is bytes else v for v in values]
    return strings(values, bad)


def strings(values: Sequence[Any], bad: Any) -> pa.Array:
    """Texts; one with half of a surrogate pair is none."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        retained = [v if v is None or v.isascii() or _is_text(v) else NotText() for v in values]
    return pa.array(_only(retained, frozenset({str, _NONE}), bad), pa.string())


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _by_type(values: Sequence[Any]) -> list[ColumnPart]:
    """Times as Python has them, each kind of them in a part of its own."""
    kinds: list[Any] = list(map(type, values))
    if datetime in kinds:
        kinds = list(map(_kind, values))
    result = set(kinds) - {_NONE}
    if len(result) == 1:
        return [_part(result.pop(), None, values)]
    parts = []
    for kind in result:
        rows = [at for at, other in enumerate(kinds) if other == kind]
        parts.append(_part(kind, np.array(rows), [values[at] for at in rows]))
    return parts


def _kind(value: Any) -> Any:
    kind = type(value)
    return (datetime, value.tzinfo is None) if kind is datetime else kind


def _part(kind: Any, rows: Any, values: Sequence[Any]) -> ColumnPart:
    """Values of one kind, and of nothing."""
    lost = np.zeros(len(values), dtype=bool)
    if kind is str:
        return ColumnPart(rows, strings(values, lost), lost)
    if kind not in _TYPES:
        lost |= [value is not None for value in values]
        return ColumnPart(rows, pa.nulls(len(values)), lost)
    if kind is int:
        lost |= [v is not None and not -(2**63) <= v < 2**63 for v in values]
        values = [None if gone else v for v, gone in zip(values, lost, strict=True)]
    return ColumnPart(rows, pa.array(values, _TYPES[kind]), lost)


_TYPES: dict[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    date: pa.date32(),
    (datetime, True): pa.timestamp("us"),
    (datetime, False): pa.timestamp("us", "UTC"),
}
"""Kinds of times -> types of columns; a datetime is of two kinds, without a zone and with."""


SOURCE = "rows"


def decode_rows(
    held: Sequence[dict[str, Any] | None], first: int, schema: EventSchema
) -> Iterator[Decoded]:
    """Fields of events -> batches; None is no event. first: position of the first."""
    events = [event for event in held if event is not None]
    good = np.array([event is not None for event in held], dtype=bool)
    positions = np.arange(first, first + len(held), dtype=np.int64)
    if len(events) < len(held):
        yield Decoded(None, dead_letters(SOURCE, positions[~good], "malformed"))
    if events:
        columns, spoilt = columns_of(events, schema)
        yield assemble(columns, positions[good], schema, SOURCE, spoilt)

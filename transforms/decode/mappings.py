"""Records that are Python mappings already (JSON sieved line by line) -> raw columns.

Each value is read as what it is, whatever the others of its column are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from weir.transforms.decode.canonical import Decoded, Spoilt, assemble
from weir.transforms.decode.json_lines import NotText
from weir.transforms.decode.lists import from_python
from weir.transforms.decode.nested import take
from weir.transforms.decode.parts import Part, read_times
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.dead_letters import dead_letters

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
      raw columns for ``assemble``, and where values of them are spoilt.
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
      raw columns for ``assemble``, and where values of them are spoilt.
    """
    spoilt: dict[str, Any] = {}
    raw: dict[str, Any] = {}
    times = {schema.time.column, schema.arrival.column if schema.arrival else None}
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
        elif name in schema.keys or kind == "text":
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
    kept = list(values)
    for kind in wrong:
        at = -1
        for _ in range(kinds.count(kind)):
            at = kinds.index(kind, at + 1)
            bad[at] = True
            kept[at] = None
    return kept


def _numbers(values: Sequence[Any], bad: Any) -> pa.Array:
    values = _only(values, _NUMBERS, bad)
    try:
        return pa.array(values, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if v is None else _float(v) for v in values], pa.float64())


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


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
        kept = [v if v is None or v.isascii() or _is_text(v) else NotText() for v in values]
    return pa.array(_only(kept, frozenset({str, _NONE}), bad), pa.string())


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _by_type(values: Sequence[Any]) -> list[Part]:
    """Times as Python has them, each kind of them in a part of its own."""
    kinds: list[Any] = list(map(type, values))
    if datetime in kinds:
        kinds = list(map(_kind, values))
    found = set(kinds) - {_NONE}
    if len(found) == 1:
        return [_part(found.pop(), None, values)]
    parts = []
    for kind in found:
        rows = [at for at, other in enumerate(kinds) if other == kind]
        parts.append(_part(kind, np.array(rows), [values[at] for at in rows]))
    return parts


def _kind(value: Any) -> Any:
    kind = type(value)
    return (datetime, value.tzinfo is None) if kind is datetime else kind


def _part(kind: Any, rows: Any, values: Sequence[Any]) -> Part:
    """Values of one kind, and of nothing."""
    lost = np.zeros(len(values), dtype=bool)
    if kind is str:
        return Part(rows, strings(values, lost), lost)
    if kind not in _TYPES:
        lost |= [value is not None for value in values]
        return Part(rows, pa.nulls(len(values)), lost)
    if kind is int:
        lost |= [v is not None and not -(2**63) <= v < 2**63 for v in values]
        values = [None if gone else v for v, gone in zip(values, lost, strict=True)]
    return Part(rows, pa.array(values, _TYPES[kind]), lost)


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

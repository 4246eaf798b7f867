"""Records that are Python mappings already (JSON sieved line by line, Avro) -> raw columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from transforms.decode_batch import Spoilt
from transforms.event_schema import EventSchema
from transforms.json_lines import NotText

_NONE = type(None)
_NUMBERS = frozenset({int, float, Decimal, _NONE})
_TEXTS = frozenset({str, int, _NONE})
_TIMES = frozenset({str, int, float, datetime, date, _NONE})


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
    return typed_columns({name: [row.get(name) for row in rows] for name in schema.needed}, schema)


def typed_columns(
    columns: Mapping[str, Sequence[Any]], schema: EventSchema
) -> tuple[dict[str, Any], Spoilt]:
    """Gives columns of Python values their types and marks values of others.

    Args:
      columns: every needed column, each (n,).
      schema: the roles of columns.

    Returns:
      raw columns for ``assemble``, and where values of them are spoilt.
    """
    spoilt: dict[str, Any] = {}
    raw: dict[str, Any] = {}
    times = {schema.time.column, schema.arrival.column if schema.arrival else None}
    for name in schema.needed:
        values = columns[name]
        bad = np.zeros(len(values), dtype=bool)
        kind = schema.columns.get(name)
        if name in times:
            stamp = schema.time if name == schema.time.column else schema.arrival
            raw[name] = _times(values, bad, stamp is None or stamp.format is None)
        elif kind == "number" and name not in (schema.key, schema.id, schema.unit):
            raw[name] = _numbers(values, bad)
        elif kind == "boolean":
            raw[name] = pa.array(_only(values, frozenset({bool, _NONE}), bad), pa.bool_())
        elif kind == "any" and name not in (schema.key, schema.id, schema.unit):
            raw[name] = pa.array([None if value is None else True for value in values], pa.bool_())
        else:
            raw[name] = _texts(values, bad)
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


def _texts(values: Sequence[Any], bad: Any) -> pa.Array:
    kinds = set(map(type, values))
    if kinds <= {bytes, _NONE} and bytes in kinds:
        return pa.array(values, pa.binary())
    values = _only(values, _TEXTS, bad)
    if int in kinds:
        values = [str(value) if type(value) is int else value for value in values]
    return _strings(values, bad)


def _strings(values: Sequence[Any], bad: Any) -> pa.Array:
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


def _times(values: Sequence[Any], bad: Any, no_format: bool) -> pa.Array:
    values = _only(values, _TIMES, bad)
    kinds = set(map(type, values)) - {_NONE}
    if no_format and str in kinds and kinds <= {str, int, float}:
        # Among texts a number is no time: nothing says what it counts.
        return _strings(_only(values, frozenset({str, _NONE}), bad), bad)
    if kinds == {datetime}:
        aware = {value.tzinfo is not None for value in values if value is not None}
        if len(aware) == 1:
            return pa.array(values, pa.timestamp("us", "UTC" if aware.pop() else None))
    if kinds <= {int}:
        bad |= [v is not None and not -(2**63) <= v < 2**63 for v in values]
        values = [None if gone else v for v, gone in zip(values, bad, strict=True)]
        return pa.array(values, pa.int64()) if kinds else pa.nulls(len(values))
    if kinds <= {int, float}:
        return pa.array([None if v is None else _float(v) for v in values], pa.float64())
    if kinds == {date}:
        return pa.array(values, pa.date32())
    spelled = [v.isoformat() if isinstance(v, date) else v for v in values]
    return _strings([v if v is None else str(v) for v in spelled], bad)

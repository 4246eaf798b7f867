"""Fields of Avro records, as they are on the wire -> columns, each value by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from weir.dpcore.config.schema import ListColumn
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.avro_schema import Branch, Field
from weir.transforms.decode.canonical import Spoilt
from weir.transforms.decode.columnar import sound
from weir.transforms.decode.json_lines import NotText
from weir.transforms.decode.lists import from_python
from weir.transforms.decode.mixed_columns import ColumnPart, read_parts
from weir.transforms.decode.schema import EventSchema

_PLAIN = {
    "boolean": pa.bool_(),
    "long": pa.int64(),
    "double": pa.float64(),
    "bytes": pa.binary(),
}


def columns_of(
    records: Sequence[Mapping[str, Any]], fields: Mapping[str, Field], schema: EventSchema
) -> tuple[dict[str, Any], Spoilt]:
    """Needed columns. Of a field of one type, as Arrow has it; of several, each read as its own.

    Args:
      records: (n,) by the names on the wire.
      fields: by the names in the file.
      schema: the roles of columns.

    Returns:
      raw columns for ``assemble``, and where values of them are malformed.
    """
    raw: dict[str, Any] = {}
    spoilt: dict[str, Any] = {}
    lists = () if schema.listed is None else schema.listed.columns
    if schema.listed is not None:
        _lists(records, fields, schema, schema.listed, raw, spoilt)
    for name in schema.needed:
        if name in lists:
            continue
        if name not in fields:
            raw[name] = pa.nulls(len(records))
            continue
        field = fields[name]
        branches = field.branches
        values = list(map(field.of, records)) if field.above else _plain(records, field.tag)
        if len(branches) > 1:
            parts = _parts(values, branches, name in schema.texts)
            read_parts(parts, len(values), schema, name, raw, spoilt)
            continue
        branch = next(iter(branches.values()), None)
        part = ColumnPart(None, pa.nulls(len(values)))
        if branch is not None:
            part = _part(branch, None, values, name in schema.texts)
        raw[name] = part.values
        if part.lost is not None:
            spoilt[name] = part.lost
    return raw, spoilt


def _plain(records: Sequence[Mapping[str, Any]], tag: str) -> list[Any]:
    return [record[tag] for record in records]


def _lists(
    records: Sequence[Mapping[str, Any]],
    fields: Mapping[str, Field],
    schema: EventSchema,
    listed: ListColumn,
    raw: dict[str, Any],
    spoilt: dict[str, Any],
) -> None:
    """The columns of lists, read together.

    Raises:
      ConfigError: a column is of a type that holds no lists of numbers, and the schema is strict.
    """
    columns = []
    for name in listed.columns:
        field = fields.get(name, Field("", {}))
        branches = field.branches
        numeric = any(_of_numbers(branch) for branch in branches.values())
        if branches and not numeric and schema.strict:
            kinds = ", ".join(sorted({branch.kind for branch in branches.values()}))
            raise ConfigError(
                schema.field_of(name), name, f"holds {kinds}; it must hold lists of numbers."
            )
        columns.append(
            [_list(field.of(record), branches) if branches else None for record in records]
        )
    places = columns[0] if len(columns) > 1 else None
    raw[listed.name], bad = from_python(columns[-1], listed.size, places)
    if bad.any():
        spoilt[listed.name] = bad


def _of_numbers(branch: Branch) -> bool:
    kinds = {item.kind for item in branch.items.values()}
    return branch.kind == "list" and kinds <= {"long", "double", "decimal"}


def _list(value: Any, branches: Mapping[str, Branch]) -> Any:
    """A list of numbers and None; of anything else what is no list of numbers."""
    if value is None or not branches:
        return None
    if len(branches) > 1:
        tag, value = next(iter(value.items()))
        branch = branches[tag]
    else:
        branch = next(iter(branches.values()))
    if branch.kind != "list":
        return NotText()
    if len(branch.items) > 1:
        pairs = [(None, None) if item is None else next(iter(item.items())) for item in value]
        return [pair if tag is None else _item(pair, branch.items[tag]) for tag, pair in pairs]
    inner = next(iter(branch.items.values()), None)
    if inner is None or inner.kind in ("long", "double"):
        return value
    return [None if item is None else _item(item, inner) for item in value]


def _item(value: Any, branch: Branch) -> Any:
    if branch.kind == "decimal":
        return _decimal(value, branch.scale)
    return value if branch.kind in ("long", "double") else NotText()


def _parts(values: Sequence[Any], branches: Mapping[str, Branch], text: bool) -> list[ColumnPart]:
    kinds = [None if value is None else next(iter(value)) for value in values]
    parts = []
    for tag, branch in branches.items():
        rows = [at for at, kind in enumerate(kinds) if kind == tag]
        if rows:
            parts.append(_part(branch, np.array(rows), [values[at][tag] for at in rows], text))
    return parts


def _part(branch: Branch, rows: Any, values: Sequence[Any], text: bool) -> ColumnPart:
    """Values of one type. text: they are read as nothing else, to the last digit."""
    if branch.kind in _PLAIN:
        return ColumnPart(rows, pa.array(values, _PLAIN[branch.kind]))
    if branch.kind == "string":
        # Whether it is UTF-8 is asked of each value later.
        return ColumnPart(rows, pa.array(values, pa.binary()).view(pa.string()))
    if branch.kind == "timestamp":
        return ColumnPart(rows, pa.array(values, pa.int64()).view(pa.timestamp(branch.unit, "UTC")))
    if branch.kind == "local-timestamp":
        return ColumnPart(rows, pa.array(values, pa.int64()).view(pa.timestamp(branch.unit)))
    if branch.kind == "date":
        held = [None if v is None else max(-(2**31), min(v, 2**31 - 1)) for v in values]
        return ColumnPart(rows, pa.array(held, pa.int32()).view(pa.date32()))
    if branch.kind == "decimal" and text and not branch.scale:
        return ColumnPart(rows, pa.array(list(map(_digits, values)), pa.string()))
    if branch.kind == "decimal":
        read = [None if value is None else _decimal(value, branch.scale) for value in values]
        return ColumnPart(rows, pa.array(read, pa.float64()))
    if branch.kind == "enum":
        places = pa.array(values, pa.int64())
        symbols = pa.array(branch.symbols, pa.string())
        result = sound(pa.DictionaryArray.from_arrays(places, symbols, safe=False))
        assert result is not None
        return ColumnPart(rows, result.values, result.lost)
    there: list[dict[str, Any] | None] = [None if value is None else {} for value in values]
    return ColumnPart(rows, pa.array(there, pa.struct([])))


def _digits(value: bytes | None) -> str | None:
    """A whole number as text."""
    return None if value is None else str(Decimal(int.from_bytes(value, "big", signed=True)))


def _decimal(value: bytes, scale: int) -> float:
    number = int.from_bytes(value, "big", signed=True)
    try:
        quotient: float = number / 10**scale
        return quotient
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")

"""Fields inside of fields: ``meta.at`` is the field ``at`` of what the field ``meta`` holds.

A field of that very name, dot included, comes first; where a record has none, or null, each dot is
a step inside. What is no record on the way there has no fields: the value is missing. All of it
follows from the record alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.transforms.decode.cast import hollow, of_runs, plain_type

Fields = Callable[[Any], Mapping[str, Any] | None]
"""A value as a mapping of its fields; None: it has none."""


def steps(name: str) -> tuple[str, ...]:
    """The fields to go through; () of a name that is not written so."""
    result = tuple(name.split("."))
    return result if len(result) > 1 and all(result) else ()


def any_nested(names: Iterable[str]) -> bool:
    """Whether a name may be that of a field inside of another."""
    return any(map(steps, names))


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def take(fields: Mapping[str, Any], name: str, inside: Fields = _as_mapping) -> Any:
    """A field by its name, or inside of others; None where it is not there."""
    value = fields.get(name)
    if value is not None:
        return value
    path = steps(name)
    if not path:
        return None
    for step in path[:-1]:
        below = inside(fields.get(step))
        if below is None:
            return None
        fields = below
    return fields.get(path[-1])


def taker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What picks some fields of an object."""
    if not any_nested(names):
        return lambda fields: tuple(map(fields.get, names))
    return lambda fields: tuple(take(fields, name) for name in names)


def check_names(fields: Iterable[pa.Field]) -> None:
    """Looks at all that a schema says in words: what is not UTF-8 fails here, and not later.

    Raises:
      UnicodeDecodeError: a name or a zone is not.
    """
    for field in fields:
        _, kind = field.name, plain_type(field.type)
        if pa.types.is_timestamp(kind):
            _ = kind.tz
        check_names(kind.field(at) for at in range(kind.num_fields))


def names_of(schema: pa.Schema, needed: Iterable[str]) -> list[str]:
    """Names of columns, and of those that are needed the nested ones that are there."""
    names = list(schema.names)
    return names + [item for item in needed if item not in names and _types(schema, item)]


def _types(schema: pa.Schema, name: str) -> list[pa.DataType]:
    """Types of all fields that a path leads to: one, if names are told apart."""
    result = list(schema)
    for step in steps(name) or (name,):
        some = [field for field in result if field.name == step]
        if len(some) != 1:
            return []
        kind = some[0].type
        result = [kind.field(i) for i in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return [kind]


def type_of(schema: pa.Schema, name: str) -> pa.DataType:
    """Type of a column, or of a field inside of one; null where there is none."""
    if name in schema.names:
        return schema.field(name).type
    return next(iter(_types(schema, name)), pa.null())


def column_of(batch: pa.RecordBatch, name: str) -> Any:
    """A column, or a field inside of one: null where a record around it is; None: not there.

    Raises:
      pyarrow.ArrowInvalid: what frames the records around it is broken.
    """
    at = batch.schema.get_field_index(name)
    if at >= 0:
        return batch.column(at)
    if name in batch.schema.names:
        return batch.column(name)
    if not steps(name) or not _types(batch.schema, name):
        return None
    first, *rest = steps(name)
    values = batch.column(first)
    for step in rest:
        values.validate()
        values = _field(values, step)
    return values


def _field(records: pa.StructArray, step: str) -> Any:
    """A field of records, null where these are."""
    inner = records.field(step)
    while isinstance(inner.type, pa.BaseExtensionType):
        inner = inner.storage
    # Runs and unions mark no row as null: Arrow breaks the former, and is ended by the latter.
    if pa.types.is_run_end_encoded(inner.type):
        return of_runs(inner, records.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_union(inner.type):  # which plays no role but to be there
        return hollow(records.is_valid())
    bare = pa.StructArray.from_arrays([inner], [step], mask=records.is_null())
    return pc.struct_field(bare, [step])

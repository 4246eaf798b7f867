"""What may be an event in Python: a mapping, or a value with named fields."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, get_origin

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.nested import steps, take
from weir.transforms.decode.schema import EventSchema

ALLOWED = (
    "dictionaries, beam.Row, NamedTuples or dataclasses with the config's columns, frames of "
    "pandas or tables of Arrow, or batches of decoded events"
)
_HINTS = {
    "str": "Lines of JSON become dictionaries with beam.Map(json.loads).",
    "bytes": "Lines of JSON become dictionaries with beam.Map(json.loads).",
}
"""Name of a type -> how its values become events."""


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
    if isinstance(event, beam.Row):
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
    if isinstance(value, Timestamp):
        return _moment(value)
    if isinstance(value, datetime) and type(value) is not datetime:
        return None if value != value else _plain_time(value)
    return value


def _moment(value: Timestamp) -> datetime | None:
    """A moment of Beam's; None beyond the years of a calendar."""
    try:
        moment: datetime = value.to_utc_datetime(has_tz=True)
    except (OverflowError, ValueError):
        return None
    return moment


def _plain_time(value: datetime) -> datetime:
    moment = (value.year, value.month, value.day, value.hour, value.minute, value.second)
    return datetime(*moment, value.microsecond, value.tzinfo, fold=value.fold)


def fields_of(kind: Any) -> tuple[str, ...] | None:
    """The names that a type of elements declares; None where it declares none."""
    if isinstance(kind, RowTypeConstraint):
        return tuple(name for name, _ in kind._fields)
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if issubclass(kind, tuple):
        return getattr(kind, "_fields", None)
    return None


def check_elements(kind: Any, schema: EventSchema) -> None:
    """Holds the declared type of a PCollection's elements against the schema.

    Args:
      kind: its ``element_type``; one that says nothing, like Any, passes.
      schema: the roles of columns.

    Raises:
      ConfigError: elements of this type are no events, or have no such field.
    """
    names = fields_of(kind)
    if names is not None:
        _require(names, schema, kind)
    elif not _may_hold_events(kind):
        raise ConfigError("events", _shown(kind), f"are no events: give {ALLOWED}.{_hint(kind)}")


def _require(names: Iterable[str], schema: EventSchema, kind: Any) -> None:
    """Names that a type declares are code, not data: they may be shown."""
    known = list(names)
    for column in schema.needed:
        if column not in known and (steps(column) or ("",))[0] not in known:
            near = difflib.get_close_matches(column, known, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(
                schema.field_of(column),
                column,
                f"is no field of the events: {meant}{_shown(kind)} has {', '.join(known)}.",
            )


def _may_hold_events(kind: Any) -> bool:
    if isinstance(kind, typehints.UnionConstraint):
        return any(map(_may_hold_events, kind.union_types))
    if isinstance(kind, typehints.TypeConstraint):
        return isinstance(
            kind,
            (
                typehints.AnyTypeConstraint,
                typehints.DictConstraint,
                typehints.MappingTypeConstraint,
            ),
        )
    plain = get_origin(kind) or kind
    if not isinstance(plain, type) or plain in (Any, object) or fields_of(plain) is not None:
        return True
    if plain.__name__ == "DataFrame" and plain.__module__.startswith("pandas"):
        return True
    return issubclass(plain, (Mapping, beam.Row, pa.RecordBatch, pa.Table))


def _shown(kind: Any) -> str:
    """A type in few words."""
    if isinstance(kind, RowTypeConstraint):
        return "beam.Row"
    if isinstance(kind, type):
        return kind.__name__
    return str(kind).replace("<class '", "").replace("'>", "")


def _hint(kind: Any) -> str:
    hint = _HINTS.get(getattr(kind, "__name__", ""))
    return "" if hint is None else f" {hint}"

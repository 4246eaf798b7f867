"""Whether the declared type of a PCollection's elements can be events of a schema."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, get_origin

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.row_type import RowTypeConstraint

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.nested import steps
from weir.transforms.decode.python_events import ALLOWED
from weir.transforms.decode.schema import EventSchema

_HINTS = {
    "str": "Lines of JSON become dictionaries with beam.Map(json.loads).",
    "bytes": "Lines of JSON become dictionaries with beam.Map(json.loads).",
}
"""Name of a type -> how its values become events."""


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

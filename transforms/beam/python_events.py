"""Python values as events: for notebooks and small jobs. Files and messages come as batches.

An event is a mapping, or a value with named fields . A value an event costs a
hundred times what a row of a batch does; of frames and tables many are read at once .
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_origin

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton, TaggedOutput
from apache_beam.typehints import typehints
from apache_beam.typehints.row_type import RowTypeConstraint

from weir.dpcore.errors import ConfigError
from weir.transforms.beam.elements import emit, stamped
from weir.transforms.beam.step import Step
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.input_validation import SEEN, Evidence, FirstLook, Read
from weir.transforms.decode.memory_events import ALLOWED, decode_table, is_table, pick
from weir.transforms.decode.mixed_columns import decode_rows
from weir.transforms.decode.nested import steps
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.validation_errors import RecordsPlace, refusal
from weir.transforms.runtime.dead_letters import DEAD

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


ROWS = 1 << 16
LOOKED_AT = 1_000
"""Events of a bundle that are read again where there is a doubt."""


class FromRows(Step):
    """Mappings, values with named fields, frames and tables -> canonical batches; what cannot be
    read, or is no such value, is tagged "dead".

    Batches that are there already pass by. Positions count within a bundle.

    Args:
      schema: the roles of columns.
      look: what to count of each bundle, tagged "seen"; None counts nothing.
    """

    def __init__(self, schema: EventSchema, look: FirstLook | None = None) -> None:
        self._schema, self._look = schema, look
        self._held: list[dict[str, Any] | None] = []
        self._first = 0
        self._stamp: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": [], "_first": 0, "_stamp": None}

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._first, self._stamp = [], 0, None

    def process(self, event: Any, stamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Gathers events."""
        if isinstance(event, pa.RecordBatch) and "@time" in event.schema.names:
            if self._look is not None:
                yield TaggedOutput(SEEN, Evidence({"unseen": 1}))
            yield event
            return
        if is_table(event):
            yield from self._of_table(event)
            return
        self._held.append(pick(event, self._schema.needed))
        self._stamp = stamp if self._stamp is None else min(stamp, self._stamp)
        if len(self._held) >= ROWS:
            yield from self._decoded()

    def finish_bundle(self) -> Iterator[Any]:
        """Sends on what is left, at the earliest time of its events."""
        if not self._held:
            return
        stamp = self._stamp
        for result in self._decoded():
            if isinstance(result, TaggedOutput):
                yield TaggedOutput(result.tag, stamped(result.value, stamp))
            else:
                yield stamped(result, stamp)

    def _of_table(self, table: Any) -> Iterator[Any]:
        first, self._first = self._first, self._first + len(table)
        try:
            decoded = list(decode_table(table, self._schema, first))
        except ConfigError as error:
            # Beam's own mark: it leaves the text and the kind of such an error alone.
            error._tagged_with_step = True  # type: ignore[attr-defined]  # Beam sets it, too
            raise
        if self._look is not None:
            some = table[:LOOKED_AT]
            yield TaggedOutput(
                SEEN, _seen(decoded, self._look, lambda other: decode_table(some, other))
            )
        yield from emit(iter(decoded))

    def _decoded(self) -> Iterator[Any]:
        held, first = self._held, self._first
        self._held, self._first, self._stamp = [], first + len(held), None
        decoded = list(decode_rows(held, first, self._schema))
        if self._look is not None:
            some = held[:LOOKED_AT]
            yield TaggedOutput(
                SEEN, _seen(decoded, self._look, lambda other: decode_rows(some, 0, other))
            )
        yield from emit(iter(decoded))


def _seen(decoded: Sequence[Decoded], look: FirstLook, again: Read) -> Evidence:
    """What a bundle shows; where that leaves a doubt, also what else would fit its first events."""
    result = sum(map(look.evidence, decoded), Evidence())
    return result + look.tried(look.doubts(result), again)


def from_rows(events: Any, schema: EventSchema, look: FirstLook | None = None) -> Any:
    """Adds FromRows: collections ``.events``, ``.dead``, and with a look ``.seen``.

    Raises:
      ConfigError: the type of the elements says that they are no events, or lacks a column.
    """
    check_elements(events.element_type, schema)
    kinds = {DEAD: pa.RecordBatch} | ({} if look is None else {SEEN: Evidence})
    return events | "FromRows" >> beam.ParDo(FromRows(schema, look)).with_output_types(
        pa.RecordBatch, **kinds
    ).with_outputs(*kinds, main="events")


EVENTS = RecordsPlace("events", "...", "events", f"give {ALLOWED}")


class Refuse(Step):
    """Releases pass, unless what was seen of all events leaves a doubt: then the job fails."""

    def __init__(self, look: FirstLook) -> None:
        self._look = look

    def process(self, release: Any, seen: Evidence) -> Iterator[Any]:
        """Raises ConfigError: what none of the events has, and the remedy."""
        doubts = self._look.doubts(seen)
        if doubts:
            error = refusal(self._look, seen, doubts, EVENTS)
            # Beam's own mark: it leaves the text of such an error alone.
            error._tagged_with_step = True  # type: ignore[attr-defined]  # Beam sets it, too
            raise error
        yield release


class Gate(beam.PTransform[Any, Any]):
    """Holds releases until all events were looked at; the types of batches stay.

    Args:
      look: which looked. seen: PCollection of Evidence.
    """

    def __init__(self, look: FirstLook, seen: Any) -> None:
        super().__init__()
        self._look, self._seen = look, seen

    def expand(self, releases: Any) -> Any:
        """Sum, Refuse."""
        total = self._seen | "Sum" >> beam.CombineGlobally(_sum).with_output_types(Evidence)
        return releases | "Refuse" >> beam.ParDo(
            Refuse(self._look), AsSingleton(total)
        ).with_output_types(releases.element_type)


def _sum(found: Iterable[Evidence]) -> Evidence:
    return sum(found, Evidence())

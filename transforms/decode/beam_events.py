"""DoFns that decode: events of Python as elements, what a first look at them shows, and decoded
batches as outputs, counted.

An event is a mapping, or a value with named fields. A value an event costs a hundred times what a
row of a batch does; of frames and tables many are read at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import AsSingleton, TaggedOutput

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.input_validation import SEEN, Evidence, FirstLook, Read
from weir.transforms.decode.memory_events import (
    ALLOWED,
    check_elements,
    decode_table,
    is_table,
    pick,
)
from weir.transforms.decode.mixed_columns import columns_of
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.validation_errors import RecordsPlace, refusal
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import DEAD, count_by_field, count_dead, dead_letters
from weir.transforms.runtime.reasons import MISSING, VALUES, counter_of
from weir.transforms.runtime.windowing import stamped

_SPOILT = frozenset(VALUES) - {"not_a_time"}


def emit(decoded: Iterator[Decoded]) -> Iterator[Any]:
    """Decoded batches as outputs of a DoFn, counted: events, missing values, dead letters."""
    missing: Counter[str] = Counter()
    for events, dead, absent in decoded:
        if events is not None:
            missing.update(_absent(events, absent))
        if dead is not None:
            for (field, reason), count in count_by_field(dead).items():
                missing[field] -= count if reason in _SPOILT else 0
        if dead is not None:
            count_dead(dead)
            yield beam.pvalue.TaggedOutput(DEAD, dead)
        if events is not None:
            counters.add("events", events.num_rows)
            yield events
    for field, count in missing.items():
        counters.add(counter_of(field, MISSING), max(0, count))


class SourceOutput(NamedTuple):
    """PCollections of canonical batches and of dead letters."""

    events: Any
    dead: Any


def decoded_by(elements: Any, label: str, decode: beam.DoFn) -> SourceOutput:
    """Returns what a DoFn that decodes, and ends in ``emit``, makes of a collection."""
    found = elements | label >> beam.ParDo(decode).with_output_types(
        pa.RecordBatch, dead=pa.RecordBatch
    ).with_outputs(DEAD, main="events")
    return SourceOutput(found.events, found[DEAD])


def _absent(events: pa.RecordBatch, known: Mapping[str, int]) -> dict[str, int]:
    """How many values each column of the user's lacks, those that could not be read included."""
    return {
        name: known[name] if name in known else _count_of_missing(events.column(name))
        for name in events.schema.names
        if not name.startswith("@")
    }


def _count_of_missing(column: pa.Array) -> int:
    return int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py())


def concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Small batches of one source -> one; their dictionaries of keys are made one first.

    Args:
      batches: one or more, of the same columns.
    """
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    found = table.to_batches()
    return found[0] if found else batches[0].slice(0, 0)


ROWS = 1 << 16
LOOKED_AT = 1_000
"""Events of a bundle that are read again where there is a doubt."""
SOURCE = "rows"


class FromRows(beam.DoFn):
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
        for found in self._decoded():
            if isinstance(found, TaggedOutput):
                yield TaggedOutput(found.tag, stamped(found.value, stamp))
            else:
                yield stamped(found, stamp)

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
    found = sum(map(look.evidence, decoded), Evidence())
    return found + look.tried(look.doubts(found), again)


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


class Refuse(beam.DoFn):
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

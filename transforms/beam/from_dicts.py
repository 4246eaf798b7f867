"""Python values as events: for notebooks and small jobs. Files and messages come as batches.

An event is a mapping, or a value with named fields (see python_events). A value an event costs a
hundred times what a row of a batch does; of frames and tables many are read at once (see tables).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from weir.dpcore.errors import ConfigError
from weir.transforms.beam.element_types import check_elements
from weir.transforms.beam.elements import emit, stamped
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.first_look import SEEN, Evidence, FirstLook, Read
from weir.transforms.decode.python_events import pick
from weir.transforms.decode.python_rows import decode_rows
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.tables import decode_table, is_table
from weir.transforms.runtime.dead_letters import DEAD

ROWS = 1 << 16
LOOKED_AT = 1_000
"""Events of a bundle that are read again where there is a doubt."""


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

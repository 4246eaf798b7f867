"""Python dictionaries as events: for notebooks and small jobs. Files and messages come as batches.

A dictionary an event costs a hundred times what a row of a batch does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from transforms.dead_letters import DEAD
from transforms.decode import emit
from transforms.decode_batch import assemble
from transforms.decode_rows import columns_of
from transforms.event_schema import EventSchema

ROWS = 1 << 16
SOURCE = "rows"


class FromRows(beam.DoFn):
    """Dictionaries -> canonical batches; what cannot be read is tagged "dead".

    Batches that are there already pass by. Positions count within a bundle.
    """

    def __init__(self, schema: EventSchema) -> None:
        self._schema = schema
        self._held: list[Mapping[str, Any]] = []
        self._first = 0
        self._stamp: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": [], "_first": 0, "_stamp": None}

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._first, self._stamp = [], 0, None

    def process(self, event: Any, stamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Gathers events."""
        if isinstance(event, pa.RecordBatch):
            yield event
            return
        self._held.append(event)
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
                yield TaggedOutput(found.tag, WindowedValue(found.value, stamp, [GlobalWindow()]))
            else:
                yield WindowedValue(found, stamp, [GlobalWindow()])

    def _decoded(self) -> Iterator[Any]:
        n = len(self._held)
        positions = np.arange(self._first, self._first + n, dtype=np.int64)
        columns, bad = columns_of(self._held, self._schema)
        self._held, self._first, self._stamp = [], self._first + n, None
        return emit(iter([assemble(columns, positions, self._schema, SOURCE, bad)]))


def from_rows(events: Any, schema: EventSchema) -> Any:
    """Adds FromRows: collections ``.events`` and ``.dead``."""
    return events | "FromRows" >> beam.ParDo(FromRows(schema)).with_output_types(
        pa.RecordBatch, dead=pa.RecordBatch
    ).with_outputs(DEAD, main="events")

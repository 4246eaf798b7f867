"""Events that lie in this process: a frame, a table, or Python values. For notebooks.

They are held by a handle, as a fresh secret is: they are never pickled into a graph, and only
runners with their workers in this process can read them.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.input_validation import Evidence, FirstLook
from weir.transforms.decode.memory_events import ALLOWED, decode_table, is_table, pick
from weir.transforms.decode.mixed_columns import decode_rows
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.validation_errors import RecordsPlace, doubtful_predicate, refusal
from weir.transforms.sources.opened import BoundedEvents
from weir.transforms.sources.seal import SourceChanged, key_for

ROWS = 1 << 16
"""Events of a batch."""
_held: dict[str, Any] = {}
_sealed: dict[str, dict[tuple[int, int], bytes]] = {}
"""Digests of the pieces of events that a ledger has entered, by handle. They stay in here."""
_numbers = itertools.count()


@contextlib.contextmanager
def holding(events: Any) -> Iterator[str]:
    """Holds events as long as they are read. Gives their handle.

    Args:
      events: a frame of pandas, a table or a batch of Arrow, or an iterable of mappings and of
        values with named fields.

    Raises:
      TypeError: anything else.
    """
    if isinstance(events, (str, bytes, Mapping)) or not (
        is_table(events) or isinstance(events, Iterable)
    ):
        raise TypeError(
            f"events must be a frame of pandas, a table of Arrow, or a list of {ALLOWED}, not "
            f"{type(events).__name__}; files are read by weir run."
        )
    handle = f"events {next(_numbers)}"
    _held[handle] = events if is_table(events) else tuple(events)
    try:
        yield handle
    finally:
        del _held[handle]
        _sealed.pop(handle, None)


def held(handle: str) -> Any:
    """The events of a handle.

    Raises:
      ConfigError: this process holds none.
    """
    if handle not in _held:
        raise ConfigError(
            "source.memory", handle, "is in no reach: events in memory are read where they lie."
        )
    return _held[handle]


def decoded(events: Any, schema: EventSchema, start: int, stop: int) -> Iterator[Decoded]:
    """Some of the events as canonical batches.

    Raises:
      ConfigError: a column that is missing, or of a type that cannot play its role.
    """
    some = _cut(events, start, stop)
    if is_table(some):
        return decode_table(some, schema, start)
    return decode_rows([pick(event, schema.needed) for event in some], start, schema)


def _cut(events: Any, start: int, stop: int) -> Any:
    if isinstance(events, (pa.Table, pa.RecordBatch)):
        return events.slice(start, stop - start)
    return events.iloc[start:stop] if is_table(events) else events[start:stop]


def pieces(events: Any) -> Iterator[tuple[int, int]]:
    """Where batches begin and end."""
    for start in range(0, len(events), ROWS):
        yield start, min(start + ROWS, len(events))


def seal(handle: str, schema: EventSchema, key: bytes) -> str:
    """Keyed digest of what a plan reads of the events, in their order; 32 hex digits. From now on
    nothing else is read under the handle."""
    events = held(handle)
    results = {piece: _digest(decoded(events, schema, *piece)) for piece in pieces(events)}
    _sealed[handle] = results
    digest = hashlib.blake2b(key=key_for(key), digest_size=16)
    for item in results.values():
        digest.update(item)
    return digest.hexdigest()


def _digest(some: Iterable[Decoded]) -> bytes:
    digest = hashlib.blake2b()
    for item in some:
        if item.events is not None:
            digest.update(_bytes(item.events))
    return digest.digest()


def _bytes(batch: pa.RecordBatch) -> memoryview:
    """A batch as the same bytes, however its columns were cut and coded before."""
    columns = {}
    for name in batch.schema.names:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        columns[name] = column.take(pa.array(np.arange(len(column))))
    sink = pa.BufferOutputStream()
    plain = pa.RecordBatch.from_pydict(columns)
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_batch(plain)
    return memoryview(sink.getvalue())


def decode_piece(handle: str, schema: EventSchema, piece: tuple[int, int]) -> Iterator[Decoded]:
    """Events [start, stop) as canonical batches.

    Raises:
      SourceChanged: they are not what a ledger has entered.
    """
    result = list(decoded(held(handle), schema, *piece))
    sealed = _sealed.get(handle)
    if sealed is not None and sealed.get(piece) != _digest(result):
        raise SourceChanged(
            "the events changed since the ledger was read, and it has entered them as they "
            "were. Release a copy that nothing else writes to."
        )
    return iter(result)


class OpenedMemory(BoundedEvents):
    """Events in memory that can be read.

    Args:
      handle: of the events. schema: the roles of columns.
      look: what the events must have; None looks at none.

    Attributes:
      notes: what the first look found doubtful.

    Raises:
      ConfigError: a missing column, one of a wrong type, or events of which none fits.
    """

    def __init__(self, handle: str, schema: EventSchema, look: FirstLook | None = None) -> None:
        self.handle, self.schema = handle, schema
        self.notes = () if look is None else tuple(_look(held(handle), look))

    def splits(self) -> Iterator[tuple[int, int]]:
        """Where batches begin and end."""
        return pieces(held(self.handle))

    def decode(self, split: tuple[int, int], alone: bool = True) -> Iterator[Decoded]:
        """Canonical batches of a piece."""
        return decode_piece(self.handle, self.schema, split)


def _look(events: Any, look: FirstLook) -> Sequence[str]:
    """Reads events until one fits the config, and refuses where none does."""
    seen = Evidence()
    for start, stop in pieces(events):
        seen += sum(map(look.evidence, decoded(events, look.schema, start, stop)), Evidence())
        if seen["records"] and not look.doubts(seen):
            break
    place = RecordsPlace("events", "...", "events", f"give {ALLOWED}")
    doubts = look.doubts(seen)
    if doubts:
        seen += look.tried(doubts, lambda other: decoded(events, other, 0, ROWS))
        raise refusal(look, seen, doubts, place)
    note = doubtful_predicate(look, seen, place)
    return [] if note is None else [note]

"""Typed columns, as Arrow IPC and Parquet have them: the needed ones only, batch after batch.

A batch whose framing is broken is put aside as malformed, one dead letter for each record that it
held; a bad value costs its own record at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from weir.transforms.decode.arrow_frames import size_of, unclosed, unlisted
from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.cast import plain_type
from weir.transforms.decode.columnar_sound import sound
from weir.transforms.decode.lists import is_arrow_list
from weir.transforms.decode.nested import check_names, column_of, names_of, type_of
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.dead_letters import WHOLE_FILE, dead_letters

BATCH_ROWS = 2**18
LIST_ROWS = 2**15
LIST_NUMBERS = 2**22
"""Rows of a batch of lists, and numbers in one, at most."""

UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError)
"""What readers raise on broken files, beside failures of the system. Never shown: it may quote."""

NO_TYPES: Mapping[str, pa.DataType] = MappingProxyType({})

Lost = Callable[[float], None]
"""Is told the share, in (0, 1], of what a decoder was given that could not be read."""


def unweighed(share: float) -> None:
    """For those who do not ask how much was lost."""


def is_broken(error: Exception) -> bool:
    """Whether an error of a reader speaks of the file's content, not of disk or network.

    A failure of the system carries its number, and must not be taken for bad data.
    """
    return isinstance(error, UNREADABLE) and getattr(error, "errno", None) is None


def whole_file(source: str) -> Decoded:
    """The dead letter of a file whose number of records cannot be known."""
    return Decoded(None, dead_letters(source, np.array([WHOLE_FILE]), "malformed"))


def lost_rows(source: str, first: int, count: int) -> Decoded:
    """The dead letters of ``count`` records from row ``first`` on."""
    positions = np.arange(first, first + count, dtype=np.int64)
    return Decoded(None, dead_letters(source, positions, "malformed"))


def rows_of(schema: EventSchema) -> int:
    """Rows of a batch: of lists fewer, as they are held twice while they are read."""
    if schema.listed is None:
        return BATCH_ROWS
    if schema.listed.column is None:
        return LIST_ROWS
    return max(1, min(LIST_ROWS, LIST_NUMBERS // schema.listed.size))


def check_columns(found: pa.Schema, schema: EventSchema, source: str) -> None:
    """Checks names and types of columns, as ``decode_batch`` reads them, against their roles.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role. Of a stream's
        message neither is an error.
    """
    schema.require(names_of(found, schema.needed), source)
    if not schema.time.strict:
        return
    raw = {name: _nothing(plain_type(type_of(found, name))) for name in schema.needed}
    assemble(raw, np.zeros(0, dtype=np.int64), schema, source)


def _nothing(kind: pa.DataType) -> pa.Array:
    """No value of a type."""
    try:
        return pa.nulls(0, kind)
    except (pa.ArrowException, KeyError):  # a type that Arrow cannot make, or Python not hold
        inner = pa.struct([])
        return pa.nulls(0, pa.list_(inner) if is_arrow_list(kind) else inner)


def decode_batch(
    batch: pa.RecordBatch,
    first: int,
    schema: EventSchema,
    source: str,
    numbers: bool = False,
    types: Mapping[str, pa.DataType] = NO_TYPES,
) -> Decoded | None:
    """A batch as a reader gives it -> a canonical one; None if the framing of a column is broken.

    Args:
      first: position of its first row.
      schema: the roles of columns. source: path or topic.
      numbers: see ``assemble``.
      types: of columns that stand for values of another type than they are of; of equal bits.

    Raises:
      ConfigError: a column's type cannot play its role.
    """
    raw: dict[str, Any] = {}
    spoilt: dict[str, Any] = {}
    for name in schema.needed:
        try:
            column = column_of(batch, name)
        except (pa.ArrowInvalid, KeyError):
            return None
        if name in types and column is not None:
            column = column.cast(types[name])
        found = sound(pa.nulls(batch.num_rows) if column is None else column)
        if found is None:
            return None
        raw[name] = found.values
        if found.lost is not None:
            spoilt[name] = found.lost
    positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
    return assemble(raw, positions, schema, source, spoilt, numbers=numbers)


def decode_arrow(
    file: Any, schema: EventSchema, source: str, lost: Lost = unweighed, closed: bool = False
) -> Iterator[Decoded]:
    """Arrow IPC, file or stream -> canonical batches; one decoded batch a record batch.

    A batch of a file that cannot be read loses an unknown number of rows: it leaves one dead letter
    at the position where it would have begun. A stream ends there.

    Args:
      file: Arrow file object, or another that can seek.
      schema: the roles of columns.
      source: path or topic.
      lost: is told the share that could not be read: of a file's batches, of a stream's bytes.
      closed: whether the end must be there: where a stream was stored and may have been cut.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role.
    """
    try:
        reader: Any = pa.ipc.open_file(file)
        missing = unlisted(file) if closed else 0.0
        batches, columns = _file_batches(reader, missing), _named(reader)
    except UNREADABLE:
        file.seek(0)
        try:
            reader = pa.ipc.open_stream(file)
            batches, columns = _stream_batches(reader, file, closed), _named(reader)
        except UNREADABLE:
            lost(1.0)
            yield whole_file(source)
            return
    check_columns(columns, schema, source)
    yield from _decode_all(batches, schema, source, 0, lost)


def _named(reader: Any) -> pa.Schema:
    """Its schema, of names that can be read."""
    found: pa.Schema = reader.schema
    check_names(found)
    return found


def decode_batches(
    batches: Iterable[pa.RecordBatch], schema: EventSchema, source: str, first: int = 0
) -> Iterator[Decoded]:
    """Batches that lie in memory -> canonical batches; of names the caller has made sure.

    Args:
      schema: the roles of columns. source: what they are called. first: position of the first row.

    Raises:
      ConfigError: a column's type cannot play its role.
    """
    return _decode_all(((batch, 0.0) for batch in batches), schema, source, first, unweighed)


def _decode_all(
    batches: Iterable[tuple[pa.RecordBatch | None, float]],
    schema: EventSchema,
    source: str,
    at: int,
    lost: Lost,
) -> Iterator[Decoded]:
    """Batches, None where one is broken, each with its share of all there is."""
    for batch, share in batches:
        if batch is None:
            lost(share)
            yield lost_rows(source, at, 1)
            at += 1
            continue
        step = rows_of(schema)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            decoded = decode_batch(part, at, schema, source)
            if decoded is None:
                lost(share * part.num_rows / batch.num_rows)
            yield decoded or lost_rows(source, at, part.num_rows)
            at += part.num_rows


def _file_batches(reader: Any, missing: float) -> Iterator[tuple[pa.RecordBatch | None, float]]:
    """Batches, None where broken, each with its share of the file: where they lie is not told.
    None for all that the footer does not list, too."""
    for i in range(reader.num_record_batches):
        try:
            batch = reader.get_batch(i)
        except UNREADABLE as error:
            if not is_broken(error):
                raise
            batch = None
        yield batch, 1 / reader.num_record_batches
    if missing:
        yield None, missing


def _stream_batches(
    reader: Any, file: Any, closed: bool
) -> Iterator[tuple[pa.RecordBatch | None, float]]:
    """Batches, and None for the rest if it is broken, each with its share of the bytes."""
    at, size = file.tell(), size_of(file)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            if closed and (missing := unclosed(file, at)):
                yield None, missing
            return
        except UNREADABLE as error:
            if not is_broken(error):
                raise
            yield None, max(size - at, 1) / size
            return
        begin, at = at, file.tell()
        yield batch, (at - begin) / size

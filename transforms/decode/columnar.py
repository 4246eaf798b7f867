"""Parquet and Arrow IPC: needed columns only, one row group or record batch after the other.

A row group or a batch whose framing is broken is put aside as malformed, one dead letter for each
record that it held; a bad value costs its own record at most.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir.transforms.decode.arrow_frames import size_of, unclosed, unlisted
from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.columnar_sound import sound
from weir.transforms.decode.lists import to_lists
from weir.transforms.decode.nested import column_of, names_of, type_of
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.dead_letters import WHOLE_FILE, dead_letters

BATCH_ROWS = 2**18
LIST_ROWS = 2**15
LIST_NUMBERS = 2**22
"""Rows of a batch of lists, and numbers in one, at most."""

_UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError)
"""What readers raise on broken files, beside failures of the system. Never shown: it may quote."""


Piece = tuple[int, int, pa.RecordBatch | None]
"""First row, number of rows, and a batch of them, or None where they cannot be read."""

Ahead = Callable[[Iterator[Any]], Iterator[Any]]
"""Gives what it is given, and may make it in a thread."""

Lost = Callable[[float], None]
"""Is told the share, in (0, 1], of what a decoder was given that could not be read."""


def unweighed(share: float) -> None:
    """For those who do not ask how much was lost."""


class Groups(NamedTuple):
    """What a file's footer says.

    Attributes:
      schema: of the columns.
      rows: number of rows of each group.
      footer: as Arrow read it.
    """

    schema: pa.Schema
    rows: tuple[int, ...]
    footer: pq.FileMetaData


def is_broken(error: Exception) -> bool:
    """Whether an error of a reader speaks of the file's content, not of disk or network.

    A failure of the system carries its number, and must not be taken for bad data.
    """
    return isinstance(error, _UNREADABLE) and getattr(error, "errno", None) is None


def whole_file(source: str) -> Decoded:
    """The dead letter of a file whose number of records cannot be known."""
    return Decoded(None, dead_letters(source, np.array([WHOLE_FILE]), "malformed"))


def lost_rows(source: str, first: int, count: int) -> Decoded:
    """The dead letters of ``count`` records from row ``first`` on."""
    positions = np.arange(first, first + count, dtype=np.int64)
    return Decoded(None, dead_letters(source, positions, "malformed"))


def parquet_groups(file: Any) -> Groups | None:
    """Row groups of a Parquet file; None if its footer cannot be read."""
    try:
        with pq.ParquetFile(file) as parquet:
            footer = parquet.metadata
            rows = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
            if sum(rows) != footer.num_rows:  # a footer that lost a group reads well otherwise
                return None
            return Groups(parquet.schema_arrow, rows, footer)
    except _UNREADABLE as error:
        if not is_broken(error):
            raise
        return None


def decode_parquet(
    file: Any,
    schema: EventSchema,
    source: str,
    groups: Sequence[int] | None = None,
    batch_rows: int = BATCH_ROWS,
    lost: Lost = unweighed,
    numbers: bool = False,
    ahead: Ahead = iter,
    known: Groups | None = None,
) -> Iterator[Decoded]:
    """Row groups -> canonical batches.

    Args:
      file: path, file object or Arrow buffer.
      schema: the roles of columns.
      source: path, for positions and messages.
      groups: which row groups; None reads all.
      batch_rows: rows a batch.
      lost: is told the share of the rows that were in what could not be read.
      numbers: ids and users may stay whole numbers (``assemble``).
      ahead: of columns as they are in the file.
      known: what its footer says, where somebody has read it.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role.
    """
    found = parquet_groups(file) if known is None else known
    if found is None:
        lost(1.0)
        yield whole_file(source)
        return
    schema.require(names_of(found.schema, schema.needed), source)
    batch_rows = min(batch_rows, _rows_of(schema))
    firsts = np.concatenate([[0], np.cumsum(found.rows)]).tolist()
    asked = range(len(found.rows)) if groups is None else groups
    total = sum(found.rows[group] for group in asked)
    with _opened(file, found, schema, source) as parquet:
        pieces = _pieces(parquet, asked, firsts, batch_rows, list(schema.needed))
        read: Any = ahead(pieces)
        with closing(read):  # before the file is
            for at, rows, batch in read:
                decoded = None if batch is None else _decode(batch, at, schema, source, numbers)
                del batch  # or it would live while the next is waited for
                if decoded is None:
                    lost(rows / total)
                yield decoded or lost_rows(source, at, rows)


def _pieces(
    parquet: Any, groups: Iterable[int], firsts: Sequence[int], rows: int, columns: list[str]
) -> Iterator[Piece]:
    """Batches of so many rows, and for each group what could not be read of it."""
    for group in groups:
        at, end = firsts[group], firsts[group + 1]
        try:
            batches = parquet.iter_batches(
                rows, row_groups=[group], columns=columns, use_threads=False
            )
            for batch in _guarded(batches):
                yield at, batch.num_rows, batch
                at += batch.num_rows
        except _Broken:
            pass
        if at < end:
            yield at, end - at, None


def _opened(file: Any, groups: Groups, schema: EventSchema, source: str) -> Any:
    """A Parquet file whose footer was read, its columns of lists as lists of any length.

    Where Arrow wrote them as lists of one length, its reader fails a whole row group at a list that
    is null: how they were in memory is hidden from it.
    """
    # What lies near is not read ahead: it would only be held twice.
    ahead = not isinstance(file, pa.NativeFile)
    read = partial(
        pq.ParquetFile,
        file,
        read_dictionary=_dictionaries(schema),
        pre_buffer=ahead,
        page_checksum_verification=True,
    )
    lists = () if schema.listed is None else schema.listed.columns
    kinds = [type_of(groups.schema, name) for name in lists]
    if not any(pa.types.is_fixed_size_list(kind) for kind in kinds):
        return read(metadata=groups.footer)
    if schema.listed is not None and schema.listed.column is not None and schema.time.strict:
        nothing = pa.nulls(0, kinds[0])
        to_lists(nothing, None, schema.listed, schema.field_of(schema.listed.name), source)
    sink = io.BytesIO()
    groups.footer.write_metadata_file(sink)
    hidden = sink.getvalue().replace(b"ARROW:schema", b"arrow-hidden")
    return read(metadata=pq.read_metadata(pa.BufferReader(hidden)))


def _rows_of(schema: EventSchema) -> int:
    """Rows of a batch: of lists fewer, as they are held twice while they are read."""
    if schema.listed is None:
        return BATCH_ROWS
    if schema.listed.column is None:
        return LIST_ROWS
    return max(1, min(LIST_ROWS, LIST_NUMBERS // schema.listed.size))


class _Broken(Exception):
    """A reader gave up; carries nothing of what it said."""


def _guarded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except _UNREADABLE as error:
            if not is_broken(error):
                raise
            raise _Broken from None
        yield batch


def _dictionaries(schema: EventSchema) -> list[str]:
    """Keys arrive as dictionaries, unless the column has to play another role too."""
    return [k for k in schema.keys if k not in schema.columns and k != schema.time.column]


def _decode(
    batch: pa.RecordBatch, first: int, schema: EventSchema, source: str, numbers: bool = False
) -> Decoded | None:
    """None if the framing of a column is broken. numbers: see ``assemble``."""
    raw: dict[str, Any] = {}
    spoilt: dict[str, Any] = {}
    for name in schema.needed:
        try:
            column = column_of(batch, name)
        except pa.ArrowInvalid:
            return None
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
        batches, names = _file_batches(reader, missing), names_of(reader.schema, schema.needed)
    except _UNREADABLE:
        file.seek(0)
        try:
            reader = pa.ipc.open_stream(file)
            batches = _stream_batches(reader, file, closed)
            names = names_of(reader.schema, schema.needed)
        except _UNREADABLE:  # names that are not UTF-8 too
            lost(1.0)
            yield whole_file(source)
            return
    schema.require(names, source)
    yield from _decode_all(batches, schema, source, 0, lost)


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
        step = _rows_of(schema)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            decoded = _decode(part, at, schema, source)
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
        except _UNREADABLE as error:
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
        except _UNREADABLE as error:
            if not is_broken(error):
                raise
            yield None, max(size - at, 1) / size
            return
        begin, at = at, file.tell()
        yield batch, (at - begin) / size

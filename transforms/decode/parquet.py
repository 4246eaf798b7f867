"""Parquet: needed columns only, one row group after the other.

Arrow stores the schema that a table had in memory, and casts what it reads to its types. Such a
cast fails as a whole: at the 129th name of a dictionary with indices of a byte, at a text that is
not UTF-8, at a null among lists of one length. So values are read by Parquet's own types, and the
stored schema only adds what these cannot say: units of durations, zones of times, lengths of lists.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.cast import is_text, plain_type
from weir.transforms.decode.columnar import (
    BATCH_ROWS,
    UNREADABLE,
    Lost,
    check_columns,
    decode_batch,
    is_broken,
    lost_rows,
    rows_of,
    unweighed,
    whole_file,
)
from weir.transforms.decode.lists import is_arrow_list
from weir.transforms.decode.nested import check_names, type_of
from weir.transforms.decode.schema import EventSchema

Piece = tuple[int, int, pa.RecordBatch | None]
"""First row, number of rows, and a batch of them, or None where they cannot be read."""

Ahead = Callable[[Iterator[Any]], Iterator[Any]]
"""Gives what it is given, and may make it in a thread."""

_MAGIC, _LENGTH = b"PAR1", 4
_STORED, _HIDDEN = b"ARROW:schema", b"arrow-hidden"
_TRIED = 16


class RowGroups(NamedTuple):
    """What a file's footer says.

    Attributes:
      schema: of the columns, as what they stand for.
      rows: number of rows of each group.
      footer: as Arrow read it, without the stored schema.
    """

    schema: pa.Schema
    rows: tuple[int, ...]
    footer: pq.FileMetaData


def parquet_groups(file: Any) -> RowGroups | None:
    """Row groups of a Parquet file; None if its footer cannot be read."""
    try:
        footer = _without_schema(_footer(file))
        rows = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
        if sum(rows) != footer.num_rows:  # a footer that lost a group reads well otherwise
            return None
        schema = footer.schema.to_arrow_schema()
        check_names(schema)
        return RowGroups(_with_meanings(schema, _stored_schema(footer)), rows, footer)
    except UNREADABLE as error:
        if not is_broken(error):
            raise
        return None


def _footer(file: Any) -> bytes:
    """The footer of a file, as a file of its own.

    Raises:
      ValueError: there is none.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - len(_MAGIC) - _LENGTH))
    end = file.read(len(_MAGIC) + _LENGTH)
    length = int.from_bytes(end[:_LENGTH], "little") + len(end)
    if end[_LENGTH:] != _MAGIC or length + len(_MAGIC) > size:
        raise ValueError
    file.seek(size - length)
    return _MAGIC + bytes(file.read(length))


def _without_schema(data: bytes) -> pq.FileMetaData:
    """A footer whose stored schema has another name, so that no reader finds it.

    Raises:
      ValueError: it cannot be found in it.
    """
    at = len(data)
    # Columns and texts may have that name, too. What is stored with a name comes last in a footer.
    for _ in range(_TRIED):
        at = data.rfind(_STORED, 0, at)
        if at < 0:
            break
        renamed = data[:at] + _HIDDEN + data[at + len(_HIDDEN) :]
        result = pq.read_metadata(pa.BufferReader(renamed))
        if _HIDDEN in (result.metadata or {}):
            return result
    result = pq.read_metadata(pa.BufferReader(data))
    if _STORED in (result.metadata or {}):
        raise ValueError
    return result


def _stored_schema(footer: pq.FileMetaData) -> pa.Schema | None:
    text = (footer.metadata or {}).get(_HIDDEN)
    try:
        return None if text is None else pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
    except UNREADABLE:
        return None


def _with_meanings(read: pa.Schema, stored: pa.Schema | None) -> pa.Schema:
    """Types of columns, with what only the stored schema says of them."""
    if stored is None or stored.names != read.names:
        return read
    fields = [_meant(*pair) for pair in zip(read, stored, strict=True)]
    return pa.schema(fields, read.metadata)


def _meant(read: pa.Field, stored: pa.Field) -> pa.Field:
    kind, value = read.type, plain_type(stored.type)
    if pa.types.is_duration(value) and pa.types.is_int64(kind):
        kind = value
    elif pa.types.is_timestamp(kind) and pa.types.is_timestamp(value):
        kind = pa.timestamp(kind.unit, kind.tz and (value.tz or kind.tz))
    elif is_arrow_list(kind) and is_arrow_list(value):
        size = value.list_size if pa.types.is_fixed_size_list(value) else -1
        kind = pa.list_(_meant(kind.value_field, value.value_field), size)
    elif pa.types.is_struct(kind) and pa.types.is_struct(value):
        inner = pa.schema(list(kind)), pa.schema(list(value))
        kind = pa.struct(list(_with_meanings(*inner)))
    return read.with_type(kind)


def _of_any_length(kind: pa.DataType) -> pa.DataType:
    """A type without lengths of lists: a cast to one fails at a list that is null."""
    if is_arrow_list(kind):
        return pa.list_(kind.value_field.with_type(_of_any_length(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_of_any_length(field.type)) for field in kind])
    return kind


def _to_restore(groups: RowGroups, names: Iterable[str]) -> dict[str, pa.DataType]:
    """Of some columns those that stand for another type than Parquet's, and that; of equal bits."""
    read = groups.footer.schema.to_arrow_schema()
    meant = {name: _of_any_length(type_of(groups.schema, name)) for name in names}
    return {name: kind for name, kind in meant.items() if kind != type_of(read, name)}


def open_parquet(file: Any, groups: RowGroups, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """A Parquet file whose footer was read. dictionaries: columns of text to be read as such."""
    # What lies near is not read ahead: it would only be held twice.
    ahead = not isinstance(file, pa.NativeFile)
    return pq.ParquetFile(
        file,
        metadata=groups.footer,
        read_dictionary=list(dictionaries),
        pre_buffer=ahead,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",  # nanoseconds end in 2262: a later time became another
    )


def whole_batches(file: Any, groups: RowGroups, rows: int) -> Iterator[pa.RecordBatch]:
    """All columns of a file, as what they stand for, so many rows at a time.

    Raises:
      pyarrow.ArrowException, OSError, ValueError: it cannot be read.
    """
    restored = _to_restore(groups, groups.schema.names)
    with open_parquet(file, groups) as parquet:
        for batch in parquet.iter_batches(rows):
            columns = {
                name: values.cast(restored[name]) if name in restored else values
                for name, values in zip(batch.schema.names, batch.columns, strict=True)
            }
            yield pa.RecordBatch.from_pydict(columns)


def decode_parquet(
    file: Any,
    schema: EventSchema,
    source: str,
    groups: Sequence[int] | None = None,
    batch_rows: int = BATCH_ROWS,
    lost: Lost = unweighed,
    numbers: bool = False,
    ahead: Ahead = iter,
    known: RowGroups | None = None,
) -> Iterator[Decoded]:
    """Row groups -> canonical batches.

    Args:
      file: file object, or one of Arrow's.
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
    result = parquet_groups(file) if known is None else known
    if result is None:
        lost(1.0)
        yield whole_file(source)
        return
    check_columns(result.schema, schema, source)
    batch_rows = min(batch_rows, rows_of(schema))
    firsts = np.concatenate([[0], np.cumsum(result.rows)]).tolist()
    asked = range(len(result.rows)) if groups is None else groups
    total = sum(result.rows[group] for group in asked)
    types = _to_restore(result, schema.needed)
    with open_parquet(file, result, _dictionaries(schema, result.schema)) as parquet:
        pieces = _pieces(parquet, asked, firsts, batch_rows, list(schema.needed))
        read: Any = ahead(pieces)
        with closing(read):  # before the file is
            for at, rows, batch in read:
                decoded = None
                if batch is not None:
                    decoded = decode_batch(batch, at, schema, source, numbers, types)
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


class _Broken(Exception):
    """A reader gave up; carries nothing of what it said."""


def _guarded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except UNREADABLE as error:
            if not is_broken(error):
                raise
            raise _Broken from None
        yield batch


def _dictionaries(schema: EventSchema, found: pa.Schema) -> list[str]:
    """Keys of text arrive as dictionaries, unless the column has to play another role too."""
    time = None if schema.time is None else schema.time.column
    read = [key for key in schema.keys if key in schema.needed]
    alone = [k for k in read if k not in schema.columns and k != time]
    return [name for name in alone if is_text(type_of(found, name))]

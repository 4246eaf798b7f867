"""Arrow IPC, files and streams: their batches, what their reader does not report as lost, and the
payloads of many messages at once.

Of messages what frames each is checked alone, then their columns are laid one after the other and
every value is read at once. A message that is not plain and sound in every way is left to be read
by itself, so that it can hurt no other.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from weir.transforms.decode.canonical import Decoded, DecodedTogether, assemble
from weir.transforms.decode.columnar import (
    BATCH_ROWS,
    UNREADABLE,
    Lost,
    decode_content,
    is_broken,
    sound,
    unweighed,
)
from weir.transforms.decode.nested import check_names
from weir.transforms.decode.schema import EventSchema

Batches = Iterator[tuple[pa.RecordBatch | None, float]]

_BLOCK = np.dtype([("at", "<i8"), ("head", "<i4"), ("padding", "<i4"), ("body", "<i8")])
_LISTS = (2, 3)
"""Fields of a footer: blocks of dictionaries, and of record batches."""
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + b"\0\0\0\0"
_BEGIN, _TAIL = 8, 10
"""Bytes before the first message of a file, and behind its footer."""
_GAP = 64
"""Bytes between two messages that may be padding. No record batch is as short."""
_FILE = b"ARROW1"
"""How a file begins; a stream cannot."""
_PLAIN = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_timestamp),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary),
)
"""Types whose arrays can be laid one after the other without a look at what they hold."""


def decode_arrow(
    file: Any, schema: EventSchema, source: str, lost: Lost = unweighed, closed: bool = False
) -> Iterator[Decoded]:
    """A file or stream -> canonical batches; one decoded batch a record batch.

    A batch of a file that cannot be read loses an unknown number of rows: it leaves one dead letter
    at the position where it would have begun. A stream ends there.

    Args:
      file: Arrow file object, or another that can seek.
      schema: the roles of columns.
      source: path or topic.
      lost: takes the share that could not be read: of a file's batches, of a stream's bytes.
      closed: see ``read_content``.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role.
    """
    return decode_content(read_content(file, closed), schema, source, lost)


def read_content(file: Any, closed: bool) -> tuple[pa.Schema, Batches] | None:
    """Opens a file or stream; None if it is neither, or names a column that cannot be read.

    Args:
      closed: whether the end must be there: where it was stored and may have been cut.

    Returns:
      The schema, and batches with their shares of the whole, None where one is broken.
    """
    for read in (_file, _stream):
        file.seek(0)
        try:
            schema, batches = read(file, closed)
            check_names(schema)
            return schema, batches
        except UNREADABLE as error:
            if not is_broken(error):
                raise
    return None


def _file(file: Any, closed: bool) -> tuple[pa.Schema, Batches]:
    reader: Any = pa.ipc.open_file(file)
    return reader.schema, _file_batches(reader, unlisted(file) if closed else 0.0)


def _stream(file: Any, closed: bool) -> tuple[pa.Schema, Batches]:
    reader: Any = pa.ipc.open_stream(file)
    return reader.schema, _stream_batches(reader, file, closed)


def _file_batches(reader: Any, missing: float) -> Batches:
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


def _stream_batches(reader: Any, file: Any, closed: bool) -> Batches:
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


def size_of(file: Any) -> int:
    """Bytes of a file that has some; its position stays."""
    at = file.tell()
    file.seek(0, io.SEEK_END)
    size = int(file.tell())
    file.seek(at)
    return size


def unlisted(file: Any) -> float:
    """Share of an Arrow file, from 0 to 1, that lies in messages that its footer does not list.

    Args:
      file: that Arrow opens as a file; can seek.
    """
    size = size_of(file)
    try:
        (length,) = struct.unpack("<i", _read(file, size - _TAIL, 4))
        footer_at = size - _TAIL - length
        blocks = np.sort(_blocks(_read(file, footer_at, length)), order="at")
        begin = _schema_end(_read(file, _BEGIN, 8))
    except (struct.error, ValueError):
        return 1.0
    ends = np.maximum.accumulate(blocks["at"] + blocks["head"] + blocks["body"])
    if begin is None:
        begin = int(blocks["at"][0]) if len(blocks) else footer_at
    gaps = np.append(blocks["at"], footer_at) - np.insert(ends, 0, begin)
    return float(gaps[gaps >= _GAP].sum() / size)


def unclosed(file: Any, at: int) -> float:
    """Share of a stream, from 0 to 1, that was not read; above 0, too, if its end is missing.

    Args:
      file: as its reader left it, where it found no further batch. at: where the last one ended.
    """
    end, size = file.tell(), size_of(file)
    begin = max(at, end - len(_END))
    tail = _read(file, begin, end - begin)
    closed = tail.endswith(_END) or tail == b"\0\0\0\0"  # the end before version 0.15 of Arrow
    return float(max(size - end, 0 if closed else 1) / size)


def _read(file: Any, at: int, size: int) -> bytes:
    file.seek(at)
    return bytes(file.read(size))


def _schema_end(prefix: bytes) -> int | None:
    """Where the first message of a file ends; None if it does not begin at the usual place."""
    (length,) = struct.unpack("<i", prefix[4:])
    return _BEGIN + len(prefix) + length if prefix.startswith(_CONTINUES) else None


def _blocks(footer: bytes) -> Any:
    """The places of messages, (n,) of _BLOCK. Raises struct.error or ValueError: not a footer."""
    (root,) = struct.unpack_from("<I", footer)
    (back,) = struct.unpack_from("<i", footer, root)
    (size,) = struct.unpack_from("<H", footer, root - back)
    results = [np.zeros(0, _BLOCK)]
    for field in _LISTS:
        slot = 4 + 2 * field
        if slot < size:
            (offset,) = struct.unpack_from("<H", footer, root - back + slot)
            if offset:
                (far,) = struct.unpack_from("<I", footer, root + offset)
                at = root + offset + far
                (count,) = struct.unpack_from("<I", footer, at)
                results.append(np.frombuffer(footer, _BLOCK, count, at + 4))
    return np.concatenate(results)


class _Framed(NamedTuple):
    """The needed columns of a message, in order of the schema, each a list of arrays."""

    columns: list[list[Any]]
    rows: int


def read_together(
    payloads: Sequence[bytes], schema: EventSchema, source: str
) -> tuple[list[DecodedTogether], list[int]]:
    """Reads what can be read together.

    Args:
      payloads: Arrow IPC streams, or anything else. schema: the roles of columns; lenient.
      source: topic or subscription.

    Returns:
      What was read, and the places of the payloads that are left.
    """
    left: list[int] = []
    alike: dict[tuple[Any, ...], list[tuple[int, _Framed]]] = {}
    for place, payload in enumerate(payloads):
        framed = _framed(payload, schema)
        if framed is None:
            left.append(place)
        elif framed.rows:
            types = tuple(arrays[0].type for arrays in framed.columns)
            alike.setdefault(types, []).append((place, framed))
    results = []
    for group in alike.values():
        places, rows = [place for place, _ in group], [framed.rows for _, framed in group]
        try:
            raw = {
                name: pa.concat_arrays([a for _, framed in group for a in framed.columns[i]])
                for i, name in enumerate(schema.needed)
            }
            positions = np.arange(1, sum(rows) + 1, dtype=np.int64)
            results.append(
                DecodedTogether(places, rows, 0, assemble(raw, positions, schema, source))
            )
        except Exception:
            # Whatever one message led the casts to: alone, it can hurt no other.
            left += places
    return results, sorted(left)


def _framed(payload: bytes, schema: EventSchema) -> _Framed | None:
    """The columns of a stream, or None if anything about it is out of the ordinary."""
    if payload.startswith(_FILE):
        return None
    try:
        with pa.ipc.open_stream(payload) as reader:
            names = reader.schema.names
            at = [names.index(name) for name in schema.needed]  # ValueError: one is not there
            if len(set(names)) < len(names):
                return None
            types = [reader.schema.field(i).type for i in at]
            if not all(any(plain(kind) for plain in _PLAIN) for kind in types):
                return None
            columns: list[list[Any]] = [[] for _ in at]
            rows = 0
            for batch in reader:
                rows += batch.num_rows
                for i, arrays in zip(at, columns, strict=True):
                    column = sound(batch.column(i))
                    if column is None or column.lost is not None:
                        return None
                    arrays.append(column.values)
    except Exception:
        # What a reader says of a broken stream may quote it: it is read, and counted, by itself.
        return None
    return _Framed(columns, rows) if rows <= BATCH_ROWS else None

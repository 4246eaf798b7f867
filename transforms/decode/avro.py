"""Avro object container files. A block is the frame: one that is broken loses its own records only.

Within a block each record is read alone: see ``avro_schema``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import fastavro
import numpy as np
from fastavro.read import BLOCK_READERS

from weir.transforms.decode.avro_columns import columns_of
from weir.transforms.decode.avro_schema import Wire, on_the_wire
from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.columnar import Lost, lost_rows, unweighed, whole_file
from weir.transforms.decode.nested import any_nested
from weir.transforms.decode.schema import EventSchema

MAGIC = b"Obj\x01"
BATCH_ROWS = 2**16

_SYNC = 16
_HEADER_BYTES = 16 * 2**20
_BLOCK_BYTES = 256 * 2**20
_BATCH_BYTES = 64 * 2**20


class AvroHeader(NamedTuple):
    """The beginning of a container file.

    Attributes:
      data: its bytes, sync marker included.
      fields: names of the record's fields; none if records are not records.
      described: the schema, with full names.
      codec: how blocks are compressed.
    """

    data: bytes
    fields: tuple[str, ...]
    described: Any
    codec: str

    @property
    def sync(self) -> bytes:
        """The marker after each block."""
        return self.data[-_SYNC:]


def read_header(file: BinaryIO) -> AvroHeader | None:
    """Reads a header and stops behind it; None if there is none that can be read."""
    start = file.tell()
    try:
        if file.read(len(MAGIC)) != MAGIC:
            return None
        size = _skip_metadata(file)
        file.seek(start)
        data = file.read(size - start + _SYNC)
        reader = fastavro.reader(io.BytesIO(data))
        described, codec = reader.writer_schema, str(reader.codec)
    except Exception:
        # fastavro raises whatever its input leads it to; its text may quote content.
        return None
    fields = described.get("fields", ()) if isinstance(described, dict) else ()
    return AvroHeader(data, tuple(field["name"] for field in fields), described, codec)


def wire_of(header: AvroHeader, schema: EventSchema, source: str) -> Wire:
    """How the records of a file are read.

    Raises:
      ConfigError: a needed column is not a field of the records, or its type cannot play its role;
        or see ``on_the_wire``.
    """
    if not any_nested(schema.needed):
        schema.require(header.fields, source)
    wire = on_the_wire(header.described, source, schema.needed)
    inside = [name for name in wire.fields if name not in header.fields]
    schema.require([*header.fields, *inside], source)
    if schema.strict:
        _assemble([], 0, wire, schema, source)
    return wire


def _skip_metadata(file: BinaryIO) -> int:
    while count := _varint(file):
        if count < 0:
            _varint(file)
            count = -count
        for _ in range(2 * count):
            size = _varint(file)
            if not 0 <= size <= _HEADER_BYTES:
                raise ValueError
            file.seek(size, io.SEEK_CUR)
    return file.tell()


def _varint(file: BinaryIO) -> int:
    """A zigzag varint of at most 64 bits. Raises EOFError or ValueError."""
    value, shift = 0, 0
    while True:
        byte = file.read(1)
        if not byte:
            raise EOFError
        value |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        if shift > 63:
            raise ValueError


def decode_avro(
    file: BinaryIO, schema: EventSchema, source: str, lost: Lost = unweighed
) -> Iterator[Decoded]:
    """A container file -> canonical batches.

    Args:
      file: seekable, at its beginning.
      schema: the roles of columns.
      source: path or topic.
      lost: is told the share of the bytes that could not be read.

    Raises:
      ConfigError: see ``wire_of``.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    header = read_header(file)
    if header is None:
        lost(1.0)
        yield whole_file(source)
        return
    wire = wire_of(header, schema, source)
    records = fastavro.parse_schema({"type": "array", "items": wire.record})
    at = first = held = 0
    rows: list[dict[str, Any]] = []
    for block in _blocks(file, header):
        result = None if block.data is None else _records(block.data, block.count, records)
        if (
            result is None
            or held + len(block.data or b"") > _BATCH_BYTES
            or len(rows) >= BATCH_ROWS
        ):
            if rows:
                yield _assemble(rows, first, wire, schema, source)
            first, rows, held = at, [], 0
        if result is None:
            count = max(block.count, 1)
            lost(block.size / size)
            yield lost_rows(source, at, count)
            at = first = at + count
        else:
            rows += result
            held += len(block.data or b"")
            at += block.count
    if rows:
        yield _assemble(rows, first, wire, schema, source)


class _Block(NamedTuple):
    """count: records that the block says it holds; data: they, unpacked, None if broken; size: its
    bytes in the file, and what is skipped after it."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks for
    data: bytes | None
    size: int


def _blocks(file: BinaryIO, header: AvroHeader) -> Iterator[_Block]:
    """Blocks in order. After a broken one the next sync marker is looked for."""
    while True:
        start = file.tell()
        try:
            count, size = _varint(file), _varint(file)
        except EOFError:
            if file.tell() > start:
                yield _Block(1, None, file.tell() - start)
            return
        except ValueError:
            count, size = 1, -1
        if count >= 0 and 0 <= size <= _BLOCK_BYTES:
            body = file.read(size + _SYNC)
            if len(body) == size + _SYNC and body.endswith(header.sync):
                data = _unpacked(size, body[:size], header.codec)
                yield _framed(count, size, data, file.tell() - start)
                continue
        # What a broken block says about its size is as broken as the rest of it.
        file.seek(start + 1)
        more = _find(file, header.sync)
        yield _Block(1, None, file.tell() - start)
        if not more:
            return


def _find(file: BinaryIO, marker: bytes) -> bool:
    """Moves behind the next marker; False if there is none."""
    tail = b""
    while block := file.read(2**20):
        at = (tail + block).find(marker)
        if at >= 0:
            file.seek(at + len(marker) - len(tail) - len(block), io.SEEK_CUR)
            return True
        tail = (tail + block)[-len(marker) + 1 :]
    return False


def _unpacked(size: int, body: bytes, codec: str) -> bytes | None:
    """What a block whose frame holds is made of; None if it is broken."""
    try:
        return bytes(BLOCK_READERS[codec](io.BytesIO(_zigzag(size) + body)).read())
    except Exception:
        # fastavro raises whatever its input leads it to; its text may quote content.
        return None


def _framed(count: int, size: int, data: bytes | None, stored: int) -> _Block:
    """A block whose frame holds. How many records a broken one had is believed up to its size."""
    if data is None:
        return _Block(count if count <= size else 1, None, stored)
    # Every record takes a byte at least: the time that each must have.
    return _Block(count, data, stored) if count <= len(data) else _Block(1, None, stored)


def _zigzag(number: int) -> bytes:
    """A count as Avro writes it."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _records(data: bytes, count: int, records: Any) -> list[dict[str, Any]] | None:
    """The records of a block by the names on the wire; None if their bytes do not add up.

    They are encoded as the items of an array are, but for its count and its end.
    """
    if not count:
        return None if data else []
    whole = io.BytesIO(_zigzag(count) + data + b"\0")
    try:
        result: Any = fastavro.schemaless_reader(whole, records, None)
    except Exception:
        # As above: whatever it is, it must not be shown.
        return None
    return result if len(result) == count and not whole.read(1) else None


def _assemble(
    rows: list[dict[str, Any]], first: int, wire: Wire, schema: EventSchema, source: str
) -> Decoded:
    raw, spoilt = columns_of(rows, wire.fields, schema)
    positions = np.arange(first, first + len(rows), dtype=np.int64)
    return assemble(raw, positions, schema, source, spoilt)

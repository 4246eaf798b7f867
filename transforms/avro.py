"""Avro object container files, block by block: a broken block loses its own records only."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import fastavro
import numpy as np

from transforms.columnar import lost_rows, whole_file
from transforms.decode_batch import Decoded, assemble
from transforms.decode_rows import columns_of
from transforms.event_schema import EventSchema

MAGIC = b"Obj\x01"
BATCH_ROWS = 2**16

_SYNC = 16
_HEADER_BYTES = 16 * 2**20
_BLOCK_BYTES = 256 * 2**20


class Header(NamedTuple):
    """The beginning of a container file.

    Attributes:
      data: its bytes, sync marker included.
      fields: names of the record's fields; none if records are not records.
    """

    data: bytes
    fields: tuple[str, ...]

    @property
    def sync(self) -> bytes:
        """The marker after each block."""
        return self.data[-_SYNC:]


def read_header(file: BinaryIO) -> Header | None:
    """Reads a header and stops behind it; None if there is none that can be read."""
    start = file.tell()
    try:
        if file.read(len(MAGIC)) != MAGIC:
            return None
        size = _skip_metadata(file)
        file.seek(start)
        data = file.read(size - start + _SYNC)
        reader = fastavro.reader(io.BytesIO(data))
        described = reader.writer_schema
    except Exception:
        # fastavro raises whatever its input leads it to; its text may quote content.
        return None
    fields = described.get("fields", ()) if isinstance(described, dict) else ()
    return Header(data, tuple(field["name"] for field in fields))


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


def decode_avro(file: BinaryIO, schema: EventSchema, source: str) -> Iterator[Decoded]:
    """A container file -> canonical batches.

    Args:
      file: seekable, at its beginning.
      schema: the roles of columns.
      source: path or topic.

    Raises:
      ConfigError: a needed column is not a field of the records.
    """
    header = read_header(file)
    if header is None:
        yield whole_file(source)
        return
    schema.require(header.fields, source)
    at = 0
    first = 0
    rows: list[dict[str, Any]] = []
    for block in _blocks(file, header):
        records = None if block.data is None else _records(header, block)
        if records is None:
            yield lost_rows(source, at, block.count)
            if rows:
                yield _assemble(rows, first, schema, source)
            at += block.count
            first, rows = at, []
            continue
        rows += records
        at += block.count
        if len(rows) >= BATCH_ROWS:
            yield _assemble(rows, first, schema, source)
            first, rows = at, []
    if rows:
        yield _assemble(rows, first, schema, source)


class _Block(NamedTuple):
    """count: records that the block says it holds; data: the block as stored, None if broken."""

    count: int
    data: bytes | None


def _blocks(file: BinaryIO, header: Header) -> Iterator[_Block]:
    """Blocks in order. After a broken one the next sync marker is looked for."""
    while True:
        start = file.tell()
        try:
            count, size = _varint(file), _varint(file)
        except EOFError:
            if file.tell() > start:
                yield _Block(1, None)
            return
        except ValueError:
            count, size = 1, -1
        begin = file.tell()
        if count >= 0 and 0 <= size <= _BLOCK_BYTES:
            body = file.read(size + _SYNC)
            if len(body) == size + _SYNC and body.endswith(header.sync) and count <= max(size, 1):
                file.seek(start)
                yield _Block(count, file.read(begin - start + size + _SYNC))
                file.seek(begin + size + _SYNC)
                continue
        # What a broken block says about its size is as broken as the rest of it.
        yield _Block(1, None)
        file.seek(start + 1)
        if not _find(file, header.sync):
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


def _records(header: Header, block: _Block) -> list[dict[str, Any]] | None:
    try:
        records = list(fastavro.reader(io.BytesIO(header.data + (block.data or b""))))
    except Exception:
        # As above: whatever it is, it must not be shown.
        return None
    sound = len(records) == block.count and all(type(record) is dict for record in records)
    return records if sound else None


def _assemble(rows: list[dict[str, Any]], first: int, schema: EventSchema, source: str) -> Decoded:
    raw, spoilt = columns_of(rows, schema)
    positions = np.arange(first, first + len(rows), dtype=np.int64)
    return assemble(raw, positions, schema, source, spoilt)

"""Avro containers made byte by byte: records that no writer of Avro would let through."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from typing import Any

import fastavro
import orjson

SYNC = bytes(range(16))


def encoded(record: Any, wire: Any) -> bytes:
    """A record by a schema of the same encoding as the file's."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(wire), record)
    return out.getvalue()


def container(
    declared: Any, records: Sequence[bytes], a_block: int = 100, codec: str = "null"
) -> bytes:
    """A container file.

    Args:
      declared: the schema in its header.
      records: as they are encoded.
      a_block: records a block.
      codec: null or deflate.
    """
    meta = {"avro.schema": orjson.dumps(declared), "avro.codec": codec.encode()}
    out = [b"Obj\x01", encoded(meta, {"type": "map", "values": "bytes"}), SYNC]
    for begin in range(0, len(records), a_block):
        some = records[begin : begin + a_block]
        data = b"".join(some)
        if codec == "deflate":
            packer = zlib.compressobj(wbits=-15)
            data = packer.compress(data) + packer.flush()
        out += [encoded(len(some), "long"), encoded(data, "bytes"), SYNC]
    return b"".join(out)


def record_of(fields: dict[str, Any]) -> dict[str, Any]:
    """A schema of one record: name -> type."""
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return {"type": "record", "name": "event", "fields": listed}

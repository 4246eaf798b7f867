"""Loss in Arrow IPC that its reader does not report: batches that a footer does not list, and the
end of a stream."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np

_BLOCK = np.dtype([("at", "<i8"), ("head", "<i4"), ("padding", "<i4"), ("body", "<i8")])
_LISTS = (2, 3)
"""Fields of a footer: blocks of dictionaries, and of record batches."""
_CONTINUES = b"\xff\xff\xff\xff"
_END = _CONTINUES + b"\0\0\0\0"
_BEGIN, _TAIL = 8, 10
"""Bytes before the first message of a file, and behind its footer."""
_GAP = 64
"""Bytes between two messages that may be padding. No record batch is as short."""


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
    found = [np.zeros(0, _BLOCK)]
    for field in _LISTS:
        slot = 4 + 2 * field
        if slot < size:
            (offset,) = struct.unpack_from("<H", footer, root - back + slot)
            if offset:
                (far,) = struct.unpack_from("<I", footer, root + offset)
                at = root + offset + far
                (count,) = struct.unpack_from("<I", footer, at)
                found.append(np.frombuffer(footer, _BLOCK, count, at + 4))
    return np.concatenate(found)


__all__ = ["size_of", "unclosed", "unlisted"]

"""Structures in Thrift's compact protocol, as the headers and the footer of Parquet are written.

Source: "Thrift compact protocol encoding", Apache Thrift, doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = "bool | int | Long | bytes | str | list[Any] | dict[int, Any]"
"""A field: ``int`` is an i32 or an enumeration, ``Long`` an i64, a list one of values of one kind,
a dictionary a ``Struct``."""

Struct: TypeAlias = dict[int, Any]
"""A structure: values, or None, by the numbers of their fields, which are above 0, and in order."""

_TRUE, _FALSE, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 5, 6, 8, 9, 12
_LONGEST = 15
"""Sizes of lists from here on, and steps between fields beyond it, take a byte of their own."""


@dataclass(frozen=True)
class Long:
    """A number of 64 bits."""

    value: int


def varint(number: int) -> bytes:
    """A number >= 0, 7 bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def struct(fields: Struct) -> bytes:
    """A structure; fields that are None are left out."""
    out, before = bytearray(), 0
    for number, value in fields.items():
        if value is None:
            continue
        step = number - before
        if not 0 < step <= _LONGEST:
            raise ValueError("fields are in order, and near each other.")
        out.append(step << 4 | _kind(value))
        out += b"" if isinstance(value, bool) else _value(value)
        before = number
    out.append(0)
    return bytes(out)


def _kind(value: Value) -> int:
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    found = _KINDS.get(type(value))
    if found is None:
        raise TypeError(f"{type(value).__name__} has no place in a structure.")
    return found


_KINDS = {
    int: _I32, Long: _I64, bytes: _BINARY, str: _BINARY, dict: _STRUCT, list: _LIST,
}  # fmt: skip


def _value(value: Value) -> bytes:
    if isinstance(value, (Long, int)):
        number = value.value if isinstance(value, Long) else value
        return varint(number << 1 if number >= 0 else (-number << 1) - 1)  # zigzag
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(len(value)) + value
    if isinstance(value, dict):
        return struct(value)
    kind = _kind(value[0]) if value else _STRUCT
    size = len(value)
    head = bytes([size << 4 | kind]) if size < _LONGEST else bytes([0xF0 | kind]) + varint(size)
    return head + b"".join(_value(one) for one in value)


__all__ = ["Long", "Struct", "Value", "struct", "varint"]

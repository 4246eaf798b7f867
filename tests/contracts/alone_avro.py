"""Records of Avro, byte by byte: any value that a schema allows."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.contracts.alone_cells import COLUMNS, DOUBLES, INTEGERS, NOT_TEXT, TEXTS, fitting
from tests.transforms.avro_files import record_of
from weir.transforms.decode.schema import EventSchema

Type = Any
TIMES: tuple[Type, ...] = tuple(
    {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    for local in ("", "local-")
    for unit in ("millis", "micros", "nanos")
)
DATE = {"type": "int", "logicalType": "date"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}


def _enum(name: str) -> Type:
    return {"type": "enum", "name": f"enum_{name}", "symbols": ["north", "south", "true"]}


def _fixed(name: str) -> Type:
    return {"type": "fixed", "name": f"fixed_{name}", "size": 4}


def _pair(name: str) -> Type:
    return {"type": "record", "name": f"pair_{name}", "fields": [{"name": "a", "type": "string"}]}


def zigzag(number: int) -> bytes:
    """A whole number of 64 bits."""
    rest, written = (number << 1 ^ number >> 63) & (2**64 - 1), bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def _sized(text: bytes) -> bytes:
    return zigzag(len(text)) + text


def kinds(name: str) -> st.SearchStrategy[Type]:
    """Types of a field: those of its role, unions of several, and some that cannot play it."""
    simple: tuple[Type, ...] = ("long", "int", "double", "float", "string", "bytes", "boolean")
    if name in "ta":
        simple = (*TIMES, DATE, "long", "double", "string")
    elif name == "x":
        simple = (*simple, DECIMAL, _enum(name))
    elif name in "kliuw":
        simple = ("string", "string", "long", "bytes", _enum(name), _fixed(name), DATE)
    one = st.sampled_from(simple)
    nullable = one.map(lambda kind: ["null", kind])
    mixed: list[Type] = ["null", "long", "double", "string", "bytes", "boolean", _enum(name)]
    mixed += [
        _pair(name),
        {"type": "array", "items": "string"},
        {"type": "map", "values": "string"},
    ]
    times: list[Type] = [TIMES[1], DATE, "string", "null", "double", "bytes"]
    unions = st.sampled_from([mixed, mixed[1:4], ["string", "bytes"], times])
    return one | nullable | unions


def values(kind: Type, good: list[str]) -> st.SearchStrategy[bytes]:
    """Encoded values of a type."""
    if isinstance(kind, list):
        return st.one_of(
            [
                values(option, good).map(lambda rest, at=at: zigzag(at) + rest)
                for at, option in enumerate(kind)
            ]
        )
    name = kind["type"] if isinstance(kind, dict) else kind
    texts = st.sampled_from([*(text.encode() for text in (*good, *TEXTS)), *NOT_TEXT]).map(_sized)
    if name == "null":
        return st.just(b"")
    if name in ("long", "int", "enum"):
        return st.sampled_from([*INTEGERS, 2]).map(zigzag)
    if name == "double":
        return st.sampled_from(DOUBLES).map(lambda v: struct.pack("<d", v)) | st.binary(
            min_size=8, max_size=8
        )
    if name == "float":
        return st.binary(min_size=4, max_size=4)
    if name == "boolean":
        return st.sampled_from([b"\0", b"\1"])
    if name == "fixed":
        return st.sampled_from([b"abcd", b"\xff\xff12"])
    if name == "array":
        return texts.map(lambda text: zigzag(1) + text + b"\0")
    if name == "map":
        return texts.map(lambda text: zigzag(1) + _sized(b"\xff") + text + b"\0")
    if kind is DECIMAL:
        return texts | st.sampled_from([b"", b"\x01\x00", b"\xff" * 30]).map(_sized)
    return texts


class Records(NamedTuple):
    """A schema, and records by it."""

    declared: Type
    records: list[bytes]


@st.composite
def files(draw: st.DrawFn, schema: EventSchema, nest: bool = False) -> Records:
    """Some records of one file; the last field is read by nobody."""
    good = fitting(schema)
    types = {name: draw(kinds(name)) for name in COLUMNS}
    types["unread"] = draw(
        st.sampled_from([*TIMES, "string", _enum("z"), {"type": "map", "values": DATE}])
    )
    cells = [values(kind, good.get(name, [])) for name, kind in types.items()]
    if types["unread"] not in (*TIMES, "string", _enum("z")):
        cells[-1] = st.just(zigzag(1) + _sized(b"\xff") + zigzag(2**31 - 1) + b"\0")
    by_name = dict(zip(types, cells, strict=True))
    if nest:
        types, by_name = _nested(draw, types, by_name)
    records = st.lists(st.tuples(*by_name.values()).map(b"".join), min_size=2, max_size=7)
    return Records(record_of(types), draw(records))


def _nested(draw: Any, types: dict[str, Type], cells: dict[str, Any]) -> tuple[Any, Any]:
    """Some fields inside of records, of which one may be null and one next to another type."""

    def within(name: str, fields: str, more: dict[str, Type], rest: list[Any]) -> tuple[Any, Any]:
        kinds = {one: types.pop(one) for one in fields} | more
        made = {"type": "record", "name": f"{name}_", "fields": []}
        made["fields"] = [{"name": one, "type": kind} for one, kind in kinds.items()]
        encoded = st.tuples(*[cells.pop(one) for one in fields], *rest).map(b"".join)
        others: list[Type] = draw(st.sampled_from([[], ["null"], ["null", "string"]]))
        if not others:
            return made, encoded
        values_ = [st.just(zigzag(0))] * ("null" in others)
        values_.append(encoded.map(lambda rest: zigzag(len(others)) + rest))
        if "string" in others:
            values_.append(st.just(zigzag(1) + _sized(b"x")))
        return [*others, made], st.one_of(values_)

    o, in_o = within("o", "kw", {}, [])
    m, in_m = within("m", "txb", {"o": o}, [in_o])
    return {**types, "m": m}, {**cells, "m": in_m}

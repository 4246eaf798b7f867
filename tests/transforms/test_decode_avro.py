"""Avro: a record that no reader can turn into Python's types is one bad record, or none at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transforms.avro_files import container, encoded, record_of
from tests.transforms.events import Rows, aside, collect
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS

MICROS = {"type": "long", "logicalType": "timestamp-micros"}
COLOR = {"type": "enum", "name": "color", "symbols": ["red", "blue"]}
SCHEMA = EventSchema.build(Stamp("t", "epoch_us"), key="k", numbers=["x"])
WIRE = {"t": "long", "k": "bytes", "x": "double"}


def read(
    declared: dict[str, Any], wire: dict[str, Any], values: list[dict[str, Any]], **options: Any
) -> Rows:
    schema = options.pop("schema", SCHEMA)
    records = [encoded(value, record_of(wire)) for value in values]
    data = container(record_of(declared), records, **options)
    return collect(FORMATS["avro"].decode_bytes(data, schema, "x"))


def test_a_column_that_nobody_reads_costs_nothing() -> None:
    row = {"t": 1, "k": b"a", "x": 1.0}
    for kind, wire, value in (
        (MICROS, "long", 2**63 - 1),
        ({"type": "int", "logicalType": "date"}, "int", -(2**31)),
        ("string", "bytes", b"\xff\xfe"),
        ({"type": "map", "values": "string"}, {"type": "map", "values": "bytes"}, {"a": b"\xff"}),
        (COLOR, "long", 77),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1},
            "bytes",
            b"z" * 9,
        ),
    ):
        events, dead = read({**_declared(), "u": kind}, {**WIRE, "u": wire}, [{**row, "u": value}])
        assert len(events) == 1 and not dead


def _declared() -> dict[str, Any]:
    return {"t": "long", "k": "string", "x": "double"}


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_what_is_no_text_is_one_record(codec: str) -> None:
    rows = [{"t": i, "k": b"\xff" if i == 3 else b"a", "x": 1.0} for i in range(7)]
    events, dead = read(_declared(), WIRE, rows, codec=codec, a_block=5)
    assert [row["@position"] for row in events] == [0, 1, 2, 4, 5, 6] and aside(dead) == [3]


def test_a_time_beyond_pythons_is_one_record() -> None:
    schema = EventSchema.build(Stamp("t"), key="k", numbers=["x"])
    rows = [{"t": 2**63 - 1 if i == 1 else i, "k": b"a", "x": 1.0} for i in range(3)]
    for kind in ("millis", "micros", "nanos"):
        declared = {**_declared(), "t": {"type": "long", "logicalType": f"timestamp-{kind}"}}
        events, dead = read(declared, WIRE, rows, schema=schema)
        lost = [] if kind == "nanos" else [1]
        assert aside(dead) == lost and len(events) == 3 - len(lost)


def test_each_value_of_a_union_is_read_as_its_own_type() -> None:
    union = ["null", "long", "double", "string", "bytes"]
    wire = ["null", "long", "double", {"type": "fixed", "name": "f", "size": 4}, "bytes"]
    values = [1704103199999999999, 1704103200000000000.0, ("f", b"\x06173"), None, -1, b"17"]
    schema = EventSchema.build(Stamp("t", "epoch_ns"), key="k", numbers=["x"])
    rows = [{"t": value, "k": b"a", "x": 1.0} for value in values]
    declared = {**_declared(), "t": union}
    events, dead = read(declared, {**WIRE, "t": wire}, rows, schema=schema)
    found = {row["@position"]: row["@time"] for row in events}
    for at, row in enumerate(rows):
        alone, _ = read(declared, {**WIRE, "t": wire}, [row], schema=schema)
        assert [one["@time"] for one in alone] == ([found[at]] if at in found else [])
    assert found[0].microsecond == 999_999 and found[1].microsecond == 0
    assert found[2].year == 1970 and found[4].year == 1969 and aside(dead) == [3, 5]


def test_enums_decimals_and_dates() -> None:
    declared = {
        "t": {"type": "int", "logicalType": "date"},
        "k": COLOR,
        "x": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}],
    }
    rows = [
        {"t": 1, "k": 1, "x": b"\x01\x00"},
        {"t": 1, "k": 9, "x": b"\x00"},
        {"t": 2**31 - 1, "k": 0, "x": b"\x00"},
        {"t": -1, "k": 0, "x": b"\xff" * 3 + b"\x00" * 40},
        {"t": 0, "k": 0, "x": None},
    ]
    wire = {"t": "int", "k": "long", "x": ["null", "bytes"]}
    schema = EventSchema.build(Stamp("t"), key="k", numbers=["x"])
    events, dead = read(declared, wire, rows, schema=schema)
    assert [row["@key"] for row in events] == ["blue", "red", "red"]
    assert aside(dead) == [1, 2]
    assert [row["x"] for row in events[:2]] == [2.56, -(2.0**320) / 100]


def test_a_count_that_is_wrong_costs_its_block_alone() -> None:
    records = [encoded({"t": i, "k": b"a", "x": 1.0}, record_of(WIRE)) for i in range(9)]
    for wrong in (records[4] + b"\0", records[4][:-1], b"", records[4] * 2):
        data = container(record_of(_declared()), [*records[:4], wrong, *records[5:]], a_block=3)
        events, dead = collect(FORMATS["avro"].decode_bytes(data, SCHEMA, "x"))
        assert [row["@position"] for row in events] == [0, 1, 2, 6, 7, 8]
        assert dead == [(at, "malformed") for at in (3, 4, 5)]


def test_many_records_in_few_bytes() -> None:
    record = encoded({"t": 0, "k": b"a", "x": 0.0}, record_of(WIRE))
    data = container(record_of(_declared()), [record] * 5000, a_block=5000, codec="deflate")
    events, dead = collect(FORMATS["avro"].decode_bytes(data, SCHEMA, "x"))
    assert len(events) == 5000 and not dead


CHAIN = {"type": "record", "name": "link", "fields": [{"name": "n", "type": ["null", "link"]}]}


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (CHAIN, "contains itself"),
        ({"type": "array", "items": "null"}, "take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "z", "size": 0}}, "take no bytes"),
    ],
)
def test_a_type_without_a_bound_is_refused(kind: Any, words: str) -> None:
    data = container(record_of({**_declared(), "u": kind}), [])
    with pytest.raises(ConfigError, match=words):
        collect(FORMATS["avro"].decode_bytes(data, SCHEMA, "x"))

"""Fields inside of fields: one meaning in every format that has such."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import fastavro
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.dpcore.errors import ConfigError
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.memory_events import decode_table, pick
from weir.transforms.decode.mixed_columns import columns_of
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS

SCHEMA = EventSchema.build(
    Stamp("meta.at"), key="meta.place.city", where="meta.flag or note is None", numbers=["body.x"]
)
ROWS: list[Any] = [
    {
        "meta": {"at": "2025-01-01T00:00:00Z", "place": {"city": "rome"}, "flag": True},
        "body": {"x": 1.5},
        "note": None,
    },
    {
        "meta": {"at": "2025-01-02T00:00:00Z", "place": {"city": "oslo"}, "flag": False},
        "body": None,
        "note": "late",
    },
    {
        "meta": {"at": "2025-01-03T00:00:00Z", "place": None, "flag": None},
        "body": {"x": None},
        "note": None,
    },
    {"meta": None, "body": {"x": 3.0}, "note": None},
]
AVRO = {
    "type": "record",
    "name": "event",
    "fields": [
        {"name": "note", "type": ["null", "string"]},
        {
            "name": "meta",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "meta_",
                    "fields": [
                        {"name": "flag", "type": ["null", "boolean"]},
                        {"name": "at", "type": "string"},
                        {
                            "name": "place",
                            "type": [
                                "null",
                                "string",
                                {
                                    "type": "record",
                                    "name": "place_",
                                    "fields": [{"name": "city", "type": "string"}],
                                },
                            ],
                        },
                    ],
                },
            ],
        },
        {
            "name": "body",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "body_",
                    "fields": [{"name": "x", "type": ["null", "double"]}],
                },
            ],
        },
    ],
}


def written(form: str) -> bytes:
    sink = io.BytesIO()
    if form == "ndjson":
        return b"\n".join(map(orjson.dumps, ROWS))
    if form == "avro":
        fastavro.writer(sink, fastavro.parse_schema(AVRO), ROWS)
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), sink)
    else:
        table = pa.Table.from_pylist(ROWS)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def told(decoded: Any) -> tuple[list[Any], list[Any]]:
    """Events by city, number and flag; reasons of what was refused or is missing."""
    events: list[Any] = []
    dead: list[Any] = []
    for batch, letters, _ in decoded:
        if batch is not None:
            names = [name for name in batch.schema.names if name.startswith("@key")]
            for row in batch.to_pylist():
                x = row["body.x"]
                events.append((row[names[0]], None if x is None or x != x else x, row["meta.flag"]))
        if letters is not None:
            dead += [(row["field"], row["reason"]) for row in letters.to_pylist()]
    return events, dead


EVENTS = [("rome", 1.5, True), ("oslo", None, False), (None, None, None)]


@pytest.mark.parametrize("form", ["ndjson", "avro", "parquet", "arrow"])
def test_every_format_that_nests_reads_the_same(form: str) -> None:
    events, dead = told(FORMATS[form].decode_bytes(written(form), SCHEMA, "f"))
    assert events == EVENTS
    assert [reason for _, reason in dead] == ["missing_time"]


@pytest.mark.parametrize("form", ["ndjson", "avro", "arrow"])
def test_messages_too(form: str) -> None:
    found = MessageDecoder(form, SCHEMA, "s").decode([Message("1", written(form), 0)])
    assert told(found)[0] == EVENTS


def test_mappings_rows_and_classes_too() -> None:
    def decoded(events: list[Any]) -> list[Decoded]:
        picked = [pick(event, SCHEMA.needed) for event in events]
        raw, spoilt = columns_of([one for one in picked if one is not None], SCHEMA)
        return [assemble(raw, pa.array(range(len(events))).to_numpy(), SCHEMA, "rows", spoilt)]

    @dataclass
    class Place:
        city: str

    meta = beam.Row(at="2025-01-01T00:00:00Z", place=Place("rome"), flag=True)
    assert told(decoded(ROWS))[0] == EVENTS
    assert told(decoded([beam.Row(meta=meta, body={"x": 1.5}, note=None)]))[0] == EVENTS[:1]


def test_tables_and_frames_too() -> None:
    pandas = pytest.importorskip("pandas")
    assert told(decode_table(pa.Table.from_pylist(ROWS), SCHEMA))[0] == EVENTS
    assert told(decode_table(pandas.DataFrame(ROWS), SCHEMA))[0] == EVENTS


def test_a_field_of_that_very_name_comes_first_and_null_is_no_value() -> None:
    schema = EventSchema.build(Stamp("at"), numbers=["a.x"])
    lines = [
        b'{"at": "2025-01-01T00:00:00Z", "a.x": 1, "a": {"x": 2}}',
        b'{"at": "2025-01-01T00:00:00Z", "a.x": null, "a": {"x": 2}}',
        b'{"at": "2025-01-01T00:00:00Z", "a": {"x": 2}}',
        b'{"at": "2025-01-01T00:00:00Z", "a": "2", "a.x": 3}',
        b'{"at": "2025-01-01T00:00:00Z", "a": [1]}',
    ]
    (found,) = FORMATS["ndjson"].decode_bytes(b"\n".join([*lines, b""]), schema, "f")
    assert found.events is not None
    *values, last = found.events.column("a.x").to_pylist()
    assert values == [1, 2, 2, 3] and last != last


def test_what_is_not_there_is_refused_with_the_nearest() -> None:
    schema = EventSchema.build(Stamp("meta.at"), numbers=["meta.y"])
    with pytest.raises(ConfigError, match=r"'meta\.y'.*is not a column of f"):
        list(FORMATS["parquet"].decode_bytes(written("parquet"), schema, "f"))
    with pytest.raises(ConfigError, match=r"'meta\.y'.*is not a column of f"):
        list(FORMATS["avro"].decode_bytes(written("avro"), schema, "f"))


def test_a_union_inside_of_a_record_that_is_null_ends_nothing() -> None:
    """Of it nothing is read but whether it is there; Arrow ends the process that asks for more."""
    for sparse in (True, False):
        tags, values = pa.array([0, 0, 0], pa.int8()), pa.array([7, 8, 9])
        if sparse:
            union = pa.UnionArray.from_sparse(tags, [values], ["k"])
        else:
            union = pa.UnionArray.from_dense(tags, pa.array([0, 1, 2], pa.int32()), [values], ["k"])
        records = pa.StructArray.from_arrays([union], ["c"], mask=pa.array([True, False, True]))
        table = pa.table({"t": ["2025-01-01"] * 3, "o": records})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        schema = EventSchema(Stamp("t"), id="o.c", columns={"o.c": "any"})
        decoder = MessageDecoder("arrow", schema, "s")
        decoded = decoder.decode([Message("1", sink.getvalue(), 1)])
        events = [event for one in decoded if one.events for event in one.events.to_pylist()]
        assert [event["o.c"] for event in events] == [None, None]
        with pytest.raises(ConfigError, match="'o.c': is of type (sparse|dense)_union in f"):
            list(FORMATS["arrow"].decode_bytes(sink.getvalue(), schema, "f"))

"""Parquet, Arrow IPC and Avro: the same events, and files that are damaged."""

from __future__ import annotations

import io
import math
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.events import collect
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.counted import concatenate
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS

SCHEMA = EventSchema.build(Stamp("t"), key="store", id="order", where="n > 0", numbers=["x"])
N = 1000


def table(n: int = N) -> pa.Table:
    return pa.table(
        {
            "t": pa.array(np.arange(n) * 1_000_000).cast(pa.timestamp("us", "UTC")),
            "store": pa.array([None if i % 7 == 0 else f"s{i % 3}" for i in range(n)]),
            "order": pa.array(range(n)),
            "n": pa.array([i % 5 for i in range(n)], pa.int32()),
            "x": pa.array([None if i % 11 == 0 else i / 4 for i in range(n)], pa.float32()),
            "unread": pa.array([[1]] * n),
        }
    )


def parquet(events: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(events, sink, row_group_size=300, **options)
    return sink.getvalue()


def arrow(events: pa.Table, stream: bool = False) -> bytes:
    sink = io.BytesIO()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(sink, events.schema) as writer:
        writer.write_table(events, max_chunksize=300)
    return sink.getvalue()


def avro(events: pa.Table, codec: str = "deflate") -> bytes:
    fields: list[Any] = [
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "store", "type": ["null", "string"]},
        {"name": "order", "type": "long"},
        {"name": "n", "type": "int"},
        {"name": "x", "type": ["null", "double", "string"]},
    ]
    sink = io.BytesIO()
    schema = {"type": "record", "name": "event", "fields": fields}
    fastavro.writer(sink, schema, events.to_pylist(), codec=codec, sync_interval=2000)
    return sink.getvalue()


FILES = {
    "parquet": parquet(table()),
    "parquet, dictionaries": parquet(
        table().set_column(1, "store", table()["store"].dictionary_encode())
    ),
    "arrow": arrow(table()),
    "arrow, stream": arrow(table(), stream=True),
    "avro": avro(table()),
    "avro, plain": avro(table(), "null"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_events(name: str) -> None:
    events, dead = collect(FORMATS[name.split(",")[0]].decode_bytes(FILES[name], SCHEMA, "x"))
    assert not dead and len(events) == N
    assert [row["@position"] for row in events] == list(range(N))
    assert [row["@key"] for row in events] == table()["store"].to_pylist()
    assert [row["@id"] for row in events] == [str(i) for i in range(N)]
    assert [row["@time"] for row in events] == table()["t"].to_pylist()
    numbers = [float("nan") if v is None else v for v in table()["x"].to_pylist()]
    assert np.array_equal([row["x"] for row in events], numbers, equal_nan=True)
    assert "unread" not in events[0]


def test_a_broken_row_group_loses_its_own_rows_only() -> None:
    data = bytearray(parquet(table(), compression="zstd", use_dictionary=False))
    group = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(1).column(0)
    at = group.data_page_offset
    data[at : at + group.total_compressed_size] = b"\xff" * group.total_compressed_size
    events, dead = collect(FORMATS["parquet"].decode_bytes(bytes(data), SCHEMA, "x"))
    assert [row["@position"] for row in events] == [*range(300), *range(600, N)]
    assert dead == [(i, "malformed") for i in range(300, 600)]


def test_a_broken_avro_block_loses_its_own_rows_only() -> None:
    data = bytearray(FILES["avro"])
    sync = data[-16:]
    first = data.find(sync) + 16
    second = data.find(sync, first) + 16
    third = data.find(sync, second) + 16
    data[second + 8 : third - 20] = bytes(third - 20 - second - 8)
    events, dead = collect(FORMATS["avro"].decode_bytes(bytes(data), SCHEMA, "x"))
    assert len(events) + len(dead) == N
    assert {reason for _, reason in dead} == {"malformed"}
    assert sorted([row["@position"] for row in events] + [n for n, _ in dead]) == list(range(N))


def test_avro_finds_its_way_after_a_torn_block() -> None:
    data = FILES["avro, plain"]
    sync = data[-16:]
    first = data.find(sync) + 16
    second = data.find(sync, first) + 16
    torn = data[: first + 1] + b"\xff" * 40 + data[second - 30 :]
    events, dead = collect(FORMATS["avro"].decode_bytes(torn, SCHEMA, "x"))
    assert dead and events and events[-1]["@id"] == str(N - 1)


def test_a_wrong_type_in_an_avro_union_is_one_missing_value() -> None:
    rows = table(3).to_pylist()
    rows[1]["x"] = "abc"
    good = avro(table(0))
    del good
    fields = fastavro.reader(io.BytesIO(FILES["avro"])).writer_schema
    sink = io.BytesIO()
    fastavro.writer(sink, fields, rows)
    events, dead = collect(FORMATS["avro"].decode_bytes(sink.getvalue(), SCHEMA, "x"))
    assert len(events) == 3 and math.isnan(events[1]["x"])
    assert dead == [(1, "x: not_a_number")]


@pytest.mark.parametrize("form", ["parquet", "arrow", "avro"])
def test_what_is_no_such_file_is_one_dead_letter(form: str) -> None:
    assert collect(FORMATS[form].decode_bytes(b"a,b\n1,2\n" * 9, SCHEMA, "x")) == (
        [],
        [(-1, "malformed")],
    )


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.sampled_from(["arrow", "arrow, stream", "avro", "avro, plain"]),
    st.integers(0, 10**6),
    st.binary(min_size=1, max_size=8),
    st.booleans(),
)
def test_damage_never_raises(name: str, at: int, junk: bytes, cut: bool) -> None:
    data = bytearray(FILES[name])
    at %= len(data)
    data[at : at + len(junk)] = b"" if cut else junk
    if cut:
        del data[at:]
    try:
        events, dead = collect(FORMATS[name.split(",")[0]].decode_bytes(bytes(data), SCHEMA, "x"))
    except ConfigError:
        return  # The damage has changed a column's name or type.
    assert len(events) <= N
    if cut and at:
        assert dead or len(events) in (N, *range(0, N, 300)) or name == "arrow, stream"


def test_an_arrow_header_with_a_name_that_is_no_text_is_put_aside() -> None:
    for form in ("arrow", "arrow, stream"):
        data = FILES[form].replace(b"store", b"st\xffre")
        assert collect(FORMATS["arrow"].decode_bytes(data, SCHEMA, "x")) == (
            [],
            [(-1, "malformed")],
        )


def test_parquet_text_that_is_not_utf8_is_put_aside() -> None:
    raw = pa.array([b"ok", b"\xff", b"fine"])
    spoilt = pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    times = pa.array([0, 1, 2]).cast(pa.timestamp("us"))
    events = pa.table(
        {"t": times, "store": spoilt, "order": ["a"] * 3, "n": [1, 1, 1], "x": ["1", "2", "q"]}
    )
    for form, data in (("arrow", arrow(events)), ("parquet", parquet(events))):
        found, dead = collect(FORMATS[form].decode_bytes(data, SCHEMA, "x"))
        assert [row["@key"] for row in found] == ["ok", "fine"]
        assert dead == [(1, "store: unreadable_key"), (2, "x: not_a_number")]


DECIMALS = pa.Array.from_buffers(
    pa.decimal128(5, 2),
    3,
    [None, pa.py_buffer(bytes([100]) + bytes(15) + b"\x11" * 16 + bytes(16))],
)
MOMENTS = pa.array([0, 86_400_001, 0], pa.int64()).view(pa.date64())


def views(*given: tuple[int, int, int, int], data: bytes = b"") -> pa.Array:
    packed = np.array(given, dtype="<i4").tobytes()
    return pa.Array.from_buffers(
        pa.string_view(), len(given), [None, pa.py_buffer(packed), pa.py_buffer(data)]
    )


def one_bad(kind: pa.DataType) -> pa.Array:
    """Text whose second value is not UTF-8."""
    bytes_of = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    raw = pa.array([b"a", b"\xff" * 20, b"c"], bytes_of.get(kind, pa.binary_view()))
    return pa.Array.from_buffers(kind, 3, raw.buffers())


@pytest.mark.parametrize(
    ("column", "values", "lost"),
    [
        ("x", DECIMALS, []),
        ("t", MOMENTS, []),
        ("store", one_bad(pa.string()), [1]),
        ("store", one_bad(pa.large_string()), [1]),
        ("store", one_bad(pa.string_view()), [1]),
        ("order", one_bad(pa.string_view()), [1]),
        ("t", one_bad(pa.string_view()), [0, 1, 2]),
        ("store", views((1, 97, 0, 0), (40, 0, 0, 0), (2, 97 + 97 * 256, 0, 0)), [1]),
        ("store", views((1, 97, 0, 0), (-1, 0, 0, 0), (20, 0, 0, 1), data=b"z" * 21), [1]),
        ("store", views((1, 97, 0, 0), (20, 0, 1, 0), (20, 0, 0, 1), data=b"z" * 21), [1]),
    ],
)
def test_a_bad_value_in_an_arrow_batch_is_its_own_records(
    column: str, values: pa.Array, lost: list[int]
) -> None:
    events = table(3)
    at = events.schema.get_field_index(column)
    events = events.set_column(at, column, values).set_column(3, "n", pa.array([1, 1, 1]))
    found, dead = collect(FORMATS["arrow"].decode_bytes(arrow(events), SCHEMA, "x"))
    assert [place for place, _ in dead] == lost
    assert [row["@position"] for row in found] == [i for i in range(3) if i not in lost]
    if column == "t" and not lost:
        assert found[1]["@time"].isoformat() == "1970-01-02T00:00:00.001000+00:00"
    if column == "x":
        assert [found[0]["x"], found[2]["x"]] == [1.0, 0.0]


def test_an_index_outside_of_its_dictionary_is_its_own_records() -> None:
    wild = pa.DictionaryArray.from_arrays(
        pa.array([0, 7, None, -1, 1]), pa.array(["a", "b"]), safe=False
    )
    events = table(5).set_column(1, "store", wild).set_column(3, "n", pa.array([1] * 5))
    found, dead = collect(FORMATS["arrow"].decode_bytes(arrow(events), SCHEMA, "x"))
    assert [row["@key"] for row in found] == ["a", None, "b"]
    assert dead == [(1, "store: unreadable_key"), (3, "store: unreadable_key")]


def test_a_batch_whose_offsets_are_broken_is_lost_as_a_whole() -> None:
    offsets = np.array([0, 5, 2, 3], dtype=np.int32)
    broken = pa.Array.from_buffers(
        pa.string(), 3, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"abcde")]
    )
    events = table(3).set_column(1, "store", broken)
    found, dead = collect(FORMATS["arrow"].decode_bytes(arrow(events), SCHEMA, "x"))
    assert not found and dead == [(i, "malformed") for i in range(3)]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("t", [1, 2], "schema.time.*epoch_s"),
        ("t", [True, False], "schema.time.*no times"),
        ("store", [1.5, 2.5], "key.column.*text or whole numbers"),
        ("x", [[1], [2]], "aggregates.*no numbers"),
        ("n", [b"a", b"b"], "where.*no numbers"),
    ],
)
def test_a_type_that_cannot_be_used_is_named(column: str, values: Any, message: str) -> None:
    events = table(2)
    at = events.schema.get_field_index(column)
    events = events.set_column(at, column, pa.array(values))
    with pytest.raises(ConfigError, match=message):
        list(FORMATS["parquet"].decode_bytes(parquet(events), SCHEMA, "some.parquet"))


def test_missing_columns_are_named() -> None:
    for form, make in (("parquet", parquet), ("arrow", arrow)):
        with pytest.raises(ConfigError, match="'order'.*is not a column of x.*store, n, x"):
            list(FORMATS[form].decode_bytes(make(table().drop_columns(["order"])), SCHEMA, "x"))


def test_small_batches_become_one() -> None:
    batches = [
        d.events for d in FORMATS["arrow"].decode_bytes(FILES["arrow"], SCHEMA, "x") if d.events
    ]
    one = concatenate(batches)
    assert one.num_rows == N and one.schema.metadata == {b"source": b"x"}
    assert one.to_pylist()[300:305] == batches[1].to_pylist()[:5]
    assert len(one.column("@key").dictionary) == 3

"""Lists of each record are read alone, in every format, whatever lists stand next to them; and the
same numbers are the same canonical lists, whatever the format and however they were written."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts import alone_columns
from tests.contracts.alone_lists import MAYBE, NUMBERS, PLACES, SIZE, TIME, lists, pairs, tables
from tests.contracts.test_alone import BORDERS, Case, _check, _messages
from tests.transforms.avro_files import container, record_of
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.errors import ConfigError
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.columns.list_columns import to_rows
from weir.transforms.decode.arrow import decode_arrow
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.csv import decode_csv
from weir.transforms.decode.lines import chunks
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.parquet import decode_parquet
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS, file_formats
from weir.transforms.runtime.dead_letters import rows

WHOLE = ListColumn(column="x", size=SIZE)
PAIR = ListColumn(indices="i", values="v", size=SIZE)


def schema_of(listed: ListColumn) -> EventSchema:
    return EventSchema.build(
        Stamp("t", "epoch_us"), listed=listed, named=dict.fromkeys(listed.columns, "model.features")
    )


def _parquet(draw: Any, listed: ListColumn) -> Case:
    table, schema = draw(tables(listed, parquet=True)), schema_of(listed)
    stored = draw(st.booleans())

    def read(some: Sequence[Any], border: int) -> Iterable[Decoded]:
        data = alone_columns.parquet([table.batch(some)], border, stored)
        return list(decode_parquet(pa.BufferReader(data), schema, "f", batch_rows=border))

    return Case(table.records, read, lambda at, _: ("f", at))


def _arrow(draw: Any, listed: ListColumn) -> Case:
    table, schema = draw(tables(listed)), schema_of(listed)

    def read(some: Sequence[Any], border: int) -> Iterable[Decoded]:
        parts = [some[at : at + border] for at in range(0, len(some), border)]
        stream = border % 2 == 0 or table.form == "dictionary"
        data = alone_columns.arrow([table.batch(part) for part in parts], stream)
        return list(decode_arrow(pa.BufferReader(data), schema, "f"))

    return Case(table.records, read, lambda at, _: ("f", at))


def _arrow_messages(draw: Any, listed: ListColumn) -> Case:
    table = draw(tables(listed))

    def write(part: Sequence[Any]) -> bytes:
        return alone_columns.arrow([table.batch(part)], len(part) % 2 == 0)

    return _messages("arrow", schema_of(listed), table.records, write, 0)


# Avro.

_ITEMS = ("double", "float", "long", ["null", "double"], ["null", "long", "double", "string"])


@st.composite
def avro_files(draw: st.DrawFn, listed: ListColumn) -> tuple[Any, list[bytes]]:
    items = draw(st.sampled_from(_ITEMS))
    number = NUMBERS if items != "long" else st.integers(-3, 3)
    if items == "float":
        number = NUMBERS.map(lambda one: min(one, 1e30))
    if isinstance(items, list):
        number = number | MAYBE
    if isinstance(items, list) and len(items) > 2:
        number = number | st.sampled_from(["a", 7])
    kind: Any = {"type": "array", "items": items}
    if draw(st.booleans()):
        kind = ["null", kind]
    fields: dict[str, Any] = {"t": "long"}
    cells: Any
    if listed.column is not None:
        fields["x"] = kind
        cells = lists(number).map(lambda one: {"x": one})
    else:
        fields |= {"i": {"type": "array", "items": "long"}, "v": kind}
        cells = pairs(PLACES, number).map(lambda one: {"i": one[0] or [], "v": one[1]})
    if not isinstance(kind, list):
        cells = cells.map(lambda one: {name: [] if v is None else v for name, v in one.items()})
    declared = record_of(fields)
    parsed = fastavro.parse_schema(declared)

    def encoded(record: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"t": TIME, **record})
        return out.getvalue()

    return declared, draw(st.lists(cells.map(encoded), min_size=2, max_size=6))


def _avro(draw: Any, listed: ListColumn) -> Case:
    (declared, records), schema = draw(avro_files(listed)), schema_of(listed)

    def read(some: Sequence[bytes], border: int) -> Iterable[Decoded]:
        return list(FORMATS["avro"].decode_bytes(container(declared, some, border), schema, "f"))

    return Case(records, read, lambda at, _: ("f", at))


def _avro_messages(draw: Any, listed: ListColumn) -> Case:
    declared, records = draw(avro_files(listed))
    schema = schema_of(listed)
    return _messages("avro", schema, records, lambda part: container(declared, part, 2), 0)


# JSON.

_ODD = ["true", '"1"', "[]", "{}", "1e999", "NaN", "-Infinity", "null", "-0", '"\\ud800"', "1.5e0"]
_VALUES = st.sampled_from(["0", "1.5", "-2", "1e300", "12345678901234567890", *_ODD])
_NAMES = ["0", "1", "2", "3", "4", "-1", "03", "1.0", "99999999999", "x", "", "\\u0031"]


def _array(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def joined(some: list[str]) -> str:
        return "[" + ", ".join(some) + "]"

    right = st.lists(st.sampled_from(["0", "1.5", "-2", "NaN"]), min_size=SIZE, max_size=SIZE)
    return (right | right | st.lists(items, min_size=SIZE, max_size=SIZE) | st.lists(items)).map(
        joined
    )


def json_lines(listed: ListColumn) -> st.SearchStrategy[list[bytes]]:
    if listed.column is not None:
        pair = st.tuples(st.sampled_from(_NAMES), _VALUES)
        good = st.tuples(st.sampled_from(_NAMES[:4]), st.sampled_from(["1.5", "0", "-2", "NaN"]))
        objects = (st.lists(pair) | st.lists(good)).map(
            lambda made: "{" + ", ".join(f'"{name}": {value}' for name, value in made) + "}"
        )
        value = _array(_VALUES) | objects | st.sampled_from(["null", "7", '"a"', "[[1]]"])
        cells = value.map(lambda one: f', "x": {one}') | st.just("")
    else:
        spot = PLACES.map(str) | st.sampled_from(["1.0", "true", '"1"', "null"])
        made = pairs(spot, _VALUES).map(
            lambda one: "".join(
                f', "{name}": ' + ("null" if part is None else f"[{', '.join(map(str, part))}]")
                for name, part in zip("iv", one, strict=True)
            )
        )
        cells = made | st.just(', "i": 3, "v": [1]') | st.just("")
    deep = st.sampled_from(["", "", "", ', "d": ' + "[" * 1100 + "]" * 1100, ', "d": "\\ud800"'])
    lines = st.tuples(cells, deep).map(lambda one: f'{{"t": {TIME}{one[0]}{one[1]}}}'.encode())
    return st.lists(lines, min_size=2, max_size=6)


def _ndjson(draw: Any, listed: ListColumn) -> Case:
    lines, schema = draw(json_lines(listed)), schema_of(listed)

    def read(some: Sequence[bytes], border: int) -> Iterable[Decoded]:
        data = b"".join(record + b"\n" for record in some)
        return list(
            decode_ndjson(chunks(io.BytesIO(data).read, chunk_bytes=border * 8), schema, "f")
        )

    return Case(lines, read, lambda at, _: ("f", at + 1))


def _json_messages(draw: Any, listed: ListColumn) -> Case:
    lines = draw(json_lines(listed))
    decoder = MessageDecoder("json", schema_of(listed), "s")

    def read(some: Sequence[bytes], _: int) -> Iterable[Decoded]:
        return decoder.decode([Message(str(at), line, 1) for at, line in enumerate(some)])

    return Case(lines, read, lambda at, _: (f"s#{at}", 1))


CASES: dict[str, Callable[[Any, ListColumn], Case]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "avro": _avro,
    "ndjson": _ndjson,
    "messages of arrow": _arrow_messages,
    "messages of avro": _avro_messages,
    "messages of json": _json_messages,
}


@pytest.mark.slow
@pytest.mark.parametrize("listed", [WHOLE, PAIR], ids=["list", "pair"])
@pytest.mark.parametrize("form", CASES)
def test_a_list_is_read_alone(form: str, listed: ListColumn) -> None:
    @settings(max_examples=12, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def run(data: Any) -> None:
        _check(CASES[form](data.draw, listed), data.draw(st.sampled_from(BORDERS)))

    run()


# The same numbers, however they were written.

TABLE = np.array([[0, 1.5, 0, -2.0], [0, 0, 0, 0], [3.0, 0, 0, 0.25]])
SPOTS = [[3, 1], [], [3, 0]]


def _file(form: str, how: str) -> bytes:
    if form == "ndjson":
        records: list[Any] = []
        for row, spots in zip(TABLE.tolist(), SPOTS, strict=True):
            if how == "list":
                records.append({"t": TIME, "x": row})
            elif how == "object":
                records.append({"t": TIME, "x": {str(at): row[at] for at in spots}})
            else:
                records.append({"t": TIME, "i": spots, "v": [row[at] for at in spots]})
        return b"".join(orjson.dumps(one) + b"\n" for one in records)
    values = [[row[at] for at in spots] for row, spots in zip(TABLE.tolist(), SPOTS, strict=True)]
    columns: dict[str, Any] = {"t": pa.array([TIME] * 3)}
    if how == "pair":
        columns |= {"i": pa.array(SPOTS, pa.list_(pa.int32())), "v": pa.array(values)}
    else:
        kind = pa.list_(pa.float32(), SIZE) if how == "fixed" else pa.list_(pa.float64())
        columns["x"] = pa.array(TABLE.tolist(), kind)
    batch = pa.RecordBatch.from_pydict(columns)
    if form == "parquet":
        return alone_columns.parquet([batch], 2)
    if form == "arrow":
        return alone_columns.arrow([batch], False)
    kinds: dict[str, Any] = {"t": "long"}
    doubles = {"type": "array", "items": "double"}
    kinds |= (
        {"i": {"type": "array", "items": "int"}, "v": doubles} if how == "pair" else {"x": doubles}
    )
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(record_of(kinds)), batch.to_pylist())
    return out.getvalue()


@pytest.mark.parametrize(
    ("form", "how"),
    [
        *(
            (form, how)
            for form in ("parquet", "arrow", "avro", "ndjson")
            for how in ("list", "pair")
        ),
        ("ndjson", "object"),
        ("parquet", "fixed"),
        ("arrow", "fixed"),
    ],
)
def test_the_same_numbers_are_the_same_lists(form: str, how: str) -> None:
    schema = schema_of(PAIR if how == "pair" else WHOLE)
    found = list(FORMATS[form].decode_bytes(_file(form, how), schema, "f"))
    assert all(one.dead is None for one in found)
    parts = [to_rows(one.events.column(schema.listed.name), SIZE).dense() for one in found]
    np.testing.assert_array_equal(np.concatenate(parts), TABLE)


def _letters(data: bytes, form: str, schema: EventSchema) -> list[tuple[Any, ...]]:
    found = list(FORMATS[form].decode_bytes(data, schema, "f"))
    assert sum(one.events.num_rows for one in found if one.events is not None) == data.count(b"\n")
    return [row[1:] for one in found if one.dead is not None for row in rows(one.dead)]


def test_what_cannot_be_read_is_told_and_what_is_missing_is_not() -> None:
    lines = [
        '{"t": 1, "x": [1, 2, 3]}',
        '{"t": 1, "x": {"4": 1}}',
        '{"t": 1, "x": null}',
        '{"t": 1}',
        '{"t": 1, "x": [1, 2, 3, null]}',
        '{"t": 1, "x": [1, 2, 3, "a"]}',
    ]
    data = "".join(line + "\n" for line in lines).encode()
    assert _letters(data, "ndjson", schema_of(WHOLE)) == [
        (1, "x", "not_a_list"),
        (2, "x", "not_a_list"),
        (6, "x", "not_a_list"),
    ]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.list_(pa.string()), "holds lists of string"),
        (pa.float64(), "holds double"),
        (pa.list_(pa.float64(), 3), "lists of 3 numbers; write size: 3"),
    ],
)
def test_a_column_of_another_type_is_refused(kind: pa.DataType, said: str) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.nulls(1, kind)], names=["t", "x"])
    data = alone_columns.arrow([batch], False)
    with pytest.raises(ConfigError, match=said):
        list(FORMATS["arrow"].decode_bytes(data, schema_of(WHOLE), "f"))


def test_a_number_beyond_its_precision_is_its_own_records() -> None:
    """As it is in a column of numbers: it is no fault of how lists lie."""
    items = pa.Array.from_buffers(
        pa.decimal128(5, 2), 8, [None, pa.py_buffer(b"\x64" + bytes(15) + b"\x11" * 112)]
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 4, 8], pa.int32()), items)
    batch = pa.RecordBatch.from_arrays([pa.array([TIME] * 2), lists], names=["t", "x"])
    found = list(
        FORMATS["arrow"].decode_bytes(alone_columns.arrow([batch], True), schema_of(WHOLE), "f")
    )
    assert [one.dead for one in found] == [None]
    rows_found = to_rows(found[0].events.column(schema_of(WHOLE).listed.name), SIZE).dense()
    assert rows_found[0, 0] == 1.0 and np.isfinite(rows_found).all()


def test_a_list_that_points_outside_is_its_own_records() -> None:
    for make, index in ((pa.ListViewArray, pa.int32()), (pa.LargeListViewArray, pa.int64())):
        far = 2**31 - 1 if index == pa.int32() else 2**63 - 1
        lists = make.from_arrays(
            pa.array([0, far, -1, 2, 0], index),
            pa.array([4, far, 4, 4, -4], index),
            pa.array([1.5] * 5),
        )
        batch = pa.RecordBatch.from_arrays([pa.array([TIME] * 5), lists], names=["t", "x"])
        found = FORMATS["arrow"].decode_bytes(
            alone_columns.arrow([batch], True), schema_of(WHOLE), "f"
        )
        letters = [row[1:] for one in found if one.dead is not None for row in rows(one.dead)]
        assert letters == [(at, "x", "not_a_list") for at in (1, 2, 3, 4)]


def test_csv_says_that_it_has_no_lists() -> None:
    with pytest.raises(ConfigError, match="CSV has none of"):
        list(decode_csv([], ["t", "x"], schema_of(WHOLE), "f"))


def test_every_format_is_tried_here() -> None:
    assert set(file_formats()) == {"csv", "parquet", "arrow", "avro", "ndjson"}


def test_json_writes_what_is_compared() -> None:
    assert json.loads(_file("ndjson", "object").splitlines()[0])["x"] == {"3": -2.0, "1": 1.5}

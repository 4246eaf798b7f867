"""Several key columns: one spelling a combination, whatever it holds and however it is encoded."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from datetime import date
from itertools import product
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.test_filter import PublicPlan
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys, key_text
from weir.transforms.columns import keys as select_keys
from weir.transforms.columns.keys import KEY, key_roles, keys_of
from weir.transforms.decode.canonical import KEY_TYPE, assemble
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS, file_formats
from weir.transforms.operators.filter import Assign
from weir.transforms.runtime.dead_letters import rows

AWKWARD = (
    *("a", "b,c", "a,b", "c", "", " ", '"', '","', "\\", '\\"', "]", "[", '["a","b"]', "null", "/"),
    *("\x00", "\x1f", "\x7f", "\n", "\u2028", "\u00fc", "\U0001f600", "7", "\ufeff", "' "),
)
PAIRS = list(product(AWKWARD, AWKWARD))
TEXTS = st.sampled_from(AWKWARD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def batch_of(columns: Sequence[Any]) -> pa.RecordBatch:
    names = key_roles([f"c{i}" for i in range(len(columns))])
    return pa.RecordBatch.from_arrays(list(columns), names=list(names))


def encoded(values: Sequence[str | None], twice: bool) -> pa.DictionaryArray:
    """A column whose dictionary may list every text twice, and holds one that nobody has."""
    words = [*dict.fromkeys(value for value in values if value is not None), "unused"] * (1 + twice)
    half = len(words) // 2
    places = [
        None if value is None else words.index(value) + (half if twice and at % 2 else 0)
        for at, value in enumerate(values)
    ]
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(words))


def test_no_two_combinations_share_a_spelling() -> None:
    columns = [pa.array(column).dictionary_encode() for column in zip(*PAIRS, strict=True)]
    found = keys_of(batch_of(columns), ("c0", "c1")).keys.to_pylist()
    assert found == [key_text(pair) for pair in PAIRS]
    assert len(set(found)) == len(PAIRS)
    assert [tuple(json.loads(key)) for key in found] == PAIRS
    assert key_text(["\u00fc", "/\x7f"]) == '["\u00fc","/\x7f"]'  # nothing is escaped needlessly


@pytest.mark.slow
@settings(max_examples=150)
@given(st.data())
def test_keys_are_those_of_each_record_alone(data: Any) -> None:
    width = data.draw(st.integers(2, 4))
    events = data.draw(st.lists(st.tuples(*[st.none() | TEXTS] * width), max_size=12))
    most = data.draw(st.sampled_from([1, 1 << 31]))
    columns = [
        encoded([event[at] for event in events], data.draw(st.booleans())) for at in range(width)
    ]
    names = [f"c{i}" for i in range(width)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select_keys, "_MOST", most)
        keys, missing = keys_of(batch_of(columns), names)
    assert keys.to_pylist() == [None if None in event else key_text(event) for event in events]
    assert missing.tolist() == [event.index(None) if None in event else -1 for event in events]


WHOLE = (
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
)
SCHEMA = EventSchema(time=None, keys=("k",))


@pytest.mark.parametrize("kind", WHOLE, ids=str)
def test_a_whole_number_is_the_same_key_next_to_any_others(kind: Any) -> None:
    """Near each other they are found in a table, else by hashes: no record changes another."""
    ends = np.iinfo(kind.to_pandas_dtype())
    low, high = int(ends.min), int(ends.max)
    near = list(range(low, low + 90)), [high, high - 1, high, high - 9], [low], [high], [low, high]
    for values in (*near, [*near[0], high], [low, *near[1]], [3, 3, 1, 2, 1]):
        column = pa.array([0, *values], kind).slice(1)
        decoded = assemble({"k": column}, np.arange(len(values)), SCHEMA, "f")
        assert decoded.events is not None and decoded.dead is None
        found = decoded.events.column(KEY)
        assert found.type == KEY_TYPE
        assert found.cast(pa.string()).to_pylist() == [str(value) for value in values]
        assert sorted(found.dictionary.to_pylist()) == sorted({str(value) for value in values})


def test_many_combinations_that_hardly_occur() -> None:
    names = np.array([f"n{i}" for i in range(3000)])
    columns = [
        pa.DictionaryArray.from_arrays(
            pa.array(np.array([2999, 0, 2999], np.int32)), pa.array(names)
        )
        for _ in range(4)
    ]
    keys = keys_of(batch_of(columns), list("abcd")).keys
    assert len(keys.dictionary) == 2
    assert keys.to_pylist()[0] == keys.to_pylist()[2] == key_text(["n2999"] * 4)


def test_dead_letters_name_the_column_that_is_missing() -> None:
    declared = [key_text(pair) for pair in (("paris", "shoes"), ("rome", "hats"))]
    clock = Clock(start=0, period=10, end=100, delay=0)
    plan = PublicPlan(clock, Keys.make(("city", "product"), declared, False, 16))
    cities = ["paris", None, "rome", None, "paris", "rome"]
    products = ["shoes", "shoes", None, None, "hats", "hats"]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([1] * 6).cast(pa.timestamp("us", "UTC")),
            pa.array(cities).dictionary_encode(),
            pa.array(products).dictionary_encode(),
            pa.array(range(6), pa.int64()),
        ],
        names=["@time", "@key0", "@key1", "@position"],
    )
    events, dead, _ = Assign(plan, [])(batch)
    assert events.column("@key").to_pylist() == declared
    assert "@key0" not in events.schema.names
    assert [letter[1:] for letter in rows(dead)] == [
        (1, "city", "unknown_key"),
        (2, "product", "unknown_key"),
        (3, "city", "unknown_key"),
        (4, "city, product", "unknown_key"),
    ]


EVENTS: list[dict[str, Any]] = [
    {"t": "2025-01-01T00:00:00Z", "city": city, "n": number, "day": day}
    for city in ("a,b", 'say "hi"', "S\u00fcd", "\u2028\\")
    for number, day in ((7, date(2025, 1, 2)), (-1, date(1969, 12, 31)))
]
WANTED = [key_text([event["city"], str(event["n"]), str(event["day"])]) for event in EVENTS]


def _csv() -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(EVENTS[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(EVENTS)
    return out.getvalue().encode()


def _ndjson() -> bytes:
    return b"".join(json.dumps(event, default=str).encode() + b"\n" for event in EVENTS)


def _table(encode: bool) -> pa.Table:
    table = pa.Table.from_pylist(EVENTS)
    at = table.schema.get_field_index("city")
    city = table["city"].dictionary_encode() if encode else table["city"]
    return table.set_column(at, "city", city)


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(_table(False), sink, row_group_size=3)
    return sink.getvalue()


def _arrow() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, _table(True).schema) as writer:
        writer.write_table(_table(True), max_chunksize=3)
    return sink.getvalue()


def _avro() -> bytes:
    sink = io.BytesIO()
    kinds = {"t": "string", "city": "string", "n": "long"}
    fields: list[Any] = [{"name": name, "type": kind} for name, kind in kinds.items()]
    fields.append({"name": "day", "type": {"type": "int", "logicalType": "date"}})
    fastavro.writer(sink, {"type": "record", "name": "event", "fields": fields}, EVENTS)
    return sink.getvalue()


WRITERS: dict[str, Callable[[], bytes]] = {
    "csv": _csv,
    "ndjson": _ndjson,
    "parquet": _parquet,
    "arrow": _arrow,
    "avro": _avro,
}


@pytest.mark.parametrize("form", file_formats())
def test_every_format_gives_the_same_keys(form: str) -> None:
    names = ("city", "n", "day")
    schema = EventSchema.build(Stamp("t"), key=names)
    found = []
    for events, dead, _ in FORMATS[form].decode_bytes(WRITERS[form](), schema, "f"):
        assert dead is None and events is not None
        keys = keys_of(events, names).keys.to_pylist()
        found += zip(events.column("@position").to_pylist(), keys, strict=True)
    assert [key for _, key in sorted(found)] == WANTED


def test_an_unreadable_value_names_its_column() -> None:
    schema = EventSchema.build(Stamp("t"), key=("city", "n"))
    data = b'{"t":"2025-01-01","city":"a","n":[]}\n{"t":"2025-01-01","city":1.5,"n":2}\n'
    letters = []
    for events, dead, _ in FORMATS["ndjson"].decode_bytes(data, schema, "f"):
        assert events is None and dead is not None
        letters += [letter[1:] for letter in rows(dead)]
    assert letters == [(1, "n", "unreadable_key"), (2, "city", "unreadable_key")]

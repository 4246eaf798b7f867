"""A neighbour damages a field: no record vanishes, and a sum moves by its clip at most."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.events import aside, csv, ndjson
from weir.dpcore.plan import Plan
from weir.transforms.beam.elements import emit
from weir.transforms.columns.predicate import Predicate
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS
from weir.transforms.operators.bound import bound
from weir.transforms.runtime import counters
from weir.transforms.runtime.reasons import MISSING, by_field

PLAN = Plan.from_yaml("""\
name: ratings
source: {csv: x.csv}
schema: {time: {column: at}, id: id}
key: {column: store, declared: [a, b]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z, delay: 0s}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 8 ticks, relation: replace_one}
aggregates:
  visits: {count: events}
  stars: {sum: rating, clip: [0, 5]}
  marks: {histogram: grade, edges: [0, 1, 2]}
""")
SCHEMA = EventSchema.build(
    Stamp("at"),
    key="store",
    id="id",
    arrival=Stamp("seen", field="schema.arrival", strict=False),
    where='not member or note != "x"',
    numbers=PLAN.program.columns,
)
FIELDS = ("rating", "grade", "member", "note", "seen")
GOOD = {"rating": 4.5, "grade": 1, "member": True, "note": "x", "seen": "2024-01-01T05:00:00Z"}
ROLES = {"at": "2024-01-01T05:00:00Z", "store": "a", "id": "7"}

RAW = st.sampled_from(
    [b"abc", b"\xff", b"\xc3(", b"1e999", b"-1e999", b"nan", b"inf", b"", b" ", b"0x1", b"1,5",
     b"true", b"maybe", b"1" * 400, b"2024-13-01", b"-", b"1e", b'""', b"\xed\xa0\x80", b"\x00"]
) | st.binary(max_size=12)  # fmt: skip
JSON = RAW.map(
    lambda raw: b'"%b"' % bytes(c for c in raw if c not in b'"\\' and c >= 32)
) | st.sampled_from(
    [b"null", b"true", b"[1]", b'{"a":[]}', b"1e999", b"-1e999", b"NaN", b"-Infinity", b"1" * 400,
     b'"\\ud800"', b'"\\u0000n1"', b'"\xff"', b"17", b"-0.0", b"123456789012345678901234567890"]
)  # fmt: skip


def csv_of(changed: dict[str, bytes]) -> bytes:
    values = {name: str(value).encode() for name, value in {**ROLES, **GOOD}.items()} | {
        # A field holds what a writer of CSV would make of it; line breaks end a record.
        name: b'"%b"' % raw.translate(None, b"\r\n").replace(b'"', b'""')
        for name, raw in changed.items()
    }
    return b",".join(n.encode() for n in values) + b"\n" + b",".join(values.values()) + b"\n"


def json_of(changed: dict[str, bytes]) -> bytes:
    values = {name: orjson.dumps(value) for name, value in {**ROLES, **GOOD}.items()} | changed
    return b"{%b}\n" % b",".join(b'"%b":%b' % (n.encode(), v) for n, v in values.items())


def judged(found: tuple[list[dict[str, Any]], list[tuple[int, str]]], beside: int) -> None:
    """The record counts, where and for whom it did; what it adds to sums is within the clip."""
    events, dead = found
    assert aside(dead) == []
    assert [(row["@key"], row["@id"]) for row in events] == [("a", "7")] * (1 + beside)
    assert len({row["@time"] for row in events}) == 1
    batch = pa.RecordBatch.from_pylist([{n: row[n] for n in ("rating", "grade")} for row in events])
    batch = batch.cast(pa.schema([("rating", pa.float64()), ("grade", pa.float64())]))
    visits, stars, _ = bound(batch, PLAN.program).rows
    assert np.shape(visits.amount) == () and np.all(np.abs(stars.amount) <= visits.amount)
    assert {why.split(":")[0] for _, why in dead} <= set(FIELDS)


@pytest.mark.slow
@settings(max_examples=250)
@given(st.dictionaries(st.sampled_from(FIELDS), RAW, min_size=1), st.booleans())
def test_no_bad_field_of_csv_makes_a_record_vanish(changed: dict[str, bytes], beside: bool) -> None:
    data = csv_of(changed) + csv_of({}).split(b"\n")[1] + b"\n" if beside else csv_of(changed)
    judged(csv(data, SCHEMA), int(beside))


@pytest.mark.slow
@settings(max_examples=250)
@given(st.dictionaries(st.sampled_from([*FIELDS, "else"]), JSON, min_size=1), st.booleans())
def test_no_bad_field_of_json_makes_a_record_vanish(
    changed: dict[str, bytes], beside: bool
) -> None:
    judged(ndjson(json_of(changed) + json_of({}) * beside, SCHEMA), int(beside))


def test_what_is_absent_is_counted_apart_from_what_cannot_be_read() -> None:
    data = b"at,store,id,rating,grade,member,note,seen\n" + b"".join(
        b"2024-01-01T05:00:00Z,a,%d,%b,%b,%b,%b,\n" % (i, *values)
        for i, values in enumerate([(b"abc", b"", b"", b"\xff"), (b"NaN", b"", b"maybe", b"x")])
    )
    counters.reset()
    outputs = list(emit(FORMATS["csv"].decode_bytes(data, SCHEMA, "x")))
    assert len(outputs) == 2
    assert by_field(counters.snapshot()) == {
        ("rating", "not_a_number"): 1,
        ("rating", MISSING): 1,
        ("grade", MISSING): 2,
        ("member", "not_a_boolean"): 1,
        ("member", MISSING): 1,
        ("note", "not_text"): 1,
    }


def test_where_sees_a_spoilt_field_as_a_missing_one() -> None:
    for bad in (b"abc", b"\xff", b""):
        (row,), _ = csv(csv_of({"member": bad, "note": b"x"}), SCHEMA)
        assert row["member"] is None
        batch = pa.RecordBatch.from_pylist(
            [row], pa.schema([("member", pa.bool_()), ("note", pa.string())])
        )
        for text, kept in (("member", False), ("not member", True), ("member is None", True)):
            assert Predicate.parse(text).mask(batch).to_pylist() == [kept]

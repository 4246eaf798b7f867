"""Messages of a pull: decoded together, judged apart, and never an error."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.decode import arrow as arrow_together
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.arrow import Arrow
from weir.transforms.runtime.dead_letters import rows

SUB = "projects/acme-1/subscriptions/s"
SCHEMA = EventSchema.build(Stamp("at"), key="store", id="order", numbers=["dollars"])
MARKER = "XYZZY"
T0 = 1_700_000_000_000_000


def event(n: int, **other: Any) -> dict[str, Any]:
    at = f"2024-01-01T00:00:{n % 60:02d}Z"
    return {"at": at, "store": f"s{n % 3}", "order": f"o{n}", "dollars": n / 2, **other}


def payload(form: str, events: list[dict[str, Any]]) -> bytes:
    if form == "json":
        assert len(events) == 1
        return json.dumps(events[0], indent=1).encode()
    if form == "ndjson":
        return "\n".join(json.dumps(one) for one in events).encode()
    if form == "arrow":
        batch = pa.RecordBatch.from_pylist(events)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()
    kinds = {str: "string", float: "double", int: "long"}
    fields = [{"name": k, "type": ["null", kinds[type(v)]]} for k, v in events[0].items()]
    out = io.BytesIO()
    fastavro.writer(out, {"type": "record", "name": "e", "fields": fields}, events)
    return out.getvalue()


def decode(form: str, payloads: list[bytes], schema: EventSchema = SCHEMA, **options: Any) -> Any:
    messages = [Message(f"m{i}", data, T0 + i) for i, data in enumerate(payloads)]
    found = MessageDecoder(form, schema, SUB, **options).decode(messages)
    events, dead = [], []
    for batch, letters, _ in found:
        if batch is not None:
            batch.validate(full=True)
            events += batch.to_pylist()
        if letters is not None:
            dead += list(rows(letters))
    events.sort(key=lambda row: (row["@source"], row["@position"]))
    return events, sorted(dead), found, messages


@pytest.mark.parametrize("form", ["json", "ndjson", "avro", "arrow"])
def test_every_form_names_the_message_and_its_arrival(form: str) -> None:
    per = 1 if form == "json" else 4
    payloads = [payload(form, [event(4 * m + i) for i in range(per)]) for m in range(6)]
    events, dead, found, _ = decode(form, payloads)
    assert not dead and len(found) == 1
    first = 0 if form in ("avro", "arrow") else 1
    assert [(e["@source"], e["@position"], e["@id"]) for e in events] == [
        (f"{SUB}#m{m}", first + i, f"o{4 * m + i}") for m in range(6) for i in range(per)
    ]
    stamps = [int(e["@arrival"].timestamp() * 1e6) for e in events]
    assert stamps == [T0 + m for m in range(6) for _ in range(per)]


@pytest.mark.parametrize("form", ["json", "ndjson", "avro", "arrow"])
def test_what_is_no_payload_is_one_dead_letter_and_hurts_no_other(form: str) -> None:
    good = payload(form, [event(1)])
    bad = [b"", b" \n", MARKER.encode(), good[: len(good) // 2], b"\xff\xfe\x00" * 9]
    events, dead, *_ = decode(form, [good, *bad, good])
    assert [e["@source"][-3:] for e in events if e["@id"] == "o1"] == ["#m0", "#m6"]
    lost = {source for source, *_ in dead}
    kept = {e["@source"] for e in events}
    assert lost | kept == {f"{SUB}#m{i}" for i in range(7)} and len(dead) == len(lost) == 5
    assert {reason for *_, reason in dead} == {"malformed"}
    assert MARKER not in str(dead)


def test_a_bad_line_is_lost_alone_and_keeps_its_line_number() -> None:
    lines = [json.dumps(event(i)).encode() for i in range(3)]
    mixed = b"\xef\xbb\xbf" + lines[0] + b"\r\n\n{broken\n" + lines[1]
    events, dead, *_ = decode(
        "ndjson", [lines[2] + b"\n", mixed, b"{}\n" + b"x" * 200], line_bytes=150
    )
    assert [(e["@source"][-2:], e["@position"]) for e in events] == [
        ("m0", 1),
        ("m1", 1),
        ("m1", 4),
    ]
    assert dead == [
        (f"{SUB}#m1", 3, "", "malformed"),
        (f"{SUB}#m2", 1, "at", "missing_time"),
        (f"{SUB}#m2", 2, "", "too_long"),
    ]


@pytest.mark.parametrize("form", ["json", "ndjson", "avro", "arrow"])
def test_numbers_where_times_should_be_are_dead_letters_on_a_stream(form: str) -> None:
    """A file whose times nobody can read is an error of its config; on a stream a sender erred."""
    numbers = payload(form, [{**event(1), "at": 17}])
    events, dead, *_ = decode(form, [numbers, numbers])
    assert not events and [d[2:] for d in dead] == [("at", "unreadable_time")] * 2
    events, dead, *_ = decode(form, [numbers, payload(form, [event(2)])])
    assert [e["@id"] for e in events] == ["o2"] and len(dead) == 1


@pytest.mark.parametrize("form", ["avro", "arrow"])
def test_columns_that_cannot_play_their_role_cost_their_values_only(form: str) -> None:
    one = event(1)
    wrong = payload(form, [{**one, "order": 0.5}])
    absent = payload(form, [{k: v for k, v in one.items() if k != "store"}])
    whole = payload(form, [{**one, "order": 7}])
    events, dead, *_ = decode(form, [wrong, payload(form, [one]), absent, whole])
    assert {(e["@source"], e["@id"], e["@key"]) for e in events} == {
        (f"{SUB}#m1", "o1", one["store"]),
        (f"{SUB}#m2", "o1", None),
        (f"{SUB}#m3", "7", one["store"]),
    }
    assert dead == [(f"{SUB}#m0", 0, "order", "unreadable_id")]


@pytest.mark.parametrize("form", ["json", "ndjson", "avro", "arrow"])
def test_a_column_of_another_type_or_none_is_missing_in_its_message(form: str) -> None:
    schema = EventSchema.build(Stamp("at"), key="store", numbers=["paid"], where="note != 'x'")
    one = event(1)
    given = [{**one, "paid": 2.5, "note": "y"}, {**one, "paid": "no", "note": 0.5}, one]
    events, dead, *_ = decode(form, [payload(form, [each]) for each in given], schema)
    found = {e["@source"][-2:]: (str(e["paid"]), e["note"]) for e in events}
    assert found == {"m0": ("2.5", "y"), "m1": ("nan", None), "m2": ("nan", None)}
    assert [letter[2:] for letter in dead] == [("note", "not_text"), ("paid", "not_a_number")]


def test_a_declared_arrival_is_kept_and_filled_where_it_is_missing() -> None:
    schema = EventSchema.build(Stamp("at"), arrival=Stamp("got", field="schema.arrival"))
    lines = [event(1, got="2023-11-14T00:00:00Z"), event(2)]
    events, dead, *_ = decode("ndjson", [payload("ndjson", lines)], schema)
    assert not dead
    assert [e["@arrival"].isoformat()[:10] for e in events] == ["2023-11-14", "2023-11-14"]
    assert int(events[1]["@arrival"].timestamp() * 1e6) == T0


def test_nothing_is_nothing() -> None:
    events, dead, found, _ = decode("ndjson", [])
    assert (events, dead, found) == ([], [], [])


@settings(max_examples=60)
@given(
    form=st.sampled_from(["json", "ndjson", "avro", "arrow"]),
    noise=st.lists(st.binary(max_size=80) | st.just(b'{"at": 5}'), max_size=4),
    cut=st.integers(0, 300),
    flip=st.integers(0, 255),
)
def test_no_bytes_make_it_raise_and_no_message_vanishes(
    form: str, noise: list[bytes], cut: int, flip: int
) -> None:
    good = payload(form, [event(1)])
    spoilt = bytearray(good)
    spoilt[cut % len(good)] ^= flip
    payloads = [good, *noise, bytes(spoilt), good[:cut]]
    events, dead, *_ = decode(form, payloads)
    seen = {e["@source"] for e in events} | {source for source, *_ in dead}
    if form != "arrow":  # a stream that is cut behind its schema holds no batch, and says so
        assert seen == {f"{SUB}#m{i}" for i in range(len(payloads))}
    assert f"{SUB}#m0" in {e["@source"] for e in events}


def odd_arrow(kind: str) -> bytes:
    """A payload that is out of the ordinary in one way."""
    good = payload("arrow", [event(1), event(2)])
    if kind == "cut":
        return good[:-60]
    if kind == "file":
        batch = pa.RecordBatch.from_pylist([event(3)])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()
    if kind == "dictionary":
        table = pa.Table.from_pylist([event(4), event(5)])
        column = table.column("store").dictionary_encode()
        (batch,) = table.set_column(1, "store", column).combine_chunks().to_batches()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()
    if kind == "types":
        return payload("arrow", [event(6, dollars=7), event(7, dollars=8)])
    if kind == "values":
        return payload("arrow", [event(8, at="never"), event(9), event(10, store=None)])
    return {"no columns": payload("arrow", [{"x": 1}]), "noise": b"\xff\xff\xff\xff" * 9}[kind]


ODD = ("cut", "file", "dictionary", "types", "values", "no columns", "noise")


@pytest.mark.parametrize("kind", ODD)
def test_messages_read_together_are_read_as_if_each_were_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = [payload("arrow", [event(20 + i), event(40 + i)]) for i in range(4)]
    payloads = [payloads[0], odd_arrow(kind), payloads[1], b"", *payloads[2:], odd_arrow("values")]
    events, dead, found, _ = decode("arrow", payloads)
    monkeypatch.setattr(
        Arrow, "decode_together", lambda self, given, *_: ([], list(range(len(given))))
    )
    alone = decode("arrow", payloads)
    assert (events, dead) == alone[:2]
    assert len(events) >= 8


def test_whole_pulls_of_arrow_are_assembled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each message costs is what frames it; its values are read with those of the others."""
    calls = []
    real = arrow_together.assemble
    monkeypatch.setattr(arrow_together, "assemble", lambda *a: calls.append(1) or real(*a))
    events, dead, found, _ = decode("arrow", [payload("arrow", [event(i)]) for i in range(200)])
    assert len(events) == 200 and not dead and len(found) == len(calls) == 1

"""CSV and NDJSON: every kind of bad input, one at a time and mixed at random."""

from __future__ import annotations

import logging
import math
import re
from dataclasses import replace

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.transforms.events import HEADER, MARKER, SCHEMA, aside, collect, csv, ndjson
from weir.dpcore.errors import ConfigError
from weir.transforms.decode import lines as text_lines
from weir.transforms.decode.lines import without_marks
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS

HEAD = ",".join(HEADER).encode() + b"\n"
GOOD = b"19970101,north,7,2,11.5\n"


def js(**fields: object) -> bytes:
    return orjson.dumps(fields)


GOOD_JSON = js(date="19970101", store="north", order=7, items=2, dollars=11.5)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"19970101,north,7,2", "malformed"),
        (b"19970101,north,7,2,3,4", "malformed"),
        (b"19970101,\xff,7,2,3,\xff", "malformed"),
        (b'19970101,"north,7,2,3', "malformed"),
        (b'19970101,"a"",7,2,3', "malformed"),
        (b"19970101,no\rth,7,2,3", "malformed"),
        (b"\x00\x01\x02\xfe\xff", "malformed"),
        (b"   ", "malformed"),
        (b",north,7,2,3", "date: missing_time"),
        (b"19970231,north,7,2,3", "date: unreadable_time"),
        (b"yesterday,north,7,2,3", "date: unreadable_time"),
        (b"1997\xff0101,north,7,2,3", "date: unreadable_time"),
        (b"yesterday,\xff,7,many,abc", "date: unreadable_time"),
        (b"19970101,\xff\xfe,7,2,3", "store: unreadable_key"),
        (b"19970101,north,\xff,2,3", "order: unreadable_id"),
        (b"19970101," + b"x" * 200 + b",7,2,3", "too_long"),
    ],
)
def test_a_bad_csv_line_is_put_aside_alone(line: bytes, reason: str) -> None:
    events, dead = csv(HEAD + GOOD + line + b"\n" + GOOD, line_bytes=100)
    assert [row["@position"] for row in events] == [2, 4]
    assert dead == [(3, reason)]


@pytest.mark.parametrize(
    ("line", "reasons"),
    [
        (b"19970101,north,7,2,abc", ["dollars: not_a_number"]),
        (b"19970101,north,7,many,abc", ["dollars: not_a_number", "items: not_a_number"]),
        (b"19970101,north,7,2,\xff", ["dollars: not_a_number"]),
        (b'19970101,north,7,2,"a ""b"', ["dollars: not_a_number"]),
    ],
)
def test_a_bad_number_in_csv_is_a_missing_one(line: bytes, reasons: list[str]) -> None:
    events, dead = csv(HEAD + GOOD + line + b"\n" + GOOD)
    assert [row["@position"] for row in events] == [2, 3, 4]
    assert [row["@key"] for row in events] == ["north"] * 3
    assert [math.isnan(row["dollars"]) for row in events] == [False, True, False]
    assert dead == [(3, reason) for reason in reasons]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"date":"19970101"', "malformed"),
        (b'{"date":"19970101"}{"date":"19970102"}', "malformed"),
        (b'{"date":"19970101","store":"\x01"}', "malformed"),
        (b'{"date":"19970101","store":\xff}', "malformed"),
        (b'{"date":"19970101","dollars":1e}', "malformed"),
        (b'["19970101"]', "malformed"),
        (b"17", "malformed"),
        (b"\x00\x01\x02\xfe\xff", "malformed"),
        (b'{"store":"north"}', "date: missing_time"),
        (b'{"date":null}', "date: missing_time"),
        (b'{"date":"19970231"}', "date: unreadable_time"),
        (b'{"date":[]}', "date: unreadable_time"),
        (b'{"date":"\xff"}', "date: unreadable_time"),
        (b'{"date":"19970101","store":1.5}', "store: unreadable_key"),
        (b'{"date":"19970101","store":{"a":1}}', "store: unreadable_key"),
        (b'{"date":"19970101","store":"\xff"}', "store: unreadable_key"),
        (b'{"date":"19970101","store":"\\ud800"}', "store: unreadable_key"),
        (b'{"date":"19970101","order":true}', "order: unreadable_id"),
        (b'{"date":"19970101","store":"' + b"x" * 200 + b'"}', "too_long"),
    ],
)
def test_a_bad_json_line_is_put_aside_alone(line: bytes, reason: str) -> None:
    data = GOOD_JSON + b"\n" + line + b"\n" + GOOD_JSON
    events, dead = ndjson(data, line_bytes=100)
    assert [row["@position"] for row in events] == [1, 3]
    assert dead == [(2, reason)]


@pytest.mark.parametrize(
    "bad", [b'"abc"', b"true", b"[1]", b'{"a":[]}', b'"\xff"', b'"\\ud800"', b'"\\u0000n1"']
)
def test_a_bad_number_in_json_is_a_missing_one(bad: bytes) -> None:
    data = GOOD_JSON + b'\n{"date":"19970101","store":"\\u0000y","dollars":' + bad + b"}"
    events, dead = ndjson(data)
    assert [row["@key"] for row in events] == ["north", "\0y"]
    assert math.isnan(events[1]["dollars"]) and dead == [(2, "dollars: not_a_number")]


@pytest.mark.parametrize(
    "odd", [b"1e999", b"-1e999", b'NaN,"else":"\xff"', b"1" * 400, b'Inf,"\xff":"\\ud800\xff"']
)
def test_what_orjson_refuses_takes_no_record_along(odd: bytes) -> None:
    data = GOOD_JSON + b'\n{"date":"19970101","store":"\\u0000y","dollars":' + odd + b"}"
    events, dead = ndjson(data)
    assert [row["@key"] for row in events] == ["north", "\0y"] and not dead
    assert not math.isfinite(events[1]["dollars"])


def test_csv_values() -> None:
    data = HEAD + b'19970101,"a ""b"", c",x,2,\r\n\r\n19970102,,y, 3 ,NA\n19970103,z,,1,inf'
    events, dead = csv(b"\xef\xbb\xbf" + data)
    assert not dead
    assert [row["@position"] for row in events] == [2, 4, 5]
    assert [row["@key"] for row in events] == ['a "b", c', None, "z"]
    assert [row["@id"] for row in events] == ["x", "y", None]
    assert [row["items"] for row in events] == [2.0, 3.0, 1.0]
    assert math.isnan(events[0]["dollars"]) and math.isnan(events[1]["dollars"])
    assert events[2]["dollars"] == math.inf


def test_json_values() -> None:
    lines = [
        js(date=19970101, store=7, order="x", items=2, dollars=None),
        js(date="19970102", store="z", order=12345678901234567890, more={"x": [1, {}]}),
        b'  {"date":"19970103", "dollars":NaN, "items":-Infinity}\t\r',
        b" \t",
        b'{"date":"19970104","dollars":90071992547409931234,"dollars":9007199254740993}',
    ]
    events, dead = ndjson(b"\n".join(lines))
    assert not dead
    assert [row["@position"] for row in events] == [1, 2, 3, 5]
    assert [row["@key"] for row in events] == ["7", "z", None, None]
    assert [row["@id"] for row in events] == ["x", "12345678901234567890", None, None]
    assert all(math.isnan(row["dollars"]) for row in events[:3])
    assert events[2]["items"] == -math.inf
    assert events[3]["dollars"] == 9007199254740992.0


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "arrow", "avro"])
def test_an_empty_file_has_no_events(form: str) -> None:
    assert collect(FORMATS[form].decode_bytes(b"", SCHEMA, "x")) == ([], [])


def test_a_header_alone_has_no_events() -> None:
    assert csv(HEAD) == ([], [])
    assert csv(HEAD.rstrip()) == ([], [])


def test_another_delimiter() -> None:
    events, dead = csv(HEAD.replace(b",", b";") + b"19970101;a,b;1;1;1\n", delimiter=";")
    assert not dead and events[0]["@key"] == "a,b"


def test_a_missing_column_is_named_with_what_there_is() -> None:
    with pytest.raises(ConfigError, match="key.column = 'store'.*events.csv; its names are not"):
        csv(b"date,shop\n")
    with pytest.raises(ConfigError, match="twice"):
        csv(b"date,store,store,order,items,dollars\n")
    with pytest.raises(ConfigError, match="header line"):
        csv(b"\xff\xfe\x00\n")


def test_columns_that_no_one_reads_may_hold_anything() -> None:
    events, dead = csv(b"junk,,date,junk," + b"store,order,items,dollars\n,,19970101,x,n,1,2,3\n")
    assert len(events) == 1 and not dead and "junk" not in events[0]


def test_a_long_line_streams_past() -> None:
    class Endless:
        """10 MB of one line, handed out in small pieces."""

        def __init__(self) -> None:
            self.pieces = [HEAD[:0] + GOOD] + [b"x" * 65536] * 160 + [b"\n" + GOOD]

        def read(self, n: int) -> bytes:
            return self.pieces.pop(0) if self.pieces else b""

    from weir.transforms.decode.lines import chunks

    found = list(chunks(Endless().read, 2, line_bytes=1 << 20))
    assert max(len(chunk.data) for chunk in found) < 100
    assert [int(n) for chunk in found for n in chunk.too_long] == [3]
    assert [int(n) for chunk in found for n in chunk.numbers] == [2, 4]


def test_payload_of_one_event_may_be_spread_over_lines() -> None:
    data = b'{\n "date": "19970101",\r\n "store": "north"\n}\n'
    events, dead = collect(FORMATS["json"].decode_bytes(data, SCHEMA, "topic"))
    assert len(events) == 1 and not dead


def test_booleans_and_presence() -> None:
    schema = EventSchema.build(Stamp("t"), where="member and note is not None")
    events, dead = csv(b"t,member,note\n2020-01-01,TRUE,x\n2020-01-01,0,\n2020-01-01,,q\n", schema)
    assert [(r["member"], r["note"]) for r in events] == [(True, True), (False, None), (None, True)]
    assert not dead
    events, dead = csv(b"t,member,note\n2020-01-01,maybe,x\n2020-01-01,\xff,x\n", schema)
    assert [row["member"] for row in events] == [None, None]
    assert dead == [(2, "member: not_a_boolean"), (3, "member: not_a_boolean")]
    lines = b'{"t":"2020-01-01","member":true,"note":{"a":1}}\n{"t":"2020-01-01","member":1}\n'
    events, dead = ndjson(lines, schema)
    assert [(r["member"], r["note"]) for r in events] == [(True, True), (None, None)]
    assert dead == [(2, "member: not_a_boolean")]


GOOD_LINES = st.sampled_from([GOOD.strip(), b'19970102,"so""uth, x",8,1,NA', b"19970103,w,,,-1e3"])
BAD_LINES = st.sampled_from(
    [
        b'19970101,"open,1,2,3',
        b'19970101,a"b,"1,2,3',
        b'"19970101","a""b",1,2,3"',
        b"19970101,a,b,c,d",
        b"1,2",
        b"19970101,a\rb,1,2,3",
        b"19970230,x,1,2,3",
        b"\xff,,,,",
        b"",
        b"\r",
        b" ",
        b",,,,",
        b'"',
        b'""',
        b'"",""',
    ]
)
GARBAGE = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b""))
PIECES = st.lists(st.sampled_from([b'"', b",", b"1", b"a", b"\r", b'""', b" "]), max_size=14)
CSV_LINES = st.lists(
    GOOD_LINES | BAD_LINES | GARBAGE | PIECES.map(b"".join) | st.just(b"x" * 70), max_size=12
)


@given(
    st.lists(st.sampled_from([b"\xef\xbb\xbf", b"\xef\xbb", b"\xef", b"\n", b"a"]), max_size=30),
    st.integers(0, 4),
)
def test_marks_go_from_the_beginnings_of_lines_alone(pieces: list[bytes], few: int) -> None:
    """However many bytes like their first one are in front of them."""
    data = b"".join(pieces)
    expected = re.sub(rb"(?m)^(?:\xef\xbb\xbf)+", b"", data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_lines, "FEW", few)
        assert without_marks(data) == expected


@pytest.mark.slow
@settings(max_examples=150)
@given(CSV_LINES, st.booleans())
@example([b"19970101,north,7,2,11.5", b"\r\r"], True)
@example([b"\xef\xbb\xbf"], False)
def test_csv_loses_nothing_and_chunks_do_not_matter(lines: list[bytes], last: bool) -> None:
    body = b"\n".join(lines) + (b"\n" if last else b"")
    events, dead = csv(HEAD + body, line_bytes=60)
    numbered = [(n, without_marks(line)) for n, line in enumerate(body.split(b"\n"), 2)]
    given_lines = [n for n, line in numbered if line not in (b"", b"\r")]
    assert sorted([row["@position"] for row in events] + aside(dead)) == given_lines
    for size in (1, 64):
        assert repr(csv(HEAD + body, chunk_bytes=size, line_bytes=60)) == repr((events, dead))
    # Neighbours do not matter either.
    for n, line in enumerate(body.split(b"\n"), 2):
        alone_events, alone_dead = csv(HEAD + line, line_bytes=60)
        assert [reason for _, reason in alone_dead] == [r for at, r in dead if at == n]
        assert len(alone_events) == sum(row["@position"] == n for row in events)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["19970101", "19970230", "", "é", MARKER]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner, max_size=1),
    max_leaves=3,
)
JSON_LINES = st.lists(
    st.just(GOOD_JSON)
    | st.dictionaries(st.sampled_from([*HEADER, "else"]), JSON_VALUES).map(orjson.dumps)
    | GARBAGE
    | st.sampled_from(
        [
            b'{"date":"19970101","dollars":NaN}',
            b'{"date":"19970101","dollars":Inf,"store":3}',
            b'{"date":"19970101","else":[Infinity]}',
            b'{"date":"19970101","dollars":-Inf,"else":"NaN \\"NaN\\\\"}',
            b'{"date":"19970101","dollars":-NaN,"else":"\\u0000NaN"}',
            b'{"date":"19970101",NaN:1}',
            b'{"date":"19970101","dollars":1NaN}',
            b'{"date":19970101.0,"else":1e999}',
            b'{"date":"19970101"',
            b"}",
            b"{}{}",
            b'{"date":"19970101","store":"\\ud800"}',
            b'{"date":"19970101","dollars":"\\ud800"}',
            b'{"date":"19970101","items":"\xff","else":"\\u0000x"}',
            b'{"date":"19970101","dollars":-1e999,"\\u0000":"\xff"}',
            b'{"date":"19970101",1e999:1}',
            b'{"date":99999999999999999999}',
            b'{"date":[1],"dollars":"abc"}',
            b"",
            b"  ",
            b"\xef\xbb\xbf{}",
            b'{"date":"19970101","date":"19970102"}',
        ]
    ),
    max_size=10,
)


@pytest.mark.slow
@settings(max_examples=150)
@given(JSON_LINES, st.booleans())
def test_ndjson_loses_nothing_and_chunks_do_not_matter(lines: list[bytes], last: bool) -> None:
    body = b"\n".join(lines) + (b"\n" if last else b"")
    events, dead = ndjson(body)
    blank = b" \t\r"
    bare = [line.removeprefix(b"\xef\xbb\xbf") for line in body.split(b"\n")]
    given_lines = [n for n, line in enumerate(bare, 1) if line.strip(blank)]
    assert sorted([row["@position"] for row in events] + aside(dead)) == given_lines
    for size in (1, 64):
        assert _same(ndjson(body, chunk_bytes=size), (events, dead))
    # Neighbours do not matter either, not even those that take the fast way from the others.
    for n, line in enumerate(body.split(b"\n"), 1):
        alone_events, alone_dead = ndjson(line)
        assert [reason for _, reason in alone_dead] == [r for at, r in dead if at == n]
        beside = [row | {"@position": 1} for row in events if row["@position"] == n]
        assert _same(alone_events, beside)


def _same(one: object, other: object) -> bool:
    # Arrow reads -0 as -0.0, orjson as 0: equal numbers.
    return repr(one).replace("-0.0", "0.0") == repr(other).replace("-0.0", "0.0")


def test_one_bad_line_of_each_kind_among_thousands() -> None:
    bad = [
        b'{"date":"19970101","store":{"a":1}}',
        b'{"date":"19970101","store":"\xff"}',
        b'{"date":"19970101","items":1,}',
        b'{"\xff\xfe\x00\x01}',
        b"\x00\x01\xfe\xff",
        GOOD_JSON[:-9],
    ]
    odd = [
        b'{"date":"19970101","store":"w","store":7}',
        b'{"date":19970101,"else":{"a":[{}]}}',
        b'{"date":"19970101","dollars":NaN}',
        b'{"date":"19970101"}',
        b'{"date":"19970101","dollars":"abc"}',
        b'{"date":"19970101","items":[1]}',
    ]
    lines = [GOOD_JSON] * 3000
    for i, line in enumerate(bad + odd):
        lines[100 + 250 * i] = line
    events, dead = ndjson(b"\n".join(lines))
    reasons = ["store: unreadable_key"] * 2 + ["malformed"] * 4
    reasons += [""] * 4 + ["dollars: not_a_number", "items: not_a_number"]
    assert dead == [(101 + 250 * i, reason) for i, reason in enumerate(reasons) if reason]
    found = {row["@position"]: row for row in events}
    assert len(found) == 3000 - len(bad)
    assert found[101 + 250 * len(bad)]["@key"] == "7"
    alone = ndjson(GOOD_JSON)[0][0]
    assert all(
        row == alone | {"@position": n} for n, row in found.items() if lines[n - 1] == GOOD_JSON
    )


def test_a_number_among_times_in_text_is_no_time() -> None:
    schema = EventSchema.build(Stamp("t"))
    lines = [b'{"t":"2020-01-01"}', b'{"t":5}', b'{"t":"2020-01-01T00:00:00Z"}', b'{"t":true}']
    events, dead = ndjson(b"\n".join(lines), schema)
    assert [row["@position"] for row in events] == [1, 3]
    assert dead == [(2, "t: unreadable_time"), (4, "t: unreadable_time")]
    assert ndjson(lines[1], replace(schema, time=Stamp("t", strict=False)))[1] == [
        (1, "t: unreadable_time")
    ]


def test_whole_nanoseconds_keep_their_digits_beside_fractions() -> None:
    schema = EventSchema.build(Stamp("t", "epoch_ns"))
    whole = b'{"t":1704067200000000999}'
    (alone,) = ndjson(whole, schema)[0]
    events, dead = ndjson(b'{"t":1704067200000000000.5}\n' + whole, schema)
    assert not dead and events[1]["@time"] == alone["@time"]


def test_a_text_left_open_beside_nan_is_read_once() -> None:
    line = b'{"date":"19970101","dollars":NaN,"else":"' + b'\\"' * 200_000 + b"}"
    events, dead = ndjson(GOOD_JSON + b"\n" + line)
    assert len(events) == 1 and dead == [(2, "malformed")]


@pytest.mark.parametrize("deep", [b"[" * 3000 + b"]" * 3000, b'{"a":' * 2000 + b"1" + b"}" * 2000])
def test_deep_nesting_is_read_alike_beside_any_neighbour(deep: bytes) -> None:
    line = b'{"date":"19970101","else":' + deep + b"}"
    assert len(ndjson(line)[0]) == 1
    events, dead = ndjson(line + b"\nbad\n" + line)
    assert [row["@position"] for row in events] == [1, 3] and dead == [(2, "malformed")]


def test_no_content_in_logs_or_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    word = MARKER.encode()
    garbage = [
        word,
        b"19970101,%b,%b,%b,%b" % (word, word, word, word),
        b'19970101,"%b,1,1,1' % word,
        b"%b,a,1,1,1" % word,
        b"19970101,%b\xff,1,1,1" % word,
        b'{"date":"%b"}' % word,
        b'{"date":"19970101","dollars":"%b"}' % word,
        b'{"%b":' % word,
        b'{"date":"19970101","store":"%b\xff"}' % word,
        word * 100,
    ]
    text = b"\n".join(garbage)
    for read in (csv, ndjson):
        read(HEAD * (read is csv) + text, line_bytes=300)
    for form in ("parquet", "arrow", "avro"):
        for start in (
            b"",
            b"PAR1",
            b"ARROW1\x00\x00",
            b"Obj\x01",
            b"\xff\xff\xff\xff\x10\x00\x00\x00",
        ):
            collect(FORMATS[form].decode_bytes(start + text + start[:4], SCHEMA, "x"))
    with pytest.raises(ConfigError) as caught:
        csv(b"\xff" + word + b"\n")
    assert MARKER not in str(caught.value) and caught.value.__suppress_context__
    assert MARKER not in caplog.text


def test_a_quote_left_open_far_ahead_swallows_nothing() -> None:
    good = GOOD * 500
    events, dead = csv(HEAD + good + b'19970101,"x,1,1,1\n' + good + b'19970101,"y,1,1,1\n' + good)
    assert len(events) == 1500
    assert dead == [(502, "malformed"), (1003, "malformed")]


@pytest.mark.parametrize("after", [b"", b'"\n', b"19970101,no\rth,7,2,3\n"])
def test_a_quote_left_open_by_the_last_line_is_no_other_than_one_before(after: bytes) -> None:
    line = b'19970101,north,7,2,"3\n'
    for data in (HEAD + line + after, HEAD + line + after + GOOD):
        events, dead = csv(data)
        assert (2, "malformed") in dead and len(events) == (data[-len(GOOD) :] == GOOD)


def test_metadata_names_the_source() -> None:
    (decoded,) = FORMATS["ndjson"].decode_bytes(GOOD_JSON, SCHEMA, "some/file")
    assert decoded.events is not None
    assert decoded.events.schema.metadata == {b"source": b"some/file"}
    assert decoded.events.schema.field("@key").type == pa.dictionary(pa.int32(), pa.string())
    assert decoded.events.schema.field("@time").type == pa.timestamp("us", "UTC")


TIMES_OF_ALL_TYPES = [
    b"1704103199999999999",
    b"253402300799999999",
    b"1.5",
    b'"1.5"',
    b"null",
    b"-0",
]
TIMES_OF_ALL_TYPES += [b"1704103200000000000.0", b'"soon"', b"true", b"18446744073709551616"]


@pytest.mark.slow
@pytest.mark.parametrize("form", [None, "epoch_s", "epoch_us", "epoch_ns", "%Y%m%d"])
@pytest.mark.parametrize("most", TIMES_OF_ALL_TYPES)
def test_no_type_of_most_times_chooses_for_the_others(form: str | None, most: bytes) -> None:
    schema = EventSchema.build(Stamp("t", form), arrival=Stamp("a", "epoch_us"))
    lines = [b'{"t":%b,"a":%b}' % (time, time) for time in (most, most, *TIMES_OF_ALL_TYPES)]
    events, dead = ndjson(b"\n".join(lines), schema)
    for at, line in enumerate(lines, 1):
        alone, lost = ndjson(line, schema)
        assert [row | {"@position": 1} for row in events if row["@position"] == at] == alone
        assert [reason for position, reason in dead if position == at] == [r for _, r in lost]


@pytest.mark.parametrize("token", [b"-0", b"-0.0", b"9" * 400, b"0." + b"3" * 400, b"1e400"])
def test_a_number_is_the_same_beside_what_arrow_cannot_read(token: bytes) -> None:
    line = b'{"date":"19970101","items":1,"dollars":%b}' % token
    unread = b'{"date":"19970101","items":1,"dollars":1,"else":%b}' % token
    for one in (line, unread):
        alone, lost = ndjson(one)
        beside, dead = ndjson(one + b"\n{}}")
        assert [math.copysign(1, row["dollars"]) for row in beside] == [1] * len(alone)
        assert beside == alone and dead == [*lost, (2, "malformed")]


def test_a_quote_left_open_at_the_end_is_malformed_as_anywhere() -> None:
    schema = EventSchema.build(Stamp("date", "%Y%m%d"))
    line = b'19970101,a,1,2,"3'
    assert csv(HEAD + line, schema) == ([], [(2, "malformed")])
    assert csv(HEAD + line + b"\nq,\ru,1,1,1", schema)[1] == [(2, "malformed"), (3, "malformed")]

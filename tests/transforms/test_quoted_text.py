"""Newlines inside quoted fields: records are whole; an open quote takes no more than the cap."""

from __future__ import annotations

import csv as python_csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.events import HEADER, MARKER, SCHEMA, Rows, collect
from weir.transforms.decode.csv import decode_csv
from weir.transforms.decode.lines import holds_newlines, quoted_chunks

GOOD = b"19970101,north,7,2,11.5\n"


def records(data: bytes, chunk_bytes: int, line_bytes: int = 1 << 20) -> tuple[list, list]:
    """(number, record) of each, and the numbers of those that are too long."""
    found, long = [], []
    for chunk in quoted_chunks(io.BytesIO(data).read, ",", 1, chunk_bytes, line_bytes):
        found += list(zip(chunk.numbers.tolist(), chunk.lines(), strict=True))
        long += chunk.too_long.tolist()
    return found, long


def csv(data: bytes, chunk_bytes: int = 1 << 20, line_bytes: int = 1 << 20) -> Rows:
    pieces = quoted_chunks(io.BytesIO(data).read, ",", 1, chunk_bytes, line_bytes)
    return collect(decode_csv(pieces, HEADER, SCHEMA, "events.csv", ",", True))


@pytest.mark.parametrize("chunk_bytes", [1, 3, 10, 1000])
def test_records_and_their_numbers(chunk_bytes: int) -> None:
    data = b'a,1\n"b\nb\r\n""",2\r\n\n5" pipe,3\n"c"d\ne,"f\n",g'
    expected = [(1, b"a,1"), (2, b'"b\nb\r\n""",2'), (6, b'5" pipe,3'), (7, b'"c"d')]
    assert records(data, chunk_bytes) == ([*expected, (8, b'e,"f\n",g')], [])


@pytest.mark.parametrize("chunk_bytes", [1, 7, 40, 1000])
def test_an_open_quote_takes_no_more_than_the_cap(chunk_bytes: int) -> None:
    lines = [f"r{i:02d},xxxxx".encode() for i in range(20)]
    data = b'h\n"open,' + b"\n".join(lines) + b"\n"
    found, long = records(data, chunk_bytes, 50)
    assert long == [2]
    # 6 bytes and 4 lines of 10 bytes, newlines included, are within 50; so the fifth goes too.
    assert found == [(1, b"h"), *((i + 2, lines[i]) for i in range(5, 20))]


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1000])
def test_long_lines(chunk_bytes: int) -> None:
    data = b"a\n" + b"x" * 51 + b'\nb\n"' + b"y" * 48 + b'"\n"' + b"z" * 49 + b'"\nc\n' + b"w" * 60
    found, long = records(data, chunk_bytes, 50)
    assert [line for _, line in found] == [b"a", b"b", b'"' + b"y" * 48 + b'"', b"c"]
    assert long == [2, 5, 7]


@pytest.mark.slow
@given(
    st.lists(
        st.lists(st.text(alphabet='ab",\n é', max_size=6), min_size=2, max_size=4).filter(any),
        max_size=8,
    ),
    st.integers(1, 40),
)
@settings(max_examples=200)
def test_as_another_reader_reads_them(rows: list[list[str]], chunk_bytes: int) -> None:
    out = io.StringIO(newline="")
    python_csv.writer(out, lineterminator="\n").writerows(rows)
    found, long = records(out.getvalue().encode(), chunk_bytes)
    assert not long
    assert [next(python_csv.reader(io.StringIO(r.decode(), newline=""))) for _, r in found] == rows


@pytest.mark.slow
@given(st.text(alphabet='a",\n\r', max_size=40), st.integers(1, 50), st.integers(3, 50))
@settings(max_examples=400)
def test_quotes_one_by_one(text: str, chunk_bytes: int, line_bytes: int) -> None:
    found, long = records(text.encode(), chunk_bytes, line_bytes)
    assert (found, long) == one_by_one(text.encode(), line_bytes)


def one_by_one(data: bytes, line_bytes: int) -> tuple[list[tuple[int, bytes]], list[int]]:
    """As ``records``, a byte at a time."""
    found, long, at = [], [], 0
    while at < len(data):
        number = data.count(b"\n", 0, at) + 1
        end, quoted, fresh = at, False, True
        while end < len(data) and end - at <= line_bytes and (quoted or data[end] != 10):
            byte = data[end : end + 1]
            if quoted and byte == b'"' and data[end + 1 : end + 2] == b'"':
                end += 1
            elif byte == b'"' and (quoted or fresh):
                quoted = not quoted
            fresh = byte == b"," and not quoted
            end += 1
        if end - at > line_bytes:
            long.append(number)
            end = data.find(b"\n", at + line_bytes)
            end = len(data) if end < 0 else end
        else:
            # What the file leaves open reaches to its end, but for the last newline.
            record = data[at:end].removesuffix(b"\n" if quoted else b"").removesuffix(b"\r")
            found += [(number, record)] if record else []
        at = end + 1
    return found, long


@pytest.mark.slow
@given(st.lists(st.binary(max_size=30).filter(lambda line: b'"' not in line), max_size=6))
@settings(max_examples=100)
def test_records_that_open_no_quote_are_read_alone(lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b"").replace(b"\r", b"") for line in lines]
    events, dead = csv(GOOD + b"\n".join(lines) + b"\n" + GOOD)
    found = {row["@position"]: row for row in events}
    end = len(lines) + 2 if lines else 3
    assert found[1]["dollars"] == found[end]["dollars"] == 11.5
    assert set(found) | {position for position, _ in dead} <= set(range(1, end + 1))


@pytest.mark.parametrize("chunk_bytes", [5, 1000])
def test_decoding(chunk_bytes: int) -> None:
    data = (
        GOOD
        + b'19970101,"no\nrth",7,2,3\n'
        + b'19970101,"no\r\nrth",7,2,4,5\n'
        + b'19970101,"no\rrth",7,2,4\n'
        + b'19970101,"x\xff\ny",7,2,4\n'
        + GOOD
        + f'19970101,"{MARKER}\n'.encode()
        + GOOD
    )
    events, dead = csv(data, chunk_bytes)
    assert [(row["@position"], row["@key"]) for row in events] == [
        (1, "north"), (2, "no\nrth"), (9, "north"),
    ]  # fmt: skip
    # The last one opens a quote that the file does not close.
    assert dead == [
        (4, "malformed"),
        (6, "malformed"),
        (7, "store: unreadable_key"),
        (10, "malformed"),
    ]


def test_whether_a_text_needs_it() -> None:
    assert holds_newlines(b'a,b\n1,"x\ny"\n', ",")
    assert not holds_newlines(b'a,b\n1,"x"\n2,5"\n3,"y\n', ",")
    assert not holds_newlines(b"", ",")

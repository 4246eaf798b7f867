"""Plain lines of CSV by the kernel: what it reads is what Arrow reads of each line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weir.transforms.decode.csv as decoder
import weir.transforms.decode.time as times
from weir.dpcore.native import kernels
from weir.transforms.decode.csv import decode_csv, plain_cells
from weir.transforms.decode.lines import Chunk, of_bytes
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.decode.time import ABSOLUTE, LOCAL, OTHER, common_times

pytestmark = pytest.mark.usefixtures("compiled")

HEADER = ("t", "s", "x", "other", "i")
TYPES = {0: pa.string(), 2: pa.float64(), 4: pa.string()}

PLAIN = [
    b"2024-01-01,a,1.5,,7",
    b",,,,",
    b'"","","","",""',
    b'"2024-01-01","a,b","-0.25","c,,","7"',
    "gr\u00fc\u00df,\u20ac,1e-7,\U0001f600,i".encode(),
    b"a b,\tc,12345678901234567.25,d, e ",
]
"""Lines that are plain."""

ODD = [
    b"a,b,1,c",
    b"a,b,1,c,d,e",
    b"",
    b'a,b,1,"c""d",e',
    b'a,b,1,"c"d,e',
    b'a,b,1,c"d,e',
    b'"a,b,1,c,d',
    b'a,b,1,c,d"',
    b"a,b,?,c,d",
    b"a,b, 1,c,d",
    b"a,b,+1,c,d",
    b"a,b,01,c,d",
    b"a,b,.5,c,d",
    b"a,b,5.,c,d",
    b"a,b,NA,c,d",
    b"a,b,nan,c,d",
    b"a,b,inf,c,d",
    b"a,b,1e400,c,d",
    b"a,b,0x1,c,d",
    b"a,b,1,c\0,d",
    b"a,b,1,c\rd,e",
    b"a,\xff,1,c,d",
    b"a,b,1,\xed\xa0\x80,d",
]
"""Lines that are not, each for a reason of its own."""


def chunk_of(lines: list[bytes]) -> Chunk:
    return of_bytes(b"\n".join(lines) + b"\n")


def read(lines: list[bytes], delimiter: str = ",") -> tuple[list[bool], list[Any]]:
    """Which lines are plain, and their fields."""
    found = plain_cells(chunk_of(lines), len(HEADER), TYPES, delimiter)
    assert found is not None
    for column in found.columns.values():
        column.validate(full=True)
    return found.lines.tolist(), pa.table(found.columns).to_pylist()


def test_reads_plain_lines() -> None:
    lines, rows = read(PLAIN)
    assert all(lines)
    assert [row["c0"] for row in rows] == [
        "2024-01-01",
        "",
        "",
        "2024-01-01",
        "gr\u00fc\u00df",
        "a b",
    ]
    assert [row["c2"] for row in rows] == [1.5, None, None, -0.25, 1e-7, 12345678901234567.25]
    assert [row["c4"] for row in rows] == ["7", "", "", "7", "i", " e "]


def test_a_mark_in_front_of_a_line_leaves_it_plain() -> None:
    assert read([b"\xef\xbb\xbf" + line for line in PLAIN]) == read(PLAIN)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters(delimiter: str) -> None:
    mark = delimiter.encode()
    lines, rows = read([line.replace(b",", mark) for line in PLAIN if mark not in line], delimiter)
    assert all(lines)
    assert rows[0] == {"c0": "2024-01-01", "c2": 1.5, "c4": "7"}


def test_leaves_other_lines_and_reads_those_beside_them_the_same() -> None:
    beside = read([PLAIN[0], PLAIN[4]])[1]
    for odd in ODD[:2] + ODD[3:]:
        lines, rows = read([PLAIN[0], odd, PLAIN[4]])
        assert lines == [True, False, True], odd
        assert rows == beside


def events(lines: list[bytes], schema: EventSchema, quoted: bool = False) -> tuple[list[Any], ...]:
    rows, dead = [], []
    chunk = chunk_of(lines)
    for found, letters, _ in decode_csv([chunk], HEADER, schema, "f", quoted_newlines=quoted):
        rows += [] if found is None else found.to_pylist()
        dead += [] if letters is None else letters.to_pylist()
    rows.sort(key=lambda row: row["@position"])
    return [repr(row) for row in rows], sorted(map(repr, dead))


SCHEMAS = {
    "number": EventSchema.build(Stamp("t"), key="s", id="i", numbers=["x"]),
    "text": EventSchema.build(Stamp("t"), key="x", id="s", where="other != 'c'"),
    "user": EventSchema.build(Stamp("t"), key="s", id="i", unit="other", numbers=["x"]),
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("quoted", [False, True])
def test_the_same_events_with_and_without_the_kernel(
    name: str, quoted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [b"2024-01-01T00:00:00Z", b"2024-02-31 00:00:00", b"2024-01-01", b"5", b"", b'"5"']
    lines = [
        moment + line[line.index(b",") :] if b"," in line else line
        for line in [*PLAIN, *ODD]
        for moment in moments
    ]
    # A quote that is left open in the last line ends with the chunk; and one bad line of many.
    for some in (lines, lines[::-1], lines[:30] * 20 + [ODD[6]], [*PLAIN[:1] * 50, ODD[8]]):
        with monkeypatch.context() as without:
            with_kernel = events(some, SCHEMAS[name], quoted)
            without.setattr(decoder, "plain_cells", lambda *_: None)
            without.setattr(times, "common_times", lambda *_: None)
            assert with_kernel == events(some, SCHEMAS[name], quoted)
            assert len(with_kernel[0]) > 20


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_are_read_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    signs = np.frombuffer(b'aab,,,"1..5-e \t\xc3\xa9', dtype=np.uint8)
    lines = []
    for _ in range(300):
        line = bytearray(b'2024-01-01,"a",1.5,b,7')
        for _ in range(rng.integers(0, 3)):
            line[rng.integers(0, len(line))] = rng.choice(signs)
        lines.append(bytes(line))
    with_kernel = events(lines, SCHEMAS["number"])
    monkeypatch.setattr(decoder, "plain_cells", lambda *_: None)
    assert with_kernel == events(lines, SCHEMAS["number"])


COMMON = {
    "2024-02-29T23:59:59Z": ABSOLUTE,
    "0001-01-01 00:00:00Z": ABSOLUTE,
    "9999-12-31T00:00:00.000001-23:59": ABSOLUTE,
    "1900-03-01T12:30:00.5+05:30": ABSOLUTE,
    "2024-06-15 01:02:03": LOCAL,
    "1969-12-31T23:59:59.999999": LOCAL,
}
OTHERS = [
    "", "2024-01-01", "2024-01-01T00:00", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
    "2024-00-01T00:00:00", "2024-01-00T00:00:00", "2024-04-31T00:00:00", "2024-01-01T24:00:00",
    "2024-01-01T00:60:00", "2024-01-01T00:00:60", "2024-01-01T00:00:00.", "2024-01-01T00:00:00z",
    "2024-01-01T00:00:00.1234567Z", "2024-01-01T00:00:00+0100", "2024-01-01T00:00:00+24:00",
    "2024-01-01T00:00:00ZZ", "2024-01-01t00:00:00", "2024/01/01T00:00:00", "2024-01-01T00:00:00 Z",
    "2024-01-0aT00:00:00", "+024-01-01T00:00:00", "12024-01-01T00:00:00",
]  # fmt: skip


def test_common_times_are_those_of_arrow() -> None:
    found = common_times(pa.array([*COMMON, *OTHERS, None]))
    assert found is not None
    assert found.kinds.tolist() == [*COMMON.values(), *[OTHER] * (len(OTHERS) + 1)]
    for text, kind, micros in zip(COMMON, found.kinds, found.microseconds.tolist(), strict=False):
        type_ = pa.timestamp("us", "UTC" if kind == ABSOLUTE else None)
        assert pa.scalar(text).cast(type_).cast(pa.int64()).as_py() == micros, text


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_times_are_the_same_with_and_without_the_kernel(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    every = rng.integers(-62_135_596_800_000_000, 253_402_300_799_999_999, 3_000)
    known = [str(np.datetime64(int(at), "us")) + end for at in every for end in ("", "Z", "-03:30")]
    stamp = Stamp("t", zone=zone)
    for some in (known, [*known, *COMMON, *OTHERS, None], [*OTHERS, None], known[::3], known[1::3]):
        text = pa.array(some, pa.string()).slice(1)
        with monkeypatch.context() as without:
            found = times.to_time(text, stamp, "f")
            without.setattr(times, "common_times", lambda _: None)
            assert found.equals(times.to_time(text, stamp, "f"))


def test_newlines_are_found_as_far_as_there_is_room() -> None:
    assert kernels is not None
    far = b"ab\n" * 3000
    for data in (b"", b"\n", b"ab", b"a\n\nb\n", b"\n" * 100 + b"x", b"\r", far, far + b"\xef\r\n"):
        expected = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
        for room in (0, 1, len(expected), len(expected) + 2):
            out = np.full(room, -1, dtype=np.int64)
            seen = np.zeros(2, dtype=np.bool_)
            assert kernels.newlines(data, out, b"\r\xef", seen) == len(expected)
            assert seen.tolist() == [b"\r" in data, b"\xef" in data]
            some = min(room, len(expected))
            assert out.tolist() == expected[:some].tolist() + [-1] * (room - some)


def test_the_kernels_refuse_what_does_not_fit() -> None:
    assert kernels is not None
    one, ends = np.ones(1, dtype=np.int64), np.array([99])
    room, flag = np.empty((1, 1), dtype=np.int64), np.empty(1, dtype=np.bool_)
    for stops, wanted, mark in (
        (ends, [[0, 0]], b","),
        (one, [[0, 1]], b","),
        (one, [[5, 0]], b","),
        (one, [[0, 0]], b";;"),
    ):
        with pytest.raises(ValueError, match="fit"):
            kernels.cells(b"ab", one, stops, np.array(wanted), room, room, flag, flag, mark)
    with pytest.raises(ValueError, match="fit"):
        kernels.times(
            b"ab", np.array([0, 9], np.int32), np.empty(1, np.int64), np.empty(1, np.uint8)
        )

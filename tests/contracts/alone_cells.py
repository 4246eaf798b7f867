"""What a record may hold, for the contract that each is read alone: whatever is awkward to read."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import orjson
from hypothesis import strategies as st

from weir.transforms.decode.schema import EventSchema, Stamp

COLUMNS = ("t", "a", "k", "l", "i", "u", "x", "w", "b", "n")
"""time, arrival, key, another, id, unit; a number, a text, a boolean, one that need only be there.
"""

FORMATS_OF_TIMES = (
    None,
    "epoch_s",
    "epoch_ms",
    "epoch_us",
    "epoch_ns",
    "%Y%m%d",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%d.%m.%Y %H:%M:%S.%f",
)
ZONES = ("UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns")

_NUMBERS = """
0 -0 1 -1 7 1.5 .5 5. +5 1e5 1E+05 1e400 -1e400 1e-400 5e-324 -0.0 4.9e-324 e5 1e
1.7976931348623157e308 9007199254740991 9007199254740992 9007199254740993
9223372036854775807 9223372036854775808 -9223372036854775809 18446744073709551616
1704103199999999999 1704103200000000000.0 1704103200 1704103200.123456 1.7041032e9
nan NaN -nan NaN(1) inf -Infinity Inf 0x10 0x1p3 1_000 1d5 --1 \u0661 \uff11
"""
_TIMES = """
2020-01-01 2020-02-30 2020-01-01T00:00:00Z 2020-01-01T02:00:00+02:00 2020-01-01T00:00:00.123456789
2020-01-01T00:00:00.1 0001-01-01 9999-12-31 0001-01-01T00:00:00+14:00 9999-12-31T23:59:59-23:59
2021-03-28T02:30:00 2021-10-31T02:30:00 20200101 20200230 2020-01-01T00:00:00.5+0100 2011-12-30
"""
_WORDS = "true FALSE True 1 0 yes null NULL N/A #N/A north s\u00fcd"

NUMBERS = (*_NUMBERS.split(), "9" * 40, "9" * 400, "0." + "3" * 400, "1" + "0" * 25 + ".5")
TIMES = (*_TIMES.split(), "31.12.2020 23:59:59.5", "2020-01-01 00:00:00")
WORDS = (
    *_WORDS.split(),
    *("", " ", "a b", "\t7", " 5", "5 ", "\u00a05", "\ufeff", "\u2028", "\x00", "\x0b"),
)
TEXTS = (*NUMBERS, *TIMES, *WORDS)
MARK = b"\xef\xbb\xbf"
NOT_TEXT = (b"\xff", b"\xed\xa0\x80", b"a\xc3", b"\xf5\x80\x80\x80")

INTEGERS = (
    *(0, 1, -1, 7, 127, -128, 20200101, 2**31 - 1, -(2**31), 2**53 - 1, 2**53, 2**53 + 1),
    *(2**63 - 1, -(2**63), 1_704_103_200, 1_704_103_199_999_999_999, 253_402_300_799_999_999),
    *(253_402_300_799_999, 253_402_300_800, -62_135_596_800, -62_135_596_801, 86_400_001),
)
DOUBLES = (
    *(0.0, -0.0, 1.0, 1.5, -1e308, 5e-324, float("inf"), float("nan"), 1e22, 2.0**53, 2.0**63),
    *(1_704_103_200.5, 1_704_103_200_000_000_000.0, 253_402_300_800.0, 1e-9, 20_200_101.0),
    *(struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (2**63 - 2**51 + 7, 2**64 - 1)),
)


@st.composite
def schemas(draw: st.DrawFn) -> EventSchema:
    """Roles of columns: most columns play one, some play two."""
    formats, zones = st.sampled_from(FORMATS_OF_TIMES), st.sampled_from(ZONES)
    kinds: dict[str, Any] = {"x": "number", "w": "text", "b": "boolean"}
    if draw(st.integers(0, 4)) == 0:
        kinds["n"] = "any"
    columns = {name: kind for name, kind in kinds.items() if draw(st.booleans())}
    if draw(st.integers(0, 4)) == 0:
        again = draw(st.sampled_from(["t", "a", "k", "i"]))
        columns[again] = draw(st.sampled_from(["number", "text", "boolean", "any"]))
    arrival = None
    if draw(st.booleans()):
        arrival = Stamp(draw(st.sampled_from("aaat")), draw(formats), draw(zones), "schema.arrival")
    return EventSchema(
        Stamp("t", draw(formats), draw(zones)),
        keys=draw(st.sampled_from([(), ("k",), ("k", "l"), ("l", "k", "w")])),
        id=draw(st.sampled_from([None, "i"])),
        unit=draw(st.sampled_from([None, "u"])),
        arrival=arrival,
        columns=columns,
    )


INSIDE = {"t": "m.t", "x": "m.x", "b": "m.b", "k": "m.o.k", "w": "m.o.w"}
"""Columns that may lie inside of others."""


def inside(schema: EventSchema) -> EventSchema:
    """The same roles, some of them played by fields inside of others."""

    def named(column: str | None) -> Any:
        return None if column is None else INSIDE.get(column, column)

    arrival = schema.arrival
    return replace(
        schema,
        time=replace(schema.time, column=named(schema.time.column)),
        keys=tuple(map(named, schema.keys)),
        id=named(schema.id),
        unit=named(schema.unit),
        arrival=None if arrival is None else replace(arrival, column=named(arrival.column)),
        columns={named(name): kind for name, kind in schema.columns.items()},
    )


def fitting(schema: EventSchema) -> dict[str, list[str]]:
    """Column -> texts that its role can read."""
    spelled = {
        None: ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.25Z"],
        "epoch_s": ["1704103200", "1704103201.5"],
        "epoch_ms": ["1704103200000", "1704103200000.5"],
        "epoch_us": ["1704103200000000", "1704103200000000.5"],
        "epoch_ns": ["1704103199999999999", "1704103199999999998"],
        "%Y%m%d": ["20200101", "20200301"],
        "%Y-%m-%dT%H:%M:%S.%f%z": ["2020-01-01T00:00:00.5+0100"],
        "%d.%m.%Y %H:%M:%S.%f": ["31.12.2020 23:59:59.5"],
    }
    arrival = schema.arrival.format if schema.arrival is not None else None
    return {
        "t": spelled[schema.time.format],
        "a": spelled[arrival],
        "k": ["7", "north"],
        "l": ["hats", "8"],
        "i": ["1", "2"],
        "u": ["u1"],
        "x": ["1", "2.5"],
        "w": ["w", "8"],
        "b": ["true", "false"],
        "n": ["1"],
    }


@st.composite
def csv_lines(draw: st.DrawFn, schema: EventSchema) -> list[bytes]:
    """Lines; most are clean, so that the readers' short ways are taken."""
    good = fitting(schema)
    pick = {name: draw(st.sampled_from(texts)) for name, texts in good.items()}
    odd = st.sampled_from([text.encode() for text in TEXTS] + [*NOT_TEXT, b'""', b'"5"', b'"a""b"'])
    odd |= st.sampled_from([b'"open', b'a"b', b'"a"b', b'"a,b"', b"\r", b"\xef\xbb\xbf"])

    def line() -> bytes:
        return MARK * (draw(st.integers(0, 9)) // 8) + unmarked()

    def unmarked() -> bytes:
        cells = [pick[name].encode() for name in COLUMNS]
        what = draw(st.integers(0, 9))
        if what < 3:
            return b",".join(cells)
        if what == 9:
            return draw(st.binary(max_size=30)).replace(b"\n", b"")
        for at in draw(st.lists(st.integers(0, len(cells) - 1), min_size=1, max_size=3)):
            cells[at] = draw(odd)
        whole = b",".join(cells)
        return whole if what < 8 else whole[: draw(st.integers(0, len(whole)))]

    return [line() for _ in range(draw(st.integers(2, 8)))]


JSON_TOKENS = (
    *(text.encode() for text in NUMBERS),
    *(orjson.dumps(text) for text in TEXTS),
    *(
        b"null",
        b"true",
        b"false",
        b"{}",
        b"[]",
        b'[{"a":[1]}]',
        b'{"a":1}',
        b"-",
        b"01",
        b"1.",
        b"",
    ),
    *(
        rb'"\ud800"',
        rb'"\ud83d\ude00"',
        rb'"\udc00\ud800"',
        rb'"\u0000"',
        rb'"\u0000n1"',
        b'"\xff"',
    ),
    *(rb'"\x"', b'"\x01"', b'"open', b"[" * 1100 + b"]" * 1100, b"NaN", b"-Infinity", b"Infinity"),
)


Pairs = list[tuple[str, bytes]]


def _object(pairs: Pairs) -> bytes:
    return b"{" + b",".join(b'"%b":%b' % (k.encode(), v) for k, v in pairs) + b"}"


def _nested(draw: st.DrawFn, pairs: Pairs) -> Pairs:
    """Fields inside of others, sometimes with something else in their place or next to them."""
    inner = [(INSIDE[k][4:], v) for k, v in pairs if INSIDE.get(k, "").startswith("m.o.")]
    outer = [(INSIDE[k][2:], v) for k, v in pairs if INSIDE.get(k, "m.o.")[:4] != "m.o."]
    odd = draw(st.integers(0, 11))
    token = draw(st.sampled_from(JSON_TOKENS))
    o = ("o", token if odd == 1 else _object(inner))
    m = ("m", token if odd == 2 else _object([*outer, o, *([o] if odd == 3 else [])]))
    rest = [(k, v) for k, v in pairs if k not in INSIDE]
    if odd == 4:
        rest.append((draw(st.sampled_from(sorted(INSIDE.values()))), token))
    return [*rest[:2], m, *rest[2:], *([("m", _object([o]))] if odd == 5 else [])]


@st.composite
def json_lines(draw: st.DrawFn, schema: EventSchema, nest: bool = False) -> list[bytes]:
    """Lines; in the clean ones a column has one type, in others any."""
    pick = {}
    for name, texts in fitting(schema).items():
        text = draw(st.sampled_from(texts))
        bare = name in ("b", "x") or (draw(st.booleans()) and text[0].isdigit())
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            bare = False
        pick[name] = text.encode() if bare else orjson.dumps(text)

    def line() -> bytes:
        return MARK * (draw(st.integers(0, 9)) // 8) + unmarked()

    def unmarked() -> bytes:
        pairs = list(pick.items())
        what = draw(st.integers(0, 11))
        if what > 3:
            for at in draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=3)):
                pairs[at] = (pairs[at][0], draw(st.sampled_from(JSON_TOKENS)))
        if what == 9:
            again = draw(st.sampled_from(pairs))[0]
            pairs.append((again, draw(st.sampled_from(JSON_TOKENS))))
        if what == 10:
            del pairs[draw(st.integers(0, len(pairs) - 1))]
        if what == 11:
            pairs = list(draw(st.permutations(pairs)))
            pairs.append(("else", draw(st.sampled_from(JSON_TOKENS))))
        whole = _object(_nested(draw, pairs) if nest else pairs)
        if what == 8:
            at = draw(st.integers(0, len(whole)))
            put = draw(
                st.sampled_from([b"", b"\x00", b"}{", b" ", b"\\", b'"', b"\xff", b"}\x00{"])
            )
            whole = whole[:at] + put + whole[at + draw(st.integers(0, 2)) :]
        if what == 7 and draw(st.booleans()):
            whole = draw(st.binary(max_size=20)) if draw(st.booleans()) else whole + whole
        return whole.replace(b"\n", b"")

    return [line() for _ in range(draw(st.integers(2, 8)))]

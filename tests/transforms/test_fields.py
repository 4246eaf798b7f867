"""Plain lines by the kernel: what it reads is what is read of each line on its own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

import weir.transforms.decode.ndjson as decoder
from weir.dpcore.native import kernels
from weir.transforms.decode.json_lines import plain
from weir.transforms.decode.lines import of_bytes
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS

TYPES = {"s": pa.string(), "x": pa.float64(), "i": pa.int64(), "b": pa.bool_()}
GOOD = b'{"s":"a","x":1.5,"i":7,"b":true}'

pytestmark = pytest.mark.usefixtures("compiled")


def read(lines: list[bytes], types: dict[str, pa.DataType] = TYPES) -> tuple[list[bool], list[Any]]:
    """Which lines are plain, and their fields."""
    chunk = of_bytes(b"\n".join(lines) + b"\n")
    assert len(chunk) == len(lines)
    found = plain(chunk, np.ones(len(chunk), dtype=bool), types)
    assert found is not None
    for column in found.columns.values():
        column.validate(full=True)
    return found.lines.tolist(), pa.table(found.columns).to_pylist()


PLAIN = [
    GOOD,
    b"{}",
    b'{ "s" : "" , "x" : -0 ,\t"i":-12,"b":false }',
    b'{"b":null,"i":null,"x":null,"s":null}',
    '{"s":"gr\u00fc\u00df \u20ac \U0001f600","x":1e-7}'.encode(),
    b'{"x":0.1234567890123456,"i":123456789012345678,"other":{"s":[1,{"x":"\\n"},[]],"e":{}}}',
    b'{"x":12345678901234567.25,"other":"\\"","i":0}',
    b'{"x":5e-324,"s":"no"}'.replace(b"5e-324", b"25E+3"),
    b'{"other":[true,false,null,-1.5e3],"s":"{\\u007d"}'.replace(b"\\u007d", b"}"),
]

ODD = [
    GOOD[:-1],
    GOOD[:-5] + b"}",
    b'{"s":"a",}',
    b'{"s":"a" "x":1}',
    b'{"s":"a"}}',
    b'{"s":"a"}{}',
    b'{"s":1}',
    b'{"s":{"a":1}}',
    b'{"x":"1"}',
    b'{"x":true}',
    b'{"x":01}',
    b'{"x":1.}',
    b'{"x":.5}',
    b'{"x":+1}',
    b'{"x":NaN}',
    b'{"x":1e400}',
    b'{"i":1.0}',
    b'{"i":-0}',
    b'{"i":1234567890123456789}',
    b'{"b":1}',
    b'{"b":tru}',
    b'{"s":"a","s":"a"}',
    b'{"s":"a\\u0041"}',
    b'{"\\u0073":"a"}',
    b'{"other":"\\ud800"}',
    b'{"s":"a\tb"}',
    b'{"s":"\xff"}',
    b'{"other":"\xc0\x80"}',
    b'{"other":"\xed\xa0\x80"}',
    b'{"other":' + b"[" * 100 + b"]" * 100 + b"}",
    b'["s"]',
]


def test_reads_plain_lines_as_json_does() -> None:
    lines, rows = read(PLAIN)
    assert all(lines)
    for line, row in zip(PLAIN, rows, strict=True):
        whole = json.loads(line)
        assert row == {name: whole.get(name) for name in TYPES}


def test_leaves_other_lines_and_reads_those_beside_them_the_same() -> None:
    for odd in ODD:
        lines, rows = read([PLAIN[0], odd, PLAIN[4]])
        assert lines == [True, False, True], odd
        assert rows == read([PLAIN[0], PLAIN[4]])[1]


def test_numbers_are_the_nearest_doubles() -> None:
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    numbers = np.concatenate(
        [words[np.isfinite(words)], rng.random(20_000), rng.normal(0, 1e9, 20_000)]
    )
    lines, rows = read([orjson.dumps({"x": float(x)}) for x in numbers])
    assert np.count_nonzero(lines[-40_000:]) > 39_900  # some are nearer to 0 than 1e-19 digits
    found = np.array([row["x"] for row in rows])
    assert np.array_equal(found.view(np.int64), numbers[np.array(lines)].view(np.int64))


def test_fields_inside_of_others() -> None:
    types = {"m.a": pa.string(), "m.n.b": pa.float64(), "c": pa.string()}
    lines, rows = read(
        [
            b'{"m":{"a":"in","n":{"b":2}},"c":"top"}',
            b'{"m.a":"very","m":{"a":"in"}}',
            b'{"m.a":null,"m":{"a":"in"}}',
            b'{"m":5,"c":"x"}',
            b'{"m":{"n":[1]}}',
            b'{"m":{"a":"1"},"m":{"a":"2"}}',
        ],
        types,
    )
    assert lines == [True] * 5 + [False]
    assert [row["m.a"] for row in rows] == ["in", "very", "in", None, None]
    assert [row["m.n.b"] for row in rows] == [2.0, None, None, None, None]
    only = of_bytes(b"{}\n")
    for names in ({"m": pa.string(), "m.a": pa.string()}, {"a": pa.list_(pa.int64())}):
        assert plain(only, np.ones(1, dtype=bool), names) is None


@pytest.mark.parametrize("key", ["s", "m.s"])
def test_the_same_events_with_and_without_the_kernel(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = EventSchema.build(Stamp("t"), key=key, id="i", numbers=["x"])
    times = [b'"2024-01-01T00:00:00Z"', b'"2024-02-31T00:00:00Z"', b"5", b"null"]
    lines = [line[:-1] + b',"t":' + t + b"}" for line in [*PLAIN, *ODD] for t in times]
    lines += [line.replace(b'"s":"a"', b'"m":{"s":"a"}') for line in lines]
    lines = [line.replace(b"{,", b"{") for line in lines]

    def events() -> tuple[list[Any], list[Any]]:
        rows, dead = [], []
        for found, letters, _ in FORMATS["ndjson"].decode_bytes(b"\n".join(lines), schema, "f"):
            rows += [] if found is None else found.to_pylist()
            dead += [] if letters is None else letters.to_pylist()
        rows.sort(key=lambda row: row["@position"])
        return [repr(row) for row in rows], sorted(map(repr, dead))

    with_kernel = events()
    monkeypatch.setattr(decoder, "plain", lambda *_: None)
    assert with_kernel == events()
    assert len(with_kernel[0]) > 20


def test_the_kernel_refuses_what_does_not_fit() -> None:
    one = np.ones(1, dtype=np.int64)
    ends = np.array([99])
    node = np.array([[0, 1, -1, 0, 0]])
    room = np.empty((1, 1), dtype=np.int64)
    flag = np.empty(1, dtype=np.bool_)
    assert kernels is not None
    with pytest.raises(ValueError, match="fit"):
        kernels.fields(b"{}", one, ends, b"s", node, room, room, flag, flag)
    with pytest.raises(ValueError, match="fit"):
        kernels.gather(b"ab", one, ends, np.empty(2, np.int32), np.empty(99, np.uint8))

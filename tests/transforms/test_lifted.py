"""Objects lifted out of lines by a kernel: what is read is what is read without it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest

from weir.dpcore.config.schema import ListColumn
from weir.dpcore.native import kernels
from weir.transforms.decode import ndjson as lifted
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS

pytestmark = pytest.mark.usefixtures("compiled")

SIZE = 1000
SCHEMA = EventSchema.build(
    Stamp("t", "epoch_us"), id="id", listed=ListColumn(column="x", size=SIZE)
)
TIME = 1_700_000_000_000_000


def read(data: bytes) -> list[Any]:
    """All events by position, and all dead letters, of bytes."""
    found: list[Any] = []
    for one in FORMATS["ndjson"].decode_bytes(data, SCHEMA, "file"):
        for batch in (one.events, one.dead):
            if batch is not None:
                found += [repr(row) for row in batch.to_pylist()]
    return sorted(found)


def both(monkeypatch: pytest.MonkeyPatch, data: bytes) -> tuple[list[Any], list[Any]]:
    mine = read(data)
    with monkeypatch.context() as patch:
        patch.setattr(lifted, "kernels", None)
        return mine, read(data)


def line(x: str, more: str = "", t: int = TIME) -> str:
    return f'{{"t": {t}, "id": "a", {more}"x": {x}}}'


DEEP = "[" * 2000 + "]" * 2000
ODD = [
    "{}", " { } ", '{"1":1}', '{"1" : -1.5e2 , "0":0}', '{"7":0,"3":1,"7":2}', '{"7":"a","7":2}',
    '{"01":1}', '{"00":1}', '{"1000":1}', '{"999":1}', '{"99999999999999999999":1}', '{"-1":1}',
    '{"1":01}', '{"1":1.}', '{"1":.5}', '{"1":-}', '{"1":1e}', '{"1":+1}', '{"1":1e5}',
    '{"1":1E+5}', '{"1":1e-5}', '{"1":1e400}', '{"1":1e-400}', '{"1":null}', '{"1":true}',
    '{"1":NaN}', '{"1":-Infinity}', '{"1":[1]}', '{"1":{"2":3}}', '{"1":1,}', "{,}", '{"1":1',
    '{"1" 1}', "{1:1}", '{"a":1}', '{"":1}', '{"1\\u0030":1}', '{"\\u0031":1}',
    '{"1":12345678901234567890}', '{"1":123456789012345678901234567890}',
    '{"1":0.1234567890123456789012345}', '{"1":-0}', '{"1":-0.0}', '{"1":0e999}',
    '{"1":1.7976931348623157e308}', '{"1":5e-324}', "null", "7", '"7"', "[]", "[1,2]", "true",
    "nulla", "{}{}", '{"1":1}}', '{"1":1}]', '{"1":1} x', '\t{"1":\r1}', '{"1":1}, "x": {"2":2}',
    '{"1":1}, "\\u0078": {"2":2}', '{"1":1}, "y": "}"', '{"1":1}, "y": "\\""',
    '{"1":1}, "y": [{"x": {"5":5}}]', '{"1":1}, "y": "\\', '{"1":1}, "y": "\udcff"',
    '{"1":1}, y: 1', '{"1":1}, "t": 5', '{"1":1},', '{"1":1} "y": 1', '{"1":1}, "y"',
    '{"1":1}, "y":', '{"\xe9":1}',
    DEEP, '{"1":1}, "y": ' + DEEP,
]  # fmt: skip
"""What may stand behind "x": of a line, its end excepted."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_each_line_is_read_as_without_the_kernel(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    plain = [line(f'{{"{rng.randrange(SIZE)}":{rng.random()!r}}}') for _ in range(40)]
    odd = [line(x, more) for x in ODD for more in ("", '"z": {"x": {"3":1}}, ', '"\u00e9": 1, ')]
    odd += ["{}", "", "  ", '{"t": 1}', line("{}", '"x": 5, '), line("{}", '"x": null, '), "[1]"]
    for lines in (plain, plain[:20] + odd + plain[20:], odd):
        some = list(lines)
        if seed:
            rng.shuffle(some)
        data = "\n".join(some).encode(errors="surrogateescape") + b"\n"
        mine, wanted = both(monkeypatch, data)
        assert mine == wanted
    assert len(mine) >= len(odd) - 3


@pytest.mark.parametrize("seed", range(3))
def test_torn_and_turned_bytes(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A byte of a sound line replaced, gone or there twice."""
    rng = random.Random(100 + seed)
    lines = []
    for _ in range(1500):
        entries = ",".join(f'"{rng.randrange(SIZE)}":{rng.uniform(-9, 9):.3g}' for _ in range(4))
        one = bytearray(line(f"{{{entries}}}", '"y": ["a", {"b": null}], ').encode())
        at = rng.randrange(len(one))
        kind = rng.randrange(4)
        if kind == 0:
            one[at] = rng.choice(b'{}[]",:0123456789.eE+- \\nul\x80\x00')
        elif kind == 1:
            del one[at]
        elif kind == 2:
            one.insert(at, one[at])
        lines.append(bytes(one))
    mine, wanted = both(monkeypatch, b"\n".join(lines))
    assert mine == wanted and len(mine) >= 1500


def numbers() -> Iterator[str]:
    rng = random.Random(3)
    for _ in range(20_000):
        kind = rng.randrange(5)
        if kind == 0:
            yield repr(rng.uniform(-1, 1) * 10.0 ** rng.randrange(-30, 30))
        elif kind == 1:
            yield str(rng.randrange(-(10 ** rng.randrange(1, 20)), 10 ** rng.randrange(1, 20)))
        elif kind == 2:
            yield f"{rng.randrange(10**9)}.{rng.randrange(10 ** rng.randrange(1, 12))}"
        elif kind == 3:
            whole = (1 << 53) + rng.randrange(1 << 10)
            yield f"{whole}e{rng.randrange(-25, 25)}"
        else:  # halfway between two doubles, or as near to it as 19 digits are
            half = (rng.randrange(1 << 52, 1 << 53) * 2 + 1) * 2 ** rng.randrange(0, 9)
            yield f"{half // 10**2}.{half % 10**2:02d}" if rng.random() < 0.5 else str(half)


def test_numbers_are_the_nearest_doubles() -> None:
    texts = list(numbers())
    data = "\n".join(line(f'{{"5":{one}}}') for one in texts).encode()
    starts = np.cumsum([0, *(len(one) + 1 for one in data.split(b"\n")[:-1])]).astype(np.int64)
    ends = np.append(starts[1:] - 1, len(data)).astype(np.int64)
    lengths, places, found, rest, *_ = lifted._lifted(data, starts, ends, "x", SIZE)
    lifts = lengths == 1
    assert lifts.mean() > 0.75 and set(places.tolist()) == {5}
    wanted = [float(one) for one, some in zip(texts, lifts, strict=True) if some]
    assert found.tobytes() == np.array(wanted).tobytes()
    assert rest.count(b"null") == lifts.sum()
    assert all(math.isfinite(one) for one in wanted)
    assert [orjson.loads(one)["x"] for one in rest.splitlines()[:3]] == [None] * 3


def test_what_is_mixed_with_lists_is_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "[" + ",".join(["0"] * (SIZE - 1) + ["2.5"]) + "]"
    lines = [line(x) for x in ('{"3":1}', whole, "null", '{"3":null}', "[1]", '{"9":4}')] * 3
    mine, wanted = both(monkeypatch, "\n".join(lines).encode())
    assert mine == wanted
    assert sum("2.5" in one for one in mine) == 3 and sum("not_a_list" in one for one in mine) == 3


def test_rooms_that_do_not_fit_are_refused() -> None:
    assert kernels is not None
    ints, floats = np.zeros(1, dtype=np.int64), np.zeros(100)
    with pytest.raises(ValueError, match="do not fit"):
        kernels.objects(
            b'{"x":{"1":1}}', ints, ints + 99, b"x", 9,
            ints.copy(), np.zeros(100, np.int64), floats, bytearray(99), ints.copy(), ints.copy(),
        )  # fmt: skip

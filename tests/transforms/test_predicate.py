"""The predicate language: what it means, and what it refuses."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.select.predicate import Predicate

NAN = float("nan")
BATCH = pa.RecordBatch.from_pydict(
    {
        "x": [1.0, 5.0, NAN, -2.0],
        "y": [1.0, NAN, 3.0, 4.0],
        "s": ["a", "b", None, "it's"],
        "member": [True, False, None, True],
        "two words": ["p", "q", "r", None],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 0", [1, 1, 0, 0]),
        ("x != 1", [0, 1, 0, 1]),
        ("not x != 1", [1, 0, 1, 0]),
        ("x == 1 or s == 'b'", [1, 1, 0, 0]),
        ("0 < x <= 5", [1, 1, 0, 0]),
        ("x == -2", [0, 0, 0, 1]),
        ("-x > 1", [0, 0, 0, 1]),
        ("x + 2 * y > 2.5", [1, 0, 0, 1]),
        ("1 / (x - 1) > 0", [1, 1, 0, 0]),
        ("x < y", [0, 0, 0, 1]),
        ("x in [1, 5]", [1, 1, 0, 0]),
        ("x not in (1, -7)", [0, 1, 0, 1]),
        ("s in ['a', \"it's\"]", [1, 0, 0, 1]),
        ("s not in ['a']", [0, 1, 0, 1]),
        ("s >= 'b'", [0, 1, 0, 1]),
        ("s is None", [0, 0, 1, 0]),
        ("s is not None and x is not null", [1, 1, 0, 1]),
        ("x is None", [0, 0, 1, 0]),
        ("member", [1, 0, 0, 1]),
        ("not member", [0, 1, 1, 0]),
        ("member == false", [0, 1, 0, 0]),
        ("`two words` == 'q'", [0, 1, 0, 0]),
        ('s == "`a`" or `two words` != "p"', [0, 1, 1, 0]),
        ("(x > 0 and\n y > 0)", [1, 0, 0, 0]),
    ],
)
def test_meaning(text: str, expected: list[int]) -> None:
    predicate = Predicate.parse(text)
    for one in (predicate, pickle.loads(pickle.dumps(predicate))):
        assert one.mask(BATCH).to_pylist() == [bool(value) for value in expected]
    assert predicate.mask(BATCH.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("x > 0 and s == 'a'", {"x": "number", "s": "text"}),
        ("a == b and b == 'q'", {"a": "text", "b": "text"}),
        ("a < b", {"a": "number", "b": "number"}),
        ("meta.at.x > 1 and meta.s == 'a'", {"meta.at.x": "number", "meta.s": "text"}),
        ("a is None", {"a": "any"}),
        ("a is None or a > 1", {"a": "number"}),
        ("a or b in [True]", {"a": "boolean", "b": "boolean"}),
    ],
)
def test_kinds(text: str, kinds: dict[str, str]) -> None:
    predicate = Predicate.parse(text)
    assert predicate.kinds == kinds and predicate.columns() == tuple(kinds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x >",
        "1 > 0",
        "x",
        "f(x) > 1",
        "x().y > 1",
        "x[0] > 1",
        "(lambda: x)() > 1",
        "x > 1 if x else x < 1",
        "[x for x in y]",
        "(x := 1) > 0",
        "x == None",
        "x is 1",
        "x in y",
        "x in []",
        "x in [1, 'a']",
        "x > 'a' and x > 1",
        "x ** 2 > 1",
        "x @ y > 1",
        "x & y",
        "~x > 1",
        "x > 1j",
        "x == b'a'",
        "f'{x}' == 'a'",
        "__import__('os').system('true')",
        "x > 1" + "0" * 400,
        "x > 1; y > 1",
        "x = 1",
        "x > 1 and " * 3000 + "x > 1",
        "(" * 500 + "x" + ")" * 500 + " > 1",
        "x == '\x00'\x00",
        "'a' + s == 'ab'",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    if text == "x":
        return  # A bare column is a boolean.
    with pytest.raises(ConfigError, match="where") as caught:
        Predicate.parse(text)
    assert caught.value.field == "where"
    assert "allowed are" in caught.value.remedy or "uses the column" in caught.value.remedy


def test_a_sum_cannot_be_compared_with_text() -> None:
    with pytest.raises(ConfigError, match="reads the column x as text"):
        EventSchema.build(Stamp("t"), where="x == 'a'", numbers=["x"])
    schema = EventSchema.build(Stamp("t"), where="x is None or z == 'q'", numbers=["x"])
    assert schema.columns == {"x": "number", "z": "text"}
    assert schema.needed == ("t", "x", "z")

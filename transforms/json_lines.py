"""JSON objects read one line at a time: each on its own, so that a bad one takes no other along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.json as arrow_json

_DEEPEST = 1024
"""How deep orjson reads."""

_GUESSES = (pa.string(), pa.int64(), pa.float64(), pa.bool_())
_MARK = "\0"
_SPELLED_MARK = rb"\u0000"
_TEXT_OR_NAN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|-?(?:NaN|Inf(?:inity)?)\b(?!\s*:)', re.DOTALL)
"""A text, to its end or that of the line (each byte is seen once), or a value that is no number."""


def read_arrow(data: bytes, types: dict[str, pa.DataType]) -> pa.Table:
    """Lines of objects by Arrow: all or none. Fields without a type are ignored.

    Raises:
      pyarrow.ArrowInvalid, UnicodeDecodeError: a line is bad. The text quotes it.
    """
    return arrow_json.read_json(
        pa.BufferReader(data),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1024),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
        ),
    )


def read_objects(
    lines: Sequence[bytes], names: Sequence[str]
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Some fields of objects, None where one is missing.

    Args:
      lines: (n,) each beginning and ending like an object, white space aside.
      names: (k,) of the fields.

    Returns:
      the values of the m objects that can be read, (m, k); which lines are no JSON, (n - m,).
    """
    values: list[tuple[Any, ...]] = []
    lost: list[int] = []
    add, missing = values.append, 0
    rows = map(orjson.loads, lines)
    found = map(itemgetter(*names) if len(names) > 1 else _patient_pick(names), rows)
    while len(values) + len(lost) < len(lines):
        # An iterator of map goes on behind the line that made it raise.
        try:
            for picked in found:
                add(picked)
        except orjson.JSONDecodeError:
            at = len(values) + len(lost)
            read = _patiently(lines[at], names)
            if read is None:
                lost.append(at)
            else:
                add(read)
        except KeyError:
            pick = _patient_pick(names)
            add(pick(orjson.loads(lines[len(values) + len(lost)])))
            missing += 1
            if missing > 64 + len(values) // 16:
                found = map(pick, rows)
    return values, lost


def _patient_pick(names: Sequence[str]) -> Any:
    return lambda row: tuple(map(row.get, names))


def _patiently(line: bytes, names: Sequence[str]) -> tuple[Any, ...] | None:
    """NaN, Infinity, deep nesting: Arrow reads them, so no line may depend on its neighbours."""
    deep = line.count(b"[") + line.count(b"{") > _DEEPEST
    if not deep and b"NaN" not in line and b"Inf" not in line:
        return None
    try:
        line.decode()
    except UnicodeDecodeError:
        return None
    if deep or _SPELLED_MARK in line:
        return _by_arrow(line, names)
    try:
        row = orjson.loads(_TEXT_OR_NAN.sub(_marked, line))
    except orjson.JSONDecodeError:
        return None
    return tuple(_unmarked(row.get(name)) for name in names)


def _marked(match: re.Match[bytes]) -> bytes:
    """Texts as they are; what is no number becomes a text that no line spells otherwise."""
    found = match[0]
    return found if found[:1] == b'"' else b'"' + _SPELLED_MARK + found + b'"'


def _unmarked(value: Any) -> Any:
    marked = type(value) is str and value[:1] == _MARK
    return float(value[1:]) if marked else value


def _by_arrow(line: bytes, names: Sequence[str]) -> tuple[Any, ...] | None:
    row: list[Any] = []
    for name in names:
        for guess in _GUESSES:
            try:
                table = read_arrow(line + b"\n", {name: guess})
            except (pa.ArrowInvalid, UnicodeDecodeError):
                continue
            if table.num_rows != 1:
                return None
            row.append(table.column(name)[0].as_py())
            break
        else:
            return None
    return tuple(row)

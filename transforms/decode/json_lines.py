"""Fields of lines of JSON: of plain lines in C, of the others one line at a time, so that a bad one
takes no other along."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json
from numpy.typing import NDArray

from weir.dpcore.native import kernels
from weir.transforms.decode.lines import Chunk
from weir.transforms.decode.nested import any_nested, steps, take, taker

_DEEPEST = 1024
"""How deep orjson reads."""

_GUESSES = (
    *(pa.string(), pa.int64(), pa.float64(), pa.bool_()),
    *(pa.list_(pa.int64()), pa.list_(pa.float64())),
)
_TOKEN = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?'
    rb"|(?:-?(?:NaN|Inf(?:inity)?)\b|-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?)(?!\s*:)",
    re.DOTALL,
)
"""A text, to its end or that of the line (each byte is seen once), or a value that is a number."""
_UNUSUAL = re.compile(rb"[\x80-\xff]|\\u|NaN|Inf|[eE]\+?\d{3}|\d{200}")
"""Without one of these a line holds no token that orjson refuses though others read it: texts are
ASCII and have no surrogates, numbers are doubles."""
_MARK, _NUMBER, _SPOILT = "\0", "n", "x"


class NotText:
    """Stands for a text of a line that is no text: not UTF-8, or half of a surrogate pair."""


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
    lines: Sequence[bytes], names: Sequence[str], texts: Collection[str] = ()
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Some fields of objects, None where one is missing.

    Args:
      lines: (n,) each beginning and ending like an object, white space aside.
      names: (k,) of the fields.
      texts: those of which every digit counts, as of an id. orjson makes a double of a whole number
        that 64 bits do not hold.

    Returns:
      the values of the m objects that can be read, (m, k); which lines are no JSON, (n - m,).
    """
    values: list[tuple[Any, ...]] = []
    lost: list[int] = []
    add, missing = values.append, 0
    rows = map(orjson.loads, lines)
    flat = len(names) > 1 and not any_nested(names)
    pick: Any = itemgetter(*names) if flat else taker(names)
    result = map(pick, rows)
    while len(values) + len(lost) < len(lines):
        # An iterator of map goes on behind the line that made it raise.
        try:
            for picked in result:
                add(picked)
        except orjson.JSONDecodeError:
            at = len(values) + len(lost)
            read = _patiently(lines[at], names)
            if read is None:
                lost.append(at)
            else:
                add(read)
        except KeyError:
            pick = taker(names)
            add(pick(orjson.loads(lines[len(values) + len(lost)])))
            missing += 1
            if missing > 64 + len(values) // 16:
                result = map(pick, rows)
    places = [at for at, name in enumerate(names) if name in texts]
    if any(float in set(map(type, map(itemgetter(at), values))) for at in places):
        gone = set(lost)
        left = [line for at, line in enumerate(lines) if at not in gone]
        for at, picked in enumerate(values):
            if any(type(picked[place]) is float for place in places):
                values[at] = _with_digits(left[at], names, picked, places)
    return values, lost


def _with_digits(
    line: bytes, names: Sequence[str], picked: tuple[Any, ...], places: Sequence[int]
) -> tuple[Any, ...]:
    """Fields of an object, with whole numbers to their last digit at some places.

    A number stays as it is where it has more digits than Python reads, or its line is too deep.
    """
    try:
        row = taker(names)(json.loads(line.decode(errors="replace")))
    except (ValueError, RecursionError):
        return picked
    whole = {at for at in places if type(row[at]) is int}
    return tuple(row[at] if at in whole else value for at, value in enumerate(picked))


def _patiently(line: bytes, names: Sequence[str]) -> tuple[Any, ...] | None:
    """What orjson refuses though it is an object: one value must not take its record along.

    NaN and Infinity (which Arrow reads, so that no line may depend on its neighbours), numbers
    beyond doubles, texts that are none, deep nesting.
    """
    deep = len(line) > _DEEPEST and line.count(b"[") + line.count(b"{") > _DEEPEST
    if not deep and _UNUSUAL.search(line) is None:
        return None
    try:
        row = orjson.loads(_TOKEN.sub(_marked, line))
    except orjson.JSONDecodeError:
        return _by_arrow(line, names) if deep else None
    return tuple(map(_unmarked, taker(names)(row)))


def _marked(match: re.Match[bytes]) -> bytes:
    """Tokens as they are, but for those that orjson refuses: they become texts with a mark."""
    result = match[0]
    if result[:1] != b'"':
        number = float(result)
        return result if math.isfinite(number) else b'"\\u0000n%b"' % str(number).encode()
    if result.startswith(rb'"\u0000'):
        result = rb'"\u0000t' + result[1:]
    try:
        orjson.loads(result)
    except orjson.JSONDecodeError:
        try:
            json.loads(result.decode(errors="replace"))
        except ValueError:
            return result
        return rb'"\u0000x"'
    return result


def _unmarked(value: Any) -> Any:
    if type(value) is list:
        return [_unmarked(item) for item in value]
    if type(value) is dict:
        return {name: _unmarked(item) for name, item in value.items()}
    if type(value) is not str or value[:1] != _MARK:
        return value
    if value[1] == _NUMBER:
        return float(value[2:])
    return NotText() if value[1] == _SPOILT else value[2:]


def _by_arrow(line: bytes, names: Sequence[str]) -> tuple[Any, ...] | None:
    row: list[Any] = []
    for name in names:
        result = _one_by_arrow(line, name, (name,))
        if result is not None and result[0] is None and steps(name):
            result = _one_by_arrow(line, name, steps(name)) or result
        if result is None:
            return None
        row.append(result[0])
    return tuple(row)


def _one_by_arrow(line: bytes, name: str, path: Sequence[str]) -> tuple[Any] | None:
    """A field of an object, or one inside of others; None where the line is no object."""
    for guess in _GUESSES:
        kind = guess
        for step in path[:0:-1]:
            kind = pa.struct([(step, kind)])
        try:
            table = read_arrow(line + b"\n", {path[0]: kind})
        except (pa.ArrowInvalid, UnicodeDecodeError):
            continue
        if table.num_rows != 1:
            return None
        return (take({name: None, path[0]: table.column(path[0])[0].as_py()}, ".".join(path)),)
    return None


_KINDS: dict[pa.DataType, int] = {pa.string(): 0, pa.float64(): 1, pa.int64(): 2, pa.bool_(): 3}
_OBJECT = 4
_TOP = -1
_MOST = 4096


class Plain(NamedTuple):
    """What was read.

    Attributes:
      lines: (n,) which of the lines are plain.
      columns: of those, in their order.
    """

    lines: NDArray[np.bool_]
    columns: dict[str, Any]


class _Nodes(NamedTuple):
    """Fields that are asked for, as the kernel has them; and the columns of each name."""

    names: bytes
    nodes: NDArray[np.int64]
    kinds: list[int]
    places: dict[str, list[int]]


def plain(chunk: Chunk, keep: NDArray[np.bool_], types: Mapping[str, pa.DataType]) -> Plain | None:
    """Reads the plain ones of some lines.

    Args:
      keep: (n,) which. types: of the fields that are needed, by name.

    Returns:
      None where the kernel is missing, or cannot read fields of such types and names.
    """
    if kernels is None or len(chunk.data) >= 1 << 31:
        return None
    nodes = _nodes(types)
    if nodes is None:
        return None
    retained = np.flatnonzero(keep)
    n, k = len(retained), len(nodes.kinds)
    values, sizes = np.empty((k, n), dtype=np.int64), np.empty((k, n), dtype=np.int64)
    there, is_plain = np.empty((k, n), dtype=np.bool_), np.empty(n, dtype=np.bool_)
    starts, ends = chunk.starts[retained], chunk.ends[retained]
    kernels.fields(
        chunk.data, starts, ends, nodes.names, nodes.nodes, values, sizes, there, is_plain
    )
    m = int(np.count_nonzero(is_plain))
    results = [
        column(chunk.data, kind, values[c, :m], sizes[c, :m], there[c, :m])
        for c, kind in enumerate(nodes.kinds)
    ]
    columns = {name: _first([results[c] for c in places]) for name, places in nodes.places.items()}
    lines = np.zeros(len(keep), dtype=bool)
    lines[retained] = is_plain
    return Plain(lines, columns)


def _nodes(types: Mapping[str, pa.DataType]) -> _Nodes | None:
    """A tree of names: a field inside of others may also be one whose name holds the dots."""
    places: dict[tuple[str, ...], int] = {}
    rows: list[tuple[bytes, int, int, int]] = []
    kinds: list[int] = []
    columns: dict[str, list[int]] = {}

    def inside(path: tuple[str, ...]) -> int:
        if not path:
            return _TOP
        if path not in places:
            rows_before = inside(path[:-1])
            places[path] = len(rows)
            rows.append((path[-1].encode(), rows_before, _OBJECT, 0))
        return places[path]

    for name, kind in types.items():
        if kind not in _KINDS:
            return None
        columns[name] = []
        for path in ((name,), steps(name)):
            if not path:
                continue
            parent = inside(path[:-1])
            if path in places:  # a value and an object that holds values, in two roles
                return None
            places[path] = len(rows)
            rows.append((path[-1].encode(), parent, _KINDS[kind], len(kinds)))
            columns[name].append(len(kinds))
            kinds.append(_KINDS[kind])
    if any(
        rows[place][2] != _OBJECT
        for path, place in places.items()
        for place in _above(path, places)
    ):
        return None
    if len(rows) > _MOST:
        return None
    ends = np.cumsum([len(row[0]) for row in rows]).tolist()
    nodes = np.array(
        [(end - len(row[0]), len(row[0]), *row[1:]) for end, row in zip(ends, rows, strict=True)],
        dtype=np.int64,
    )
    return _Nodes(b"".join(row[0] for row in rows), nodes, kinds, columns)


def _above(path: tuple[str, ...], places: Mapping[tuple[str, ...], int]) -> list[int]:
    return [places[path[:depth]] for depth in range(1, len(path))]


def column(
    data: bytes,
    kind: int,
    values: NDArray[np.int64],
    sizes: NDArray[np.int64],
    there: NDArray[np.bool_],
) -> Any:
    """(m,) values of a field, null where it is not there."""
    every = bool(there.all())
    if kind == 0:
        return _texts(data, values, sizes, there, every)
    mask = None if every else ~there
    if kind == 1:
        return pa.array(values.view(np.float64), mask=mask)
    return pa.array(values if kind == 2 else values != 0, mask=mask)


def _texts(
    data: bytes,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    there: NDArray[np.bool_],
    every: bool,
) -> Any:
    if not every:
        starts, sizes = np.where(there, starts, 0), np.where(there, sizes, 0)
    offsets = np.empty(len(starts) + 1, dtype=np.int32)
    out = np.empty(int(sizes.sum()), dtype=np.uint8)
    assert kernels is not None
    kernels.gather(data, starts, sizes, offsets, out)
    valid = None
    if not every:
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.StringArray.from_buffers(len(starts), buffers[1], buffers[2], buffers[0])


def _first(columns: list[Any]) -> Any:
    """Of a field that may be in two places the value that comes first."""
    if len(columns) == 1 or not columns[0].null_count:
        return columns[0]
    if columns[0].null_count == len(columns[0]):
        return columns[1]
    return pc.coalesce(*columns)

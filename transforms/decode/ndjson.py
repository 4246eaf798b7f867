"""NDJSON: one JSON object a line. A field that is not there is null; other fields are ignored.

Plain lines are read by a kernel, each on its own, and the others one by one
(``transforms.decode.fields``). Without the kernel, and with lists, a chunk of clean lines is read
by Arrow at once; as soon as one line is bad, each is read on its own, and its columns are made of
what was read. What becomes of a line never depends on its neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.native import kernels
from weir.transforms.columns.list_columns import LIST
from weir.transforms.decode.canonical import Decoded, Over, assemble
from weir.transforms.decode.json_lines import plain, read_arrow, read_objects
from weir.transforms.decode.lines import Chunk
from weir.transforms.decode.lists import from_entries
from weir.transforms.decode.mixed_columns import typed_columns
from weir.transforms.decode.nested import any_nested, take
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.dead_letters import dead_letters

_OPEN, _CLOSE = ord("{"), ord("}")
_BLANK = 2
_LOOKED_AT = 16
_TRIED = 1_000
_MANY = 32_000
_BATCH_LINES = 2**16
_ALL_DIGITS = 2.0**53
"""Below, a float holds every digit of a whole number."""

_FIXED = {"number": pa.float64(), "boolean": pa.bool_()}
_GUESSES: dict[type, pa.DataType] = {int: pa.int64(), float: pa.float64()}
_ROWS = 256
"""Rows at a time before they become columns: too few for the collector of garbage to care."""


def decode_ndjson(
    chunks: Iterable[Chunk], schema: EventSchema, source: str, over: Over = map
) -> Iterator[Decoded]:
    """Lines -> canonical batches.

    Args:
      chunks: from ``text.chunks``.
      schema: the roles of columns.
      source: path or topic.
      over: applies a function to every chunk, in order: ``ahead.in_turn`` on several cores.
    """
    # Of what type a value is is up to its record: it is never an error of the config.
    schema = schema.lenient()
    for result in over(lambda chunk: list(_each(chunk, schema, source)), chunks):
        yield from result


def _each(chunk: Chunk, schema: EventSchema, source: str) -> Iterator[Decoded]:
    if len(chunk.too_long):
        yield Decoded(None, dead_letters(source, chunk.too_long, "too_long"))
    if len(chunk):
        yield from _decode(chunk, schema, source)


def _decode(chunk: Chunk, schema: EventSchema, source: str) -> Iterator[Decoded]:
    shape = _not_an_object(chunk)
    lost = (shape != 0) & (shape != _BLANK)
    if lost.any():
        yield Decoded(None, dead_letters(source, chunk.numbers[lost], "malformed"))
    keep = shape == 0
    if not keep.any():
        return
    objects = lift(chunk, schema)
    if objects is not None:
        chunk = objects.chunk
    types = _types(chunk, keep, schema)
    if types is not None and objects is None and not _with_fractions(types, schema):
        result = plain(chunk, keep, types)
        if result is not None:
            # What is odd comes first: a first look at a file ends with what shows that events fit.
            keep = keep & ~result.lines
            if keep.any():
                yield from _one_by_one(chunk, keep, schema, source, None)
            if result.lines.any():
                yield assemble(result.columns, chunk.numbers[result.lines], schema, source)
            return
    # Which of two ways a nested value is found is up to its record.
    table = None if any_nested(schema.needed) else _at_once(chunk, keep, schema, types)
    if table is not None and objects is not None:
        # Lists and what was lifted together are put together line by line.
        table = table if table.column(objects.name).null_count == len(table) else None
    if table is None:
        yield from _one_by_one(chunk, keep, schema, source, objects)
        return
    raw = {name: table.column(name) for name in schema.needed}
    if objects is not None:
        raw[objects.name] = objects.of(np.flatnonzero(keep), pa.nulls(len(table), LIST))
    yield assemble(raw, chunk.numbers[keep], schema, source)


def _not_an_object(chunk: Chunk) -> NDArray[np.int8]:
    """(n,): 0 = begins and ends like an object, 1 = does not, 2 = only white space."""
    buffer = np.frombuffer(chunk.data, dtype=np.uint8)
    odd: NDArray[np.bool_] = (buffer[chunk.starts] != _OPEN) | (buffer[chunk.ends - 1] != _CLOSE)
    shape = odd.astype(np.int8)
    for i in np.flatnonzero(shape).tolist():
        line = chunk.line(i).strip(b" \t\r")
        if not line:
            shape[i] = _BLANK
        elif line[:1] == b"{" and line[-1:] == b"}":
            shape[i] = 0
    return shape


def _at_once(
    chunk: Chunk,
    keep: NDArray[np.bool_],
    schema: EventSchema,
    types: dict[str, pa.DataType] | None,
) -> pa.Table | None:
    """The lines to keep by Arrow, or None if one of them does not fit."""
    if types is None:
        return None
    # Where bad lines are many the first thousand hold one, and the others need not be copied. Of
    # as few lines as a pull brings too many would be read twice.
    some = keep & (np.cumsum(keep) <= _TRIED)
    if len(keep) >= _MANY and _arrow(chunk, some, types) is None:
        return None
    table = _arrow(chunk, keep, types)
    if table is None or not all(map(_is_exact, (table.column(s.column) for s in schema.stamps))):
        return None
    return table


def _with_fractions(types: dict[str, pa.DataType], schema: EventSchema) -> bool:
    """Whether times are read as doubles, in which whole numbers may lose digits."""
    return any(pa.types.is_floating(types[stamp.column]) for stamp in schema.stamps)


def _is_exact(times: Any) -> bool:
    """Whether no whole number has lost a digit because others of its column have fractions."""
    if not pa.types.is_floating(times.type):
        return True
    return not pc.any(pc.greater_equal(pc.abs(times), _ALL_DIGITS)).as_py()


def _arrow(chunk: Chunk, keep: NDArray[np.bool_], types: dict[str, pa.DataType]) -> pa.Table | None:
    count = int(keep.sum())
    whole = count == len(chunk) and not len(chunk.too_long)
    data = chunk.data if whole else chunk.select(keep)
    try:
        if not data.isascii():
            data.decode()
        table = read_arrow(data, types)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    return table if table.num_rows == count else None


def _types(
    chunk: Chunk, keep: NDArray[np.bool_], schema: EventSchema
) -> dict[str, pa.DataType] | None:
    """Types to read by: the schema's, and where it leaves a choice, those of most first records.

    A guess decides how fast a chunk is read, never what is read: at a value of another type than
    its column's Arrow gives up. None if Arrow must not read the chunk: a column that may hold
    anything would be of one type, and so would times that play another role too.
    """
    times = {stamp.column for stamp in schema.stamps}
    texts = {*schema.keys, schema.id, schema.unit, *schema.joined}
    if "any" in schema.columns.values() or len(times) < len(schema.stamps):
        return None
    if times & (texts | set(schema.columns)):
        return None
    first = _first_records(chunk, keep)
    lists = () if schema.listed is None else schema.listed.columns
    types: dict[str, pa.DataType] = {}
    for name in schema.needed:
        kind = "list" if name in lists else schema.columns.get(name, "text")
        if name in texts and kind == "boolean":
            return None
        if name in texts or name in times or kind == "text":
            argument = (take(row, name) for row in first)
            kinds = Counter(type(value) for value in argument if value is not None)
            most = kinds.most_common(1)[0][0] if kinds else str
            types[name] = _GUESSES.get(most if name in times or most is int else str, pa.string())
        elif name in lists:
            if any(isinstance(take(row, name), dict) for row in first):
                return None
            types[name] = pa.list_(pa.float64() if name == lists[-1] else pa.int64())
        else:
            types[name] = _FIXED[kind]
    return types


def _first_records(chunk: Chunk, keep: NDArray[np.bool_]) -> list[dict[str, Any]]:
    records = []
    for i in np.flatnonzero(keep)[:_LOOKED_AT].tolist():
        try:
            records.append(orjson.loads(chunk.line(i)))
        except orjson.JSONDecodeError:
            continue
    return records


def _one_by_one(
    chunk: Chunk,
    keep: NDArray[np.bool_],
    schema: EventSchema,
    source: str,
    objects: Lifted | None,
) -> Iterator[Decoded]:
    """The lines to keep, each parsed once. Holds no more than some ten thousand of them."""
    retained = np.flatnonzero(keep)
    for begin in range(0, len(retained), _BATCH_LINES):
        places = retained[begin : begin + _BATCH_LINES]
        columns, lost = _read(chunk, places, schema)
        numbers = chunk.numbers[places]
        if lost:
            yield Decoded(None, dead_letters(source, numbers[lost], "malformed"))
            numbers, places = np.delete(numbers, lost), np.delete(places, lost)
        if len(numbers):
            raw, spoilt = typed_columns(columns, schema)
            if objects is not None:
                raw[objects.name] = objects.of(places, raw[objects.name])
            yield assemble(raw, numbers, schema, source, spoilt)


def _read(
    chunk: Chunk, places: NDArray[np.int64], schema: EventSchema
) -> tuple[dict[str, list[Any]], list[int]]:
    """Columns of the objects at some lines, and which of the lines are no JSON."""
    data, lost, names = chunk.data, [], schema.needed
    roles = (*schema.keys, schema.id, schema.unit, *schema.texts)
    texts = {name for name in roles if name is not None}
    columns: list[list[Any]] = [[] for _ in names]
    starts, ends = chunk.starts[places].tolist(), chunk.ends[places].tolist()
    for begin in range(0, len(starts), _ROWS):
        stop = begin + _ROWS
        lines = [data[a:b] for a, b in zip(starts[begin:stop], ends[begin:stop], strict=True)]
        values, gone = read_objects(lines, names, texts)
        lost += [begin + at for at in gone]
        for column, some in zip(columns, zip(*values, strict=True), strict=bool(values)):
            column += some
    return dict(zip(names, columns, strict=True)), lost


Ints = NDArray[np.int64]

_LEAST = 6
"""Bytes of a number and its place: "0":0, with what follows."""


@dataclass(frozen=True)
class Lifted:
    """Lines of which objects were lifted.

    Attributes:
      chunk: what is left of the lines. name: of the field.
      there: (n,) whether it was lifted. column: (n,) canonical, null where it was not.
    """

    chunk: Chunk
    name: str
    there: NDArray[np.bool_]
    column: Any

    def of(self, which: Ints, rest: Any) -> Any:
        """The column of some lines. rest: (m,) canonical, of those that were not lifted."""
        there = self.there[which]
        if there.all():
            return self.column if len(which) == len(self.chunk) else self.column.take(which)
        at = np.where(there, which, len(self.column) + np.arange(len(which)))
        return pa.concat_arrays([self.column, rest]).take(pa.array(at))


def lift(chunk: Chunk, schema: EventSchema) -> Lifted | None:
    """Lifts the objects of a chunk; None where there are none among its first lines, nothing to
    lift them with, or a field that may lie inside of them."""
    listed = schema.listed
    if kernels is None or listed is None or listed.column is None or any_nested(schema.needed):
        return None
    others = {schema.id, schema.unit, *schema.keys, *(stamp.column for stamp in schema.stamps)}
    if listed.column in others:
        return None
    few = slice(0, _LOOKED_AT)
    first = _lifted(chunk.data, chunk.starts[few], chunk.ends[few], listed.column, listed.size)
    if (first[0] < 0).all():
        return None
    result = _lifted(chunk.data, chunk.starts, chunk.ends, listed.column, listed.size)
    lengths, places, numbers, data, starts, ends = result
    column = from_entries(lengths, places, numbers, listed.size)
    left = replace(chunk, data=data, starts=starts, ends=ends)
    return Lifted(left, listed.column, lengths >= 0, column)


def _lifted(
    data: bytes, starts: Ints, ends: Ints, name: str, size: int
) -> tuple[Ints, Ints, NDArray[np.float64], bytes, Ints, Ints]:
    """Lengths of the objects (n,), -1 where none was lifted; places and numbers of all, row after
    row; what is left, and where its lines lie."""
    assert kernels is not None
    n = len(starts)
    low, high = (int(starts[0]), int(ends[-1])) if n else (0, 0)
    some = memoryview(data)[low:high]
    room = len(some) // _LEAST + 1
    lengths, left_starts, left_ends = (np.empty(n, dtype=np.int64) for _ in range(3))
    places, numbers = np.empty(room, dtype=np.int64), np.empty(room)
    left = np.empty(len(some) + 3 * n, dtype=np.uint8)
    count, used = kernels.objects(
        some, starts - low, ends - low, name.encode(), size,
        lengths, places, numbers, left, left_starts, left_ends,
    )  # fmt: skip
    rest = left[:used].tobytes()
    return lengths, places[:count], numbers[:count], rest, left_starts, left_ends

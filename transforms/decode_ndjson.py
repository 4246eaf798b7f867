"""NDJSON: one JSON object a line. A field that is not there is null; other fields are ignored.

A chunk of clean lines is read by Arrow at once. As soon as one line is bad, each is read on its
own, which tells the bad ones apart; Arrow then reads the others. What becomes of a line never
depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.json as arrow_json
from numpy.typing import NDArray

from transforms.dead_letters import dead_letters
from transforms.decode_batch import Decoded, assemble
from transforms.decode_rows import columns_of
from transforms.event_schema import EventSchema
from transforms.text import Chunk

_OPEN, _CLOSE = ord("{"), ord("}")
_GUESSES = (pa.string(), pa.int64(), pa.float64(), pa.bool_())
_DEEPEST = 1024
_BLANK = 2
_NONE = type(None)
_PYTHON_TYPES: dict[pa.DataType, set[type]] = {
    pa.string(): {str, _NONE},
    pa.int64(): {int, _NONE},
    pa.float64(): {int, float, _NONE},
    pa.bool_(): {bool, _NONE},
}
"""What orjson makes of values that Arrow reads as a type."""


def decode_ndjson(chunks: Iterable[Chunk], schema: EventSchema, source: str) -> Iterator[Decoded]:
    """Lines -> canonical batches.

    Args:
      chunks: from ``text.chunks``.
      schema: the roles of columns.
      source: path or topic.
    """
    for chunk in chunks:
        if len(chunk.too_long):
            yield Decoded(None, dead_letters(source, chunk.too_long, "too_long"))
        if len(chunk):
            yield from _decode(chunk, schema, source)


def _decode(chunk: Chunk, schema: EventSchema, source: str) -> Iterator[Decoded]:
    shape = _not_an_object(chunk)
    blank = shape == _BLANK
    keep = (shape == 0) & ~chunk.not_utf8()
    types = _types(chunk, keep, schema)
    table, mistyped = _at_once(chunk, keep, types)
    rows: dict[int, Mapping[str, Any]] = {}
    if table is None and not mistyped:
        keep = _sieve(chunk, keep, schema)
        table, mistyped = _at_once(chunk, keep, types)
    if table is None:
        keep, rows = _sieve_types(chunk, keep, types, schema)
        table, _ = _at_once(chunk, keep, types)
    if table is None:
        rows |= _load_all(chunk, keep, schema)
        keep[:] = False
    odd = np.array(sorted(rows), dtype=np.int64)
    lost = ~(keep | blank)
    lost[odd] = False
    if lost.any():
        yield Decoded(None, dead_letters(source, chunk.numbers[lost], "malformed"))
    if table is not None and table.num_rows:
        raw = {name: table.column(name) for name in schema.needed}
        yield assemble(raw, chunk.numbers[keep], schema, source)
    if rows:
        raw, bad = columns_of([rows[i] for i in odd.tolist()], schema)
        yield assemble(raw, chunk.numbers[odd], schema, source, bad)


def _not_an_object(chunk: Chunk) -> NDArray[np.int8]:
    """(n,): 0 = begins and ends like an object, 1 = does not, 2 = only white space."""
    buffer = np.frombuffer(chunk.data, dtype=np.uint8)
    shape = ((buffer[chunk.starts] != _OPEN) | (buffer[chunk.ends - 1] != _CLOSE)).astype(np.int8)
    for i in np.flatnonzero(shape).tolist():
        line = chunk.line(i).strip(b" \t\r")
        if not line:
            shape[i] = _BLANK
        elif line[:1] == b"{" and line[-1:] == b"}":
            shape[i] = 0
    return shape


def _at_once(
    chunk: Chunk, keep: NDArray[np.bool_], types: Mapping[str, pa.DataType] | None
) -> tuple[pa.Table | None, bool]:
    """The lines to keep by Arrow, or None if one does not fit; then, if it is its types."""
    if types is None:
        return None, True
    count = int(keep.sum())
    if not count:
        return pa.table({name: pa.array([], kind) for name, kind in types.items()}), False
    whole = count == len(chunk) and not len(chunk.too_long)
    try:
        table = _read(chunk.data if whole else chunk.select(keep), types)
    except UnicodeDecodeError:
        return None, False
    except pa.ArrowInvalid as error:
        # Only to save a pass; a wrong guess costs time, not correctness.
        return None, "Column(" in str(error)
    return (table, False) if table.num_rows == count else (None, False)


def _read(data: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    return arrow_json.read_json(
        pa.BufferReader(data),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1024),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
        ),
    )


def _types(
    chunk: Chunk, keep: NDArray[np.bool_], schema: EventSchema
) -> dict[str, pa.DataType] | None:
    """Types to read by: the schema's, and where it leaves a choice, those of the first record.

    None if there is a column that may hold anything: Arrow would settle on one type for it.
    """
    if "any" in schema.columns.values():
        return None
    record = next((row for i in np.flatnonzero(keep)[:8] if (row := _load(chunk, i, schema))), {})
    guesses: dict[type, pa.DataType] = {int: pa.int64(), float: pa.float64()}
    types = {name: guesses.get(type(record.get(name)), pa.string()) for name in schema.needed}
    times = {schema.time.column, schema.arrival.column if schema.arrival else None}
    fixed = {"number": pa.float64(), "boolean": pa.bool_()}
    for name in types:
        if name in times:
            continue
        named = name in (schema.key, schema.id, schema.unit)
        wanted = None if named else fixed.get(schema.columns.get(name, "text"))
        if wanted is not None:
            types[name] = wanted
        elif types[name] == pa.float64():
            types[name] = pa.string()
    return types


def _load(chunk: Chunk, i: int, schema: EventSchema) -> Mapping[str, Any] | None:
    """One line as a mapping, or None."""
    line = chunk.line(i)
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _patiently(line, schema)
    return row if type(row) is dict else None


def _load_all(
    chunk: Chunk, keep: NDArray[np.bool_], schema: EventSchema
) -> dict[int, Mapping[str, Any]]:
    loaded = ((i, _load(chunk, i, schema)) for i in np.flatnonzero(keep).tolist())
    return {i: row for i, row in loaded if row is not None}


def _sieve(chunk: Chunk, keep: NDArray[np.bool_], schema: EventSchema) -> NDArray[np.bool_]:
    """Which of the lines to keep are JSON. Holds no more than one record at a time."""
    good = keep.copy()
    loads, error, data = orjson.loads, orjson.JSONDecodeError, chunk.data
    places = np.flatnonzero(keep)
    spans = zip(chunk.starts[places].tolist(), chunk.ends[places].tolist(), strict=True)
    for at, (start, end) in zip(places.tolist(), spans, strict=True):
        try:
            loads(data[start:end])
        except error:
            good[at] = _patiently(data[start:end], schema) is not None
    return good


def _sieve_types(
    chunk: Chunk,
    keep: NDArray[np.bool_],
    types: Mapping[str, pa.DataType] | None,
    schema: EventSchema,
) -> tuple[NDArray[np.bool_], dict[int, Mapping[str, Any]]]:
    """Lines that fit the types, and records that are JSON but do not fit, by line."""
    fits = keep.copy()
    rows: dict[int, Mapping[str, Any]] = {}
    # The time twice: of a single name itemgetter would not make a tuple.
    kinds = [] if types is None else [*types.values(), types[schema.time.column]]
    allowed = [_PYTHON_TYPES[kind] for kind in kinds]
    names = [*schema.needed, schema.time.column]
    pick = itemgetter(*names)
    known: dict[tuple[type, ...], bool] = {}
    loads, error, data = orjson.loads, orjson.JSONDecodeError, chunk.data
    places = np.flatnonzero(keep)
    spans = zip(chunk.starts[places].tolist(), chunk.ends[places].tolist(), strict=True)
    for i, (start, end) in zip(places.tolist(), spans, strict=True):
        try:
            row = loads(data[start:end])
        except error:
            row = _patiently(data[start:end], schema)
        if type(row) is not dict:
            fits[i] = False
            continue
        try:
            signature = tuple(map(type, pick(row)))
        except KeyError:
            signature = tuple(map(type, map(row.get, names)))
        fit = known.get(signature)
        if fit is None:
            fit = bool(allowed) and all(map(set.__contains__, allowed, signature))
            known[signature] = fit
        if not fit:
            fits[i] = False
            rows[i] = row
    return fits, rows


def _patiently(line: bytes, schema: EventSchema) -> Mapping[str, Any] | None:
    """NaN, Infinity, deep nesting: Arrow reads them, so no line may depend on its neighbours."""
    deep = line.count(b"[") + line.count(b"{") > _DEEPEST
    if not deep and b"NaN" not in line and b"Inf" not in line:
        return None
    row: dict[str, Any] = {}
    for name in schema.needed:
        for guess in _GUESSES:
            try:
                table = _read(line + b"\n", {name: guess})
            except (pa.ArrowInvalid, UnicodeDecodeError):
                continue
            if table.num_rows != 1:
                return None
            row[name] = table.column(name)[0].as_py()
            break
        else:
            return None
    return row

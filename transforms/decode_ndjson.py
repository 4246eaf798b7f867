"""NDJSON: one JSON object a line. A field that is not there is null; other fields are ignored.

A chunk of clean lines is read by Arrow at once. As soon as one line is bad, each is read on its
own, which tells the bad ones apart for about the price of a second reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
        bad = _not_an_object(chunk)
        blank = bad == 2
        spoilt = (bad == 1) | (chunk.not_utf8() & ~blank)
        if len(chunk) and not spoilt.any() and not blank.any():
            table = _at_once(chunk, schema)
            if table is not None:
                raw = {name: table.column(name) for name in schema.needed}
                yield assemble(raw, chunk.numbers, schema, source)
                continue
        yield from _one_by_one(chunk, ~blank, spoilt, schema, source)


def _not_an_object(chunk: Chunk) -> NDArray[np.int8]:
    """(n,): 0 = begins and ends like an object, 1 = does not, 2 = only white space."""
    buffer = np.frombuffer(chunk.data, dtype=np.uint8)
    shape = ((buffer[chunk.starts] != _OPEN) | (buffer[chunk.ends - 1] != _CLOSE)).astype(np.int8)
    for i in np.flatnonzero(shape).tolist():
        line = chunk.line(i).strip(b" \t\r")
        if not line:
            shape[i] = 2
        elif line[:1] == b"{" and line[-1:] == b"}":
            shape[i] = 0
    return shape


def _at_once(chunk: Chunk, schema: EventSchema) -> pa.Table | None:
    """All lines by Arrow, or None if one of them does not fit."""
    if "any" in schema.columns.values():
        return None
    types = _types(chunk.line(0), schema)
    data = chunk.data
    if len(chunk.too_long):
        data = chunk.select(np.ones(len(chunk), dtype=bool))
    try:
        table = _read(data, types)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    return table if table.num_rows == len(chunk) else None


def _read(data: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
    return arrow_json.read_json(
        pa.BufferReader(data),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1024),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=pa.schema(list(types.items())), unexpected_field_behavior="ignore"
        ),
    )


def _types(line: bytes, schema: EventSchema) -> dict[str, pa.DataType]:
    """Types to read by: the schema's, and where it leaves a choice, those of one record."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        record = {}
    guesses: dict[type, pa.DataType] = {int: pa.int64(), float: pa.float64()}
    types = {name: guesses.get(type(record.get(name)), pa.string()) for name in schema.needed}
    for name in (schema.key, schema.id, schema.unit):
        if name is not None and types[name] == pa.float64():
            types[name] = pa.string()
    fixed = {"number": pa.float64(), "boolean": pa.bool_()}
    roles = {schema.time.column, schema.key, schema.id, schema.unit}
    roles.add(schema.arrival.column if schema.arrival else None)
    for name, kind in schema.columns.items():
        if name not in roles:
            types[name] = fixed.get(kind) or (
                pa.string() if types[name] == pa.float64() else types[name]
            )
    return types


def _one_by_one(
    chunk: Chunk,
    keep: NDArray[np.bool_],
    spoilt: NDArray[np.bool_],
    schema: EventSchema,
    source: str,
) -> Iterator[Decoded]:
    rows: list[Mapping[str, Any]] = []
    good = np.zeros(len(chunk), dtype=bool)
    skip = (spoilt | ~keep).tolist()
    loads, error = orjson.loads, orjson.JSONDecodeError
    for i, line in enumerate(chunk.lines()):
        if skip[i]:
            continue
        try:
            row = loads(line)
        except error:
            row = _patiently(line, schema)
        if type(row) is dict:
            rows.append(row)
            good[i] = True
    lost = keep & ~good
    if lost.any():
        yield Decoded(None, dead_letters(source, chunk.numbers[lost], "malformed"))
    if rows:
        raw, bad = columns_of(rows, schema)
        yield assemble(raw, chunk.numbers[good], schema, source, bad)


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

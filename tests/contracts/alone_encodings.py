"""Every type that a column can have, and every way in which Arrow can encode its values."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Cell = bytes | None
"""The bits of a value of its column's type, or null."""

ZONES = (None, "UTC", "Asia/Kolkata", "+23:00")
STRINGS = (pa.string(), pa.large_string(), pa.string_view())
BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
WHOLE = (*(pa.int8(), pa.int16(), pa.int32(), pa.int64()),) + (
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
)
FLOATS = (pa.float16(), pa.float32(), pa.float64())
DAYS = (pa.date32(), pa.date64())
STAMPS = tuple(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES)
CLOCKS = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
DURATIONS = tuple(pa.duration(unit) for unit in ("s", "ms", "us", "ns"))
DECIMALS = (pa.decimal32(5, 2), pa.decimal64(10, 3), pa.decimal128(5, 2), pa.decimal256(50, 10))
WHOLE_DECIMALS = (pa.decimal32(9), pa.decimal64(18), pa.decimal128(38), pa.decimal256(70))
NAMED = (pa.bool8(), pa.json_(), pa.uuid())
"""Extension types that Arrow and Parquet know."""

NESTED: dict[pa.DataType, tuple[Any, ...]] = {
    **{
        make(pa.float64()): ([], [1.5])
        for make in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)
    },
    pa.list_(pa.float64(), 2): ([1.5, 2.5],),
    pa.list_(pa.duration("s")): ([7],),
    pa.struct([("k", pa.string())]): ({"k": "north"}, {"k": None}),
    pa.map_(pa.string(), pa.float64()): ([], [("north", 1.5)]),
    pa.sparse_union([pa.field("k", pa.int64())]): (7,),
    pa.dense_union([pa.field("k", pa.int64())]): (7,),
    pa.null(): (),
}
"""Types without a single value a cell, and values of theirs."""

KINDS: tuple[pa.DataType, ...] = (
    *(*STRINGS, *BYTES, pa.binary(2), *WHOLE, *FLOATS, pa.bool_(), *DAYS, *STAMPS, *CLOCKS),
    *(*DURATIONS, pa.month_day_nano_interval(), *DECIMALS, *WHOLE_DECIMALS, *NAMED, *NESTED),
)

INDICES = WHOLE
"""Types of a dictionary's indices."""

PLAIN = "plain"
DICTIONARIES = {f"dictionary of {index}": index for index in INDICES}
RUNS = {f"runs to {end}": end for end in (pa.int16(), pa.int32(), pa.int64())}
FORMS = (PLAIN, *DICTIONARIES, *RUNS, "runs of a dictionary", "extension")


def bits(kind: pa.DataType) -> int:
    """Of a value, for types in which all have so many; 0 for others."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return 0


def values_of(kind: pa.DataType, cells: Sequence[Cell]) -> Any:
    """Cells as an array, not encoded."""
    there = pa.array([cell is not None for cell in cells], pa.bool_())
    count, valid = len(cells), there.buffers()[1]
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, values_of(kind.storage_type, cells))
    if kind in NESTED:
        held = NESTED[kind]
        objects = [held[cell[0] % len(held)] if cell and held else None for cell in cells]
        if pa.types.is_union(kind):
            return _union(kind, objects)
        return pa.array(objects, kind)
    if kind in STRINGS or kind in BYTES:
        plain = BYTES[STRINGS.index(kind)] if kind in STRINGS else kind
        return pa.Array.from_buffers(kind, count, pa.array(cells, plain).buffers())
    if pa.types.is_boolean(kind):
        return pa.array([None if cell is None else cell == b"\1" for cell in cells], kind)
    width = bits(kind) // 8
    data = b"".join(bytes(width) if cell is None else cell for cell in cells)
    return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(data)])


def _union(kind: pa.DataType, objects: Sequence[Any]) -> Any:
    tags, child = pa.array([0] * len(objects), pa.int8()), pa.array(objects, pa.int64())
    if kind.mode == "sparse":
        return pa.UnionArray.from_sparse(tags, [child], ["k"])
    places = pa.array(range(len(objects)), pa.int32())
    return pa.UnionArray.from_dense(tags, places, [child], ["k"])


def encoded(
    kind: pa.DataType,
    form: str,
    cells: Sequence[Cell],
    broken: Sequence[bool] = (),
    words: Sequence[Cell] | None = None,
) -> Any:
    """Cells as an array.

    Args:
      form: of FORMS.
      broken: records whose index points outside of the dictionary.
      words: what a dictionary holds; None: what it must.
    """
    if form == "extension":
        storage = values_of(kind, cells)
        return pa.ExtensionArray.from_storage(pa.opaque(kind, "of", "others"), storage)
    if form in DICTIONARIES:
        return _dictionary(kind, DICTIONARIES[form], cells, broken, words)
    if form == PLAIN:
        return values_of(kind, cells)
    firsts = [at for at in range(len(cells)) if not at or cells[at] != cells[at - 1]]
    runs = [cells[at] for at in firsts]
    if form == "runs of a dictionary":
        held, end = _dictionary(kind, pa.int8(), runs, (), words), pa.int32()
    else:
        held, end = values_of(kind, runs), RUNS[form]
    ends = [*firsts[1:], len(cells)] if cells else []
    children = [pa.array(ends, end), held]  # from_arrays would look at every value
    return pa.Array.from_buffers(
        pa.run_end_encoded(end, held.type), len(cells), [None], children=children
    )


def _dictionary(
    kind: pa.DataType,
    index: pa.DataType,
    cells: Sequence[Cell],
    broken: Sequence[bool],
    words: Sequence[Cell] | None,
) -> Any:
    given = cells if words is None else words
    held = list(dict.fromkeys(cell for cell in given if cell is not None))
    outside = 100 if pa.types.is_unsigned_integer(index) else -7
    at = [0 if cell is None else held.index(cell) for cell in cells]
    for place in np.flatnonzero(broken).tolist():
        at[place] = outside
    missing = np.array([cell is None for cell in cells], dtype=bool)
    places = pa.array(at, index, mask=missing)
    return pa.DictionaryArray.from_arrays(places, values_of(kind, held), safe=False)


@cache
def can_be_held(kind: pa.DataType, form: str, parquet: bool, nested: bool = False) -> bool:
    """Whether Arrow can make such a column, and write it."""
    try:
        cells = [None, *[one for one in samples(kind) if one[:1] != b"\xff"][-3:][:1]]
        values = encoded(kind, form, cells)
        if nested:
            values = pa.StructArray.from_arrays([values], ["k"])
        ones = [1] * len(values)
        table, sink = pa.table({"w": ones, "x": values, "y": values, "z": ones}), io.BytesIO()
        if parquet:
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            found = pa.ipc.open_stream(sink.getvalue()).read_all()
            found.validate(full=kind != pa.date64())  # of which a time of day is no fault here
            return bool(found["z"].to_pylist() == ones)
    except (pa.ArrowException, OSError, NotImplementedError, TypeError, ValueError):
        return False
    return True


def samples(kind: pa.DataType) -> list[bytes]:
    """Some cells of a type: among them, where it can hold them, a text that is not UTF-8, a number
    beyond the precision of its decimals and a time that is no whole one."""
    if isinstance(kind, pa.BaseExtensionType):
        return samples(kind.storage_type)
    if kind in NESTED:
        return [bytes([at]) for at in range(len(NESTED[kind]))]
    if kind in STRINGS or kind in BYTES:
        texts = ("1704103200", "north", "true", "2020-01-01T00:00:00Z", "")
        return [*(text.encode() for text in texts), b"\xff" * 20]
    if pa.types.is_boolean(kind):
        return [b"\0", b"\1"]
    width = bits(kind) // 8
    if pa.types.is_floating(kind):
        return [np.array(one).astype(f"<f{width}").tobytes() for one in (7.0, 1.5, float("nan"))]
    whole = [number.to_bytes(40, "little", signed=True)[:width] for number in (7, 1_704_103_200)]
    return [*whole, b"\xff" * width, b"\x11" * width]

"""Records of the formats that have typed columns (Parquet, Arrow IPC), bit by bit."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.contracts.alone_cells import (
    COLUMNS,
    DOUBLES,
    INSIDE,
    INTEGERS,
    NOT_TEXT,
    TEXTS,
    fitting,
)
from weir.transforms.decode.schema import EventSchema

Cell = bytes | None
"""The bits of a value of its column's type, or null."""

Record = tuple[Cell, ...]

ZONES = (None, "UTC", "Asia/Kolkata", "+23:00")
_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())
_WIDE = tuple(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in ZONES)
_WHOLE = (pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64())
_FLOATS = (pa.float16(), pa.float32(), pa.float64())
_DAYS = (pa.date32(), pa.date64())
_DECIMALS = (pa.decimal32(5, 2), pa.decimal64(10, 3), pa.decimal128(5, 2), pa.decimal256(50, 10))

WORDS = ("north", "7", "2020-01-01T00:00:00Z", "true", "", "1704103200")
"""What dictionaries hold; one more entry is not UTF-8."""


class Column(NamedTuple):
    """How cells of a column become an array.

    Attributes:
      kind: of the array.
      loose: cells may point outside of their batch.
    """

    kind: pa.DataType
    loose: bool

    def cells(self, good: list[str]) -> st.SearchStrategy[Cell]:
        """Clean ones, odd ones and null."""
        return st.none() | self.values(good)

    def values(self, good: list[str]) -> st.SearchStrategy[bytes]:
        """Any value of the type."""
        kind = self.kind
        if pa.types.is_dictionary(kind):
            places = range(-2, len(WORDS) + 3) if self.loose else range(len(WORDS) + 1)
            return st.sampled_from([struct.pack("<i", at) for at in places])
        if kind in _STRINGS or kind in _BYTES:
            texts = [*(text.encode() for text in (*good, *TEXTS)), *NOT_TEXT]
            return st.sampled_from([text for text in texts if len(text) < 100])
        if pa.types.is_boolean(kind):
            return st.sampled_from([b"\0", b"\1"])
        width = kind.bit_width // 8
        bits = [value.to_bytes(40, "little", signed=True)[:width] for value in INTEGERS]
        if pa.types.is_floating(kind):
            bits += [np.array(v).astype(f"<f{width}").tobytes() for v in _finite(width)]
        return st.sampled_from(bits) | st.binary(min_size=width, max_size=width)

    def array(self, cells: Sequence[Cell], broken: Sequence[bool]) -> pa.Array:
        """The column; a view of a broken record points nowhere."""
        kind, count = self.kind, len(cells)
        valid = pa.array([cell is not None for cell in cells]).buffers()[1]
        if pa.types.is_dictionary(kind):
            at = [0 if cell is None else struct.unpack("<i", cell)[0] for cell in cells]
            raw = pa.array([*(word.encode() for word in WORDS), b"\xff"], pa.binary())
            words = pa.StringArray.from_buffers(len(raw), *raw.buffers()[1:])
            places = pa.array(at, pa.int32(), mask=np.array([cell is None for cell in cells]))
            return pa.DictionaryArray.from_arrays(places, words, safe=False)
        if kind in _STRINGS or kind in _BYTES:
            plain = _BYTES[_STRINGS.index(kind)] if kind in _STRINGS else kind
            buffers = pa.array(cells, plain).buffers()
            if self.loose and plain == pa.binary_view() and count:
                views = bytearray(buffers[1].to_pybytes())
                for at, wild in enumerate(broken):
                    if wild:
                        views[16 * at : 16 * at + 16] = struct.pack("<4i", 40, 0, 9, -7)
                buffers[1] = pa.py_buffer(bytes(views))
            return pa.Array.from_buffers(kind, count, buffers)
        if pa.types.is_boolean(kind):
            return pa.array([None if cell is None else cell == b"\1" for cell in cells], kind)
        width = kind.bit_width // 8
        data = b"".join(bytes(width) if cell is None else cell for cell in cells)
        return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(data)])


def _finite(width: int) -> list[float]:
    return [value for value in DOUBLES if width == 8 or not abs(value) > 6e4]


def kinds(name: str, loose: bool) -> st.SearchStrategy[Column]:
    """Types that can play a column's role, and some that cannot."""
    words = pa.dictionary(pa.int32(), pa.string())
    given: dict[str, tuple[Any, ...]] = {
        "x": (*_WHOLE, *_FLOATS, *_DECIMALS, *_STRINGS, words, pa.bool_()),
        "b": (pa.bool_(), *_STRINGS, words),
    }
    given["t"] = given["a"] = (*_WIDE, *_DAYS, *_STRINGS, *_FLOATS, pa.int64(), pa.uint64(), words)
    found = given.get(name, (*_STRINGS, *_BYTES, *_WHOLE, *_DAYS, *_WIDE[:6], words, pa.bool_()))
    # Parquet knows no seconds: its writer refuses those that are too many for milliseconds.
    held = [kind for kind in found if loose or getattr(kind, "unit", "") != "s"]
    return st.sampled_from(held).map(lambda kind: Column(kind, loose))


class Table(NamedTuple):
    """Typed columns and the bits of records."""

    columns: tuple[Column, ...]
    records: list[tuple[Record, bool]]
    nest: bool = False

    def batch(self, records: Sequence[tuple[Record, bool]]) -> pa.RecordBatch:
        """Records as a batch."""
        broken = [wild for _, wild in records]
        arrays = [
            column.array([record[at] for record, _ in records], broken)
            for at, column in enumerate(self.columns)
        ]
        if not self.nest:
            return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
        by_name = dict(zip(COLUMNS, arrays, strict=True))
        # Whether a record around fields is there is up to the record: to a column of its own.
        gone = by_name["l"].is_null().to_numpy(zero_copy_only=False)
        outer = by_name["i"].is_null().to_numpy(zero_copy_only=False)
        o = _struct({name: by_name[name] for name in "kw"}, gone)
        m = _struct({**{name: by_name[name] for name in "txb"}, "o": o}, outer)
        rest = {name: one for name, one in by_name.items() if name not in INSIDE}
        return pa.RecordBatch.from_arrays([m, *rest.values()], names=["m", *rest])


@st.composite
def tables(draw: st.DrawFn, schema: EventSchema, loose: bool, nest: bool = False) -> Table:
    """Some records of one table."""
    good = fitting(schema)
    # What the writer of Parquet cannot write inside of records.
    views = (pa.string_view(), pa.binary_view()) if nest and not loose else ()
    columns = tuple(
        draw(kinds(name, loose).filter(lambda one: one.kind not in views)) for name in COLUMNS
    )
    cells = [column.cells(good[name]) for name, column in zip(COLUMNS, columns, strict=True)]
    wild = st.integers(0, 5).map(lambda at: loose and at == 0)
    records = st.lists(st.tuples(st.tuples(*cells), wild), min_size=2, max_size=7)
    return Table(columns, draw(records), nest)


def _struct(fields: dict[str, pa.Array], gone: Any) -> pa.StructArray:
    """Fields inside of one; null where it is gone, whatever lies there."""
    mask = None if gone is None else pa.array(gone, pa.bool_())
    return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=mask)


def arrow(batches: Sequence[pa.RecordBatch], stream: bool) -> bytes:
    """An IPC file or stream."""
    sink = io.BytesIO()
    make: Callable[..., Any] = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def parquet(batches: Sequence[pa.RecordBatch], border: int) -> bytes:
    """A Parquet file; row groups of ``border`` records."""
    sink = io.BytesIO()
    pq.write_table(
        pa.Table.from_batches(batches), sink, row_group_size=border, use_dictionary=border % 2 == 0
    )
    return sink.getvalue()

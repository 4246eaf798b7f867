"""Records of the formats that have typed columns (Parquet, Arrow IPC), bit by bit."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.contracts import alone_encodings as enc
from tests.contracts.alone_cells import (
    COLUMNS,
    DOUBLES,
    INSIDE,
    INTEGERS,
    NOT_TEXT,
    TEXTS,
    fitting,
)
from tests.contracts.alone_encodings import BYTES, FORMS, KINDS, PLAIN, STRINGS, Cell
from weir.transforms.decode.schema import EventSchema

Record = tuple[Cell, ...]


class Column(NamedTuple):
    """How cells of a column become an array.

    Attributes:
      kind: of its values. form: how they are encoded.
      loose: cells may point outside of their batch.
    """

    kind: pa.DataType
    form: str
    loose: bool

    def cells(self, good: list[str]) -> st.SearchStrategy[Cell]:
        """Clean ones, odd ones and null."""
        return st.none() | self.values(good)

    def values(self, good: list[str]) -> st.SearchStrategy[bytes]:
        """Any value of the type."""
        kind = self.kind
        if isinstance(kind, pa.BaseExtensionType):
            return Column(kind.storage_type, PLAIN, self.loose).values(good)
        if kind in STRINGS or kind in BYTES:
            short = [text.encode() for text in TEXTS if len(text) < 100]
            fits = [text.encode() for text in good]
            return st.sampled_from(fits) | st.sampled_from(short) | st.sampled_from(NOT_TEXT)
        if kind in enc.NESTED:
            return st.sampled_from(enc.samples(kind) or [b"\0"])
        if pa.types.is_boolean(kind):
            return st.sampled_from([b"\0", b"\1"])
        width = enc.bits(kind) // 8
        bits = [value.to_bytes(40, "little", signed=True)[:width] for value in INTEGERS]
        if pa.types.is_floating(kind):
            bits += [np.array(v).astype(f"<f{width}").tobytes() for v in _finite(width)]
        return st.sampled_from(bits) | st.binary(min_size=width, max_size=width)

    def array(
        self, cells: Sequence[Cell], broken: Sequence[bool], words: Sequence[Cell] | None
    ) -> pa.Array:
        """The column; an index or a view of a broken record points nowhere.

        Args:
          words: what dictionaries hold; None: what they must.
        """
        wild = self.loose and any(broken)
        if wild and self.form == PLAIN and self.kind in (pa.string_view(), pa.binary_view()):
            buffers = pa.array(cells, pa.binary_view()).buffers()
            views = bytearray(buffers[1].to_pybytes())
            for at in np.flatnonzero(broken).tolist():
                views[16 * at : 16 * at + 16] = struct.pack("<4i", 40, 0, 9, -7)
            buffers[1] = pa.py_buffer(bytes(views))
            return pa.Array.from_buffers(self.kind, len(cells), buffers)
        return enc.encoded(self.kind, self.form, cells, broken if wild else (), words)


def _finite(width: int) -> list[float]:
    return [value for value in DOUBLES if width == 8 or not abs(value) > 6e4]


_FITTING: dict[str, tuple[pa.DataType, ...]] = {
    "x": (*enc.WHOLE, *enc.FLOATS, *enc.DECIMALS, *enc.WHOLE_DECIMALS, *STRINGS, pa.bool_()),
    "b": (pa.bool_(), *STRINGS),
}
_FITTING["t"] = _FITTING["a"] = (
    *(*enc.STAMPS, *enc.DAYS, *STRINGS, *enc.FLOATS),
    *(pa.int64(), pa.uint64(), pa.json_(), pa.bool8()),
)
_TEXT = (
    *(*STRINGS, *STRINGS, *BYTES, pa.binary(2), *enc.WHOLE, *enc.WHOLE_DECIMALS, *enc.DAYS),
    *(*enc.STAMPS[:6], *enc.CLOCKS, *enc.DURATIONS, *enc.NAMED, pa.bool_()),
)


def columns(name: str, loose: bool, nest: bool, odd: bool) -> st.SearchStrategy[Column]:
    """Types that can play a column's role, in any encoding. odd: any type, most of which cannot."""
    kinds = KINDS if odd else _FITTING.get(name, _TEXT)
    # Parquet knows no seconds: its writer refuses those that are too many for milliseconds.
    held = [kind for kind in kinds if loose or getattr(kind, "unit", "") != "s"]
    nested = nest and name in INSIDE
    pairs = st.tuples(st.sampled_from(held), st.just(PLAIN) | st.sampled_from(FORMS))
    return pairs.filter(lambda pair: enc.can_be_held(*pair, not loose, nested)).map(
        lambda pair: Column(*pair, loose)
    )


class Table(NamedTuple):
    """Typed columns and the bits of records.

    Attributes:
      stored: whether a Parquet file holds the schema that Arrow had in memory.
    """

    columns: tuple[Column, ...]
    records: list[tuple[Record, bool]]
    nest: bool = False
    stored: bool = True

    def batch(self, records: Sequence[tuple[Record, bool]], alike: bool = False) -> pa.RecordBatch:
        """Records as a batch. alike: with the dictionaries of all others, as files of IPC have."""
        broken = [wild for _, wild in records]
        arrays = [
            column.array(
                [record[at] for record, _ in records],
                broken,
                [record[at] for record, _ in self.records] if alike else None,
            )
            for at, column in enumerate(self.columns)
        ]
        if not self.nest:
            return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
        by_name = dict(zip(COLUMNS, arrays, strict=True))
        # Whether a record around fields is there is up to the record: to a column of its own.
        gone, outer = (_missing(records, COLUMNS.index(name)) for name in "li")
        o = _struct({name: by_name[name] for name in "kw"}, gone)
        m = _struct({**{name: by_name[name] for name in "txb"}, "o": o}, outer)
        rest = {name: one for name, one in by_name.items() if name not in INSIDE}
        return pa.RecordBatch.from_arrays([m, *rest.values()], names=["m", *rest])


def _missing(records: Sequence[tuple[Record, bool]], at: int) -> Any:
    return np.array([record[at] is None for record, _ in records], dtype=bool)


@st.composite
def tables(draw: st.DrawFn, schema: EventSchema, loose: bool, nest: bool = False) -> Table:
    """Some records of one table; one column of a few may be of a type that cannot play its role."""
    good = fitting(schema)
    odd = draw(st.sampled_from(COLUMNS)) if draw(st.integers(0, 3)) == 0 else None
    made = tuple(draw(columns(name, loose, nest, name == odd)) for name in COLUMNS)
    cells = [column.cells(good[name]) for name, column in zip(COLUMNS, made, strict=True)]
    wild = st.integers(0, 5).map(lambda at: loose and at == 0)
    records = st.lists(st.tuples(st.tuples(*cells), wild), min_size=2, max_size=7)
    return Table(made, draw(records), nest, draw(st.booleans()))


def _struct(fields: dict[str, pa.Array], gone: Any) -> pa.StructArray:
    """Fields inside of one; null where it is gone, whatever lies there."""
    return pa.StructArray.from_arrays(
        list(fields.values()), list(fields), mask=pa.array(gone, pa.bool_())
    )


def arrow(batches: Sequence[pa.RecordBatch], stream: bool) -> bytes:
    """An IPC file or stream."""
    sink = io.BytesIO()
    make: Callable[..., Any] = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def parquet(batches: Sequence[pa.RecordBatch], border: int, stored: bool = True) -> bytes:
    """A Parquet file; row groups of ``border`` records. stored: with Arrow's own schema."""
    return parquet_of(pa.Table.from_batches(batches), stored, border)


def parquet_of(table: pa.Table, stored: bool = True, border: int = 1 << 24) -> bytes:
    """As ``parquet``, of a table."""
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        row_group_size=border,
        use_dictionary=border % 2 == 0,
        store_schema=stored,
    )
    return sink.getvalue()


def write_to(path: Path, table: pa.Table, stored: bool = True) -> None:
    """A file named .parquet or .arrow."""
    if path.suffix == ".arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_bytes(parquet_of(table, stored))

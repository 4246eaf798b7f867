"""Rows of two files of releases side by side."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from weir.dpcore.errors import DAMAGE, ConfigError
from weir.transforms.sinks.formats import given_back

P = ParamSpec("P")
T = TypeVar("T")

SHOWN = 20
"""Rows that differ which are reported one by one."""
NAMED = ("key", "tick", "name", "over", "index")
"""What says which number a row is."""
Cells = frozenset[tuple[str, int]]
"""Pairs of a key and a tick."""
LOST = "not in the folder"
_BETWEEN, _NULL = "\x1f", "\x1e"


@dataclass(frozen=True)
class RowDifferences:
    """Rows that differ.

    Attributes:
      count: how many. first: the first of them: what names each, and how it differs; no values.
    """

    count: int
    first: tuple[Mapping[str, Any], ...]

    def __add__(self, other: RowDifferences) -> RowDifferences:
        return RowDifferences(self.count + other.count, (*self.first, *other.first)[:SHOWN])


def in_words(read: Callable[P, T]) -> Callable[P, T]:
    """Returns a reader of files of releases that raises ConfigError for any that it cannot read."""

    @functools.wraps(read)
    def reading(*args: P.args, **named: P.kwargs) -> T:
        try:
            return read(*args, **named)
        except DAMAGE:
            raise ConfigError(
                "directory",
                "a file of releases",
                "cannot be read: it was damaged or changed. weir verify without --config says "
                "which; put it back from a copy.",
            ) from None

    return reading


def rows_in(content: bytes, form: str) -> int:
    """How many rows the bytes of a file hold."""
    if form == "parquet":
        return int(pq.read_metadata(pa.BufferReader(content)).num_rows)
    if form == "csv" and b'"' in content:  # a text may hold the end of a line
        return int(_csv(content).num_rows)
    return content.count(b"\n") - (form == "csv")


@in_words
def table_of(content: bytes, form: str, cells: Cells | None) -> pa.Table:
    """The bytes of a file as a table; CSV and NDJSON as texts, each number in its spelling.

    Args:
      cells: keys and ticks of the rows that are wanted; None: all.
    """
    if form == "parquet":
        table = pq.read_table(pa.BufferReader(content), filters=_near(cells))
    elif form == "csv":
        table = _csv(content)
    else:
        lines = [json.loads(line) for line in content.decode().splitlines()]
        names = list(lines[0]) if lines else [*NAMED]
        texts = {n: [_text(line.get(n), n) for line in lines] for n in names}
        table = pa.table({name: pa.array(items, pa.string()) for name, items in texts.items()})
    for at, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            plain = pc.cast(column, column.type.value_type)
            table = table.set_column(at, table.schema.names[at], plain)
    if cells is None:
        return table
    wanted = pa.array([f"{key}{_BETWEEN}{tick}" for key, tick in sorted(cells)])
    codes = _codes(table, ("key", "tick"), {"key": "", "tick": "0"})
    return table.filter(pc.is_in(codes, value_set=wanted))


@in_words
def keys_and_ticks(content: bytes, form: str) -> pa.Table:
    """The columns ``key`` and ``tick`` of a file alone."""
    if form != "parquet":
        return table_of(content, form, None).select(["key", "tick"])
    source = pa.BufferReader(content)
    return pq.read_table(source, columns=["key", "tick"], read_dictionary=["key"])


def _near(cells: Cells | None) -> pc.Expression | None:
    """Rows whose tick and key occur in cells: by the ticks a reader passes over most of a file."""
    if cells is None:
        return None
    keys, ticks = (pa.array(sorted(set(column))) for column in zip(*cells, strict=True))
    tick, key = pc.field("tick"), pc.field("key")
    return (tick.isin(ticks) | tick.is_null()) & (key.isin(keys) | key.is_null())


def compare_rows(theirs: pa.Table, mine: pa.Table) -> RowDifferences:
    """Rows of a folder that differ from those that were computed again, in any column.

    Args:
      theirs: of the folder. mine: computed again.
    """
    names = [name for name in NAMED if name in theirs.schema.names and name in mine.schema.names]
    codes, others = (_codes(table, names, {}) for table in (theirs, mine))
    spot = pc.index_in(codes, value_set=others).combine_chunks()
    there = spot.is_valid().to_numpy(zero_copy_only=False)
    at = np.flatnonzero(there)
    again = mine.take(spot.filter(spot.is_valid()))
    same = np.ones(len(at), dtype=bool)
    for name in theirs.schema.names:
        if name not in mine.schema.names:
            same[:] = False
            continue
        same &= _equal(theirs[name].take(pa.array(at)), again[name])
    lost = pc.invert(pc.is_in(others, value_set=codes.combine_chunks()))
    groups = (
        ("differs", theirs.take(pa.array(at[~same]))),
        ("not in these events", theirs.take(pa.array(np.flatnonzero(~there)))),
        (LOST, mine.filter(lost)),
    )
    first = []
    for how, table in groups:
        # The folder shows its own keys. One that only these events have stays unnamed.
        shown = [name for name in names if name != "key" or how != LOST]
        first += [{**row, "how": how} for row in table.select(shown).slice(0, SHOWN).to_pylist()]
    return RowDifferences(sum(table.num_rows for _, table in groups), tuple(first[:SHOWN]))


def _csv(content: bytes) -> pa.Table:
    """Every column as text; what is guarded against spreadsheets as it was."""
    header = content.partition(b"\n")[0].decode().replace('"', "").strip().split(",")
    table = pa.csv.read_csv(
        pa.BufferReader(content),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
    )
    return pa.table([given_back(column) for column in table.columns], table.schema.names)


def _text(value: Any, name: str) -> str | None:
    if value is None or (isinstance(value, str) and name in NAMED):
        return value
    return json.dumps(value)


def _codes(table: pa.Table, names: tuple[str, ...] | list[str], void: Mapping[str, str]) -> Any:
    """(rows,) texts that name the rows. void: what stands for null, by column."""
    texts = [
        pc.fill_null(pc.cast(table[name], pa.string()), void.get(name, _NULL)) for name in names
    ]
    return pc.binary_join_element_wise(*texts, _BETWEEN)


def _equal(a: pa.ChunkedArray, b: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Where two columns hold the same, to the last bit."""
    if a.type != b.type:
        a, b = (pc.cast(column, pa.string()) for column in (a, b))
    if pa.types.is_list(a.type):
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        return np.array([repr(one) == repr(other) for one, other in pairs], dtype=bool)
    same: NDArray[np.bool_] = a.is_valid().to_numpy() == b.is_valid().to_numpy()
    if pa.types.is_floating(a.type):
        mine, other = (pc.fill_null(column, 0.0).to_numpy().view(np.int64) for column in (a, b))
        same &= mine == other
    else:
        same &= pc.fill_null(pc.equal(a, b), True).to_numpy()
    return same


__all__ = [
    "NAMED",
    "SHOWN",
    "Cells",
    "RowDifferences",
    "compare_rows",
    "keys_and_ticks",
    "rows_in",
    "table_of",
]

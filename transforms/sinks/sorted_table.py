"""Many release batches of one range of ticks -> one sorted table in the columns of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.transforms.release.flat import chunk_of
from weir.transforms.release.table import IN_FLIGHT_SCHEMA, NUMBER, NUMBERS
from weir.transforms.sinks.grid import grid_table

Ints = NDArray[np.int64]

TEXT = ("key", "name")
"""Columns of text that rows are sorted by."""
LARGE = 1 << 12
"""Rows of a batch from which on it is worth a look whether all are a grid."""


class Sorted(NamedTuple):
    """Attributes:
    table: IN_FLIGHT_SCHEMA, or that of intervals: rows sorted by (tick, key bytes, name, over),
      each of them once.
    divergent: rows that came a second time with another value; the first is kept.
    """

    table: pa.Table
    divergent: int


def sorted_table(batches: Sequence[pa.RecordBatch]) -> Sorted:
    """Joins batches; ``over`` sorts since-the-start first, then by length."""
    plain = [batch.replace_schema_metadata(None) for batch in batches]
    schema = max((batch.schema for batch in plain), key=len, default=IN_FLIGHT_SCHEMA)
    plain = [batch for batch in plain if batch.num_rows]
    if not plain:
        return Sorted(schema.empty_table(), 0)
    if sum(batch.num_rows for batch in plain) >= LARGE * len(plain):
        grid = grid_table(plain)
        if grid is not None:
            return Sorted(grid, 0)
    # State that an earlier version left may hold batches without the columns of intervals.
    tables = [pa.Table.from_batches([batch]) for batch in plain]
    table = pa.concat_tables(tables, promote_options="default").select(schema.names)
    table = table.unify_dictionaries().combine_chunks()
    named = {name: chunk_of(table[name]) for name in table.schema.names}
    for name in TEXT:
        named[name] = in_order(named[name])
    columns = list(named.values())
    code, size = row_codes(named)
    order, repeats = first_of_each(code, size)
    divergent = 0
    if len(repeats):
        divergent = count_divergent(named, code, order, repeats)
    if np.array_equal(order, np.arange(len(code))):
        return Sorted(pa.table(columns, schema=schema), divergent)
    return Sorted(pa.table([take(column, order) for column in columns], schema), divergent)


def in_order(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """A column of text whose dictionary is sorted by bytes, whatever order it came together in, and
    has the words of its rows alone: files show dictionaries."""
    column = _used(column)
    words = column.dictionary
    order = pc.sort_indices(words)  # Arrow compares text by bytes
    place = order.to_numpy().astype(np.int64)
    if np.array_equal(place, np.arange(len(place))):
        rank = place
    else:
        words, rank = words.take(order), np.empty_like(place)
        rank[place] = np.arange(len(place))
    fresh = np.ones(len(words), dtype=bool)
    if len(words) > 1:  # a dictionary may have a word twice
        fresh[1:] = pc.not_equal(words[1:], words[:-1]).to_numpy(zero_copy_only=False)
    if not fresh.all():
        words, rank = words.filter(pa.array(fresh)), (np.cumsum(fresh) - 1)[rank]
    elif words is column.dictionary:
        return column
    index = column.indices.to_numpy()
    index = rank.astype(index.dtype)[index]
    return pa.DictionaryArray.from_arrays(pa.array(index), words, safe=False)


def _used(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """A column without nulls, without the words that no row has."""
    index = column.indices.to_numpy()
    there = np.zeros(len(column.dictionary), dtype=bool)
    there[index] = True
    if there.all():
        return column
    fewer = (np.cumsum(there) - 1).astype(index.dtype)[index]
    words = column.dictionary.filter(pa.array(there))
    return pa.DictionaryArray.from_arrays(pa.array(fewer), words, safe=False)


def row_codes(columns: dict[str, pa.Array]) -> tuple[Ints, int]:
    """(n,) codes that sort as (tick, key, name, over), and a number above all of them.

    Args:
      columns: by name; those in TEXT with sorted dictionaries.
    """
    code = np.zeros(len(columns["tick"]), dtype=np.int64)
    size = 1
    for name in ("tick", "key", "name", "over"):
        if name in TEXT:  # sorted by in_order: indices are ranks
            rank, count = columns[name].indices.to_numpy(), max(1, len(columns[name].dictionary))
        else:
            rank, count = ranks(columns[name])
        if count > 1:
            code *= count
            code += rank
            size *= count
    return code, size


def ranks(column: pa.DictionaryArray) -> tuple[Ints, int]:
    """(n,) ranks of the values of a dictionary column, null lowest, and how many there are."""
    if column.null_count == len(column):
        return np.zeros(len(column), dtype=np.int64), 1
    values = column.dictionary.to_pylist()
    words = [value.encode() if isinstance(value, str) else value for value in values]
    place = {word: i + 1 for i, word in enumerate(sorted(set(words)))}
    table = np.array([0, *(place[word] for word in words)], dtype=np.int64)
    index = column.indices
    if index.null_count:
        return table[index.fill_null(-1).to_numpy().astype(np.int64) + 1], len(place) + 1
    return table[1:][index.to_numpy()], len(place) + 1


def first_of_each(code: Ints, size: int) -> tuple[Ints, Ints]:
    """Rows in order of their codes, the first of each; and the rows that are left over."""
    n = len(code)
    if size <= 4 * n + 1024:
        order = np.full(size, n, dtype=np.int64)
        order[code] = np.arange(n)
        result = order if size == n else order[order < n]
        if len(result) == n and (size > n or result.max() < n):  # no row came twice
            return result, np.zeros(0, dtype=np.int64)
        order[code[::-1]] = np.arange(n - 1, -1, -1)  # the last write is the first row
        order = order[order < n]
        retained = np.zeros(n, dtype=bool)
        retained[order] = True
        return order, np.flatnonzero(~retained)
    order = np.argsort(code, kind="stable")
    fresh = np.concatenate([[True], np.diff(code[order]) != 0])
    return order[fresh], order[~fresh]


def count_divergent(columns: dict[str, pa.Array], code: Ints, order: Ints, repeats: Ints) -> int:
    """How many repeated rows differ from the row that is kept, in value or margin."""
    retained = order[np.searchsorted(code[order], code[repeats])]
    names = [name for name in NUMBER if name in columns]
    mine, first = (
        zip(*(take(columns[name], rows).to_pylist() for name in names), strict=True)
        for rows in (repeats, retained)
    )
    return sum(contradict(a, b) for a, b in zip(mine, first, strict=True))


def contradict(mine: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two rows of the same thing differ in a number (NUMBER, in its order). Rows of an
    earlier version may be without margins."""
    if tuple(mine[:2]) != tuple(other[:2]):
        return True
    margins = zip(mine[2:], other[2:], strict=True)
    return any(a != b and None not in (a, b) for a, b in margins)


def take(column: pa.Array, order: Ints) -> pa.Array:
    """Rows of a column in an order: dictionaries stay, lists of one length move as one."""
    if pa.types.is_dictionary(column.type):
        alike = len(column.dictionary) == 1 and not column.null_count
        if (alike or column.null_count == len(column)) and len(order) <= len(column):
            return column.slice(0, len(order))
        # Places are inside as they were made from these rows, and numpy would keep the lock.
        index = pc.take(column.indices, pa.array(order), boundscheck=False)
        return pa.DictionaryArray.from_arrays(index, column.dictionary, safe=False)
    offsets = column.offsets.to_numpy()
    lengths = np.diff(offsets)
    width = int(lengths[0]) if len(lengths) else 0
    odd = column.null_count or column.values.null_count
    if odd or not width or np.any(lengths != width):
        return pc.take(column, pa.array(order))
    values = column.values.slice(offsets[0], len(column) * width)
    if width == 1:
        values = pc.take(values, pa.array(order), boundscheck=False)
    else:
        values = pa.array(values.to_numpy().reshape(-1, width)[order].reshape(-1))
    return pa.ListArray.from_arrays(
        pa.array(np.arange(len(order) + 1, dtype=np.int32) * width),
        values,
        type=NUMBERS,
    )


def file_table(table: pa.Table) -> pa.Table:
    """Coded columns, packed or flat -> the columns of a file; text stays dictionary-encoded."""
    columns, fields = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        array = column
        if pa.types.is_dictionary(column.type) and not pa.types.is_string(column.type.value_type):
            kind = column.type.value_type
            array = pa.chunked_array([decoded(chunk) for chunk in column.chunks], type=kind)
        columns.append(array)
        fields.append(field.with_type(array.type))
    return pa.table(columns, schema=pa.schema(fields))


def decoded(column: pa.DictionaryArray) -> pa.Array:
    """A dictionary column of numbers or times as plain values."""
    return column.dictionary.take(column.indices)

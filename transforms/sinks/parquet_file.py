"""Tables as files of Parquet: groups of rows, and of each the columns one behind the other.

Of the format the part that every reader knows: pages of version 1, values plain or coded by a
dictionary, levels in runs, snappy where it helps. Which columns there are and how they are typed is
what Arrow's writer would say of the same table.

Source: "Apache Parquet format", parquet.thrift, version 2.6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from transforms.sinks.parquet_pages import Leaf, leaf_of, plain
from transforms.sinks.thrift import Long, Struct, struct

MAGIC = b"PAR1"
VERSION = 2
CREATED_BY = "weir version 1"

INT32, INT64, DOUBLE, BYTE_ARRAY = 1, 2, 5, 6
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
UTF8, LIST, TIMESTAMP_MICROS = 0, 3, 10
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
DATA_PAGE, DICTIONARY_PAGE = 0, 2
UNCOMPRESSED, SNAPPY = 0, 1

GROUP_ROWS = 1 << 20
"""Rows of a group: what a reader takes at a time."""

WORTH = 2 / 3
"""Plain numbers are compressed where it leaves less than this of them: noise fills most of their
bits, and compressing it takes longer than all the rest of a file."""
SAMPLE = 1 << 16
"""Bytes by which that is told: snappy looks at as many at a time."""

_SNAPPY = pa.Codec("snappy")


class _Chunk(NamedTuple):
    """A column of a group of rows as it is written. Attributes:
    pieces: bytes, one behind the other. size: of all of them. full: their size, were they not
      compressed. rows: how many. told: what the footer says.
    """

    pieces: list[Any]
    size: int
    full: int
    rows: int
    told: Struct


def parquet_bytes(
    table: pa.Table, single: Collection[str] = (), ordered: Collection[str] = ()
) -> bytes:
    """A table as a file.

    Args:
      table: columns of text, int32, int64, double, UTC microseconds or lists of numbers, coded or
        not, which any row may lack.
      single: columns of numbers that hardly repeat: no dictionary is tried.
      ordered: coded columns whose least and largest values the footer tells.
    """
    columns = [_joined(column) for column in table.columns]
    pieces: list[Any] = [MAGIC]
    size = len(MAGIC)
    groups: list[list[_Chunk]] = []
    for begin in range(0, table.num_rows, GROUP_ROWS):
        groups.append([])
        for field, column in zip(table.schema, columns, strict=True):
            leaf = leaf_of(column.slice(begin, GROUP_ROWS), field.name not in single)
            limits = _limits(leaf) if field.name in ordered else {}
            chunk = _chunk(leaf, field, size, limits)
            pieces += chunk.pieces
            size += chunk.size
            groups[-1].append(chunk)
    footer = struct(_footer(table, groups))
    return b"".join([*pieces, footer, len(footer).to_bytes(4, "little"), MAGIC])


def _joined(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    if not column.num_chunks:
        return pa.array([], column.type)
    return pa.concat_arrays(column.unify_dictionaries().chunks)


def _chunk(leaf: Leaf, field: pa.Field, at: int, limits: Struct) -> _Chunk:
    """The pages of a column that begins at a byte of the file."""
    name, kind = field.name, field.type
    pieces: list[Any] = []
    full = nulls = 0
    codec = _codec_for(leaf)
    if leaf.words is not None:
        head = {1: len(leaf.words), 2: PLAIN}
        full += _add(pieces, [leaf.dictionary()], DICTIONARY_PAGE, head, codec)
    data = at + sum(map(len, pieces))
    encoding = PLAIN if leaf.words is None else RLE_DICTIONARY
    for page in leaf.pages():
        head = {1: page.slots, 2: encoding, 3: RLE, 4: RLE}
        full += _add(pieces, [page.levels, page.values], DATA_PAGE, head, codec)
        nulls += page.nulls
    size = sum(map(len, pieces))
    told: Struct = {
        1: _physical(kind),
        2: [PLAIN, RLE, *([] if leaf.words is None else [RLE_DICTIONARY])],
        3: [name, "list", "element"] if pa.types.is_list(kind) else [name],
        4: codec,
        5: Long(leaf.slots.slots),
        6: Long(full),
        7: Long(size),
        9: Long(data),
        11: None if leaf.words is None else Long(at),
        12: {3: Long(nulls), **limits} if limits else None,
    }
    return _Chunk(pieces, size, full, leaf.slots.rows, told)


def _codec_for(leaf: Leaf) -> int:
    """How a column is compressed."""
    if leaf.words is not None:
        return SNAPPY
    sample = np.ascontiguousarray(leaf.values[: SAMPLE // leaf.values.itemsize]).tobytes()
    return SNAPPY if len(_SNAPPY.compress(sample)) < WORTH * len(sample) else UNCOMPRESSED


def _add(pieces: list[Any], parts: Sequence[Any], kind: int, head: Struct, codec: int) -> int:
    """Adds a page. Returns its bytes, were they not compressed."""
    full = sum(map(len, parts))
    if codec == SNAPPY:
        parts = [_SNAPPY.compress(b"".join(parts))]
    place = 5 if kind == DATA_PAGE else 7
    header = struct({1: kind, 2: full, 3: sum(map(len, parts)), place: head})
    pieces += [header, *parts]
    return len(header) + full


def _limits(leaf: Leaf) -> Struct:
    """The largest and the least value of a coded column, as a footer tells them."""
    words = leaf.words
    if words is None:
        return {}
    skipped = 4 if pa.types.is_string(words.type) else 0  # the size of a text
    first, last = (bytes(plain(words[i : i + 1])[skipped:]) for i in (0, len(words) - 1))
    return {5: last, 6: first}


def _footer(table: pa.Table, groups: Sequence[Sequence[_Chunk]]) -> Struct:
    """What a reader reads first."""
    fields = [part for field in table.schema for part in _schema(field)]
    return {
        1: VERSION,
        2: [{3: REQUIRED, 4: "schema", 5: len(table.schema)}, *fields],
        3: Long(table.num_rows),
        4: [_group(chunks) for chunks in groups],
        6: CREATED_BY,
        7: [{1: {}} for _ in table.schema],
    }


def _group(chunks: Sequence[_Chunk]) -> Struct:
    return {
        1: [{2: Long(0), 3: chunk.told} for chunk in chunks],
        2: Long(sum(chunk.full for chunk in chunks)),
        3: Long(chunks[0].rows),
        6: Long(sum(chunk.size for chunk in chunks)),
    }


def _schema(field: pa.Field) -> Iterator[Struct]:
    """A column, in the words of the format."""
    kind = field.type
    if pa.types.is_list(kind):
        yield {3: OPTIONAL, 4: field.name, 5: 1, 6: LIST, 10: {3: {}}}
        yield {3: REPEATED, 4: "list", 5: 1}
        inner = OPTIONAL if kind.value_field.nullable else REQUIRED
        yield {1: _physical(kind), 3: inner, 4: "element"}
        return
    kind = _plain(kind)
    logical: Struct | None = None
    converted = None
    if pa.types.is_string(kind):
        converted, logical = UTF8, {1: {}}
    elif pa.types.is_timestamp(kind):
        converted, logical = TIMESTAMP_MICROS, {8: {1: True, 2: {2: {}}}}
    yield {1: _physical(kind), 3: OPTIONAL, 4: field.name, 6: converted, 10: logical}


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _physical(kind: pa.DataType) -> int:
    """How values of a column are stored."""
    kind = _plain(kind.value_type if pa.types.is_list(kind) else kind)
    for known, number in _PHYSICAL:
        if kind.equals(known):
            return number
    raise TypeError(f"no column of a release is {kind}.")


_PHYSICAL = (
    (pa.string(), BYTE_ARRAY), (pa.int32(), INT32), (pa.int64(), INT64), (pa.float64(), DOUBLE),
    (pa.timestamp("us", tz="UTC"), INT64),
)  # fmt: skip

__all__ = ["parquet_bytes"]

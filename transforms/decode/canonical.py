"""Raw columns of any format -> canonical batches of events and dead letters. One place for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import extremes
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.errors import ConfigError
from weir.transforms.columns.keys import is_key, key_roles
from weir.transforms.columns.list_columns import LIST
from weir.transforms.columns.predicate_compiler import Kind
from weir.transforms.decode.cast import (
    Bad,
    is_bytes,
    is_text,
    plain,
    to_boolean,
    to_numbers,
    to_presence,
    to_text,
)
from weir.transforms.decode.lines import Chunk
from weir.transforms.decode.lists import to_lists
from weir.transforms.decode.lookup import LookupTable
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.decode.time import UTC_MICROSECONDS, to_time
from weir.transforms.runtime.dead_letters import dead_letters, reason_code

TIME, ARRIVAL = "@time", "@arrival"
FIRST = b"@position"
"""In the metadata of a batch without "@position": that of its first row; the others follow it."""
KEY_TYPE = pa.dictionary(pa.int32(), pa.string())
Rows = NDArray[np.bool_]
Spoilt = Mapping[str, Rows]
"""Column -> (n,) bool: where a reader met a value that cannot be read, and left a null."""

_VALUES: dict[Kind, tuple[str, pa.DataType]] = {
    "number": ("not_a_number", pa.float64()),
    "text": ("not_text", pa.string()),
    "boolean": ("not_a_boolean", pa.bool_()),
    "any": ("not_text", pa.bool_()),
    "list": ("not_a_list", LIST),
}
"""Kind -> the reason of values that are not of it, and the canonical type."""
NONE_SPOILT: Spoilt = {}
NEAR = 8
"""Whole numbers of a batch that lie in so many times as many places are near each other."""


class Decoded(NamedTuple):
    """Events and dead letters of one batch; either may be None.

    Attributes:
      absent: of some columns of the events, how many values they lack: where that was seen.
    """

    events: pa.RecordBatch | None
    dead: pa.RecordBatch | None
    absent: Mapping[str, int] = MappingProxyType({})


class DecodedTogether(NamedTuple):
    """Messages that were decoded at once.

    Attributes:
      places: of the messages, in order. rows: (m,) how many records each holds.
      first: position of the first record of a message.
      decoded: their records, positions counted through all of them, from 1.
    """

    places: list[int]
    rows: list[int]
    first: int
    decoded: Decoded


Over = Callable[[Callable[[Chunk], list[Decoded]], Iterable[Chunk]], Iterable[list[Decoded]]]
"""As ``map``: applies what decodes a chunk of text to every chunk, in order."""


Positions = NDArray[np.int64] | range
"""Numbers of lines or rows: (n,) int64, or those that follow each other."""


def _numbers(positions: Positions) -> NDArray[np.int64]:
    if isinstance(positions, range):
        return np.arange(positions.start, positions.stop)
    return positions


def placed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A decoded batch with "@position", (n,) int64."""
    metadata = dict(batch.schema.metadata or {})
    if FIRST not in metadata:
        return batch
    first = int(metadata.pop(FIRST))
    positions = pa.array(np.arange(first, first + batch.num_rows))
    return batch.replace_schema_metadata(metadata).append_column("@position", positions)


class _Refused:
    """Collects which rows are rejected, and which values of the others cannot be read."""

    def __init__(self, n: int, spoilt: Spoilt) -> None:
        self.gone: Rows = np.zeros(n, dtype=bool)
        self._spoilt = spoilt
        self._found: list[tuple[str, str, Rows]] = []
        self._values: list[tuple[str, str, Rows]] = []

    def records(self, reason: str, field: str, bad: Bad) -> None:
        """Rows whose time, key, id or unit is bad; each goes for the first reason found."""
        if bad is not None and (rows := bad & ~self.gone).any():
            self._found.append((reason, field, rows))
            self.gone |= rows

    def values(self, reason: str, field: str, bad: Bad) -> None:
        """Values that count as missing."""
        if bad is not None:
            self._values.append((reason, field, bad))

    def spoilt(self, column: str, bad: Bad = None) -> Bad:
        """What the reader and the cast could not read of a column."""
        known = self._spoilt.get(column)
        return bad if known is None else known if bad is None else known | bad

    def letters(self, source: str, positions: Positions) -> pa.RecordBatch | None:
        """By position, then in the order of columns; None if there are none."""
        retained = ((reason, field, bad & ~self.gone) for reason, field, bad in self._values)
        results = [
            (reason, field, rows) for reason, field, rows in [*self._found, *retained] if rows.any()
        ]
        if not results:
            return None
        at = [np.flatnonzero(rows) for _, _, rows in results]
        order = np.argsort(np.concatenate(at), kind="stable")
        sizes = [len(rows) for rows in at]
        names = list(dict.fromkeys(field for _, field, _ in results))
        codes = np.array([reason_code(reason) for reason, _, _ in results], dtype=np.int8)
        fields = np.array([names.index(field) for _, field, _ in results], dtype=np.int32)
        return dead_letters(
            source,
            _numbers(positions)[np.concatenate(at)[order]],
            np.repeat(codes, sizes)[order],
            pa.DictionaryArray.from_arrays(
                pa.array(np.repeat(fields, sizes)[order]), pa.array(names, pa.string())
            ),
        )


def assemble(
    raw: Mapping[str, Any],
    positions: Positions,
    schema: EventSchema,
    source: str,
    spoilt: Spoilt = NONE_SPOILT,
    empty_is_null: bool = False,
    numbers: bool = False,
) -> Decoded:
    """Raw columns by their own names -> canonical columns.

    Args:
      raw: every needed column, each (n,) of whatever type the reader gave. A reader that knows of
        values of several types in a column of times gives these under TIME and ARRIVAL.
      positions: line or row numbers. Of a range no column is made: see ``placed``.
      schema: the roles of columns.
      source: path or topic.
      spoilt: values that the reader could not read already; they are null in ``raw``.
      empty_is_null: an empty text is a missing one (CSV cannot tell them apart).
      numbers: ids and users that are whole numbers stay such. Anyone who takes them hashes them as
        their digits; only readers whose batches are never put together may ask for it.

    Raises:
      ConfigError: a column's type cannot play its role, and the schema is strict.
    """
    refused = _Refused(len(positions), spoilt)
    columns: dict[str, Any] = {}
    if schema.partition:
        raw = {**raw, **_same(schema.partition, len(positions))}
    if schema.lookup is not None:
        raw, spoilt = _looked_up(raw, spoilt, schema, schema.lookup, source, empty_is_null)
        refused = _Refused(len(positions), spoilt)
    if schema.time is None:
        columns["@time"] = pa.array(np.zeros(len(positions), dtype=np.int64)).view(UTC_MICROSECONDS)
    else:
        name = schema.time.column
        value = TIME if TIME in raw else name
        times, bad = _times(raw[value], schema.time, source)
        refused.records("unreadable_time", name, refused.spoilt(value, bad))
        if times.null_count:
            refused.records("missing_time", name, _rows(times.is_null()))
        columns["@time"] = times
    for role, column, reason in (
        *((role, column, "unreadable_key") for role, column in key_roles(schema.keys).items()),
        ("@id", schema.id, "unreadable_id"),
        ("@unit", schema.unit, "unreadable_unit"),
    ):
        if column is not None:
            if numbers and not is_key(role) and pa.types.is_integer(raw[column].type):
                columns[role] = plain(raw[column])
                refused.records(reason, column, refused.spoilt(column))
                continue
            read = _key if is_key(role) else _identity
            kind = KEY_TYPE if is_key(role) else pa.string()
            with_values = partial(read, raw[column], column, schema, source, empty_is_null)
            columns[role], bad = _leniently(with_values, raw[column], kind, schema)
            refused.records(reason, column, refused.spoilt(column, bad))
    if schema.arrival is not None:
        name = schema.arrival.column
        value = ARRIVAL if ARRIVAL in raw else name
        columns["@arrival"], bad = _times(raw[value], schema.arrival, source)
        refused.values("not_a_time", name, refused.spoilt(value, bad))
    metadata: dict[Any, Any] = {"source": source}
    if isinstance(positions, range):
        metadata[FIRST] = str(positions.start)
    else:
        columns["@position"] = pa.array(positions)
    absent: dict[str, int] = {}
    for name, kind in schema.columns.items():
        reason, canonical = _VALUES[kind]
        if kind == "list" and schema.listed is not None:
            columns[name], bad = _lists(raw, schema, schema.listed, source)
            lists = [refused.spoilt(column) for column in schema.listed.columns]
            refused.values(reason, name, _either([bad, *lists]))
            continue
        with_values = partial(_user, raw[name], kind, schema, name, source, empty_is_null, absent)
        columns[name], bad = _leniently(with_values, raw[name], canonical, schema)
        refused.values(reason, name, refused.spoilt(name, bad))
    batch = pa.RecordBatch.from_arrays(
        list(columns.values()), names=list(columns), metadata=metadata
    )
    if refused.gone.any():
        batch, absent = placed(batch).filter(pa.array(~refused.gone)), {}
    retained = batch if batch.num_rows else None
    return Decoded(retained, refused.letters(source, positions), absent)


def _same(partition: Mapping[str, str | None], n: int) -> dict[str, Any]:
    """Columns of which all records of a file have one text."""
    return {name: pa.repeat(pa.scalar(text, pa.string()), n) for name, text in partition.items()}


def _looked_up(
    raw: Mapping[str, Any],
    spoilt: Spoilt,
    schema: EventSchema,
    table: LookupTable,
    source: str,
    empty_is_null: bool,
) -> tuple[Mapping[str, Any], Spoilt]:
    """Columns with those of a public table; where a record cannot be looked up, they are spoilt."""
    texts, gone = [], []
    for name in table.on:
        read = partial(to_text, raw[name], "lookup.on", name, source, empty_is_null)
        text, bad = _leniently(read, raw[name], pa.string(), schema)
        texts.append(text)
        gone += [bad, spoilt.get(name)]
    lost = _either(gone)
    more = {} if lost is None else dict.fromkeys(table.columns, lost)
    return {**raw, **table.add_to(texts)}, {**spoilt, **more}


def _rows(values: Any) -> Bad:
    """A column of bool as rows; None where none is marked."""
    if not values.true_count:
        return None
    rows: Rows = values.to_numpy(zero_copy_only=False)
    return rows


def _times(values: Any, stamp: Stamp, source: str) -> tuple[pa.TimestampArray, Bad]:
    """Times, null where there is none that can be read; and where that was of a value."""
    value = plain(values)
    times = to_time(value, stamp, source)
    if not times.null_count:
        return times, None
    return times, _rows(pc.and_(to_presence(value)[0].is_valid(), times.is_null()))


def _leniently(
    read: Callable[[], tuple[Any, Bad]], values: Any, kind: pa.DataType, schema: EventSchema
) -> tuple[Any, Bad]:
    """Reads; on a stream, where a column is what some sender made of it, a wrong type is bad."""
    try:
        return read()
    except ConfigError:
        if schema.strict:
            raise
    bad = to_presence(values)[0].is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_float64(kind):
        return pa.array(np.full(len(values), np.nan)), bad
    return pa.nulls(len(values), kind), bad


def _lists(
    raw: Mapping[str, Any], schema: EventSchema, listed: ListColumn, source: str
) -> tuple[Any, Bad]:
    """Lists, null where one is missing or cannot be read; on a stream a wrong type is bad."""
    values = raw[listed.name]
    places = raw.get(listed.indices) if listed.indices is not None else None
    read = partial(to_lists, values, places, listed, schema.field_of(listed.name), source)
    return _leniently(read, values, LIST, schema)


def _either(found: Sequence[Bad]) -> Bad:
    """Rows that one of them marks."""
    some = [rows for rows in found if rows is not None]
    return np.logical_or.reduce(some) if some else None


def _key(
    values: Any, column: str, schema: EventSchema, source: str, empty_is_null: bool
) -> tuple[Any, Bad]:
    field = schema.field_of(column)
    if isinstance(values, pa.ChunkedArray):
        values = plain(values)
    if pa.types.is_integer(values.type) and not values.null_count:
        indices, dictionary = _numbered(values)  # then few are spelled as texts
        names, _ = to_text(dictionary, field, column, source)
        return pa.DictionaryArray.from_arrays(indices, names), None
    encoded = pa.types.is_dictionary(values.type)
    if encoded and is_text(values.type.value_type):
        names, bad = to_text(values.dictionary, field, column, source, empty_is_null)
        if bad is None and names.null_count == 0:
            if values.type == KEY_TYPE:
                return values, None
            indices = values.indices.cast(pa.int32())
            return pa.DictionaryArray.from_arrays(indices, names), None
    text, bad = to_text(values, field, column, source, empty_is_null)
    return text.dictionary_encode().cast(KEY_TYPE), bad


def _numbered(values: Any) -> tuple[Any, Any]:
    """Whole numbers as places in a list of those that there are, and it: found in a table where
    they lie near each other, which takes less time than hashing them."""
    numbers = values.to_numpy()
    low, high = extremes(numbers) if len(numbers) else (0, 0)
    if high - low >= NEAR * len(numbers):
        encoded = values.dictionary_encode()
        return encoded.indices, encoded.dictionary
    wide = np.uint64 if numbers.dtype.kind == "u" else np.int64
    offsets = (numbers.astype(wide, copy=False) - wide(low)).view(np.int64)
    there = np.zeros(high - low + 1, dtype=bool)
    there[offsets] = True
    used = np.flatnonzero(there)
    place = np.empty(len(there), dtype=np.int32)
    place[used] = np.arange(len(used), dtype=np.int32)
    return pa.array(place[offsets]), pa.array(used.astype(wide) + wide(low), values.type)


def _identity(
    values: Any, column: str, schema: EventSchema, source: str, empty_is_null: bool
) -> tuple[Any, Bad]:
    values = plain(values)
    if is_bytes(values.type):
        return values.cast(pa.binary()), None
    return to_text(values, schema.field_of(column), column, source, empty_is_null)


def _user(
    values: Any,
    kind: Kind,
    schema: EventSchema,
    column: str,
    source: str,
    empty_is_null: bool,
    absent: dict[str, int],
) -> tuple[Any, Bad]:
    field = schema.field_of(column)
    if kind == "number":
        result = to_numbers(values, field, column, source)
        if result.missing is not None:
            absent[column] = result.missing
        return result.values, result.bad
    if kind == "text":
        return to_text(values, field, column, source, empty_is_null)
    if kind == "boolean":
        return to_boolean(values, field, column, source)
    return to_presence(values)

"""Typed columns, as Arrow IPC and Parquet have them: the needed ones only, batch after batch.

A batch whose framing is broken is rejected as malformed, one dead letter for each record that it
held; a bad value costs its own record at most. Offsets and the sizes of buffers frame a batch:
where they are broken, nobody can tell which bytes belong to which record. Everything else is some
record's value. A date in the middle of a day, a decimal beyond its precision and text that is not
UTF-8 are left to what reads the column; a value that points outside of its batch becomes null, and
counts as malformed. An extension type is read as its storage, and runs as a dictionary of their
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.transforms.decode.canonical import Decoded, Positions, assemble
from weir.transforms.decode.cast import Bad, hollow, is_bytes, is_text, of_runs, plain_type
from weir.transforms.decode.lists import holds_numbers, is_arrow_list, is_list_view
from weir.transforms.decode.nested import column_of, names_of, type_of
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.dead_letters import WHOLE_FILE, dead_letters

BATCH_ROWS = 2**18
LIST_ROWS = 2**15
LIST_NUMBERS = 2**22
"""Rows of a batch of lists, and numbers in one, at most."""

UNREADABLE = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError)
"""What readers raise on broken files, next to failures of the system. Never shown: it may quote."""

NO_TYPES: Mapping[str, pa.DataType] = MappingProxyType({})

_VIEW = np.dtype([("size", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])
_INLINE = 12
"""Bytes of a view that holds its value itself."""

Lost = Callable[[float], None]
"""Is told the share, in (0, 1], of what a decoder was given that could not be read."""


def unweighed(share: float) -> None:
    """For those who do not ask how much was lost."""


def is_broken(error: Exception) -> bool:
    """Whether an error of a reader speaks of the file's content, not of disk or network.

    A failure of the system carries its number, and must not be taken for bad data.
    """
    return isinstance(error, UNREADABLE) and getattr(error, "errno", None) is None


def whole_file(source: str) -> Decoded:
    """The dead letter of a file whose number of records cannot be known."""
    return Decoded(None, dead_letters(source, np.array([WHOLE_FILE]), "malformed"))


def lost_rows(source: str, first: int, count: int) -> Decoded:
    """The dead letters of ``count`` records from row ``first`` on."""
    positions = np.arange(first, first + count, dtype=np.int64)
    return Decoded(None, dead_letters(source, positions, "malformed"))


def rows_of(schema: EventSchema) -> int:
    """Rows of a batch: of lists fewer, as they are held twice while they are read."""
    if schema.listed is None:
        return BATCH_ROWS
    if schema.listed.column is None:
        return LIST_ROWS
    return max(1, min(LIST_ROWS, LIST_NUMBERS // schema.listed.size))


def check_columns(found: pa.Schema, schema: EventSchema, source: str) -> None:
    """Checks names and types of columns, as ``decode_batch`` reads them, against their roles.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role. Of a stream's
        message neither is an error.
    """
    schema.require(names_of(found, schema.needed), source)
    if not schema.strict:
        return
    raw = {name: _nothing(plain_type(type_of(found, name))) for name in schema.needed}
    assemble(raw, np.zeros(0, dtype=np.int64), schema, source)


def _nothing(kind: pa.DataType) -> pa.Array:
    """No value of a type."""
    try:
        return pa.nulls(0, kind)
    except (pa.ArrowException, KeyError):  # a type that Arrow cannot make, or Python not hold
        inner = pa.struct([])
        return pa.nulls(0, pa.list_(inner) if is_arrow_list(kind) else inner)


def decode_batch(
    batch: pa.RecordBatch,
    first: int,
    schema: EventSchema,
    source: str,
    numbers: bool = False,
    types: Mapping[str, pa.DataType] = NO_TYPES,
) -> Decoded | None:
    """A batch as a reader gives it -> a canonical one; None if the framing of a column is broken.

    Args:
      first: position of its first row.
      schema: the roles of columns. source: path or topic.
      numbers: see ``assemble``; then rows have no column "@position" either.
      types: of columns that stand for values of another type than they are of; of equal bits.

    Raises:
      ConfigError: a column's type cannot play its role.
    """
    raw: dict[str, Any] = {}
    spoilt: dict[str, Any] = {}
    for name in schema.needed:
        try:
            column = column_of(batch, name)
        except (pa.ArrowInvalid, KeyError):
            return None
        if name in types and column is not None:
            column = column.cast(types[name])
        result = sound(pa.nulls(batch.num_rows) if column is None else column)
        if result is None:
            return None
        raw[name] = result.values
        if result.lost is not None:
            spoilt[name] = result.lost
    stop = first + batch.num_rows
    positions: Positions = range(first, stop) if numbers else np.arange(first, stop)
    return assemble(raw, positions, schema, source, spoilt, numbers=numbers)


def decode_batches(
    batches: Iterable[pa.RecordBatch], schema: EventSchema, source: str, first: int = 0
) -> Iterator[Decoded]:
    """Batches that lie in memory -> canonical batches; of names the caller has made sure.

    Args:
      schema: the roles of columns. source: what they are called. first: position of the first row.

    Raises:
      ConfigError: a column's type cannot play its role.
    """
    return _decode_all(((batch, 0.0) for batch in batches), schema, source, first, unweighed)


def decode_content(
    content: tuple[pa.Schema, Iterator[tuple[pa.RecordBatch | None, float]]] | None,
    schema: EventSchema,
    source: str,
    lost: Lost = unweighed,
) -> Iterator[Decoded]:
    """A file or message of typed columns -> canonical batches.

    Args:
      content: names and types of its columns, and its batches, each with its share of the whole and
        None where it cannot be read: it leaves one dead letter. None: nothing can be read.
      schema: the roles of columns. source: path or topic. lost: takes shares that are not read.

    Raises:
      ConfigError: a needed column is not there, or its type cannot play its role.
    """
    if content is None:
        lost(1.0)
        yield whole_file(source)
        return
    columns, batches = content
    check_columns(columns, schema, source)
    yield from _decode_all(batches, schema, source, 0, lost)


def _decode_all(
    batches: Iterable[tuple[pa.RecordBatch | None, float]],
    schema: EventSchema,
    source: str,
    at: int,
    lost: Lost,
) -> Iterator[Decoded]:
    """Batches, None where one is broken, each with its share of all there is."""
    for batch, share in batches:
        if batch is None:
            lost(share)
            yield lost_rows(source, at, 1)
            at += 1
            continue
        step = rows_of(schema)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            decoded = decode_batch(part, at, schema, source)
            if decoded is None:
                lost(share * part.num_rows / batch.num_rows)
            yield decoded or lost_rows(source, at, part.num_rows)
            at += part.num_rows


class Sound(NamedTuple):
    """A column that can be read.

    Attributes:
      values: (n,) the column; null where a value pointed outside.
      lost: (n,) bool, where that was, or None.
    """

    values: pa.Array
    lost: Bad


def sound(values: pa.Array) -> Sound | None:
    """Checks a column; None if what frames it is broken.

    Args:
      values: (n,) of any type, as an Arrow or Parquet reader gives it: nothing about it is known.
    """
    try:
        if pa.types.is_primitive(values.type):  # most columns: of a size, and of any bits
            values.validate()
            return Sound(values, None)
        if isinstance(values.type, pa.BaseExtensionType):
            return sound(values.storage)
        if pa.types.is_run_end_encoded(values.type):
            values = of_runs(values)
        if pa.types.is_dictionary(values.type):
            return _of_dictionary(values)
        if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
            values.validate()
            return _of_views(values)
        if _has_offsets(values.type):
            # As bytes: text that is not UTF-8 is one record's.
            _as_bytes(values).validate(full=True)
        elif holds_numbers(values.type):
            values.validate()
            if is_list_view(values.type):
                return _of_list_views(values)
            # Where a list begins and ends frames the batch; a number in it is its record's.
            if not pa.types.is_fixed_size_list(values.type):
                _in_turn(values)
        else:
            # Of what is nested only the top is ever read: whether a value is there.
            values.validate()
    except (pa.ArrowException, ValueError, IndexError, OverflowError):
        return None
    return Sound(values, None)


def _has_offsets(kind: pa.DataType) -> bool:
    return (is_text(kind) or is_bytes(kind)) and not pa.types.is_fixed_size_binary(kind)


def _as_bytes(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        return values.view(pa.binary())
    if pa.types.is_large_string(values.type):
        return values.view(pa.large_binary())
    return values


def _of_dictionary(values: pa.DictionaryArray) -> Sound | None:
    """The dictionary is the batch's; an index into it is its record's."""
    indices = values.indices
    indices.validate()
    value = values.dictionary
    dictionary = sound(value)
    if dictionary is None:
        return None
    if pa.types.is_nested(dictionary.values.type) and not holds_numbers(dictionary.values.type):
        # It would be copied, and what frames its fields is not known.
        dictionary = Sound(hollow(dictionary.values.is_valid()), None)
    if dictionary.values is not value:
        values = pa.DictionaryArray.from_arrays(indices, dictionary.values, safe=False)
    if dictionary.lost is None and _all_inside(indices, len(dictionary.values)):
        return Sound(values, None)
    valid = indices.is_valid().to_numpy(zero_copy_only=False)
    at = indices.fill_null(0).to_numpy()
    outside = valid & ((at < 0) | (at >= len(dictionary.values)))
    lost = outside
    if dictionary.lost is not None:
        inside = valid & ~outside
        lost = outside.copy()
        lost[inside] |= dictionary.lost[at[inside]]
    if not lost.any() and dictionary.lost is None:
        return Sound(values, None)
    retained = pa.array(np.where(outside, 0, at), indices.type, mask=~valid | outside)
    result = pa.DictionaryArray.from_arrays(retained, dictionary.values)
    return Sound(result, lost if lost.any() else None)


def _all_inside(indices: pa.Array, size: int) -> bool:
    """Whether every index is one into a dictionary of that size; a fast look at most columns."""
    if not indices.null_count:
        places = indices.to_numpy()  # a negative one is a large one without its sign
        return not len(places) or bool(places.view(f"u{places.itemsize}").max() < size)
    ends = pc.min_max(indices)
    least, most = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (least >= 0 and most < size)


def _in_turn(values: Any) -> None:
    """Raises unless each list begins where the one before it ends, all of them inside."""
    if not len(values):
        return
    offsets = values.offsets.to_numpy()
    if offsets[0] < 0 or offsets[-1] > len(values.values) or (np.diff(offsets) < 0).any():
        raise pa.ArrowInvalid("offsets")


def _of_list_views(values: Any) -> Sound:
    """Each view stands for itself: where its list begins, and its length."""
    values.values.validate()
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    at, size = values.offsets.to_numpy(), values.sizes.to_numpy()
    room = len(values.values)
    outside = (at < 0) | (size < 0) | (size > room) | (at > room - np.minimum(size, room))
    if not outside.any():
        return Sound(values, None)
    built: Any = pa.ListViewArray if pa.types.is_list_view(values.type) else pa.LargeListViewArray
    zero = at.dtype.type(0)
    result = built.from_arrays(
        pa.array(np.where(outside, zero, at)),
        pa.array(np.where(outside, zero, size)),
        values.values,
        type=values.type,
        mask=pa.array(~valid | outside),
    )
    lost = valid & outside
    return Sound(result, lost if lost.any() else None)


def _of_views(values: pa.Array) -> Sound:
    """Each view stands for itself: its size, and where its bytes are if they do not fit in it."""
    buffers = values.buffers()
    if buffers[1] is None or not len(values):
        return Sound(values, None)
    views: NDArray[Any] = np.frombuffer(buffers[1], _VIEW)
    views = views[values.offset : values.offset + len(values)]
    size, offset = views["size"].astype(np.int64), views["offset"].astype(np.int64)
    capacities = np.array([0 if b is None else b.size for b in buffers[2:]] + [0], dtype=np.int64)
    known = (views["buffer"] >= 0) & (views["buffer"] < len(capacities) - 1)
    capacity = capacities[np.where(known, views["buffer"], -1)]
    outside = (size > _INLINE) & ~(known & (offset >= 0) & (offset + size <= capacity))
    lost = (outside | (size < 0)) & values.is_valid().to_numpy(zero_copy_only=False)
    # Under a null, too, nothing may point outside.
    wild = outside | (size < 0)
    if not wild.any():
        return Sound(values, None)
    tamed = views.copy()
    tamed[wild] = np.zeros((), _VIEW)
    valid = pa.array(values.is_valid().to_numpy(zero_copy_only=False) & ~wild).buffers()[1]
    result = pa.Array.from_buffers(
        values.type, len(values), [valid, pa.py_buffer(tamed.tobytes()), *buffers[2:]]
    )
    return Sound(result, lost if lost.any() else None)

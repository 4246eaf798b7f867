"""Lists of numbers, in any form -> canonical lists: places and numbers that are not 0.

Each record's list is read alone. One that is absent is missing. One that cannot be read is missing
and told as ``not_a_list``: another length than the features are, a place that is none of theirs or
is there twice, places without numbers, anything in it that is no number. A number in it that is
null or NaN is a missing number: its event has no row, as with a column of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.config.schema import ListColumn
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.transforms.columns.list_columns import LIST, from_rows, is_list
from weir.transforms.decode.cast import Bad, fault, plain, type_word

Ints = NDArray[np.int64]
Rows = NDArray[np.bool_]

_PLAIN = frozenset({int, float})
_PLACE = re.compile(r"0|[1-9][0-9]{0,9}")


def is_arrow_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of lists, of any kind that is read."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or is_list_view(kind)
    )


def is_list_view(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of lists that may begin anywhere among their items."""
    return bool(pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind))


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether an Arrow type of lists is one of numbers."""
    if not is_arrow_list(kind):
        return False
    inner = kind.value_type
    return bool(
        pa.types.is_integer(inner)
        or pa.types.is_floating(inner)
        or pa.types.is_decimal(inner)
        or pa.types.is_null(inner)
    )


def to_lists(
    raw: Any, places: Any | None, listed: ListColumn, field: str, source: str
) -> tuple[Any, Bad]:
    """Columns as a reader gave them -> a canonical column, and where a list cannot be read.

    Args:
      raw: lists of numbers, or of the numbers at ``places``; canonical already, where a reader
        made Python's values into them; null of any length.
      places: lists of places; None where there is one column.
      listed: how many features there are, and names. field, source: for messages.

    Raises:
      ConfigError: a column's type holds no such lists.
    """
    values = plain(raw)
    if is_list(values.type):
        return values, None
    if pa.types.is_null(values.type) and (places is None or pa.types.is_null(plain(places).type)):
        return pa.nulls(len(values), LIST), None
    if places is None:
        _check(values, listed.column or "", listed.size, field, source)
        return _whole(values, listed.size)
    places = plain(places)
    _check(values, listed.values or "", None, field, source)
    _check(places, listed.indices or "", None, field, source)
    inner = pa.null() if pa.types.is_null(places.type) else places.type.value_type
    if not pa.types.is_integer(inner) and not pa.types.is_null(inner):
        what = f"holds lists of {type_word(inner)} in {source}; places must be whole numbers."
        raise fault(field, listed.indices or "", what)
    return _pairs(values, places, listed.size)


def _check(values: Any, column: str, size: int | None, field: str, source: str) -> None:
    """Raises unless a type holds lists of numbers, of that size where the type fixes one."""
    kind = values.type
    if pa.types.is_null(kind):
        return
    if not holds_numbers(kind):
        what = f"lists of {type_word(kind.value_type)}" if is_arrow_list(kind) else type_word(kind)
        raise fault(field, column, f"holds {what} in {source}; it must hold lists of numbers.")
    if size is not None and pa.types.is_fixed_size_list(kind) and kind.list_size != size:
        raise ConfigError(
            f"{field}.size",
            size,
            f"is not what {column} holds in {source}: lists of {kind.list_size:,} numbers; write "
            f"size: {kind.list_size}.",
        )


class _Lists:
    """Lists of one column: where each begins, and its items.

    Attributes:
      there: (n,) whether there is a list. starts, lengths: (n,), of its items; 0 where there is
        none. items: all of them, and what lies under nulls.
    """

    def __init__(self, values: Any) -> None:
        kind, n = values.type, len(values)
        self.there: Rows = values.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_null(kind):
            self.starts = self.lengths = np.zeros(n, dtype=np.int64)
            self.items = pa.nulls(0, pa.float64())
            return
        if pa.types.is_fixed_size_list(kind):
            first = values.offset * kind.list_size
            self.starts = np.arange(n, dtype=np.int64) * kind.list_size
            lengths = np.full(n, kind.list_size, dtype=np.int64)
            self.items = values.values.slice(first, n * kind.list_size)
        elif is_list_view(kind):
            self.starts = values.offsets.to_numpy().astype(np.int64)
            lengths = values.sizes.to_numpy().astype(np.int64)
            self.items = values.values
        else:
            offsets = values.offsets.to_numpy().astype(np.int64)
            self.starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
            self.items = values.values.slice(offsets[0], offsets[-1] - offsets[0])
        self.lengths = np.where(self.there, lengths, 0)

    def numbers(self, which: Rows) -> tuple[Ints, NDArray[np.float64]]:
        """Lengths of the lists, 0 of those that are not asked for, and the items of the others as
        float64, NaN where one is null."""
        lengths, at = self._at(which)
        items = self.items if at is None else self.items.take(at)
        if not pa.types.is_float64(items.type):
            items = items.cast(pa.float64(), safe=False)
        if items.null_count:
            items = pc.fill_null(items, float("nan"))
        return lengths, items.to_numpy(zero_copy_only=False)

    def places(self, which: Rows) -> NDArray[np.int64]:
        """Items as int64; -1 where one is null or beyond."""
        _, at = self._at(which)
        items = self.items if at is None else self.items.take(at)
        if pa.types.is_uint64(items.type):
            items = pc.min_element_wise(items, pa.scalar(2**31, pa.uint64()))
        if not pa.types.is_int64(items.type):
            items = items.cast(pa.int64(), safe=False)
        if items.null_count:
            items = pc.fill_null(items, -1)
        return np.asarray(items.to_numpy(zero_copy_only=False), dtype=np.int64)

    def _at(self, which: Rows) -> tuple[Ints, Any]:
        lengths = np.where(which, self.lengths, 0)
        total = int(lengths.sum())
        moved = self.starts - np.cumsum(lengths) + lengths
        if total == len(self.items) and not moved[lengths > 0].any():
            return lengths, None
        return lengths, pa.array(np.arange(total) + np.repeat(moved, lengths))


def _whole(values: Any, size: int) -> tuple[Any, Bad]:
    """Lists of a number a feature. A longer or shorter one is passed over, its items unread."""
    lists = _Lists(values)
    good = lists.there & (lists.lengths == size)
    lengths, numbers = lists.numbers(good)
    row = np.repeat(np.arange(len(values)), lengths)
    at = np.tile(np.arange(size), int(np.count_nonzero(good)))
    return _made(row, at, numbers, size, good), _some(lists.there & ~good)


def _pairs(values: Any, places: Any, size: int) -> tuple[Any, Bad]:
    """Lists of numbers and lists of their places."""
    numbers, spots = _Lists(values), _Lists(places)
    good = numbers.there & spots.there & (numbers.lengths == spots.lengths)
    good &= numbers.lengths <= size
    lengths, value = numbers.numbers(good)
    at = spots.places(good)
    row = np.repeat(np.arange(len(values)), lengths)
    outside = (at < 0) | (at >= size)
    order = np.argsort(row * (size + 2) + np.clip(at, -1, size) + 1, kind="stable")
    row, at, value, outside = row[order], at[order], value[order], outside[order]
    twice = np.zeros(len(row), dtype=bool)
    twice[1:] = (row[1:] == row[:-1]) & (at[1:] == at[:-1])
    good[row[outside | twice]] = False
    retained = good[row]
    built = _made(row[retained], at[retained], value[retained], size, good)
    return built, _some((numbers.there | spots.there) & ~good)


def _made(row: Ints, at: Ints, value: NDArray[np.float64], size: int, good: Rows) -> Any:
    """Numbers of rows in order of rows and places -> canonical; zeros go."""
    some = value != 0
    if not some.all():
        row, at, value = row[some], at[some], value[some]
    gone = np.isnan(value)
    if gone.any():
        value = np.where(gone, np.nan, value)  # one NaN, whatever bits it came with
    offsets = np.zeros(len(good) + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=len(good)), out=offsets[1:])
    rows = SparseRows(offsets, at.astype(np.int32), value, size)
    return from_rows(rows, ~good)


def from_entries(lengths: Ints, at: Ints, value: NDArray[np.float64], size: int) -> Any:
    """Places and numbers of objects, row after row -> a canonical column. Of two equal places the
    last counts. lengths: (n,), -1 where there is no object: null."""
    good = lengths >= 0
    row = np.repeat(np.arange(len(lengths)), np.maximum(lengths, 0))
    key = row * size + at
    if (key[1:] <= key[:-1]).any():
        order = np.argsort(key, kind="stable")
        last = np.append(np.diff(key[order]) != 0, True)
        row, at, value = (item[order[last]] for item in (row, at, value))
    return _made(row, at, value, size, good)


def _some(bad: Rows) -> Bad:
    return bad if bad.any() else None


def from_python(values: Sequence[Any], size: int, places: Sequence[Any] | None = None) -> Any:
    """Values of Python, (n,) lists or mappings of place to number, or with ``places`` numbers and
    their places -> a canonical column, and (n,) where one cannot be read."""
    n = len(values)
    good, bad = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    row: list[NDArray[Any]] = []
    at: list[NDArray[Any]] = []
    value: list[NDArray[Any]] = []
    plain = np.zeros(n, dtype=bool)
    if places is None:
        plain, result = _objects(values, size)
        good |= plain
        row, at, value = [result[0]], [result[1]], [result[2]]
    for i in np.flatnonzero(~plain).tolist():
        item, spots = values[i], None if places is None else places[i]
        if item is None and spots is None:
            continue
        read = _one(item, size) if places is None else _paired(item, spots, size)
        if read is None:
            bad[i] = True
            continue
        good[i] = True
        at.append(read[0])
        value.append(read[1])
        row.append(np.full(len(at[-1]), i))
    nothing = [np.zeros(0, dtype=np.int64)]
    rows, spot = np.concatenate(nothing + row), np.concatenate(nothing + at)
    order = np.argsort(rows, kind="stable")
    numbers = np.concatenate([np.zeros(0), *value])
    return _made(rows[order], spot[order], numbers[order], size, good), bad


class _Places(dict[str, int]):
    """Keys of JSON objects -> places; each spelling is read once."""

    def __missing__(self, name: str) -> int:
        digits = type(name) is str and name.isascii() and name.isdigit() and len(name) <= 10
        result = int(name) if digits and (name[0] != "0" or len(name) == 1) else -1
        self[name] = result
        return result


def _objects(values: Sequence[Any], size: int) -> tuple[Rows, tuple[Ints, Ints, Any]]:
    """Objects of texts to plain numbers, all at once: (n,) which of the records they are, and the
    row, place and number of each of theirs. What is odd in any way is left to ``_one``."""
    which: list[int] = []
    lengths: list[int] = []
    spots: list[int] = []
    numbers: list[Any] = []
    known = _Places()
    for i, item in enumerate(values):
        if type(item) is dict and len(item) <= size and _PLAIN.issuperset(map(type, item.values())):
            which.append(i)
            lengths.append(len(item))
            spots += map(known.__getitem__, item)
            numbers += item.values()
    plain = np.zeros(len(values), dtype=bool)
    nothing = np.zeros(0, dtype=np.int64)
    try:
        value, at = np.array(numbers, dtype=np.float64), np.array(spots, dtype=np.int64)
    except OverflowError:
        return plain, (nothing, nothing, np.zeros(0))
    row = np.repeat(which, lengths).astype(np.int64)
    plain[which] = True
    order = np.argsort(row * (size + 1) + np.maximum(at, -1) + 1, kind="stable")
    row, at, value = row[order], at[order], value[order]
    odd = (at < 0) | (at >= size)
    odd[1:] |= (row[1:] == row[:-1]) & (at[1:] == at[:-1])
    plain[row[odd]] = False
    retained = plain[row]
    return plain, (row[retained], at[retained], value[retained])


def _one(value: Any, size: int) -> tuple[Ints, NDArray[np.float64]] | None:
    """Places in order, and the number at each; None: not to be read."""
    if isinstance(value, dict):
        if len(value) > size:
            return None
        spots = [_place(name) for name in value]
        return _paired(list(value.values()), spots, size)
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != size:
        return None
    numbers = _numbers(value)
    return None if numbers is None else (np.arange(size), numbers)


def _place(name: Any) -> Any:
    """A key of a JSON object as a place: whole numbers as they are written, without zeros first."""
    if isinstance(name, str):
        return int(name) if _PLACE.fullmatch(name) else -1
    return name


def _paired(value: Any, spots: Any, size: int) -> tuple[Ints, NDArray[np.float64]] | None:
    kinds = (list, tuple, np.ndarray)
    if not isinstance(value, kinds) or not isinstance(spots, kinds):
        return None
    if len(value) != len(spots) or len(value) > size:
        return None
    numbers, listed = _numbers(value), list(spots)
    if numbers is None or not all(_is_place(item, size) for item in listed):
        return None
    at = np.array(listed, dtype=np.int64)
    order = np.argsort(at, kind="stable")
    at = at[order]
    return None if (np.diff(at) == 0).any() else (at, numbers[order])


def _is_place(value: Any, size: int) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(0 <= value < size)


def _numbers(values: Any) -> NDArray[np.float64] | None:
    """Numbers, NaN where one is missing; None where something is none."""
    if isinstance(values, np.ndarray):
        fits = values.ndim == 1 and values.dtype.kind in "iuf"
        return values.astype(np.float64) if fits else None
    kinds = set(map(type, values))
    if not kinds <= {int, float}:
        if not all(_is_number(value) for value in values):
            return None
        values = [float("nan") if value is None else value for value in values]
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        return np.array([to_float(value) for value in values])


def _is_number(value: Any) -> bool:
    kinds = int | float | Decimal | np.integer | np.floating
    return value is None or (isinstance(value, kinds) and not isinstance(value, bool))


def to_float(value: Any) -> float:
    """The nearest double of a number; an infinity beyond the range of doubles."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")

"""A column of a table as the pages of a Parquet file: levels, a dictionary, values.

What is coded in memory stays coded: Arrow's own writer finds the distinct values of a column of
numbers anew, row by row, which takes most of the time of a file in which nearly all columns repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.sinks.parquet_levels import GROUP, Numbers, bits_of, hybrid, run

PAGE = 1 << 20
"""Bytes of the values of a page, about."""
MOST_SLOTS = 1 << 20
"""Values of a page, at most: a multiple of GROUP."""
_SIZE = np.dtype("<u4")


class Slots(NamedTuple):
    """Where the values of a column lie, nulls and empty lists among them: a slot each.

    Attributes:
      rows: how many rows there are. slots: how many slots.
      defined: (slots,) how much of a value is there: ``depth`` where all of it is; None: all are.
      repeated: (slots,) 1 where a list goes on; None: no lists.
      depth: of a value that is there.
    """

    rows: int
    slots: int
    defined: Numbers | None
    repeated: Numbers | None
    depth: int


class Page(NamedTuple):
    """Some slots. Attributes:
    slots: how many. nulls: those without a value. levels: encoded. values: encoded.
    """

    slots: int
    nulls: int
    levels: bytes
    values: Any


@dataclass(frozen=True)
class Leaf:
    """One column of values, ready to be written.

    Attributes:
      slots: where they lie.
      values: those that are there: (n,) numbers, or indices of ``words``.
      words: the dictionary, without nulls; None: values stand for themselves.
    """

    slots: Slots
    values: NDArray[Any]
    words: pa.Array | None

    def pages(self) -> Iterator[Page]:
        """The data, page by page, each of whole rows."""
        bits = 0 if self.words is None else bits_of(len(self.words) - 1)
        each = 8 * PAGE // (bits or 8 * self.values.dtype.itemsize)
        first = 0
        for begin, end in _cuts(self.slots, min(MOST_SLOTS, max(GROUP, each))):
            levels, there = _levels(self.slots, begin, end)
            values = self.values[first : first + there]
            first += there
            if self.words is None:
                body: Any = np.ascontiguousarray(values).view(np.uint8).data
            else:
                alike = len(self.words) == 1
                body = bytes([bits]) + (run(0, there, bits) if alike else hybrid(values, bits))
            yield Page(end - begin, end - begin - there, levels, body)

    def dictionary(self) -> bytes | memoryview:
        """The words as a page."""
        assert self.words is not None
        return plain(self.words)


def leaf_of(column: pa.Array, repeats: bool) -> Leaf:
    """A column of a table -> what is written of it.

    Args:
      column: (n,) coded, of text, numbers, times or lists of numbers.
      repeats: whether numbers are worth a dictionary where they are not coded.
    """
    if pa.types.is_list(column.type):
        slots, values = _of_lists(column)
    else:
        defined = _valid(column)
        slots = Slots(len(column), len(column), defined, None, 1)
        values = column if defined is None else column.drop_null()
    if pa.types.is_string(values.type):
        values = values.dictionary_encode()
    if pa.types.is_dictionary(values.type):
        if not len(values):
            return Leaf(slots, values.indices.to_numpy(), None)
        return Leaf(slots, *_in_order(values.indices.to_numpy(), values.dictionary))
    if repeats:
        found = _coded(values)
        if found is not None:
            return Leaf(slots, *found)
    return Leaf(slots, _numbers(values), None)


def plain(words: pa.Array) -> bytes | memoryview:
    """Values one behind the other; of text the size before it, in four bytes."""
    if not pa.types.is_string(words.type):
        return _numbers(words).tobytes()
    sizes = pc.binary_length(words).to_numpy().astype(_SIZE)
    starts = pa.array(np.arange(len(words) + 1, dtype=np.int32) * _SIZE.itemsize)
    heads = pa.Array.from_buffers(
        pa.binary(), len(words), [None, starts.buffers()[1], pa.py_buffer(sizes.tobytes())]
    )
    joined = pc.binary_join_element_wise(heads, words.cast(pa.binary()), b"")
    _, offsets, data = joined.buffers()
    first, last = np.frombuffer(offsets, np.int32)[joined.offset :][[0, len(joined)]].tolist()
    return memoryview(data)[first:last] if data is not None else b""


def _numbers(values: pa.Array) -> NDArray[Any]:
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    return np.asarray(values.to_numpy())


def _in_order(index: Numbers, words: pa.Array) -> tuple[Numbers, pa.Array]:
    """A coded column whose words are those of its rows, each once, the least first: in files of the
    same rows they are the same, however these came together."""
    starts = _runs(index)
    if starts is None:
        there = np.zeros(len(words), dtype=bool)
        there[index] = True
        used = np.flatnonzero(there)
    else:
        used = np.unique(index[starts])
    words = words.take(pa.array(used)) if len(used) < len(words) else words
    rising = len(words) < 2 or pc.all(pc.less(words[:-1], words[1:])).as_py()
    distinct = words if rising else words.unique().sort()
    if len(used) == used[-1] + 1 and rising:
        return index, words
    place = np.zeros(used[-1] + 1, dtype=np.int32)
    place[used] = pc.index_in(words, distinct).to_numpy()
    if starts is None:
        return place[index], distinct
    return np.repeat(place[index[starts]], np.diff(starts, append=len(index))), distinct


def _coded(values: pa.Array) -> tuple[Numbers, pa.Array] | None:
    """Numbers as indices of distinct ones; None where there is no gain in it."""
    numbers = _numbers(values)
    bits = numbers.view(f"i{numbers.dtype.itemsize}")  # so that -0.0 is not 0.0
    starts = _runs(bits)
    if starts is not None:
        distinct, place = np.unique(bits[starts], return_inverse=True)
        index = np.repeat(place.astype(np.int32), np.diff(starts, append=len(bits)))
        return index, pa.array(distinct.view(numbers.dtype))
    coded = pa.array(bits).dictionary_encode()
    words = coded.dictionary.to_numpy()
    if GROUP * len(words) > len(bits):
        return None
    return coded.indices.to_numpy(), pa.array(words.view(numbers.dtype))


def _runs(numbers: Numbers) -> NDArray[np.int64] | None:
    """Where runs of one number begin; None where they are many."""
    fresh = numbers[1:] != numbers[:-1]
    if GROUP * np.count_nonzero(fresh) >= len(numbers):
        return None
    return np.concatenate([[0], np.flatnonzero(fresh) + 1])


def _valid(column: pa.Array) -> Numbers | None:
    """(n,) 1 where a value is there; None: everywhere."""
    if not column.null_count:
        return None
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False)).view(np.uint8)


def _of_lists(column: pa.ListArray) -> tuple[Slots, pa.Array]:
    """Lists of numbers: (slots, the numbers that are there)."""
    lengths = pc.list_value_length(column).fill_null(0).to_numpy()
    values = column.flatten()
    known, inner = _valid(column), _valid(values)
    depth = 2 + column.type.value_field.nullable
    if known is None and inner is None and len(lengths) and (lengths == 1).all():
        return Slots(len(column), len(column), None, np.zeros(len(column), np.uint8), depth), values
    taken = np.maximum(lengths, 1)  # a list of nothing has a slot too
    repeated = np.ones(int(taken.sum()), dtype=np.uint8)
    repeated[np.cumsum(taken) - taken] = 0
    of_list = np.where(lengths > 0, depth, 1).astype(np.uint8)
    if known is not None:
        of_list[known == 0] = 0
    defined = np.repeat(of_list, taken)
    if inner is not None:
        defined[defined == depth] = 2 + inner
        values = values.drop_null()
    return Slots(len(column), len(repeated), defined, repeated, depth), values


def _cuts(slots: Slots, each: int) -> Iterator[tuple[int, int]]:
    """Where pages begin and end: near multiples of ``each``, and where rows begin."""
    begin = 0
    while begin < slots.slots:
        end = min(begin + each, slots.slots)
        if slots.repeated is not None and end < slots.slots:
            later = np.flatnonzero(slots.repeated[end:] == 0)[:1]
            end = end + int(later[0]) if len(later) else slots.slots
        yield begin, end
        begin = end


def _levels(slots: Slots, begin: int, end: int) -> tuple[bytes, int]:
    """The levels of some slots, and how many of them have a value."""
    parts, count = [], end - begin
    if slots.repeated is not None:
        parts.append(hybrid(slots.repeated[begin:end], 1))
    defined = slots.defined
    bits = bits_of(slots.depth)
    if defined is None:
        there = count
        parts.append(run(slots.depth, count, bits))
    else:
        own = defined[begin:end]
        there = int(np.count_nonzero(own == slots.depth))
        parts.append(hybrid(own, bits))
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts), there


__all__ = ["Leaf", "Page", "Slots", "leaf_of", "plain"]

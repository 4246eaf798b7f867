"""Batches that are a whole grid of ticks, keys and outputs: each number has its place beforehand.

Nearly every file of declared keys is one, and then nothing is sorted but the names of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.transforms.release.table import IN_FLIGHT_SCHEMA, INTERVAL, NUMBERS

ALIKE = ("release", "epsilon", "delta", "window", "plan")
"""Columns of one value."""
TIMES = ("tick", "tick_start", "tick_end")
OUTPUT = ("name", "over")
Floats = NDArray[np.float64]


class _Piece(NamedTuple):
    """A batch: outputs in their order, inside one ticks in order, inside one keys in order.

    Attributes:
      keys: K names. times: the n values of each of TIMES. outputs: (name, over) of each output.
      value: (outputs, n, K). stddev: the same, or None where there is none.
      alike: the value of each of ALIKE.
    """

    keys: pa.Array
    times: tuple[pa.Array, ...]
    outputs: tuple[tuple[Any, ...], ...]
    value: Floats
    stddev: Floats | None
    alike: tuple[Any, ...]


def grid_table(batches: Sequence[pa.RecordBatch]) -> pa.Table | None:
    """IN_FLIGHT_SCHEMA, rows sorted by (tick, key bytes, name, over). None where batches do not
    have the same ticks and outputs, each with other keys; and where there is a vector, or a null
    among values."""
    pieces: list[_Piece] = []
    for batch in batches:
        piece = _piece(batch)
        if piece is None or (pieces and not _fit(pieces[0], piece)):
            return None
        pieces.append(piece)
    keys = pa.concat_arrays([piece.keys for piece in pieces])
    order = pc.array_sort_indices(keys).to_numpy()  # Arrow compares text by bytes
    names = keys.take(pa.array(order))
    if len(names) > 1 and pc.equal(names[1:], names[:-1]).true_count:
        return None
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    first = pieces[0]
    turn = sorted(range(len(first.outputs)), key=lambda i: _by_bytes(first.outputs[i]))
    shape = first.value.shape[1], len(keys), len(turn)
    value = _joined([piece.value for piece in pieces], place, turn, shape)
    stddev = None
    if first.stddev is not None:
        errors = [piece.stddev for piece in pieces if piece.stddev is not None]
        stddev = _joined(errors, place, turn, shape)
    return _table(first, names, turn, shape, value, stddev)


def _by_bytes(output: tuple[Any, ...]) -> tuple[bytes, int]:
    name, over = output
    return name.encode(), -1 if over is None else over


def _fit(piece: _Piece, other: _Piece) -> bool:
    """Whether two pieces differ in their keys alone."""
    return (
        piece.outputs == other.outputs
        and piece.alike == other.alike
        and (piece.stddev is None) == (other.stddev is None)
        and all(map(pa.Array.equals, piece.times, other.times))
    )


def _piece(batch: pa.RecordBatch) -> _Piece | None:
    """A batch, looked at; None where it is of another form."""
    rows = batch.num_rows
    if INTERVAL[0] in batch.schema.names:
        return None  # of quantiles: their rows have more lists, and are few
    keys, times = batch.column("key"), [batch.column(name) for name in TIMES]
    n, k = len(times[0].dictionary), len(keys.dictionary)
    if not n * k or rows % (n * k) or keys.null_count or any(time.null_count for time in times):
        return None
    outputs = rows // (n * k)
    tick = times[0].indices.to_numpy()
    regular = (
        (keys.indices.to_numpy().reshape(-1, k) == np.arange(k)).all()
        and (tick.reshape(outputs, n, k) == np.arange(n)[:, None]).all()
        and all(_same(time.indices, times[0].indices) for time in times[1:])
        and (np.diff(times[0].dictionary.to_numpy()) > 0).all()
    )
    alike = [_alike(batch.column(name)) for name in ALIKE]
    named = [_outputs(batch.column(name), outputs) for name in OUTPUT]
    value, stddev = batch.column("value"), batch.column("stddev")
    silent = stddev.null_count == rows
    numbers = _numbers(value), None if silent else _numbers(stddev)
    if not regular or None in alike or None in named or numbers[0] is None:
        return None
    if numbers[1] is None and not silent:
        return None
    shape = outputs, n, k
    return _Piece(
        keys.dictionary,
        tuple(time.dictionary for time in times),
        tuple(zip(*named, strict=True)),
        numbers[0].reshape(shape),
        None if numbers[1] is None else numbers[1].reshape(shape),
        tuple(alike),
    )


def _same(item: pa.Array, other: pa.Array) -> bool:
    """Whether indices are the same; batches have them of one array."""
    alike = [(a.buffers()[1].address, a.offset, len(a), a.type) for a in (item, other)]
    return alike[0] == alike[1] or item.equals(other)


def _alike(column: pa.DictionaryArray) -> tuple[Any] | None:
    """The value of all rows; None: they differ."""
    if column.null_count == len(column):
        return (None,)
    single = len(column.dictionary) == 1 and not column.null_count
    return (column.dictionary[0].as_py(),) if single else None


def _outputs(column: pa.DictionaryArray, outputs: int) -> list[Any] | None:
    """The value of each output; None: the rows of an output differ."""
    if column.null_count == len(column):
        return [None] * outputs
    index = column.indices
    if index.null_count:
        index = index.fill_null(-1)
    result = index.to_numpy().reshape(outputs, -1)
    if (result != result[:, :1]).any():
        return None
    words = [*column.dictionary.to_pylist(), None]
    return [words[i] for i in result[:, 0].tolist()]


def _numbers(column: pa.ListArray) -> Floats | None:
    """The number of each list; None where one has not exactly one."""
    offsets, values = column.offsets.to_numpy(), column.values
    if column.null_count or values.null_count or (np.diff(offsets) != 1).any():
        return None
    return np.asarray(values.to_numpy()[offsets[0] : offsets[-1]])


def _joined(
    parts: Sequence[Floats], place: NDArray[np.int64], turn: Sequence[int], shape: tuple[int, ...]
) -> Floats:
    """Pieces (outputs, n, K) side by side, keys at their places: (n, all K, outputs)."""
    out, at = np.empty(shape), 0
    for part in parts:
        mine = place[at : at + part.shape[2]]
        for i, output in enumerate(turn):
            out[:, mine, i] = part[output]
        at += part.shape[2]
    return out


def _table(
    first: _Piece,
    names: pa.Array,
    turn: Sequence[int],
    shape: tuple[int, int, int],
    value: Floats,
    stddev: Floats | None,
) -> pa.Table:
    n, k, outputs = shape
    rows = n * k * outputs
    tick = pa.array(np.repeat(np.arange(n, dtype=np.int32), k * outputs))
    key = pa.array(np.tile(np.repeat(np.arange(k, dtype=np.int32), outputs), n))
    columns = {
        "key": pa.DictionaryArray.from_arrays(key, names, safe=False),
        "value": _lists(value),
        "stddev": pa.nulls(rows, NUMBERS) if stddev is None else _lists(stddev),
    }
    for name, words in zip(TIMES, first.times, strict=True):
        columns[name] = pa.DictionaryArray.from_arrays(tick, words, safe=False)
    for at, name in enumerate(OUTPUT):
        columns[name] = _repeated(name, [first.outputs[i][at] for i in turn], n * k)
    for name, only in zip(ALIKE, first.alike, strict=True):
        columns[name] = _repeated(name, only, rows)
    return pa.table([columns[name] for name in IN_FLIGHT_SCHEMA.names], IN_FLIGHT_SCHEMA)


def _repeated(name: str, values: Sequence[Any], times: int) -> pa.DictionaryArray:
    """A column in which some values come again and again."""
    kind = IN_FLIGHT_SCHEMA.field(name).type.value_type
    words = list(dict.fromkeys(value for value in values if value is not None))
    place = [-1 if value is None else words.index(value) for value in values]
    index = np.tile(np.array(place, dtype=np.int8), times)
    return pa.DictionaryArray.from_arrays(
        pa.array(index, mask=index < 0 if None in values else None),
        pa.array(words, kind),
        safe=False,
    )


def _lists(numbers: Floats) -> pa.ListArray:
    """Numbers as lists of one."""
    flat = numbers.reshape(-1)
    return pa.ListArray.from_arrays(
        pa.array(np.arange(len(flat) + 1, dtype=np.int32)), pa.array(flat), type=NUMBERS
    )


__all__ = ["grid_table"]

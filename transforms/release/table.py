"""Releases: the only batches that may reach a sink, and the columns they have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import WeirError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.plan import Plan
from weir.dpcore.program import Released

UTC = pa.timestamp("us", tz="UTC")
NUMBERS = pa.list_(pa.field("element", pa.float64(), nullable=True))

RELEASE_SCHEMA = pa.schema(
    [
        ("release", pa.string()),
        ("key", pa.string()),
        ("tick", pa.int64()),
        ("tick_start", UTC),
        ("tick_end", UTC),
        ("name", pa.string()),
        ("label", pa.string()),
        ("index", pa.int32()),
        ("over", pa.int64()),
        ("value", pa.float64()),
        ("stddev", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("window", pa.int64()),
        ("plan", pa.string()),
    ]
)
"""One row per key, tick, name, over and coordinate: what every sink writes (see flat.py).

Null ``tick``, ``tick_start``, ``tick_end``: the plan has no clock, and all rows are one release.
Null ``over``: since the start; ``window``: for ever; ``stddev``, ``low``, ``high``: the error is
not additive. ``label`` is "" and ``index`` 0 where there is one coordinate that needs no name.
``low`` and ``high`` end at public edges; of quantiles the value need not lie in their middle."""

ONE_COORDINATE = ("label", "index")
"""Columns that a row of lists has not."""

INTERVAL = ("low", "high")
"""Columns of lists that only plans with intervals have (``OutputInfo.interval``)."""

NUMBER = ("value", "stddev", *INTERVAL)
"""Columns that are the same in every row that says what another one says."""

INTERVAL_SCHEMA = pa.schema(
    [
        field.with_type(NUMBERS) if field.name in NUMBER else field
        for field in RELEASE_SCHEMA
        if field.name not in ONE_COORDINATE
    ]
)
"""PACKED_SCHEMA of plans in which a margin of error is an interval of its own: ``low`` and ``high``
of such rows; null where the margin is as many ``stddev`` on either side."""

PACKED_SCHEMA = pa.schema([field for field in INTERVAL_SCHEMA if field.name not in INTERVAL])
"""One row per key, tick, name and over, with lists: what ``sink.layout: packed`` writes."""

SHAPES = 32
"""Shapes of strides whose shared columns are remembered."""

MARK = b"weir.release"
_SPAN = b"weir.span"


def in_flight(field: pa.Field) -> pa.Field:
    """Inside a pipeline every column but the lists is dictionary-encoded."""
    if pa.types.is_list(field.type):
        return field
    wide = field.name in ("key", "tick", "tick_start", "tick_end")
    return field.with_type(pa.dictionary(pa.int32() if wide else pa.int8(), field.type))


IN_FLIGHT_SCHEMA = pa.schema([in_flight(field) for field in PACKED_SCHEMA])
IN_FLIGHT_INTERVALS = pa.schema([in_flight(field) for field in INTERVAL_SCHEMA])


def has_intervals(plan: Plan) -> bool:
    """Whether a margin of error of a plan is an interval of its own."""
    return any(item.interval for item in plan.program.describe(np.zeros(1, dtype=np.int64)))


def is_release(batch: Any) -> bool:
    """Whether a batch was made here: marked, and of the columns of a release."""
    return (
        isinstance(batch, pa.RecordBatch)
        and MARK in (batch.schema.metadata or {})
        and batch.schema in (IN_FLIGHT_SCHEMA, IN_FLIGHT_INTERVALS)
    )


def releases_only(batch: Any) -> pa.RecordBatch:
    """The gate of every sink.

    Raises:
      WeirError: it is no batch of releases. The message does not show what it is.
    """
    if not is_release(batch):
        raise WeirError("a sink takes releases only: connect it to the output of PrivateReleases.")
    return batch


def span_of(batch: pa.RecordBatch) -> tuple[int, int, int]:
    """(block, first tick, number of ticks) that a batch covers, rows or not."""
    block, first, ticks = (int(x) for x in batch.schema.metadata[_SPAN].split())
    return block, first, ticks


class ReleaseWriter:
    """Turns what a program solved into batches; remembers the columns that strides share.

    Args:
      plan: gives name, digest, guarantee and clock.
    """

    def __init__(self, plan: Plan) -> None:
        promise = plan.guarantee
        self._clock = plan.clock
        self._schema = IN_FLIGHT_INTERVALS if has_intervals(plan) else IN_FLIGHT_SCHEMA
        self._constants: dict[str, pa.Array] = {
            "release": pa.array([plan.name], pa.string()),
            "epsilon": pa.array([promise.epsilon], pa.float64()),
            "delta": pa.array([promise.delta], pa.float64()),
            "window": pa.array([promise.window], pa.int64()),
            "plan": pa.array([plan.digest], pa.string()),
        }
        self._shared = lru_cache(maxsize=SHAPES)(self._whole)
        self._named = lru_cache(maxsize=SHAPES)(_texts)

    def batch(
        self,
        block: int,
        first_tick: int,
        ticks: int,
        keys: Sequence[bytes],
        released: Sequence[Released],
        births: NDArray[np.int64] | None = None,
    ) -> pa.RecordBatch:
        """One batch: outputs in their order, inside one ticks in order, inside one keys in order.

        Args:
          released: arrays (ticks, K, m); none where K is 0.
          births: (K,) ticks after the first from which on each key has rows; None: in all of them.
        """
        if not keys:
            released = ()
        names = tuple((item.name, item.over) for item in released)
        if births is None or not keys:
            columns, key, tick = self._shared(ticks, len(keys), names)
        else:
            cells = np.flatnonzero(np.arange(ticks)[:, None] >= births)
            released = [_picked(item, cells) for item in released]
            columns, key, tick = self._columns(*_places(cells, len(keys)), names)
        edges = tick_edges(self._clock, first_tick, ticks)
        numbers = pa.array(np.arange(first_tick, first_tick + ticks, dtype=np.int64))
        if self._clock.once:
            edges, numbers = pa.nulls(ticks + 1, UTC), pa.nulls(ticks, pa.int64())
        columns = columns | {
            "key": _coded(key, self._named(tuple(keys))),
            "tick": _coded(tick, numbers),
            "tick_start": _coded(tick, edges.slice(0, ticks)),
            "tick_end": _coded(tick, edges.slice(1, ticks)),
            "value": lists([item.value for item in released]),
        }
        sizes = [item.value.shape[0] * item.value.shape[1] for item in released]
        for name in ("stddev", *INTERVAL):
            if name in self._schema.names:
                columns[name] = lists([_of(item, name) for item in released], sizes)
        span = f"{block} {first_tick} {ticks}".encode()
        return pa.RecordBatch.from_arrays(
            [columns[field.name] for field in self._schema],
            schema=self._schema.with_metadata({MARK: b"1", _SPAN: span}),
        )

    def _whole(
        self, ticks: int, keys: int, names: tuple[tuple[str, int | None], ...]
    ) -> tuple[dict[str, pa.Array], pa.Array, pa.Array]:
        """Columns that are the same for every stride of this shape; see ``_columns``."""
        return self._columns(*_places(np.arange(ticks * keys), keys), names)

    def _columns(
        self, key: NDArray[np.int32], tick: NDArray[np.int32], names: Sequence[Any]
    ) -> tuple[dict[str, pa.Array], pa.Array, pa.Array]:
        """Columns that hang on no number, and of each row which of the keys and ticks it is of.

        Args:
          key, tick: (cells,) of every output. names: of the outputs, and their overs.
        """
        cells, outputs = len(key), len(names)
        zeros = pa.array(np.zeros(outputs * cells, dtype=np.int8))
        output = np.repeat(np.arange(outputs, dtype=np.int8), cells)
        columns = {
            "name": _distinct(output, [name for name, _ in names], pa.string()),
            "over": _distinct(output, [over for _, over in names], pa.int64()),
        }
        for name, value in self._constants.items():
            columns[name] = _coded(zeros, value)
        return columns, pa.array(np.tile(key, outputs)), pa.array(np.tile(tick, outputs))


def _places(cells: NDArray[np.int64], keys: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Key and tick of cells, tick * keys + key."""
    tick = (cells // max(1, keys)).astype(np.int32)
    return (cells - tick.astype(np.int64) * keys).astype(np.int32), tick


def _picked(released: Released, cells: NDArray[np.int64]) -> Released:
    """An output of some cells: arrays (1, cells, m)."""

    def some(array: NDArray[np.float64]) -> NDArray[np.float64]:
        whole = np.broadcast_to(array, released.value.shape)
        return whole.reshape(1, -1, whole.shape[2]).take(cells, axis=1)

    return released.mapped(some)


def _of(released: Released, name: str) -> NDArray[np.float64] | None:
    """The array of a column, of the shape of the values."""
    array: NDArray[np.float64] | None = getattr(released, name)
    return None if array is None else np.broadcast_to(array, released.value.shape)


def _texts(keys: tuple[bytes, ...]) -> pa.Array:
    """Keys as text."""
    return pa.array(keys, pa.string())


def tick_edges(clock: Clock, first_tick: int, ticks: int) -> pa.Array:
    """(ticks + 1,) timestamps: starts, and the end of the last."""
    micros = clock.starts(np.arange(first_tick, first_tick + ticks + 1))
    return pa.array(micros.astype(np.int64)).view(UTC)


def _distinct(index: NDArray[np.int8], values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A dictionary column of one value an output; outputs may share values."""
    words = list(dict.fromkeys(values))
    place = np.array([words.index(value) for value in values] or [0], dtype=np.int8)
    return _coded(pa.array(place[index]), pa.array(words, kind))


def _coded(index: pa.Array, values: pa.Array) -> pa.DictionaryArray:
    """A dictionary column; a null among the values becomes a null row."""
    if values.null_count:
        table = np.array([i if v else -1 for i, v in enumerate(values.is_valid().to_pylist())])
        picked = table[index.to_numpy()]
        index = pa.array(picked, index.type, mask=picked < 0)
        values = values.drop_null() if len(values) == values.null_count else values
        values = values.fill_null(0) if not pa.types.is_string(values.type) else values
    return pa.DictionaryArray.from_arrays(index, values, safe=False)


def lists(arrays: Sequence[NDArray[np.float64] | None], cells: Sequence[int] = ()) -> pa.ListArray:
    """Arrays (n, K, m), or None for n * K null rows, as one column of lists; NaN is null.

    Args:
      cells: n * K of each array; needed where one is None.
    """
    if len(arrays) == 1 and arrays[0] is not None:
        return _rows(arrays[0])
    flat: list[NDArray[np.float64]] = []
    lengths: list[NDArray[np.int32]] = []
    missing: list[NDArray[np.bool_]] = []
    for place, array in enumerate(arrays):
        n = cells[place] if array is None else array.shape[0] * array.shape[1]
        size = 0 if array is None else array.shape[2]
        flat.append(np.zeros(0) if array is None else np.ascontiguousarray(array).reshape(-1))
        lengths.append(np.full(n, size, dtype=np.int32))
        missing.append(np.full(n, array is None))
    total = sum(len(part) for part in lengths)
    offsets = np.zeros(total + 1, dtype=np.int32)
    if total:
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
    mask = np.concatenate(missing) if missing else np.zeros(0, dtype=bool)
    values = np.concatenate(flat) if flat else np.zeros(0)
    nothing = np.isnan(values)
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.array(values, mask=nothing if nothing.any() else None),
        type=NUMBERS,
        mask=pa.array(mask) if mask.any() else None,
    )


def _rows(array: NDArray[np.float64]) -> pa.ListArray:
    """One array (n, K, m) as a column of lists; NaN is null."""
    n, keys, size = array.shape
    values = np.ascontiguousarray(array).reshape(-1)
    nothing = np.isnan(values)
    return pa.ListArray.from_arrays(
        pa.array(np.arange(n * keys + 1, dtype=np.int32) * np.int32(size)),
        pa.array(values, mask=nothing if nothing.any() else None),
        type=NUMBERS,
    )

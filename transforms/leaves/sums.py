"""Events into partial leaves: each bundle adds up what it sees, per block, tick and key.

No window and no GroupByKey: this is where the volume goes away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from dpcore.leaves.clock import Clock
from dpcore.leaves.keys import Keys
from dpcore.program import Bounded, Program
from transforms.leaves import partial
from transforms.leaves.bound import bound
from transforms.leaves.partial import PartialLeaf, sum_by_cell
from transforms.runtime.windowing import windowed

Ints = NDArray[np.int64]

GRID = 1 << 22
"""Most int64 numbers a dense accumulator may hold (32 MB)."""
CELLS = 1 << 22
"""Sparse cells gathered before they are added up; twice as many are sent on at once."""
ELEMENT = 1 << 22
"""Most int64 numbers in one element that is sent on (32 MB)."""


INDEX = 1 << 20
"""Names that are remembered from bundle to bundle, at most; what is found does not hang on it."""


class KeyIndex:
    """Global rows of keys: declared keys in order of (block, row), discovered ones as they come."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self.names: list[bytes] = []
        self.blocks = np.zeros(0, dtype=np.int64)
        self.rows = np.zeros(0, dtype=np.int64)
        if not keys.observed:
            held = [keys.block_keys(block) for block in range(keys.blocks)]
            self.names = [key for block in held for key in block]
            self.blocks = np.repeat(np.arange(keys.blocks), [len(block) for block in held])
            self.rows = np.concatenate([np.arange(len(block)) for block in held])
        self._place = {name: index for index, name in enumerate(self.names)}
        self._only = not keys.columns
        self._known: tuple[Any, Ints] | None = None

    def of(self, batch: pa.RecordBatch) -> Ints | None:
        """As ``each``, of a plan with one grouping."""
        (rows,) = self.each(batch)
        return rows

    def each(self, batch: pa.RecordBatch) -> Iterator[Ints | None]:
        """(n,) global row of each event's key, one of each grouping; None where there is a single
        key."""
        if self._only:
            yield None
            return
        column = batch.column("@key")
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = column.indices.to_numpy(zero_copy_only=False)
        for rows in self._rows_of(column.dictionary):
            yield rows[codes]

    def _rows_of(self, dictionary: Any) -> Ints:
        """(groupings, m) global rows of the keys of a dictionary; batches cut of one batch share
        theirs."""
        if self._known is not None and _same(self._known[0], dictionary):
            return self._known[1]
        texts = ["" if key is None else key for key in dictionary.to_pylist()]
        grouped = [[key.encode() for key in self._keys.grouped(text)] for text in texts]
        names = [name for own in grouped for name in own]
        fresh = [name for name in names if name not in self._place]
        if fresh:
            self._add(fresh)
        found = np.array([self._place[name] for name in names], dtype=np.int64)
        lookup = np.ascontiguousarray(found.reshape(len(texts), -1).T)
        self._known = dictionary, lookup
        return lookup

    def _add(self, fresh: Sequence[bytes]) -> None:
        if not self._keys.observed:
            raise ValueError("an event with an undeclared key came past the filter.")
        fresh = list(dict.fromkeys(fresh))
        for name in fresh:
            self._place[name] = len(self._place)
        self.names.extend(fresh)
        self.blocks = np.concatenate([self.blocks, self._keys.block_of(fresh)])

    @property
    def size(self) -> int:
        """How many keys are known."""
        return max(1, len(self.names))


def _same(one: Any, other: Any) -> bool:
    """Whether two arrays hold the same; quick where they are one in memory."""
    places = [
        [0 if buffer is None else buffer.address for buffer in array.buffers()]
        for array in (one, other)
    ]
    if places[0] == places[1] and (len(one), one.offset) == (len(other), other.offset):
        return True
    return bool(one.equals(other))


class Gatherer:
    """Adds up bounded events of one bundle by (tick, key)."""

    def __init__(self, program: Program, keys: Keys, index: KeyIndex | None = None) -> None:
        self._program = program
        self._index = KeyIndex(keys) if index is None else index
        self._dense_keys = 0 if keys.observed else self._index.size
        self._width = program.dimension + 1
        self._first = 0
        self._grid = np.zeros((0, self._dense_keys, self._width), dtype=np.int64)
        self._sparse: list[PartialLeaf] = []
        self._sparse_cells = 0
        self._unsummed: list[PartialLeaf] = []
        self._unsummed_numbers = 0
        self._row_width = program.row_width
        self._most = program.capacity // 2
        self._events = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Bounds and adds the events of one batch."""
        n = batch.num_rows
        if not n:
            return
        self._events += n
        bounded = bound(batch, self._program)
        ticks = batch.column("@tick").to_numpy()
        for keys in self._index.each(batch):
            self._add(bounded, ticks, keys)

    def _add(self, bounded: Bounded, ticks: Ints, keys: Ints | None) -> None:
        """Adds events to the keys of one grouping."""
        n = len(ticks)
        first, last = int(ticks.min()), int(ticks.max())
        n_keys, span = self._index.size, last - first + 1
        offsets = ticks - first
        if keys is not None and n_keys > 1:
            np.multiply(offsets, n_keys, out=offsets)
            offsets += keys
        n_cells = n_keys * span
        dense = n_cells <= 2 * n + 1024
        if n_cells == 1:
            sums = self._program.accumulate(bounded.rows, offsets, 1)
            self._add_cells(offsets[:1], np.array([n]), sums, first, span)
            return
        if self._row_width:
            self._add_wide(bounded.rows, offsets, n_cells if dense else None, first, span)
            return
        if dense:
            values = self._program.accumulate(bounded.rows, offsets, n_cells)
            counts = np.bincount(offsets, minlength=n_cells)
            if self._room(first, last):
                low = first - self._first
                mine = self._grid[low : low + span].reshape(n_cells, self._width)
                mine[:, 0] += counts
                mine[:, 1:] += values
                return
            cells = np.flatnonzero(counts)
            counts, values = counts[cells], values[cells]
        else:
            cells, codes, counts = np.unique(offsets, return_inverse=True, return_counts=True)
            values = self._program.accumulate(bounded.rows, codes, len(cells))
        self._add_cells(cells, counts, values, first, span)

    def _add_wide(
        self, rows: Any, offsets: Ints, n_cells: int | None, first: int, span: int
    ) -> None:
        """Leaves that are much wider than events: cells of few events are not summed yet.

        Args:
          offsets: (n,) cell of each event, (tick - first) * keys + key.
          n_cells: how many there are, where that is not many more than events; else None.
        """
        if n_cells is not None:
            counts = np.bincount(offsets, minlength=n_cells)
            cells = np.flatnonzero(counts)
            counts = counts[cells]
            place = np.zeros(n_cells, dtype=np.int64)
            place[cells] = np.arange(len(cells))
            codes = place[offsets]
        else:
            cells, codes, counts = np.unique(offsets, return_inverse=True, return_counts=True)
        many = self._many(counts)
        if not many.all():
            few = np.flatnonzero(~many[codes])
            ticks, keys = np.divmod(offsets[few], self._index.size)
            packed = np.asarray(rows[few], dtype=np.int32)
            ones = np.ones(len(few), dtype=np.int64)
            self._unsummed.append(PartialLeaf(ticks + first, keys, ones, packed))
            self._unsummed_numbers += packed.size
            rest = np.flatnonzero(many[codes])
            rows, codes = rows[rest], (np.cumsum(many) - 1)[codes[rest]]
            cells, counts = cells[many], counts[many]
        if len(cells):
            values = self._program.accumulate(rows, codes, len(cells))
            self._add_cells(cells, counts, values, first, span)
        if self._unsummed_numbers > 2 * CELLS:
            self._sum_unsummed()

    def _many(self, counts: Ints) -> NDArray[np.bool_]:
        """Cells whose sum is smaller than their events, int32 where the sum is int64."""
        return np.asarray(counts * self._row_width >= 2 * (self._width - 1))

    def _sum_unsummed(self) -> None:
        """Sums cells that have come to hold many events."""
        joined = partial.join(self._unsummed)
        _, codes, counts = np.unique(
            joined.ticks * self._index.size + joined.rows, return_inverse=True, return_counts=True
        )
        many = self._many(counts)
        self._unsummed = [joined.take(~many[codes])]
        self._unsummed_numbers = self._unsummed[0].values.size
        if many.any():
            rest = joined.take(many[codes])
            codes = (np.cumsum(many) - 1)[codes[many[codes]]]
            first = np.zeros(int(many.sum()), dtype=np.int64)
            first[codes] = np.arange(len(codes))
            values = self._program.accumulate(rest.values.astype(np.float64), codes, len(first))
            self._keep(PartialLeaf(rest.ticks[first], rest.rows[first], counts[many], values))

    def _add_cells(self, cells: Ints, counts: Ints, values: Ints, first: int, span: int) -> None:
        """Adds summed cells, (tick - first) * keys + key, to the grid if there is room."""
        n_keys = self._index.size
        if self._room(first, first + span - 1):
            low = first - self._first
            flat = self._grid[low : low + span].reshape(n_keys * span, self._width)
            flat[cells, 0] += counts
            flat[cells, 1:] += values
            return
        self._keep(PartialLeaf(cells // n_keys + first, cells % n_keys, counts, values))

    def _room(self, first: int, last: int) -> bool:
        """Makes the dense grid cover [first, last], if it may grow that far."""
        if not self._dense_keys:
            return False
        have = len(self._grid)
        low = min(first, self._first) if have else first
        high = max(last + 1, self._first + have) if have else last + 1
        if (high - low) * self._dense_keys * self._width > GRID:
            return False
        if have and low == self._first and high == self._first + have:
            return True
        grid = np.zeros((high - low, self._dense_keys, self._width), dtype=np.int64)
        if have:
            grid[self._first - low : self._first - low + have] = self._grid
        self._grid, self._first = grid, low
        return True

    def _keep(self, leaf: PartialLeaf) -> None:
        self._sparse.append(leaf)
        self._sparse_cells += len(leaf.ticks)
        if self._sparse_cells * self._width > 2 * CELLS and len(self._sparse) > 1:
            self._sparse = [self._joined()]
            self._sparse_cells = len(self._sparse[0].ticks)

    def _joined(self) -> PartialLeaf:
        columns = list(zip(*(leaf[:4] for leaf in self._sparse), strict=True))
        ticks, rows, counts, values = (np.concatenate(column) for column in columns)
        return sum_by_cell(ticks, rows, self._index.size, counts, values)

    @property
    def is_full(self) -> bool:
        """Whether memory, or the room of exact sums, asks for sending on what is there before the
        bundle ends."""
        wide = self._sparse_cells * self._width > CELLS or self._unsummed_numbers > CELLS
        return wide or self._events >= self._most

    def drain(self) -> Iterator[tuple[int, PartialLeaf]]:
        """What was gathered, as (block, partial leaf); the gatherer is empty afterwards."""
        if len(self._grid):
            flat = self._grid.reshape(-1, self._width)
            cells = np.flatnonzero(flat[:, 0])
            n_keys = self._dense_keys
            self._sparse.append(
                PartialLeaf(
                    cells // n_keys + self._first,
                    cells % n_keys,
                    flat[cells, 0],
                    flat[cells, 1:],
                )
            )
            self._grid = self._grid[:0]
        self._events = 0
        if self._unsummed:
            self._sum_unsummed()
            (rest,) = self._unsummed
            self._unsummed, self._unsummed_numbers = [], 0
            if len(rest.ticks):
                yield from self._by_block(rest.take(np.argsort(rest.ticks, kind="stable")))
        if not self._sparse:
            return
        joined = self._joined()
        self._sparse, self._sparse_cells = [], 0
        yield from self._by_block(joined)

    def _by_block(self, leaf: PartialLeaf) -> Iterator[tuple[int, PartialLeaf]]:
        index = self._index
        if not len(index.names):
            return
        blocks = index.blocks[leaf.rows]
        narrow = blocks.astype(np.uint16) if index.blocks.max() < 1 << 16 else blocks
        order = np.argsort(narrow, kind="stable")  # of two bytes: by counting them
        leaf = leaf.take(order)
        bounds = np.flatnonzero(np.diff(blocks[order], prepend=-1, append=index.blocks.max() + 1))
        step = max(1, ELEMENT // (leaf.values.shape[1] + 1))
        for low, high in zip(bounds, bounds[1:], strict=False):
            block = int(blocks[order[low]])
            for start in range(low, high, step):
                yield block, self._named(leaf.take(slice(start, min(high, start + step))))

    def _named(self, leaf: PartialLeaf) -> PartialLeaf:
        index = self._index
        if self._dense_keys:
            return leaf._replace(rows=index.rows[leaf.rows])
        used, rows = np.unique(leaf.rows, return_inverse=True)
        return leaf._replace(rows=rows, names=tuple(index.names[row] for row in used))


class LeafDoFn(beam.DoFn):
    """Record batches with ``@tick`` and ``@key`` -> (block, encoded PartialLeaf)."""

    def __init__(self, program: Program, keys: Keys, clock: Clock) -> None:
        self._program = program
        self._keys = keys
        self._clock = clock
        self._gatherer: Gatherer | None = None
        self._index: KeyIndex | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_gatherer": None, "_index": None}

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._gatherer = None

    def process(self, batch: pa.RecordBatch) -> Iterator[WindowedValue]:
        """Adds a batch; sends on early when memory asks for it."""
        if self._gatherer is None:
            if self._index is None or self._index.size > INDEX:
                self._index = KeyIndex(self._keys)
            self._gatherer = Gatherer(self._program, self._keys, self._index)
        self._gatherer.add(batch)
        if self._gatherer.is_full:
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Sends on what the bundle gathered, at the event time of its first tick."""
        if self._gatherer is None:
            return
        for block, leaf in self._gatherer.drain():
            first = self._clock.tick_start(int(leaf.ticks[0]))
            yield windowed((block, partial.encode(leaf)), first)


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(tuple[int, bytes])
class Leaf(beam.PTransform[Any, Any]):
    """Bound and add up events into partial leaves, keyed by block. Keeps no order."""

    def __init__(self, program: Program, keys: Keys, clock: Clock) -> None:
        super().__init__()
        self._program, self._keys, self._clock = program, keys, clock

    def expand(self, events: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[Any]:
        """Record batches -> (block, bytes)."""
        dofn = LeafDoFn(self._program, self._keys, self._clock)
        gather = beam.ParDo(dofn).with_output_types(tuple[int, bytes])
        leaves: beam.PCollection[Any] = events | "Gather" >> gather
        return leaves

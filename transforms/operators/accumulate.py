"""Events into partial leaves: each bundle adds up what it sees, per block, tick and key.

No window and no GroupByKey: this is where the volume goes away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.arrays import extremes
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.leaves.lattice import repeated
from weir.dpcore.program import Bounded, EventCells, Program, Runs
from weir.dpcore.users.coarse import meeting
from weir.transforms.columns.names import CELL, NEW, STEP, new_in
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.bound import added, bound, columns_of, summed
from weir.transforms.operators.key_index import INDEX, Coded, KeyIndex
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.operators.sparse_cells import SparseCells

Ints = NDArray[np.int64]

LONG = 64
"""Events of a run, on average, from which on runs are worth a look at each."""


def runs_of(cells: Ints) -> Runs | None:
    """The runs of a batch in order, all of its events; None where they are short.

    Args:
      cells: (n,) of each event, n >= 1.
    """
    edges = np.flatnonzero(cells[1:] != cells[:-1]) + 1
    if (len(edges) + 1) * LONG > len(cells):
        return None
    starts = np.concatenate([[0], edges])
    return Runs(starts, np.concatenate([edges, [len(cells)]]), cells[starts])


def gaps(runs: Runs, n_events: int) -> Ints:
    """Places of the events that are in none of the runs, which are in order."""
    starts, stops = np.append(0, runs.stops), np.append(runs.starts, n_events)
    between = [np.arange(a, b) for a, b in zip(starts, stops, strict=True) if a < b]
    return np.concatenate([np.zeros(0, dtype=np.int64), *between])


GRID = 1 << 22
"""Most int64 numbers a dense accumulator may hold (32 MB)."""
WHOLE = 1 << 18
"""Most int64 numbers of a grid that covers the whole clock from the start (2 MB), so that no batch
is searched for its first and last tick."""
CELLS = 1 << 22
"""Numbers of sparse cells that are gathered before they are sent on; of twice as many those that
came more than once are added up at once, where that saves enough."""
ALONE = 8
"""Where there are so many times as many cells as events, hardly two events share one."""
ELEMENT = 1 << 22
"""Most int64 numbers in one element that is sent on (32 MB)."""


NO_CODES, ONE_ROW = np.zeros(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
"""Of events that have a single key."""


class Gatherer:
    """Adds up bounded events of one bundle by (tick, key).

    Args:
      program, keys: of the plan. index: of keys that are known already.
      together: nothing is sent on early to save memory: what is sent stays in this process.
      among: how many others and this one become one in the end.
      ticks: of a clock with an end; 0: not known.
    """

    def __init__(
        self,
        program: Program,
        keys: Keys,
        index: KeyIndex | None = None,
        together: bool = False,
        among: int = 1,
        ticks: int = 0,
    ) -> None:
        self._program, self._together = program, together
        self._index = KeyIndex(keys) if index is None else index
        self._dense_keys = 0 if keys.observed else self._index.size
        self._width = program.dimension + 1
        self._first = 0
        self._whole = ticks if 0 < ticks * self._dense_keys * self._width <= WHOLE else 0
        self._grid = np.zeros((self._whole, self._dense_keys, self._width), dtype=np.int64)
        self._sparse = SparseCells(self._index, keys.observed)
        self._room_for = 2 * CELLS
        self._unsummed: list[PartialLeaf] = []
        self._unsummed_numbers = 0
        self._row_width = program.row_width
        self._most = program.capacity // (2 * among)
        self._events = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Bounds and adds the events of one batch."""
        n = batch.num_rows
        if not n:
            return
        self._events += n
        ticks = batch.column("@tick").to_numpy()
        coded = self._index.coded(batch)
        if self._program.adds_events and self._add_at_once(batch, ticks, coded):
            return
        groupings: list[Ints | None] = [None] if coded is None else list(coded.each())
        if len(groupings) == 1 and self._program.sums_runs:
            keys = groupings[0]
            rest = self._add_runs(batch, ticks, keys)
            if rest is not None:
                if not len(rest):
                    return
                batch, ticks = batch.take(pa.array(rest)), ticks[rest]
                groupings = [None if keys is None else keys[rest]]
        bounded = bound(batch, self._program)
        for at, keys in enumerate(groupings):
            if keys is not None and self._program.merges_cells and at in self._program.coarser:
                self._add_merged(batch, at, keys)
            else:
                self._add(bounded, ticks, keys, self._program.times_of(at))

    def _add_at_once(self, batch: pa.RecordBatch, ticks: Ints, coded: Coded | None) -> bool:
        """Adds events to the grid in one pass, where it has room for their ticks and hardly more
        cells than events; whether it did."""
        if (coded is not None and len(coded.rows) > 1) or CELL in batch.schema.names:
            return False
        codes, rows = (NO_CODES, ONE_ROW) if coded is None else (coded.codes, coded.rows[0])
        if len(self._grid) == self._whole > 0:  # the grid covers the whole clock
            first, grid = 0, self._grid
        else:
            first, last = extremes(ticks)
            few = self._index.size * (last - first + 1) <= 2 * len(ticks) + 1024
            if not few or not self._room(first, last):
                return False
            grid = self._grid[first - self._first : last + 1 - self._first]
        added(batch, self._program, EventCells(ticks, first, codes, rows), grid)
        return True

    def _add_merged(self, batch: pa.RecordBatch, at: int, keys: Ints) -> None:
        """Adds events to the keys of a coarser grouping, in which cells of a user may meet."""
        order, cells = meeting(batch.column(STEP).to_numpy(), keys)
        batch = batch.take(pa.array(order))
        columns = {CELL: pa.array(cells)}
        if new_in(at) in batch.schema.names:
            columns[NEW] = batch.column(new_in(at))
        for name, values in columns.items():
            batch = batch.set_column(batch.schema.get_field_index(name), name, values)
        bounded = self._program.bound(columns_of(batch, self._program), batch.num_rows)
        ticks = batch.column("@tick").to_numpy()
        self._add(bounded, ticks, keys[order], self._program.times_of(at))

    def _add_runs(self, batch: pa.RecordBatch, ticks: Ints, keys: Ints | None) -> Ints | None:
        """Adds what lies together, if most events do: columns are then gone through once.

        Returns:
          Places of the events that it left; None: it added none.
        """
        n_keys = self._index.size
        runs = runs_of(ticks if keys is None or n_keys == 1 else ticks * n_keys + keys)
        if runs is None:
            return None
        sizes = runs.stops - runs.starts
        cells, at = np.unique(runs.cells, return_inverse=True)
        counts = np.zeros(len(cells), dtype=np.int64)
        np.add.at(counts, at, sizes)
        many = self._many(counts)
        if not many.any():
            return None
        retained = many[at]
        places = (np.cumsum(many) - 1)[at[retained]]
        asked = Runs(runs.starts[retained], runs.stops[retained], places)
        cells, counts = cells[many], counts[many]
        values = summed(batch, self._program, asked, len(cells))
        first, last = int(cells[0]) // n_keys, int(cells[-1]) // n_keys
        self._add_cells(cells - first * n_keys, counts, values, first, last - first + 1)
        return gaps(asked, len(ticks))

    def _add(self, bounded: Bounded, ticks: Ints, keys: Ints | None, times: int = 1) -> None:
        """Adds events to the keys of one grouping, each so many times."""
        if times > 1:
            bounded = bounded._replace(rows=repeated(bounded.rows, times))
        n = len(ticks)
        first, last = extremes(ticks)
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
        elif keys is not None and n_cells >= ALONE * n:
            values = self._program.accumulate(bounded.rows, np.arange(n), n)
            self._keep(PartialLeaf(ticks, keys, np.ones(n, dtype=np.int64), values))
            return
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
        self._sparse.add(leaf)
        if len(self._sparse) * self._width > self._room_for:
            if self._sparse.worth_summing():
                self._sparse.sum_up()
            self._room_for = 2 * max(CELLS, len(self._sparse) * self._width)

    @property
    def is_full(self) -> bool:
        """Whether memory, or the room of exact sums, asks for sending on what is there before the
        bundle ends."""
        held = max(len(self._sparse) * self._width, self._unsummed_numbers)
        return (held > CELLS and not self._together) or self._events >= self._most

    def absorb(self, other: Gatherer) -> None:
        """Takes what another gathered by the same index: all of it where keys were found, of
        declared ones its grid, if there is room for both."""
        if self._dense_keys:
            first, n = other._first, len(other._grid)
            few = self._events + other._events <= self._most
            if n and few and self._room(first, first + n - 1):
                self._grid[first - self._first :][:n] += other._grid
                self._events += other._events
                other._grid = other._grid[:0]
            return
        self._events += other._events
        self._sparse.absorb(other._sparse)
        self._unsummed += other._unsummed
        self._unsummed_numbers += other._unsummed_numbers
        other._unsummed, other._unsummed_numbers = [], 0

    def drain(self) -> Iterator[tuple[int, PartialLeaf]]:
        """What was gathered, as (block, partial leaf); the gatherer is empty afterwards."""
        if len(self._grid):
            flat = self._grid.reshape(-1, self._width)
            cells = np.flatnonzero(flat[:, 0])
            n_keys = self._dense_keys
            ticks, rows = cells // n_keys + self._first, cells % n_keys
            self._sparse.add(PartialLeaf(ticks, rows, flat[cells, 0], flat[cells, 1:]))
            self._grid = self._grid[:0]
        self._events = 0
        if self._unsummed:
            self._sum_unsummed()
            (rest,) = self._unsummed
            self._unsummed, self._unsummed_numbers = [], 0
            if len(rest.ticks):
                yield from self._by_block(rest.take(np.argsort(rest.ticks, kind="stable")))
        for block, own in self._sparse.drain():
            yield from self._cut(block, own)
        self._room_for = 2 * CELLS

    def _by_block(self, leaf: PartialLeaf) -> Iterator[tuple[int, PartialLeaf]]:
        """Events that are not summed, in order of ticks."""
        index = self._index
        blocks = index.blocks[leaf.rows]
        narrow = blocks.astype(np.uint16) if index.blocks.max() < 1 << 16 else blocks
        order = np.argsort(narrow, kind="stable")  # of two bytes: by counting them
        leaf = leaf.take(order)
        bounds = np.flatnonzero(np.diff(blocks[order], prepend=-1, append=index.blocks.max() + 1))
        for low, high in zip(bounds, bounds[1:], strict=False):
            own = self._named(leaf.take(slice(low, high)))
            yield from self._cut(int(blocks[order[low]]), own)

    def _cut(self, block: int, leaf: PartialLeaf) -> Iterator[tuple[int, PartialLeaf]]:
        """A leaf in pieces that can be sent on."""
        n, step = len(leaf.ticks), max(1, ELEMENT // (leaf.values.shape[1] + 1))
        if n <= step or self._together:
            yield block, leaf
            return
        for start in range(0, n, step):
            piece = leaf.take(slice(start, start + step))
            if leaf.names:
                used, rows = np.unique(piece.rows, return_inverse=True)
                names = tuple(leaf.names[row] for row in used.tolist())
                piece = piece._replace(rows=rows, names=names)
            yield block, piece

    def _named(self, leaf: PartialLeaf) -> PartialLeaf:
        index = self._index
        if self._dense_keys:
            return leaf._replace(rows=index.rows[leaf.rows])
        used, rows = np.unique(leaf.rows, return_inverse=True)
        return leaf._replace(rows=rows, names=tuple(index.names[row] for row in used))


class Accumulate:
    """Record batches with ``@tick`` and ``@key`` -> (block, PartialLeaf), sent on where memory asks
    for it and at the end.

    Args:
      program, keys: of the plan.
      together, index, among, ticks: see ``Gatherer``; numbers are narrow if together.
    """

    def __init__(
        self,
        program: Program,
        keys: Keys,
        together: bool = False,
        index: KeyIndex | None = None,
        among: int = 1,
        ticks: int = 0,
    ) -> None:
        self._program, self._keys, self._together = program, keys, together
        self._gatherer: Gatherer | None = None
        self._index, self._among, self._ticks = index, among, ticks

    def process(self, batch: pa.RecordBatch) -> Iterator[tuple[int, PartialLeaf]]:
        """Adds a batch."""
        if self._gatherer is None:
            if self._index is None or (self._among == 1 and self._index.size > INDEX):
                self._index = KeyIndex(self._keys)
            self._gatherer = Gatherer(
                self._program, self._keys, self._index, self._together, self._among, self._ticks
            )
        self._gatherer.add(batch)
        if self._gatherer.is_full:
            yield from self.finish()

    def absorb(self, other: Accumulate) -> None:
        """See ``Gatherer``; the other is finished behind this one."""
        if self._gatherer is None:
            self._gatherer, other._gatherer = other._gatherer, None
        elif other._gatherer is not None:
            self._gatherer.absorb(other._gatherer)

    def finish(self) -> Iterator[tuple[int, PartialLeaf]]:
        """Sends on what was gathered."""
        if self._gatherer is None:
            return
        for block, leaf in self._gatherer.drain():
            yield block, partial.narrowed(leaf) if self._together else leaf

    def reset(self) -> None:
        """Drops what was gathered; keys stay known."""
        self._gatherer = None

"""Sums of cells that are too many for each to have a place: as they come, until they are asked for.

Cells are held as narrow as their numbers are, those of a group of keys together, and added up group
by group when they leave: sorting once then is less expensive than looking each up before, and a
group stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.transforms.operators.key_index import KeyIndex
from weir.transforms.operators.partial_sums import PartialLeaf, narrow, sum_by_cell

Ints = NDArray[np.int64]

SOME = 16
"""A key in so many is looked at."""


class _Held(NamedTuple):
    """Cells in order of their groups, rows of the whole index; and where each group begins."""

    cells: PartialLeaf
    bounds: list[int]

    def of(self, group: int) -> PartialLeaf | None:
        """Those of a group."""
        if group + 1 >= len(self.bounds) or self.bounds[group] == self.bounds[group + 1]:
            return None
        return self.cells.take(slice(self.bounds[group], self.bounds[group + 1]))


class SparseCells:
    """Cells of a bundle.

    Args:
      index: of their keys. named: whether keys are told by name; else by their rows in the block.
    """

    def __init__(self, index: KeyIndex, named: bool) -> None:
        self._index, self._named = index, named
        self._held: list[_Held] = []
        self._n = 0

    def __len__(self) -> int:
        """Cells that are held, some of them more than once."""
        return self._n

    def add(self, cells: PartialLeaf) -> None:
        """Takes summed cells in any order, their rows those of the index."""
        groups = self._index.groups[cells.rows]
        last = int(groups.max()) if len(groups) else 0
        small = groups.astype(np.uint8 if last < 1 << 8 else np.uint16 if last < 1 << 16 else int)
        bounds = [0, *np.cumsum(np.bincount(small, minlength=last + 1)).tolist()]
        order = np.argsort(small, kind="stable")  # of one or two bytes: by counting them
        self._held.append(_Held(_narrow(cells).take(order), bounds))
        self._n += len(order)

    def absorb(self, other: SparseCells) -> None:
        """Takes what another with the same index holds."""
        self._held += other._held
        self._n += other._n
        other._held, other._n = [], 0

    def worth_summing(self) -> bool:
        """Whether adding up would save half of what is held, by the look of some keys."""
        codes = []
        for item in self._held:
            some = np.flatnonzero(item.cells.rows % SOME == 0)
            rows = item.cells.rows[some].astype(np.int64)
            codes.append(item.cells.ticks[some] * np.int64(self._index.size) + rows)
        looked = np.sort(np.concatenate(codes))
        return 2 * int(np.count_nonzero(np.diff(looked))) < len(looked)

    def sum_up(self) -> None:
        """Adds up cells that came more than once."""
        size, sums = self._index.size, list[PartialLeaf]()
        bounds = [0]
        for cells in self._groups():
            if cells is not None:
                summed = sum_by_cell(cells.ticks, cells.rows, size, *cells[2:4])
                sums.append(_narrow(summed))
            bounds.append(bounds[-1] + (0 if cells is None else len(sums[-1].ticks)))
        self._held, self._n = [_Held(_joined(sums), bounds)], bounds[-1]

    def drain(self) -> Iterator[tuple[int, PartialLeaf]]:
        """(block, cells of some of its keys), each cell once, sorted by tick and row, names in
        order of their bytes; then nothing is held."""
        place = np.zeros(self._index.size, dtype=np.int64)
        for block, cells in zip(self._index.homes, self._groups(), strict=True):
            if cells is not None:
                yield block, self._summed(cells, place)
        self._held, self._n = [], 0

    def _groups(self) -> Iterator[PartialLeaf | None]:
        """The cells of each group, as wide as all whole numbers are."""
        for group in range(len(self._index.homes)):
            pieces = [piece for item in self._held if (piece := item.of(group)) is not None]
            yield _joined(pieces, np.int64) if pieces else None

    def _summed(self, cells: PartialLeaf, place: Ints) -> PartialLeaf:
        """Cells of one group. place: room for a number of each key of the index."""
        if not self._named:
            rows = self._index.rows[cells.rows]
            return sum_by_cell(cells.ticks, rows, int(rows.max()) + 1, *cells[2:4])
        there = np.zeros(len(place), dtype=bool)
        there[cells.rows] = True
        used = np.flatnonzero(there)
        names = [self._index.names[row] for row in used.tolist()]
        order = sorted(range(len(names)), key=names.__getitem__)
        place[used[order]] = np.arange(len(names))
        summed = sum_by_cell(cells.ticks, place[cells.rows], len(names), *cells[2:4])
        return summed._replace(names=tuple(names[row] for row in order))


def _narrow(cells: PartialLeaf) -> PartialLeaf:
    """The same in numbers as narrow as they can be."""
    ticks, rows, counts, values = map(narrow, cells[:4])
    return PartialLeaf(ticks, rows, counts, values)


def _joined(pieces: list[PartialLeaf], kind: Any = None) -> PartialLeaf:
    """Cells one after the other. kind: of their numbers; None: as wide as they must be."""
    ticks, rows, counts, values = (
        np.concatenate(column, dtype=kind)
        for column in zip(*(piece[:4] for piece in pieces), strict=True)
    )
    return PartialLeaf(ticks, rows, counts, values)

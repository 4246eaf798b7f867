"""Pending: the partial leaves of one block that are due now, as leaves for a program to step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.discovery.waiting import KeyCells
from weir.dpcore.leaves.rows import RowLeaf, joined
from weir.dpcore.program import CAPACITY, Program, RowProgram, takes_rows
from weir.transforms.operators import partial_rows as row_leaf
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.partial_rows import TickRows
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.runtime import counters
from weir.transforms.runtime.codec import kind_of

ROOM = 1 << 61
"""A cell with more events than its capacity is held within this, coordinate by coordinate."""


class Pending(Protocol):
    """Partial leaves of one block, all of them due."""

    def firsts(self) -> Mapping[bytes, int]:
        """Discovered key -> first tick in which it has an event."""

    def settle(self, place: Mapping[bytes, int]) -> None:
        """Tells the rows of discovered keys."""

    def leaves(self, low: int, high: int, n_keys: int) -> Any:
        """What ``program.step`` takes for ticks [low, high)."""


def pending_of(program: Program, leaves: Sequence[Any]) -> Pending:
    """What is pending, as a program's kind of leaf needs it.

    Args:
      leaves: TickRows of a program that takes rows, else PartialLeaf.
    """
    return PendingRows(program, leaves) if takes_rows(program) else PendingSums(program, leaves)


def due(payloads: Iterable[bytes], stop: int) -> tuple[list[Any], list[bytes]]:
    """Encoded leaves of ticks before ``stop``, decoded, and those at or behind it, as bytes."""
    leaves, later = list[Any](), list[bytes]()
    for data in payloads:
        first, last = partial.tick_range(data)
        if first >= stop:
            later.append(data)
        elif kind_of(data) == row_leaf.KIND:
            leaves.append(row_leaf.decode(data))
        else:
            part = partial.decode(data)
            if last >= stop:
                cut = int(np.searchsorted(part.ticks, stop))
                later.append(partial.encode(part.take(slice(cut, None))))
                part = part.take(slice(0, cut))
            leaves.append(part)
    return leaves, later


class PendingSums:
    """Exact sums. A leaf is dense: (n, K, D) int64.

    Partial leaves that share no key stay as they are.
    """

    def __init__(self, program: Program, leaves: Sequence[PartialLeaf]) -> None:
        self._program = program
        self._capacity = program.capacity
        summed = [part for part in leaves if part.is_summed]
        unsummed = [part for part in leaves if not part.is_summed]
        if not unsummed and summed and partial.apart(summed):
            self._leaves = [held_in_room(part, [part], self._capacity) for part in summed]
            return
        self._leaves = [self._sums(summed, unsummed)]
        if unsummed:
            joined = partial.join(unsummed)
            self._leaves.append(joined.take(np.argsort(joined.ticks, kind="stable")))

    def _sums(self, summed: list[PartialLeaf], unsummed: list[PartialLeaf]) -> PartialLeaf:
        """Summed parts as one leaf. ``unsummed`` is emptied where a cell may overflow with it."""
        dimension = self._program.dimension
        leaf = partial.merge(summed, dimension)
        if unsummed and (leaf.counts > self._capacity // 2).any():
            for part in unsummed:
                cells = np.arange(len(part.ticks))
                values = self._program.accumulate(part.values.astype(float), cells, len(cells))
                summed.append(part._replace(values=values))
            unsummed.clear()
            leaf = partial.merge(summed, dimension)
        return held_in_room(leaf, summed, self._capacity)

    def firsts(self) -> Mapping[bytes, int]:
        """See Pending."""
        results: dict[bytes, int] = {}
        for leaf in self._leaves:
            first = np.zeros(len(leaf.names), dtype=np.int64)
            first[leaf.rows[::-1]] = leaf.ticks[::-1]  # ticks are sorted: the last is the first
            for row in np.unique(leaf.rows).tolist():
                name, tick = leaf.names[row], int(first[row])
                results[name] = min(tick, results.get(name, tick))
        return results

    def settle(self, place: Mapping[bytes, int]) -> None:
        """See Pending."""
        settled = []
        for leaf in self._leaves:
            rows = np.array([place.get(name, -1) for name in leaf.names], dtype=np.int64)
            settled.append(leaf._replace(rows=rows[leaf.rows]))
        self._leaves = settled

    def cells(self, low: int, high: int) -> tuple[list[bytes], KeyCells]:
        """Names of discovered keys with data in ticks [low, high), and their cells; of a program
        whose events are always summed."""
        parts = [part for part in self.groups(low, high) if part[0]]
        if len(parts) == 1:
            return parts[0]
        names = [name for part in parts for name in part[0]]
        shifts = np.cumsum([0, *(len(part[0]) for part in parts)])
        if not parts:
            return [], KeyCells.none(self._program.dimension)
        rows = [part[1].rows + shift for part, shift in zip(parts, shifts, strict=False)]
        ticks = np.concatenate([part[1].ticks for part in parts])
        values = np.concatenate([part[1].values for part in parts])
        order = np.argsort(ticks, kind="stable")
        return names, KeyCells(ticks[order], np.concatenate(rows)[order], values[order])

    def groups(self, low: int, high: int) -> Iterator[tuple[list[bytes], KeyCells]]:
        """The same, group by group of keys, as they came."""
        for leaf in self._leaves:
            here = leaf.take(slice(*np.searchsorted(leaf.ticks, [low, high])))
            there = np.zeros(len(leaf.names), dtype=bool)
            there[here.rows] = True
            rows = (np.cumsum(there) - 1)[here.rows]
            ticks, values = (
                column.astype(np.int64, copy=False) for column in (here.ticks, here.values)
            )
            names = [leaf.names[row] for row in np.flatnonzero(there).tolist()]
            yield names, KeyCells(ticks, rows, values)

    def leave_out(self, low: int, high: int, names: Iterable[bytes]) -> None:
        """Forgets what discovered keys have in ticks [low, high)."""
        gone, left = set(names), list[PartialLeaf]()
        for leaf in self._leaves:
            out = np.array([name in gone for name in leaf.names], dtype=bool)
            if out.all() and len(leaf.ticks) and low <= leaf.ticks[0] and leaf.ticks[-1] < high:
                continue
            stay = ~out[leaf.rows]
            stay |= (leaf.ticks < low) | (leaf.ticks >= high)
            left.append(leaf.take(stay))
        self._leaves = left

    def leaves(self, low: int, high: int, n_keys: int) -> NDArray[np.int64]:
        """See Pending: zeros where no event came."""
        shape = (high - low, n_keys, self._program.dimension)
        out = np.zeros(shape, dtype=np.int64)
        for leaf in self._leaves:
            here = leaf.take(slice(*np.searchsorted(leaf.ticks, [low, high])))
            ticks = here.ticks.astype(np.int64, copy=False) - low
            if leaf.is_summed:
                out[ticks, here.rows] += here.values
            elif len(ticks):
                cells = ticks * n_keys + here.rows
                values = here.values.astype(np.float64)
                out += self._program.accumulate(values, cells, shape[0] * n_keys).reshape(shape)
        return out


class PendingRows:
    """Clipped rows. A leaf is one RowLeaf a tick, capped, in canonical order."""

    def __init__(self, program: RowProgram, leaves: Sequence[TickRows]) -> None:
        self._program = program
        self._parts: dict[int, list[tuple[RowLeaf, tuple[bytes, ...]]]] = {}
        for tick, leaf, names in leaves:
            self._parts.setdefault(tick, []).append((leaf, names))
        self._place: Mapping[bytes, int] | None = None

    def firsts(self) -> Mapping[bytes, int]:
        """See Pending."""
        results: dict[bytes, int] = {}
        for tick in sorted(self._parts):
            for _, names in self._parts[tick]:
                for name in names:
                    results.setdefault(name, tick)
        return results

    def settle(self, place: Mapping[bytes, int]) -> None:
        """See Pending."""
        self._place = place

    def leaves(self, low: int, high: int, n_keys: int) -> tuple[RowLeaf, ...]:
        """See Pending: one leaf a tick; each is forgotten once it is taken."""
        return tuple(self._leaf(self._parts.pop(tick, []), n_keys) for tick in range(low, high))

    def _leaf(self, parts: list[tuple[RowLeaf, tuple[bytes, ...]]], n_keys: int) -> RowLeaf:
        program = self._program
        if not parts:
            return RowLeaf.empty(n_keys, program.width, program.dtype)
        keys = [
            leaf.keys
            if self._place is None
            else np.array([self._place[name] for name in names], dtype=np.int64)[leaf.keys]
            for leaf, names in parts
        ]
        whole = RowLeaf.from_events(
            np.concatenate(keys),
            joined([leaf.rows for leaf, _ in parts]),
            np.concatenate([leaf.event_time for leaf, _ in parts]),
            np.concatenate([leaf.id_hash for leaf, _ in parts]),
            n_keys,
        )
        retained, dropped = program.capped(whole)
        counters.add("over_capacity", dropped)
        return retained


def held_in_room(
    leaf: PartialLeaf, parts: Sequence[PartialLeaf], capacity: int = CAPACITY
) -> PartialLeaf:
    """Cells with more events than ``capacity``: exact sums, each coordinate clamped to ROOM.

    A clamp of each coordinate is 1-Lipschitz: one event still moves a leaf by no more than itself.
    """
    crowded = np.flatnonzero(leaf.counts > capacity).tolist()
    if not crowded:
        return leaf
    values = leaf.values.astype(np.int64)
    for cell in crowded:
        total = np.zeros(values.shape[1], dtype=object)
        for part in parts:
            mine = (part.ticks == leaf.ticks[cell]) & _same_row(leaf, cell, part)
            total += part.values[mine].astype(object).sum(axis=0)
        values[cell] = [max(-ROOM, min(ROOM, int(value))) for value in total]
        counters.add("over_capacity", int(leaf.counts[cell]) - capacity)
    return leaf._replace(values=values)


def _same_row(leaf: PartialLeaf, cell: int, part: PartialLeaf) -> NDArray[np.bool_]:
    row = int(leaf.rows[cell])
    if not leaf.names:
        return np.asarray(part.rows == row)
    return np.array([part.names[i] == leaf.names[row] for i in part.rows], dtype=bool)

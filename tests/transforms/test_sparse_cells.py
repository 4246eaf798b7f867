"""Cells that have no place of their own: summed exactly, whatever came when."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import FakePlan
from weir.dpcore.leaves.keys import Keys
from weir.transforms.operators import accumulate as sums
from weir.transforms.operators import key_index
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.accumulate import Accumulate, Gatherer
from weir.transforms.operators.key_index import KeyIndex
from weir.transforms.operators.partial_sums import PartialLeaf, apart
from weir.transforms.operators.pending import PendingSums, due
from weir.transforms.operators.sparse_cells import SparseCells

OBSERVED = replace(FakePlan(), keys=Keys.make("k", None, True, None))


def events(n: int, keys: int, ticks: int, seed: int = 1) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    return pa.RecordBatch.from_pydict(
        {
            "@tick": pa.array(rng.integers(0, ticks, n)),
            "@key": pa.array([f"k{i}" for i in rng.integers(0, keys, n)]).dictionary_encode(),
            "v": pa.array(rng.integers(0, 9, n).astype(float)),
        }
    )


def totals(leaves: Any) -> dict[tuple[bytes, int], list[int]]:
    found: dict[tuple[bytes, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for leaf in leaves:
        for tick, row, count, values in zip(*leaf[:4], strict=True):
            cell = found[leaf.names[row], int(tick)]
            cell[0] += int(count)
            for at, value in enumerate(values.tolist(), 1):
                cell[at] += value
    return found


def drained(batches: list[pa.RecordBatch], together: bool = False) -> list[tuple[int, PartialLeaf]]:
    gatherer = Gatherer(OBSERVED.program, OBSERVED.keys, together=together)
    for batch in batches:
        gatherer.add(batch)
    return list(gatherer.drain())


@pytest.mark.parametrize("cells", [50, 1 << 22])
def test_several_that_share_an_index_become_one(cells, monkeypatch) -> None:
    """As where threads add up; room that exact sums have is cut between them."""
    monkeypatch.setattr(sums, "CELLS", cells)
    monkeypatch.setattr(key_index, "INDEX", 10)
    batches = [events(400, 90, 300, seed) for seed in range(5)]
    index = KeyIndex(OBSERVED.keys)
    index.know(pa.array([], pa.string()))
    index.know(pa.concat_arrays([batch["@key"].dictionary for batch in batches]).unique())
    keys = index.size
    three = [Accumulate(OBSERVED.program, OBSERVED.keys, True, index, among=3) for _ in range(3)]
    for at, batch in enumerate(batches):
        assert not list(three[at % 2].process(batch)), "one of them has none"
    three[2].absorb(three[0])
    three[2].absorb(three[1])
    assert index.size == keys == 90
    found = totals(leaf for _, leaf in three[2].finish())
    assert found == totals(leaf for batch in batches for _, leaf in drained([batch]))
    most = three[2]._gatherer._most
    assert most == OBSERVED.program.capacity // 6 and not [*three[0].finish(), *three[1].finish()]


@pytest.mark.parametrize("room", [0, 500, 1 << 22])
@pytest.mark.parametrize("most", [500, 10**9])
def test_grids_become_one_where_there_is_room(
    room: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of declared keys, whose ticks need not be the same; one by one where sums have none."""
    plan = replace(FakePlan(), keys=Keys.make("k", [f"k{i}" for i in range(4)], False, None))
    monkeypatch.setattr(sums, "GRID", room)
    some, others = (events(400, 4, ticks, seed) for ticks, seed in ((20, 1), (60, 2)))
    others = others.set_column(0, "@tick", pa.array(others["@tick"].to_numpy() + 15))
    three = [Accumulate(plan.program, plan.keys, together=True) for _ in range(3)]
    for own, batch in zip(three, (some, others), strict=False):
        assert not list(own.process(batch))
        own._gatherer._most = most
    for other in three[1:]:
        three[0].absorb(other)
    found = [list(own.finish()) for own in three]
    alone = Accumulate(plan.program, plan.keys, together=True)
    assert not [*alone.process(some), *alone.process(others)]
    assert cells_of([*found[0], *found[1]]) == cells_of(list(alone.finish()))
    assert not found[2] and bool(found[1]) == (room < 1 << 22 or most == 500)


def cells_of(found: list[tuple[int, PartialLeaf]]) -> dict[tuple[int, int, int], list[int]]:
    cells: dict[tuple[int, int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for block, leaf in found:
        for tick, row, count, values in zip(*leaf[:4], strict=True):
            cell = cells[block, int(tick), int(row)]
            cell[:] = [a + b for a, b in zip(cell, [count, *values], strict=True)]
    return cells


@pytest.mark.parametrize("alone", [1, 1 << 40])
@pytest.mark.parametrize("cells", [50, 1 << 22])
@pytest.mark.parametrize("bits", [1, 12])
def test_sums_are_exact_in_groups_of_any_size(
    alone: int, cells: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [events(400, 90, 300, seed) for seed in range(5)]
    expected = totals(leaf for batch in batches for _, leaf in drained([batch]))
    monkeypatch.setattr(sums, "ALONE", alone)
    monkeypatch.setattr(sums, "CELLS", cells)
    monkeypatch.setattr(key_index, "GROUP", bits)
    found = drained(batches, together=True)
    assert totals(leaf for _, leaf in found) == expected
    for block, leaf in found:
        assert set(OBSERVED.keys.block_of(leaf.names).tolist()) == {block}
        assert len(leaf.names) <= 1 << bits and list(leaf.names) == sorted(leaf.names)
        code = leaf.ticks * len(leaf.names) + leaf.rows
        assert (np.diff(code) > 0).all()
    assert apart([leaf for _, leaf in found])


def test_groups_hold_keys_of_one_block_and_are_filled_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_index, "GROUP", 2)
    index = KeyIndex(OBSERVED.keys)
    for seed in range(4):
        index.of(events(50, 200, 9, seed))
    sizes = np.bincount(index.groups)
    assert len(sizes) == len(index.homes) and sizes.max() <= 4 and sizes.min() >= 1
    for group, block in enumerate(index.homes):
        assert (index.blocks[index.groups == group] == block).all()
    per_block = np.bincount(index.blocks, minlength=OBSERVED.keys.blocks)
    assert len(index.homes) == (-(-per_block // 4)).sum()


def test_numbers_are_held_as_narrow_as_they_are_and_leave_whole() -> None:
    index = KeyIndex(OBSERVED.keys)
    index.of(events(50, 9, 9))
    large, cells = 1 << 40, SparseCells(index, True)
    for value in (3, large, -1, 100, 100):
        one = np.zeros(1, dtype=np.int64)
        cells.add(PartialLeaf(one + 7, one + 2, one + 100, np.full((1, 2), value)))
        assert cells._held[-1].cells.ticks.dtype == np.int8
    for _ in range(2):
        cells.sum_up()
        assert len(cells) == 1
    ((_, leaf),) = cells.drain()
    assert leaf.counts.tolist() == [500] and leaf.values.tolist() == [[large + 202] * 2]
    assert leaf.names == (index.names[2],) and len(cells) == 0 and not list(cells.drain())


def test_leaves_as_narrow_as_they_can_be_step_alike() -> None:
    found = drained([events(3_000, 2_000, 300, 3)])
    for _, leaf in found:
        data = partial.encode(leaf)
        for stop in (150, 400):
            theirs, later = due([data], stop)
            ours = [partial.narrowed(part) for part in theirs]
            assert ours and ours[0].ticks.itemsize < 8 and (later or stop == 400)
            pending = [PendingSums(OBSERVED.program, leaves) for leaves in (ours, theirs)]
            assert pending[0].firsts() == pending[1].firsts()
            place = {key: row for row, key in enumerate(pending[0].firsts())}
            for each in pending:
                each.settle(place)
            shape = 0, min(stop, 300), len(place)
            assert np.array_equal(pending[0].leaves(*shape), pending[1].leaves(*shape))


def test_narrow_sums_are_never_taken_for_events_that_are_not_summed() -> None:
    one = np.zeros(3, dtype=np.int64)
    leaf = PartialLeaf(one, one, one + 1, np.ones((3, 4), dtype=np.int32), (b"k",))
    large = leaf._replace(values=np.full((3, 4), 1 << 20))
    assert not partial.narrowed(leaf).is_summed
    assert partial.narrowed(large).is_summed


@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize(("n", "cells"), [(1, 1), (2, 1), (500, 40), (5000, 1 << 40), (3000, 1)])
def test_one_pass_adds_up_what_numpy_does(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, width: int, n: int, cells: int
) -> None:
    """Sums turn over alike, and what has no room for its place is left to numpy."""
    rng = np.random.default_rng(n + width)
    code = rng.integers(0, cells, n)
    ticks, rows = np.divmod(code, 7)
    counts, values = rng.integers(1, 9, n), rng.integers(-(2**63), 2**63 - 1, (n, width))
    calls = []

    class Counted:
        def sum_cells(self, *buffers: Any) -> int:
            calls.append(int(compiled.sum_cells(*buffers)))
            return calls[-1]

    monkeypatch.setattr(partial, "kernels", Counted())
    for far in (0, (1 << 58) - cells // 7, -(1 << 40)):
        one = partial.sum_by_cell(ticks + far, rows, 7, counts, values)
        with monkeypatch.context() as without:
            without.setattr(partial, "kernels", None)
            other = partial.sum_by_cell(ticks + far, rows, 7, counts, values)
        for item, again in zip(one[:4], other[:4], strict=True):
            assert item.dtype == again.dtype and item.shape == again.shape
            assert np.array_equal(item, again)
    assert calls[0] > 0 and calls[2] < 0, "ticks below 0 are left to numpy"
    assert (calls[1] > 0) == (n <= 2), "and many that are so far away that codes have no room"
    some = [np.zeros(2, dtype=np.int64) for _ in range(10)]
    assert compiled.sum_cells(*some, np.array([1, 1])) == 1
    outside = compiled.sum_cells(some[0], some[1] + 1, *some[2:], np.array([1, 1]))
    assert outside == -1, "a row that there is not"
    for shape in ([0, 1], [1, 2], [1, -1]):
        with pytest.raises(ValueError, match="as many as each other"):
            compiled.sum_cells(*some, np.array(shape))
    for place in range(10):
        with pytest.raises(ValueError, match="as many as each other"):
            shorter = [one[:1] if i == place else one for i, one in enumerate(some)]
            compiled.sum_cells(*shorter, np.array([1, 1]))

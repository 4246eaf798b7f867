from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms import doubles
from tests.transforms.doubles import FakePlan, random_events
from tests.transforms.running import cut, shuffled
from weir.dpcore.leaves.keys import Keys
from weir.transforms.operators import accumulate as module
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.accumulate import Gatherer
from weir.transforms.operators.filter import Assign

OBSERVED = replace(FakePlan(), keys=Keys.make("k", None, True, None))
ONE = replace(FakePlan(), keys=Keys.make(None, None, False, None))
MANY = replace(FakePlan(), keys=Keys.make("k", [f"{i:03d}" for i in range(70)], False, None))


def assigned(plan: FakePlan, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    assign = Assign(plan, plan.program.columns)
    return [assign(batch).events for batch in batches]


def gathered(plan: FakePlan, batches: list[pa.RecordBatch]) -> dict[int, Any]:
    gatherer = Gatherer(plan.program, plan.keys)
    parts = defaultdict(list)
    for batch in assigned(plan, batches):
        gatherer.add(batch)
        if gatherer.is_full:
            for block, leaf in gatherer.drain():
                parts[block].append(partial.decode(partial.encode(leaf)))
    for block, leaf in gatherer.drain():
        parts[block].append(partial.decode(partial.encode(leaf)))
    return {b: partial.merge(found, plan.program.dimension) for b, found in parts.items()}


def brute(plan: FakePlan, batch: pa.RecordBatch) -> dict[tuple[int, bytes], list[int]]:
    sums: dict[tuple[int, bytes], list[int]] = defaultdict(lambda: [0, 0, 0])
    keys = batch.column("@key").to_pylist() if plan.keys.columns else [""] * batch.num_rows
    times = batch.column("@time").cast(pa.int64()).to_pylist()
    for time, key, value in zip(times, keys, batch.column("v").to_pylist(), strict=True):
        tick = (time - plan.clock.start) // plan.clock.period
        amount = 0 if value != value else int(min(10, max(0, value)) * 16)
        cell = sums[tick, key.encode()]
        cell[0] += 1
        cell[1] += 1
        cell[2] += amount
    return sums


def by_name(plan: FakePlan, leaves: dict[int, Any]) -> dict[tuple[int, bytes], list[int]]:
    found = {}
    for block, leaf in leaves.items():
        names = leaf.names or plan.keys.block_keys(block)
        for tick, row, count, values in zip(*leaf[:4], strict=True):
            assert int(plan.keys.block_of([names[row]])[0]) == block
            found[int(tick), names[row]] = [int(count), *values.tolist()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("plan", [FakePlan(), OBSERVED, ONE, MANY], ids=["few", "new", "1", "70"])
@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("grid", [1 << 22, 100])
def test_leaves_are_the_sums_of_their_events(
    plan: FakePlan, pieces: int, grid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRID", grid)
    batch = random_events(4_000, plan)
    assert by_name(plan, gathered(plan, cut(batch, pieces))) == brute(plan, batch)


@pytest.mark.parametrize("plan", [FakePlan(), OBSERVED], ids=["declared", "observed"])
def test_order_and_splits_do_not_matter(plan: FakePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELLS", 300)
    batch = random_events(3_000, plan)
    encoded = []
    for batches in (cut(batch, 1), cut(batch, 13), cut(shuffled(batch), 5)):
        leaves = gathered(plan, batches)
        encoded.append({block: partial.encode(leaf) for block, leaf in leaves.items()})
    assert encoded[0] == encoded[1] == encoded[2]


def test_sparse_bundles_are_sent_on_before_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELLS", 1_000)
    gatherer = Gatherer(OBSERVED.program, OBSERVED.keys)
    for batch in assigned(OBSERVED, cut(random_events(4_000, OBSERVED), 8)):
        gatherer.add(batch)
    assert gatherer.is_full
    list(gatherer.drain())
    assert not gatherer.is_full and not list(gatherer.drain())


def test_big_leaves_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ELEMENT", 30)
    gatherer = Gatherer(ONE.program, ONE.keys)
    for batch in assigned(ONE, [random_events(500, ONE)]):
        gatherer.add(batch)
    parts = [leaf for _, leaf in gatherer.drain()]
    assert len(parts) > 5 and max(len(leaf.ticks) for leaf in parts) == 10
    assert sum(int(leaf.counts.sum()) for leaf in parts) == 500


def test_sums_that_overflow_int64_are_held_within_their_room() -> None:
    from weir.transforms.operators.pending import CAPACITY, ROOM, held_in_room

    big = partial.PartialLeaf(
        np.array([3]), np.array([0]), np.array([CAPACITY]), np.array([[1 << 61, -(1 << 61)]])
    )
    parts = [big, big, big]
    leaf = held_in_room(partial.merge(parts, 2), parts)
    assert leaf.values.tolist() == [[ROOM, -ROOM]] and leaf.counts.tolist() == [3 * CAPACITY]


def test_events_need_no_key_column_where_there_is_one_key() -> None:
    batch = doubles.events([doubles.START], None, [1.0])
    assert by_name(ONE, gathered(ONE, [batch])) == {(0, b""): [1, 1, 16]}

"""Leaves that are wider than events: cells of few events travel as events, with the same sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import MINUTE, START, FakePlan
from tests.transforms.running import cut, shuffled
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.rows import EventRows
from weir.dpcore.program import Runs
from weir.transforms.beam.tick import split_overdue
from weir.transforms.operators import accumulate as module
from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.accumulate import Gatherer
from weir.transforms.operators.bound import numbers
from weir.transforms.operators.filter import Assign
from weir.transforms.operators.pending import PendingSums, due
from weir.transforms.runtime import counters

TICKS, D = 40, 6
NAMES = tuple(f"f{i}" for i in range(D - 1))


class Wide:
    """What the leaf asks of a program."""

    leaf, by_id, sums_runs, adds_events, merges_cells = "sum", False, False, False, False
    texts: Mapping[str, Any] = {}
    lists: Mapping[str, int] = {}

    def __init__(self, capacity: int = 1 << 29) -> None:
        ends = (-1.0,) * D, (1.0,) * D
        self._rows = EventRows(NAMES, ("y",), *ends, True, Moments(D, 1, False, 3.0, 1.0))
        self.columns, self.row_width = self._rows.columns, D + 1
        self.dimension, self.capacity = self._rows.moments.dimension, capacity
        self.bound = self._rows.bound

    def times_of(self, grouping: int) -> int:
        return 1

    def accumulate(self, rows: Any, cells: Any, n_cells: int) -> Any:
        return self._rows.moments.accumulate(rows, cells, n_cells)


class InRuns(Wide):
    """One that sums in one pass what lies together; keeps of how many events that was."""

    sums_runs = True

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def sum_runs(self, columns: Any, n_events: int, runs: Runs, n_cells: int) -> Any:
        self.seen += int((runs.stops - runs.starts).sum())
        return self._rows.sum_runs(columns, n_events, runs, n_cells)


def plan_of(keys: Keys) -> Any:
    return replace(FakePlan(), keys=keys, program=Wide())


MANY = Keys.make("k", [f"{i:03d}" for i in range(70)], False, None)
PLANS = {
    "many": plan_of(MANY),
    "one": plan_of(Keys.make(None, None, False, None)),
    "observed": plan_of(Keys.make("k", None, True, None)),
}


def batch_of(n: int, seed: int = 0) -> pa.RecordBatch:
    """Most events in a few cells, the others in cells of their own."""
    rng = np.random.default_rng(seed)
    ticks = np.where(rng.random(n) < 0.5, 3, rng.integers(0, TICKS, n))
    keys = np.where(rng.random(n) < 0.5, 7, rng.integers(0, 70, n))
    columns = {
        "@time": pa.array(START + ticks * MINUTE + 5).view(pa.timestamp("us", "UTC")),
        "@position": pa.array(np.arange(n)),
        "@key": pa.array([f"{key:03d}" for key in keys]).dictionary_encode(),
    }
    columns.update({name: pa.array(rng.uniform(-1, 1, n)) for name in (*NAMES, "y")})
    return pa.RecordBatch.from_pydict(columns)


def gathered(plan: Any, batches: list[pa.RecordBatch]) -> dict[int, list[bytes]]:
    """Encoded partial leaves by block."""
    assign, gatherer = Assign(plan, plan.program.columns), Gatherer(plan.program, plan.keys)
    found: dict[int, list[bytes]] = defaultdict(list)
    for batch in batches:
        gatherer.add(assign(batch).events)
        if gatherer.is_full:
            for block, leaf in gatherer.drain():
                found[block].append(partial.encode(leaf))
    for block, leaf in gatherer.drain():
        found[block].append(partial.encode(leaf))
    return found


def sums_of(plan: Any, found: dict[int, list[bytes]], cuts: tuple[int, ...]) -> dict[bytes, Any]:
    """Key -> (TICKS, D) sums, through pending sums that are cut at some ticks."""
    out: dict[bytes, Any] = {}
    for block, payloads in found.items():
        names = list(plan.keys.block_keys(block)) if not plan.keys.observed else []
        edges, pieces = (0, *cuts, TICKS), []
        for low, high in zip(edges, edges[1:], strict=False):
            leaves, payloads = due(payloads, high)
            pending = PendingSums(plan.program, leaves)
            if plan.keys.observed:
                names += sorted(set(pending.firsts()) - set(names))
                pending.settle({name: row for row, name in enumerate(names)})
            part = pending.leaves(low, high, max(1, len(names)))
            pieces.append((part, list(names)))
        for row, name in enumerate(names):
            alone = [p[:, row] if row < p.shape[1] else p[:, 0] * 0 for p, _ in pieces]
            out[name] = np.concatenate(alone)
    return out


def brute(plan: Any, batch: pa.RecordBatch) -> dict[bytes, Any]:
    n = batch.num_rows
    rows = plan.program.bound({c: numbers(batch.column(c)) for c in plan.program.columns}, n).rows
    ticks = (batch.column("@time").view(pa.int64()).to_numpy() - START) // MINUTE
    keys = batch.column("@key").to_pylist() if plan.keys.columns else [""] * n
    out: dict[bytes, Any] = {}
    for name in set(keys):
        mine = np.flatnonzero(np.array(keys) == name)
        sums = plan.program.accumulate(rows[mine], ticks[mine], TICKS)
        out[name.encode()] = sums
    return out


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("pieces", [1, 9])
@pytest.mark.parametrize("small", [False, True], ids=["roomy", "tight"])
def test_sums_are_the_same_however_they_travel(
    name: str, pieces: int, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:
        monkeypatch.setattr(module, "CELLS", 500)
        monkeypatch.setattr(module, "GRID", 2_000)
        monkeypatch.setattr(module, "ELEMENT", 200)
    plan, batch = PLANS[name], batch_of(3_000)
    found = gathered(plan, cut(shuffled(batch), pieces))
    kinds = {partial.decode(data).is_summed for parts in found.values() for data in parts}
    if name != "one":
        assert kinds == {True, False}
    for cuts in ((), (3, 4, 20)):
        sums, expected = sums_of(plan, found, cuts), brute(plan, batch)
        for key, values in expected.items():
            assert np.array_equal(sums.pop(key), values)
        assert all(not rest.any() for rest in sums.values())


def in_pieces(sizes: list[tuple[int, int, int]], odd: bool = False) -> pa.RecordBatch:
    """Runs of events, each (tick, key, how many)."""
    ticks, keys, counts = (np.array(column) for column in zip(*sizes, strict=True))
    n = int(counts.sum())
    rng = np.random.default_rng(n)
    columns = {
        "@time": pa.array(START + np.repeat(ticks, counts) * MINUTE).view(
            pa.timestamp("us", "UTC")
        ),
        "@position": pa.array(np.arange(n)),
        "@key": pa.array([f"{key:03d}" for key in np.repeat(keys, counts)]).dictionary_encode(),
    }
    for name in (*NAMES, "y"):
        values = rng.uniform(-1.1, 1.1, n)
        values[rng.random(n) < 0.01] = np.nan
        columns[name] = pa.array(values, mask=rng.random(n) < 0.01 if odd else None)
    return pa.RecordBatch.from_pydict(columns)


RUNS = {
    "all long": ([(3, 1, 900), (4, 1, 300), (5, 7, 700)], 1900),
    "one": ([(6, 2, 500)], 500),
    "back and forth": ([(9, 7, 400), (2, 7, 400), (9, 7, 400), (2, 1, 400)], 1600),
    "few between": ([(0, 1, 1), (0, 2, 800), (0, 3, 2), (1, 2, 900), (1, 4, 3)], 1700),
    "few that come again": ([(1, 1, 2), (2, 2, 900), (1, 1, 30)], 932),
    "short": ([(tick, tick % 3, 20) for tick in range(30)], 0),
    "few": ([(1, 1, 5), (2, 1, 4)], 0),
}


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("keys", PLANS)
def test_what_lies_together_is_summed_in_one_pass_alike(keys: str, name: str, odd: bool) -> None:
    sizes, together = RUNS[name]
    batch = in_pieces(sizes, odd)
    plain, plan = PLANS[keys], replace(PLANS[keys], program=InRuns())
    with counters.aside() as counts:
        found = gathered(plan, [batch])
    with counters.aside() as expected:
        slow = gathered(plain, [batch])
    assert {key: value for key, value in counts.items() if value} == {
        key: value for key, value in expected.items() if value
    }
    assert counts["non_finite"] and counts["clipped"]
    if keys != "one":
        assert plan.program.seen == together
    assert found.keys() == slow.keys()
    sums, other = sums_of(plan, found, (2, 5)), sums_of(plain, slow, (2, 5))
    assert sums.keys() == other.keys()
    assert all(np.array_equal(values, other[key]) for key, values in sums.items())
    filled = brute(plan, batch)
    assert all(np.array_equal(values, sums[key]) for key, values in filled.items())


def test_few_events_are_smaller_than_their_sums() -> None:
    names = tuple(f"f{i}" for i in range(99))
    ends = (-1.0,) * 100, (1.0,) * 100
    rows = EventRows(names, ("y",), *ends, True, Moments(100, 1, False, 11.0, 1.0))

    wide = type("Hundred", (Wide,), {"__init__": object.__init__, "columns": rows.columns,
                "bound": rows.bound, "row_width": 101, "dimension": rows.moments.dimension,
                "capacity": 1 << 29,
                "accumulate": staticmethod(rows.moments.accumulate)})()  # fmt: skip
    rng, n = np.random.default_rng(1), 2_000
    batch = pa.RecordBatch.from_pydict(
        {
            "@tick": pa.array(np.sort(rng.integers(0, 1000, n))),
            "@key": pa.array([f"{i:03d}" for i in rng.integers(0, 70, n)]).dictionary_encode(),
            **{name: pa.array(rng.uniform(-1, 1, n)) for name in rows.columns},
        }
    )
    gatherer = Gatherer(wide, MANY)
    gatherer.add(batch)
    sent = sum(len(partial.encode(leaf)) for _, leaf in gatherer.drain())
    assert sent < 1.2 * n * 101 * 8 < n * rows.moments.dimension * 8 / 40


def test_events_that_come_late_are_counted_and_the_rest_is_kept() -> None:
    plan, batch = PLANS["many"], batch_of(500)
    payloads = [data for parts in gathered(plan, [batch]).values() for data in parts]
    ticks = (batch.column("@time").view(pa.int64()).to_numpy() - START) // MINUTE
    overdue, kept = 0, 0
    for data in payloads:
        gone, rest = split_overdue(data, 10)
        overdue += gone
        if rest is not None:
            assert partial.tick_range(rest)[0] >= 10
            kept += int(partial.decode(rest).counts.sum())
    assert (overdue, kept) == (int((ticks < 10).sum()), int((ticks >= 10).sum()))


def test_a_bundle_is_sent_on_before_its_sums_run_out_of_room() -> None:
    plan = replace(PLANS["one"], program=Wide(capacity=1_000))
    gatherer, assign = Gatherer(plan.program, plan.keys), Assign(plan, plan.program.columns)
    gatherer.add(assign(batch_of(499)).events)
    assert not gatherer.is_full
    gatherer.add(assign(batch_of(10)).events)
    assert gatherer.is_full
    list(gatherer.drain())
    assert not gatherer.is_full


def test_a_cell_beyond_its_capacity_is_held_in_room_whatever_travelled_how() -> None:
    from weir.transforms.operators.pending import ROOM

    program = Wide(capacity=100)
    row = np.full((1, D + 1), 2**16, dtype=np.int32)
    own = program.accumulate(row.astype(float), np.zeros(1, dtype=np.int64), 1)
    one, zero = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    big = partial.PartialLeaf(zero, zero, 90 * one, np.full_like(own, ROOM))
    few = partial.PartialLeaf(np.repeat(zero, 20), np.repeat(zero, 20), np.repeat(one, 20),
                              np.repeat(row, 20, axis=0))  # fmt: skip
    pending = PendingSums(program, [big, few])
    assert (pending.leaves(0, 1, 1) == ROOM).all()
    roomy = PendingSums(Wide(), [big._replace(values=own), few])
    assert np.array_equal(roomy.leaves(0, 1, 1)[0], 21 * own)

"""Programs that need rows: a small one, through the whole stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import FakeConfig, FakePlan, FakeSchema, Silent, events, random_events
from tests.transforms.running import cut, run, shuffled
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.program import Bounded, OutputInfo, Released, RowProgram
from weir.transforms.operators import partial_rows as row_leaf
from weir.transforms.operators.partial_rows import content_hashes


class Walk(NamedTuple):
    """Depends on the order of the rows: a running weighted sum and how many rows there were."""

    total: Any


@dataclass(frozen=True)
class RowWalk(RowProgram):
    """Releases, per key, the sum of i * row_i over each tick's rows in canonical order."""

    cap: int = 1000
    dimension: int = 2
    width: int = 2
    dtype: Any = np.float64
    columns: tuple[str, ...] = ("v",)

    def bound(self, columns: Mapping[str, Any], n_events: int) -> Bounded:
        values = np.clip(np.nan_to_num(columns["v"]), 0, 10)
        return Bounded(np.stack([values, np.ones(n_events)], axis=1))

    def accumulate(self, rows: Any, cells: Any, n_cells: int) -> Any:
        raise AssertionError("rows are not summed")

    def init(self, n_keys: int) -> Any:
        return Walk(np.zeros((n_keys, 2)))

    def step(self, state: Any, leaves: tuple[RowLeaf, ...], noise: Any) -> Any:
        total, out = state.total.copy(), []
        for leaf in leaves:
            assert leaf.n_keys == len(total)
            for key in range(leaf.n_keys):
                rows = leaf.of(key)
                total[key] += (rows * np.arange(1, len(rows) + 1)[:, None]).sum(axis=0)
            out.append(total.copy())
        return Walk(total), (np.stack(out),)

    def solve(self, noisy: Any, ticks: Any) -> tuple[Released, ...]:
        return (Released("walk", None, noisy[0], None),)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        return PrivacyLoss("gdp", 1.0)

    def describe(self, ticks: Any) -> tuple[OutputInfo, ...]:
        return ()

    def state_bytes(self) -> int:
        return 16

    def canonical(self) -> Mapping[str, Any]:
        return {}


PLAN = replace(FakePlan(), program=RowWalk())
OBSERVED = replace(PLAN, keys=Keys.make("k", None, True, None))
WITH_ID = replace(PLAN, config=FakeConfig(FakeSchema("id")))


def brute(batch: pa.RecordBatch) -> dict[str, float]:
    """Rows per key at the end, clipped values weighted by their place in order of event time."""
    walks: dict[str, float] = {}
    for key in set(batch.column("@key").to_pylist()):
        mine = [row for row in batch.to_pylist() if row["@key"] == key]
        ticks: dict[int, int] = {}
        total = 0.0
        for row in sorted(mine, key=lambda row: row["@time"]):
            tick = int(row["@time"].timestamp() // 60)
            ticks[tick] = ticks.get(tick, 0) + 1
            total += ticks[tick] * min(10.0, max(0.0, np.nan_to_num(row["v"])))
        walks[key] = total
    return walks


@pytest.mark.slow
@pytest.mark.parametrize("plan", [PLAN, OBSERVED, WITH_ID], ids=["declared", "observed", "ids"])
def test_rows_reach_the_program_in_canonical_order(plan: FakePlan) -> None:
    batch = random_events(2_000, FakePlan(), ids=plan is WITH_ID)
    ran = run(plan, cut(shuffled(batch), 3), noise=Silent())
    last = {row["key"]: row["value"][0] for row in ran.rows if row["tick"] == 299}
    assert last == pytest.approx(brute(batch))


@pytest.mark.slow
def test_order_splits_and_bundles_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = random_events(1_500, FakePlan())
    first = run(PLAN, [batch], noise=Silent()).rows
    monkeypatch.setattr(row_leaf, "ROWS", 100)
    assert run(PLAN, cut(shuffled(batch), 4), noise=Silent(), every=9).rows == first


@pytest.mark.slow
def test_the_cap_keeps_the_same_rows_whatever_the_order(tmp_path: Any) -> None:
    from weir.transforms.runtime.secret import SecretRef

    file = tmp_path / "secret.key"
    file.write_text("5a" * 32)
    secret = SecretRef(file=str(file))
    capped = replace(PLAN, program=RowWalk(cap=2))
    batch = random_events(3_000, FakePlan())
    first = run(capped, [batch], secret=secret, noise=Silent())
    second = run(capped, cut(shuffled(batch), 5), secret=secret, noise=Silent())
    assert first.rows == second.rows
    assert first.counts["over_capacity"] == second.counts["over_capacity"] > 1000
    assert max(row["value"][1] for row in first.rows) <= 300 * 3


def test_events_without_an_id_are_told_apart_by_content() -> None:
    rows = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]])
    times = np.array([5, 5, 5], dtype=np.int64)
    hashes = content_hashes(rows, times, bytes(16))
    assert (hashes[0] == hashes[1]).all() and (hashes[0] != hashes[2]).any()
    assert (content_hashes(rows, times, b"k" * 16) != hashes).any()


def test_row_leaves_come_back() -> None:
    leaf = RowLeaf.from_events(
        np.array([1, 0]),
        np.array([[1.0], [2.0]]),
        np.array([3, 4]),
        np.zeros((2, 2), dtype=np.uint64),
        2,
    )
    tick, found, names = row_leaf.decode(row_leaf.encode(8, leaf, (b"a", b"b")))
    assert tick == 8 and names == (b"a", b"b") and found.to_bytes() == leaf.to_bytes()
    assert row_leaf.count_rows(row_leaf.encode(8, leaf, ())) == 2


@pytest.mark.slow
def test_a_key_without_rows_still_steps() -> None:
    batch = events([FakePlan().clock.start], ["b"], [4.0])
    ran = run(PLAN, [batch], noise=Silent())
    assert len(ran.rows) == 300 * 3
    assert {row["key"]: row["value"] for row in ran.rows if row["tick"] == 299} == {
        "a": [0.0, 0.0],
        "b": [4.0, 1.0],
        "c": [0.0, 0.0],
    }

"""A secret that changes in mid-stream: the pipeline and ``simulate`` still give the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.transforms.doubles import FakePlan, random_events
from tests.transforms.running import cut, run, shuffled
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.transforms.runtime.secret import SecretRef

pytestmark = pytest.mark.slow

ONE, TWO = bytes([7]) * 32, bytes([8]) * 32
SWITCH = 100
PLAN = """
name: rotated
schema: {time: t}
key: {column: k, observed_keys_are_public: true}
clock: {start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T05:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 32 ticks}
aggregates: {n: {count: events, over: [all, 7]}, s: {sum: v, clip: [0, 10]}}
"""


def secret(folder: Path, name: str, value: bytes) -> SecretRef:
    file = folder / name
    file.write_text(value.hex())
    file.chmod(0o600)
    return SecretRef(file=str(file))


def cells(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], Any]:
    return {(r["tick"], r["key"], r["name"], r["over"]): tuple(r["value"]) for r in rows}


def simulated(plan: Plan, batch: pa.RecordBatch, **more: Any) -> dict[tuple[Any, ...], Any]:
    events = Events(
        batch.column("@time").view(pa.int64()).to_numpy(),
        batch.column("@key").to_pylist(),
        {"v": batch.column("v").to_numpy(zero_copy_only=False)},
    )
    return {
        (one.first_tick + i, one.key, released.name, released.over): tuple(released.value[i, 0])
        for one in simulate(plan, events, ONE, **more)
        for released in one.released
        for i in range(len(released.value))
    }


@pytest.mark.parametrize("every", [128, 7])
def test_the_pipeline_rotates_as_simulate_does(tmp_path: Path, every: int) -> None:
    plan, batch = Plan.from_yaml(PLAN), random_events(3_000, FakePlan())
    first, second = secret(tmp_path, "one", ONE), secret(tmp_path, "two", TWO)
    pieces = cut(shuffled(batch), 3)
    found = run(plan, pieces, secret=first, rotate=[(SWITCH, second)], every=every)
    expected = simulated(plan, batch, rotate=[(SWITCH, TWO)])
    assert cells(found.rows) == expected
    assert simulated(plan, batch, rotate=[(SWITCH, TWO)], stride=9) == expected
    plain = simulated(plan, batch)
    same = {cell for cell in plain if plain[cell] == expected[cell]}
    assert {cell for cell in plain if cell[0] < SWITCH} <= same
    assert {cell for cell in plain if cell[0] == SWITCH and cell[3] is None}.isdisjoint(same)

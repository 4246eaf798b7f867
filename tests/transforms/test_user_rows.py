"""Users through the pipeline: cells, and whole users that compete, as in simulate bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import MINUTE, START
from tests.transforms.running import SECRET, cut, run, shuffled
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, bounded, leaves_for, simulate
from weir.transforms.runtime.secret import SecretRef

TICKS = 24
PLAN = """
name: rides
schema: {{time: t, id: ride, unit: card}}
key: {{column: k, declared: [a, b, c]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T00:24:00Z}}
privacy:
  epsilon: 1.0
  delta: 1e-6
  protect_for: all
  unit: user
  per: 12m
  contributions: {{ticks: 6, keys: 2, events: 2}}
model:
  algorithm: {algorithm}
  features: [u]
  target: y
  ranges: {{u: [-1, 1], y: [-5, 5]}}
  cap: 7
  {more}
"""
MORE = {
    "regression.erm": "every: 4\n  rows: 20\n  iterations: 4",
    "erm.sliding_window": "block: 4m\n  window: 3\n  users: 20",
}


def plan_of(algorithm: str) -> Plan:
    return Plan.from_yaml(PLAN.format(algorithm=algorithm, more=MORE.get(algorithm, "")))


def rides(n: int = 2500, seed: int = 4) -> pa.RecordBatch:
    """About 35 events a key and tick, of a hundred users: more than a cap of three users takes."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, n)
    return pa.RecordBatch.from_pydict(
        {
            "@time": pa.array(START + rng.integers(0, TICKS * MINUTE, n)).view(
                pa.timestamp("us", "UTC")
            ),
            "@key": pa.array(rng.choice(list("abc"), n)).dictionary_encode(),
            "@id": pa.array([f"id{i}" for i in range(n)]),
            "@unit": pa.array([f"card{i}" for i in rng.integers(0, 100, n)]),
            "@position": pa.array(np.arange(n)),
            "u": pa.array(u),
            "y": pa.array(3 * u + rng.normal(0, 1, n)),
        }
    ).replace_schema_metadata({"source": "test"})


def events_of(batch: pa.RecordBatch) -> Events:
    return Events(
        batch.column("@time").view(pa.int64()).to_numpy(),
        batch.column("@key").to_pylist(),
        {name: batch.column(name).to_numpy() for name in ("u", "y")},
        batch.column("@id").to_pylist(),
        batch.column("@unit").to_pylist(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["online.follow_the_leader", *MORE])
def test_the_pipeline_gives_the_bits_of_simulate(algorithm: str, secret: SecretRef) -> None:
    plan, batch = plan_of(algorithm), rides()
    found = {
        (one.first_tick + i, one.key, out.name): [
            None if value != value else value for value in values.tolist()
        ]
        for one in simulate(plan, events_of(batch), SECRET)
        for out in one.released
        for i, values in enumerate(out.value[:, 0])
    }
    for given in (cut(batch, 3), cut(shuffled(batch), 5)):
        ran = run(plan, given, secret=secret)
        same: dict[Any, Any] = {(r["tick"], r["key"], r["name"]): r["value"] for r in ran.rows}
        assert same == found
        assert ran.counts["over_capacity"] > 0


def test_a_learner_meets_whole_users_and_each_by_one_hash() -> None:
    """Three users of two events in a cap of seven rows: all of a user's or none."""
    plan, batch = plan_of("online.follow_the_leader"), rides()
    given = events_of(batch)
    bound = bounded(plan, given, TICKS, SECRET)
    assert bound.hashes is not None
    cells = np.unique(np.column_stack([bound.ticks, bound.keys, bound.hashes]), axis=0)
    assert len(cells) < len(bound.hashes)
    leaves = leaves_for(plan, bound, TICKS, SECRET)([0, 1, 2])(0, TICKS)
    for tick, leaf in enumerate(leaves):
        for key in range(3):
            mine = leaf.id_hash[leaf.offsets[key] : leaf.offsets[key + 1]]
            users, kept = np.unique(mine, axis=0, return_counts=True)
            assert len(users) <= 3
            here = bound.hashes[(bound.ticks == tick) & (bound.keys == key)]
            everyone, sizes = np.unique(here, axis=0, return_counts=True)
            assert len(users) == min(3, len(everyone))
            whole = {user.tobytes(): size for user, size in zip(everyone, sizes, strict=True)}
            assert [whole[user.tobytes()] for user in users] == kept.tolist()


AGGREGATES = """
aggregates:
  visitors: {count: users}
  newcomers: {count: users, per: period}
  rides: {count: events, over: [all, 3]}
  far: {sum: u, clip_user: [-1, 1]}
  mean: {mean: y, clip: [-5, 5], of: users}
  spread: {variance: y, clip: [-5, 5]}
  sizes: {histogram: y, edges: [-5, 0, 5], of: users}
"""


@pytest.mark.slow
def test_aggregates_of_users_have_the_bits_of_simulate(secret: SecretRef) -> None:
    head = PLAN.format(algorithm="-", more="").partition("model:")[0]
    plan, batch = Plan.from_yaml(head + AGGREGATES), rides()
    found = {
        (one.first_tick + i, one.key, out.name, out.over): values.tolist()
        for one in simulate(plan, events_of(batch), SECRET)
        for out in one.released
        for i, values in enumerate(out.value[:, 0])
    }
    ran = run(plan, cut(shuffled(batch), 4), secret=secret)
    same: dict[Any, Any] = {
        (r["tick"], r["key"], r["name"], r["over"]): r["value"] for r in ran.rows
    }
    assert same == found

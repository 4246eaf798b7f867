"""A learner through the whole stream: against simulate, however the data are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import START
from tests.transforms.running import SECRET, Ran, cut, run, shuffled
from weir.dpcore.bounded_events import Events
from weir.dpcore.models.kit.rows import is_void
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.transforms.runtime.secret import SecretRef

pytestmark = pytest.mark.slow

TICKS = 150
MINUTE = 60_000_000
PLAN = """
name: flights
schema: {{time: t{schema}}}
key: {key}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T02:30:00Z}}
privacy: {{epsilon: 1.0, delta: {delta}, protect_for: 32 ticks}}
mechanism: {{continual_sum: {sum}}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  ranges: {{u: [-1, 1], v: [0, 10], y: [-5, 5]}}
  {more}
"""
DECLARED = "{column: k, declared: [a, b, c, d, e]}"
OBSERVED = "{column: k, observed_keys_are_public: true}"


def plan(
    key: str = DECLARED,
    schema: str = "",
    algorithm: str = "online.follow_the_leader",
    sum: str = "blt",
    delta: str = "1e-6",
    more: str = "",
    blocks: int | None = None,
) -> Plan:
    text = PLAN.format(
        key=key, schema=schema, algorithm=algorithm, sum=sum, delta=delta, more=more
    )  # fmt: skip
    return Plan.from_yaml(text + (f"blocks: {blocks}\n" if blocks else ""))


def flights(n: int, keys: str = "abcd", seed: int = 3) -> pa.RecordBatch:
    """Events with features, some of them missing, a target partly out of range, and ids."""
    rng = np.random.default_rng(seed)
    times = START + rng.integers(0, TICKS * MINUTE, n)
    u, v = rng.uniform(-1, 1, n), rng.uniform(0, 10, n)
    y = 3 * u - v / 2 + rng.normal(0, 2, n)
    v[rng.random(n) < 0.05] = np.nan
    columns = {
        "@time": pa.array(times).view(pa.timestamp("us", "UTC")),
        "@key": pa.array(rng.choice(list(keys), n)).dictionary_encode(),
        "@id": pa.array([f"id{i}" if i % 7 else None for i in range(n)]),
        "@position": pa.array(np.arange(n)),
        "u": pa.array(u),
        "v": pa.array(v),
        "y": pa.array(y),
    }
    return pa.RecordBatch.from_pydict(columns)


Cells = dict[tuple[Any, ...], Any]


def simulated(made: Plan, batch: pa.RecordBatch, **more: Any) -> Cells:
    """(tick, key, name) -> (value, stddev) by dpcore alone. more: for ``simulate``."""
    found = simulate(
        made,
        Events(
            batch.column("@time").view(pa.int64()).to_numpy(),
            batch.column("@key").to_pylist(),
            {name: batch.column(name).to_numpy() for name in ("u", "v", "y")},
            batch.column("@id").to_pylist() if made.config.schema_.id else None,
        ),
        SECRET,
        **more,
    )

    def told(numbers: Any) -> list[float | None]:
        return [None if number != number else number for number in numbers.tolist()]

    out: Cells = {}
    for one in found:
        for released in one.released:
            for i, value in enumerate(released.value[:, 0]):
                error = None if released.stddev is None else told(released.stddev[i, 0])
                out[one.first_tick + i, one.key, released.name] = (told(value), error)
    return out


def cells(ran: Ran) -> Cells:
    found = {
        (row["tick"], row["key"], row["name"]): (row["value"], row["stddev"]) for row in ran.rows
    }
    assert len(found) == len(ran.rows)
    return found


def given(made: Plan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch as it is decoded for a plan: without ids unless there is a column of them."""
    return batch if made.config.schema_.id else batch.drop_columns(["@id"])


@pytest.mark.parametrize("schema", ["", ", id: i"], ids=["content", "ids"])
@pytest.mark.parametrize("key", [DECLARED, OBSERVED], ids=["declared", "observed"])
def test_the_pipeline_is_what_simulate_says_bit_for_bit(
    key: str, schema: str, secret: SecretRef
) -> None:
    made = plan(key, schema, more="cap: 2")
    batch = flights(2_000)
    ran = run(made, cut(shuffled(given(made, batch)), 3), secret=secret)
    assert ran.counts["over_capacity"] > 100
    assert ran.counts["non_finite"] > 50 and ran.counts["clipped"] > 50
    assert cells(ran) == simulated(made, batch)


@pytest.mark.parametrize("key", [DECLARED, OBSERVED], ids=["declared", "observed"])
def test_blocks_order_strides_and_replays_do_not_matter(key: str, secret: SecretRef) -> None:
    first = plan(key, ", id: i", more="cap: 3")
    other = plan(key, ", id: i", more="cap: 3", blocks=1)
    assert other.digest == first.digest and other.layout != first.layout
    batch = flights(1_000)
    rows = run(first, [batch], secret=secret).rows
    assert run(other, cut(shuffled(batch), 4), secret=secret).rows == rows
    assert run(first, cut(shuffled(batch), 2), secret=secret, every=10).rows == rows
    assert run(first, [batch], secret=secret, bounded=False, every=100).rows == rows


def test_more_declared_keys_change_no_other_key(secret: SecretRef) -> None:
    batch = flights(1_500, "abc")
    more = plan("{column: k, declared: [a, aa, b, c, d, e, f]}", ", id: i", more="cap: 2")
    few = cells(run(plan(schema=", id: i", more="cap: 2"), [batch], secret=secret))
    many = cells(run(more, [batch], secret=secret))
    assert few == {cell: value for cell, value in many.items() if cell[1] in "abcde"}


@pytest.mark.parametrize(
    ("algorithm", "sum", "delta", "more"),
    [
        ("online.follow_the_leader", "merging_tree", "0.0", "set: {box: [-1, 1]}"),
        ("online.conditional_gradient", "toeplitz", "1e-6", "loss: logistic"),
        ("online.conditional_gradient", "window_tree", "1e-6", "loss: {quantile: 0.9}"),
        ("online.pftal", "tree", "1e-6", "set: {l1_ball: 1}"),
        ("online.pqftl", "tree", "1e-6", "set: {l1_ball: 1}"),
        ("regression.incremental", "blt", "1e-6", "error: true\n  statistics: true"),
        ("regression.incremental", "hybrid", "1e-6", "set: {l1_ball: 1}\n  ridge: 4"),
        ("regression.incremental", "sliding", "1e-6", "over: 12"),
        ("regression.incremental", "merging_tree", "0.0", "clip: {features: 0.9, target: 0.4}"),
        ("regression.two_trees", "tree", "1e-6", "solver: noisy_projected_gradient\n  steps: 50"),
    ],
)
def test_learners_over_any_sum(
    algorithm: str, sum: str, delta: str, more: str, secret: SecretRef
) -> None:
    made = plan(OBSERVED, "", algorithm, sum, delta, more)
    batch = flights(400)
    ran = run(made, cut(shuffled(given(made, batch)), 2), secret=secret, every=32)
    assert cells(ran) == simulated(made, batch)


def test_a_model_comes_to_the_ridge_solution_of_its_events(secret: SecretRef) -> None:
    made = plan(more="set: {l2_ball: 9}\n  clip: {gradient: 9}\n  curvature: 40")
    privacy = made.config.privacy.model_copy(update={"epsilon": 1000.0})
    generous = Plan.from_config(made.config.model_copy(update={"privacy": privacy}))
    batch = given(made, flights(60_000, "a"))
    last = cells(run(generous, [batch], secret=secret))[TICKS - 1, "a", "theta"][0]
    scaled = made.program.bound({n: batch.column(n).to_numpy() for n in ("u", "v", "y")}, 60_000)
    whole = scaled.rows[~is_void(scaled.rows)]
    rows = np.concatenate([whole[:, :2], np.ones((len(whole), 1))], axis=1)
    ridge = rows.T @ rows + 40 * TICKS * np.eye(3)
    assert len(whole) < 60_000
    assert last == pytest.approx(np.linalg.solve(ridge, rows.T @ whole[:, 2]), abs=0.02)


@pytest.mark.parametrize("batches", [[], [flights(1)]], ids=["no event", "one event"])
def test_every_key_has_a_model_at_every_tick(batches: list[Any], secret: SecretRef) -> None:
    made = plan()
    ran = run(made, [given(made, batch) for batch in batches], secret=secret)
    assert len(ran.rows) == TICKS * 5 * 4 and ran.dead == []
    assert all(np.isfinite(row["value"]).all() for row in ran.rows)

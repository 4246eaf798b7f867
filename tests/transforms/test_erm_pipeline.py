"""Incremental ERM through the whole stream: bit for bit what simulate says, however it is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.running import cut, run, shuffled
from tests.transforms.test_model_pipeline import (
    DECLARED,
    OBSERVED,
    TICKS,
    cells,
    flights,
    given,
    simulated,
)
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef

pytestmark = pytest.mark.slow

PLAN = """
name: flights
schema: {schema}
key: {key}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T02:30:00Z}}
privacy: {{epsilon: 6.0, delta: {delta}, protect_for: {window}}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  ranges: {{u: [-1, 1], v: [0, 10], y: [-5, 5]}}
  rows: {rows}
  {more}
"""


def plan(
    key: str = DECLARED,
    algorithm: str = "regression.erm",
    more: str = "every: 40",
    *,
    rows: int = 5_000,
    delta: str = "1e-6",
    window: Any = "all",
    schema: str = "{time: t, id: i}",
    blocks: int | None = None,
) -> Plan:
    text = PLAN.format(
        key=key,
        algorithm=algorithm,
        more=more,
        rows=rows,
        delta=delta,
        window=window if window == "all" else f"{window} ticks",
        schema=schema,
    )
    return Plan.from_yaml(text + (f"blocks: {blocks}\n" if blocks else ""))


@pytest.mark.parametrize("key", [DECLARED, OBSERVED], ids=["declared", "observed"])
@pytest.mark.parametrize(
    "made",
    [
        {"more": "every: 40\n  cap: 2"},
        {"rows": 100},
        {"more": "every: 50\n  solver: noisy_sgd\n  loss: logistic"},
        {"more": "every: 1\n  iterations: 2", "window": 1},
        {"more": "every: 75\n  iterations: 4", "delta": "0.0"},
    ],
    ids=["cap", "limit", "batches", "every tick", "pure"],
)
def test_the_pipeline_is_what_simulate_says_bit_for_bit(
    made: dict[str, Any], key: str, secret: SecretRef
) -> None:
    one, batch = plan(key, **made), flights(2_000)
    ran = run(one, cut(shuffled(given(one, batch)), 3), secret=secret, every=32)
    found = cells(ran)
    assert found == simulated(one, batch)
    models = {tuple(value) for (_, key, name), (value, _) in found.items() if name == "theta"}
    assert len(models) > 2  # it learned something


def test_blocks_order_strides_and_replays_do_not_matter(secret: SecretRef) -> None:
    first, other = plan(OBSERVED), plan(OBSERVED, blocks=1)
    assert other.digest == first.digest and other.layout != first.layout
    batch = flights(1_000)
    rows = run(first, [batch], secret=secret).rows
    assert run(other, cut(shuffled(batch), 4), secret=secret).rows == rows
    assert run(first, cut(shuffled(batch), 2), secret=secret, every=10).rows == rows
    assert run(first, [batch], secret=secret, bounded=False, every=100).rows == rows
    twice = run(first, [batch], ["--direct_runner_bundle_repeat=2"], secret=secret).rows
    assert twice[::3] == twice[1::3] == twice[2::3] == rows


def test_between_runs_the_last_model_is_released_again(secret: SecretRef) -> None:
    batch = flights(2_000)
    found = cells(run(plan(), [batch], secret=secret))
    theta = np.array([found[tick, "a", "theta"][0] for tick in range(TICKS)])
    changed = np.flatnonzero((np.diff(theta, axis=0) != 0).any(axis=1)) + 1
    assert changed.tolist() == [39, 79, 119]


@pytest.mark.parametrize("algorithm", ["regression.erm", "regression.naive"])
@pytest.mark.parametrize("batches", [[], [flights(2)]], ids=["no event", "few events"])
def test_every_key_has_a_model_at_every_tick(
    algorithm: str, batches: list[Any], secret: SecretRef
) -> None:
    made = plan(algorithm=algorithm, more="iterations: 3")
    ran = run(made, batches, secret=secret)
    assert len(ran.rows) == TICKS * 5 * 2 and ran.dead == []
    assert all(np.isfinite(row["value"]).all() for row in ran.rows)

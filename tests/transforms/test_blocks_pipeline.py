"""Models of blocks of records through the whole stream: bit for bit what simulate says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.running import SECRET, Ran, cut, run, shuffled
from tests.transforms.test_model_pipeline import (
    DECLARED,
    OBSERVED,
    Cells,
    cells,
    flights,
)
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, simulate
from weir.transforms.runtime.secret import SecretRef

pytestmark = pytest.mark.slow


PLAN = """
name: blocks
schema: {{time: t, id: i}}
key: {key}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T02:30:00Z}}
privacy: {{epsilon: 6.0, delta: {delta}, protect_for: all}}
expect: {{events: 4}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  {target}
  block: {block}
  {more}
"""
CLASSES = "classes: [low, high]\n  ranges: {u: [-1, 1], v: [0, 10]}"
PLACES = "classes: [3, 1, 2]\n  ranges: {u: [-1, 1], v: [0, 10]}"
NUMBERS = "ranges: {u: [-1, 1], v: [0, 10], y: [-5, 5]}"


def plan(
    key: str = DECLARED,
    algorithm: str = "erm.sliding_window",
    target: str = CLASSES,
    block: Any = 40,
    more: str = "",
    delta: str = "1e-6",
    blocks: int | None = None,
) -> Plan:
    text = PLAN.format(
        key=key, algorithm=algorithm, target=target, block=block, more=more, delta=delta
    )
    return Plan.from_yaml(text + (f"blocks: {blocks}\n" if blocks else ""))


def labelled(n: int, target: str) -> pa.RecordBatch:
    """Flights whose target is a class; some of none that is declared, and some of none at all."""
    batch = flights(n)
    y = batch.column("y").to_numpy()
    if target == NUMBERS:
        return batch
    if target == PLACES:
        values: Any = pa.array(np.where(y < -3, 3.0, np.where(y < 0, 1.0, 2.0)))
    else:
        words = np.where(y < -2.5, "low", "high").astype(object)
        words[::31], words[::37] = "middle", None
        values = pa.array(words.tolist(), pa.string())
    return batch.set_column(batch.schema.get_field_index("y"), "y", values)


def simulated(made: Plan, batch: pa.RecordBatch, **more: Any) -> Cells:
    found = simulate(
        made,
        Events(
            batch.column("@time").view(pa.int64()).to_numpy(),
            batch.column("@key").to_pylist(),
            {name: batch.column(name).to_numpy(zero_copy_only=False) for name in ("u", "v", "y")},
            batch.column("@id").to_pylist(),
        ),
        SECRET,
        **more,
    )
    out: Cells = {}
    for one in found:
        for released in one.released:
            for i, value in enumerate(released.value[:, 0]):
                told = [None if number != number else number for number in value.tolist()]
                out[one.first_tick + i, one.key, released.name] = (told, None)
    return out


def models_of(ran: Ran, key: str = "a") -> list[tuple[Any, ...]]:
    """Distinct spans of blocks that a key's models were of, in order of ticks."""
    found = [tuple(r["value"]) for r in ran.rows if r["name"] == "model_of" and r["key"] == key]
    return list(dict.fromkeys(found))


CASES: dict[str, dict[str, Any]] = {
    "records": {"more": "window: 7"},
    "ticks": {"block": "10m", "more": "window: 3"},
    "softmax": {"target": PLACES, "more": "window: 3\n  regularise: 0.5"},
    "numbers": {"target": NUMBERS, "more": "window: 3\n  loss: {huber: 0.25}", "delta": "0.0"},
    "continual": {"algorithm": "erm.continual", "block": 20, "more": "base: 2\n  doublings: 2"},
    "basic": {"algorithm": "erm.basic_continual", "block": 30, "more": "base: 2\n  doublings: 1"},
    "scales": {"algorithm": "erm.multi_resolution", "block": "15m", "more": "doublings: 2"},
    "sampled": {"algorithm": "erm.sampled", "block": 20, "more": "doublings: 2", "delta": "0.0"},
    "batches": {"algorithm": "erm.independent_batches", "block": 20, "more": "cap: 2"},
    "windows": {
        "algorithm": "optimize.frank_wolfe",
        "target": NUMBERS,
        "more": "window: 2\n  set: {l1_ball: 1}",
    },
    "labels": {
        "algorithm": "optimize.frank_wolfe",
        "more": "set: {polytope: {vertices: [[0, 1, 0], [1, 0, 0], [-1, -1, 1]]}}",
        "delta": "0.0",
    },
    "any set": {
        "algorithm": "optimize.frank_wolfe",
        "target": NUMBERS,
        "more": "set: {l2_ball: 1}\n  loss: {huber: 0.5}",
    },
    "first": {"algorithm": "erm.output_perturbation", "more": "loss: hinge"},
}


@pytest.mark.parametrize("key", [DECLARED, OBSERVED], ids=["declared", "observed"])
@pytest.mark.parametrize("case", CASES)
def test_the_pipeline_is_what_simulate_says_bit_for_bit(
    case: str, key: str, secret: SecretRef
) -> None:
    made = plan(key, **CASES[case])
    batch = labelled(2_000, CASES[case].get("target", CLASSES))
    ran = run(made, cut(shuffled(batch), 3), secret=secret, every=32)
    found = cells(ran)
    assert found == simulated(made, batch) == simulated(made, batch, stride=7)
    spans = models_of(ran)
    assert spans[0] == (None, None) and len(spans) > (1 if case == "first" else 3)
    none = sum(one is None for one in batch.column("@id").to_pylist())
    assert ran.counts.get("missing_id", 0) == (0 if "m" in str(made.config.model.block) else none)


def test_blocks_of_keys_order_strides_and_replays_do_not_matter(secret: SecretRef) -> None:
    first, other = plan(OBSERVED), plan(OBSERVED, blocks=1)
    assert other.digest == first.digest and other.layout != first.layout
    batch = labelled(1_500, CLASSES)
    rows = run(first, [batch], secret=secret).rows
    assert run(other, cut(shuffled(batch), 4), secret=secret).rows == rows
    assert run(first, cut(shuffled(batch), 2), secret=secret, every=10).rows == rows
    assert run(first, [batch], secret=secret, bounded=False, every=100).rows == rows
    twice = run(first, [batch], ["--direct_runner_bundle_repeat=2"], secret=secret).rows
    assert twice[::3] == twice[1::3] == twice[2::3] == rows


@pytest.mark.parametrize("block", [40, "10m"])
def test_without_enough_events_models_are_null_or_of_nothing(block: Any, secret: SecretRef) -> None:
    made = plan(block=block, more="window: 3")
    ran = run(made, [labelled(8, CLASSES)], secret=secret)
    assert len(ran.rows) == 150 * 5 * 3
    spans = models_of(ran)
    assert spans == [(None, None)] if block == 40 else spans[1] == (0.0, 2.0)

"""One-pass models through the whole stream: bit for bit what simulate says."""

from __future__ import annotations

import pytest

from tests.transforms.running import cut, run, shuffled
from tests.transforms.test_blocks_pipeline import models_of, simulated
from tests.transforms.test_model_pipeline import DECLARED, OBSERVED, cells, flights
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef

pytestmark = pytest.mark.slow

PLAN = """
name: one_pass
schema: {{time: t, id: i}}
key: {key}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T02:30:00Z}}
privacy: {{epsilon: 6.0, delta: {delta}, protect_for: all}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  records: 30
  loss: {loss}
  ranges: {{u: [-1, 1], v: [0, 10], y: [-5, 5]}}
  {more}
"""
CASES = {
    "noisy": ("optimize.sfw_tree", "squared", "set: {lp_ball: {radius: 1, p: 1.5}}"),
    "generalised": ("optimize.sfw_tree", "hinge", "noise: generalised_gaussian"),
    "chosen": ("optimize.sfw_polyhedral", "{huber: 0.5}", "form: tree\n  set: {l1_ball: 1}"),
    "one sample": ("optimize.sfw_polyhedral", "squared", "form: one_sample"),
    "phased": ("optimize.phased_sgd", "absolute", "set: {box: [-1, 1]}"),
}


def plan(case: str, key: str = DECLARED, blocks: int | None = None) -> Plan:
    algorithm, loss, more = CASES[case]
    delta = 0.0 if case == "chosen" else 1e-6
    text = PLAN.format(key=key, algorithm=algorithm, loss=loss, more=more, delta=delta)
    return Plan.from_yaml(text + (f"blocks: {blocks}\n" if blocks else ""))


@pytest.mark.parametrize("case", CASES)
def test_the_pipeline_is_what_simulate_says_bit_for_bit(case: str, secret: SecretRef) -> None:
    made, batch = plan(case, OBSERVED if case == "noisy" else DECLARED), flights(2_000)
    ran = run(made, cut(shuffled(batch), 3), secret=secret, every=32)
    assert cells(ran) == simulated(made, batch) == simulated(made, batch, stride=7)
    spans = models_of(ran)
    assert spans[0] == (None, None) and len(spans) > 3
    missing = sum(one is None for one in batch.column("@id").to_pylist())
    assert ran.counts.get("missing_id", 0) == missing


def test_blocks_of_keys_bundles_and_replays_do_not_matter(secret: SecretRef) -> None:
    first, other = plan("noisy", OBSERVED), plan("noisy", OBSERVED, blocks=1)
    assert other.digest == first.digest and other.layout != first.layout
    batch = flights(1_000)
    rows = run(first, [batch], secret=secret).rows
    assert run(other, cut(shuffled(batch), 4), secret=secret).rows == rows
    assert run(first, [batch], secret=secret, bounded=False, every=100).rows == rows
    twice = run(first, [batch], ["--direct_runner_bundle_repeat=2"], secret=secret).rows
    assert twice[::3] == twice[1::3] == twice[2::3] == rows

"""Models of blocks over streams that are odd: too few records, one class, one record many times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.dpcore.models.blocks.test_section import plan
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

START, HOUR, TICKS = 1_704_067_200_000_000, 3_600_000_000, 6
WRITTEN = """
name: clicks
schema: {time: at, id: event}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-07-01T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all, relation: replace_one}
expect: {events: 300}
model:
  algorithm: erm.sliding_window        # or erm.continual, erm.multi_resolution ...
  features: [age, visits, spend]
  target: label
  classes: [no, yes]                   # declared; a value outside is a missing label
  ranges: {age: [0, 100], visits: [0, 50], spend: [0, 1000]}
  loss: logistic                       # softmax, squared, hinge (smoothed), huber
  block: 1000                          # records (replace_one), or a duration of ticks: 7d
  window: 7                            # blocks; sliding only: 2^k - 1
  regularise: 0.1                      # lambda
  clip: {features: 1.0}
"""


def released(n: int, labels: Any, same: bool = False) -> tuple[Any, Any]:
    """theta (ticks, D) and model_of (ticks, 2) of n records in blocks of 30, window of 3."""
    rng = np.random.default_rng(1)
    u, v = rng.uniform(-1, 1, n), rng.uniform(0, 10, n)
    if same:
        u[:], v[:] = 0.5, 7.0
    times = START + np.arange(n) * (TICKS * HOUR // max(n, 1))
    events = Events(times, None, {"u": u, "v": v, "y": labels}, [f"e{i}" for i in range(n)])
    (one,) = simulate(plan({"window": "3"}), events, bytes(32), ticks=TICKS)
    found = {out.name: out.value[:, 0] for out in one.released}
    return found["theta"], found["model_of"]


def test_fewer_records_than_a_window_release_nothing() -> None:
    for n in (0, 20, 89):
        theta, behind = released(n, ["yes"] * n)
        assert np.isnan(theta).all() and np.isnan(behind).all()


@pytest.mark.slow
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("labels", [["yes"], ["maybe"], [None], ["no", "yes", "maybe", None]])
def test_any_labels_and_copies_of_one_record_make_models(labels: list[Any], same: bool) -> None:
    """A constant class, no declared label at all, and one record 150 times."""
    n = 150
    theta, behind = released(n, (labels * n)[:n], same)
    assert np.isfinite(theta[-1]).all() and behind[-1].tolist() == [2, 4]
    assert np.isnan(theta[0]).all()


@pytest.mark.parametrize("block", ["1000 ", "7d"])
def test_a_config_as_users_write_it_plans(block: str) -> None:
    made = Plan.from_yaml(WRITTEN.replace("block: 1000 ", f"block: {block}"))
    assert [info.name for info in made.outputs] == ["theta", "coefficients", "model_of"]
    more = {"sgd"} if block.strip().isdigit() else set()
    assert {one.mechanism for one in made.alternatives} == {"best", "even", "paper"} | more


@pytest.mark.parametrize("more", ["", "map: {projection: 2}\n  "])
def test_features_may_lie_in_one_list_column(more: str) -> None:
    text = WRITTEN.replace("[age, visits, spend]", "{column: pixels, size: 6}")
    text = text.replace("{age: [0, 100], visits: [0, 50], spend: [0, 1000]}", "{pixels: [0, 255]}")
    text = text.replace("block: 1000 ", "block: 30 ").replace("regularise", f"{more}regularise")
    made, n = Plan.from_yaml(text.replace("epsilon: 1.0", "epsilon: 1e5")), 210
    pixels = np.random.default_rng(2).uniform(0, 255, (n, 6))
    labels = ["yes" if first > 127 else "no" for first in pixels[:, 0]]
    times = np.datetime64("2025-01-01", "us").astype(np.int64) + np.arange(n)
    events = Events(times, None, {"pixels": pixels, "label": labels}, [f"e{i}" for i in range(n)])
    (one,) = simulate(made, events, bytes(32), ticks=1)
    found = {out.name: out.value[-1, 0] for out in one.released}
    assert found["model_of"].tolist() == [0, 6]
    if more:
        assert len(found["theta"]) == 3 and "coefficients" not in found
    else:
        assert found["theta"][0] > 2 * np.abs(found["theta"][1:6]).max()
        assert made.outputs[0].labels[:2] == ("pixels[0]", "pixels[1]")

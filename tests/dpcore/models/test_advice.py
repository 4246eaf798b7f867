"""What a plan advises, from public numbers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from weir.dpcore.models.words import FEW, LEADER, MANY, MOMENTS, ROWS
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig


def said(name: str, features: int, events: float | None = 1000, **model: Any) -> list[str]:
    names = [f"x{i}" for i in range(features)]
    data: dict[str, Any] = {
        "name": "advised",
        "schema": {"time": "t", "id": "id"},
        "clock": {"start": "2024-01-01T00:00:00Z", "period": "1h", "end": "2024-01-09T00:00:00Z"},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "all"},
        "model": {
            "algorithm": name,
            "features": names,
            "target": "y",
            "ranges": {one: [-1, 1] for one in (*names, "y")},
            **model,
        },
    }
    if events is not None:
        data["expect"] = {"events": events}
    plan = Plan.from_config(PlanConfig.from_dict(data))
    return [one for one in plan.warnings if LEADER in one or MOMENTS in one or "fades" in one]


@pytest.mark.parametrize(
    ("name", "features", "more", "words"),
    [
        ("online.pocg", 9, {"events": None, "cap": 16}, "never fades. Say how many events"),
        (LEADER, FEW - 1, {}, "has margins"),
        (MOMENTS, MANY - 1, {}, "has less noise"),
        (ROWS, 3, {"cap": 16}, "four fits in all"),
    ],
)
def test_a_learner_that_serves_better_is_named(
    name: str, features: int, more: dict[str, Any], words: str
) -> None:
    (line,) = said(name, features, **more)
    assert words in line


@pytest.mark.parametrize(
    ("name", "features", "more"),
    [
        (LEADER, 9, {}),
        (LEADER, 3, {"loss": "logistic"}),
        (LEADER, 9, {"events": None, "curvature": 2.0}),
        (LEADER, 9, {"events": None, "schedule": "linear"}),
        (MOMENTS, 3, {}),
        (ROWS, 3, {"loss": "logistic", "cap": 16}),
    ],
)
def test_one_that_was_chosen_well_or_on_purpose_is_left_alone(
    name: str, features: int, more: dict[str, Any]
) -> None:
    assert said(name, features, **more) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "more", "words"),
    [
        ("regression.two_trees", "set: {l2_ball: 2}", r"incremental has \d+ times less noise"),
        ("regression.naive", "set: {l2_ball: 2}", r"erm, fitted less often, has \d+ times less"),
        ("optimize.sfw_polyhedral", "form: one_sample", r"Below about [\d,]+ records a run goes"),
    ],
)
def test_a_baseline_says_what_its_noise_costs(algorithm: str, more: str, words: str) -> None:
    text = f"""
name: baseline
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-03T00:00:00Z}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: all}}
model:
  algorithm: {algorithm}
  features: [a, b]
  target: y
  ranges: {{a: [-1, 1], b: [-1, 1], y: [-1, 1]}}
  {more}
"""
    plan = Plan.from_yaml(text)
    assert [doubt for doubt in plan.doubts if re.search(words, doubt)]
    assert set(plan.doubts) <= set(plan.warnings)
    if algorithm.startswith("optimize"):
        many = Plan.from_yaml(text + "  records: 2000000\n")
        assert not [doubt for doubt in many.doubts if "noise chose" in doubt]

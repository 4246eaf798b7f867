"""Other ridges and clips, as a plan shows them next to its own."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.quadratic import compare_clips, compare_ridges, kept_share
from weir.dpcore.plan import Plan

CONFIG = """
name: compared
schema: {time: t}
clock: {start: 2011-01-01T00:00:00Z, period: 1d, end: 2011-02-01T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
model: {algorithm: regression.incremental, features: [a, b, c], target: y, MORE
  ranges: {a: [0, 1], b: [0, 1], c: [0, 1], y: [0, 9]}}
"""


@pytest.mark.parametrize("p", [1, 3, 12])
@pytest.mark.parametrize("clip", [1.1, 1.5, 2.0])
def test_what_a_clip_leaves_is_what_it_leaves_of_even_events(p: int, clip: float) -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (100_000, p))
    square = np.sum(x * x, axis=1) + 1
    assert kept_share(p, True, clip) == pytest.approx(
        np.mean(np.minimum(1, clip**2 / square)), abs=0.03
    )


def test_a_clip_is_priced_as_the_plan_under_it_is() -> None:
    """Noise next to noise, as two plans have it; and no clip is longer than any event."""
    told = compare_clips(Moments(4, 1, False, 1.5, 1.0), 3, True, 10_000, 50.0)
    found = {m[0]: float(m[1]) for m in re.findall(r"([\d.]+)(?: \(this\))? ([\d.e-]+)", told)}
    assert "1.5 (this)" in told and set(found) == {"0.849", "1.13", "1.41", "1.5", "1.77", "2"}

    def noise(clip: float) -> float:
        made = Plan.from_yaml(CONFIG.replace("MORE", f"clip: {{features: {clip}}},"))
        program = made.program
        return float(program.stddev(np.array([30]))[0]) / kept_share(3, True, clip)  # type: ignore[attr-defined]

    assert found["1.13"] / found["1.77"] == pytest.approx(noise(1.131) / noise(1.768), rel=1e-2)


def test_rules_stand_beside_each_other() -> None:
    ball = L2Ball(2.0, 4)
    assert "default (this) " in compare_ridges(None, 10_000, 50.0, ball)
    assert re.search(r"adassp \(this\) .*", compare_ridges("adassp", 10_000, 50.0, ball))
    assert "25 (this) " in compare_ridges(25.0, 10_000, 50.0, ball)


def test_a_plan_shows_both() -> None:
    plan = Plan.from_yaml(CONFIG.replace("MORE", "ridge: adassp,"))
    told = dict(plan.config.algorithm.facts(plan.program, {"moments": 40.0}))
    assert "adassp (this)" in told["ridges"] and "(this)" in told["clips"]
    assert not any(math.isnan(float(n)) for n in re.findall(r"\d[\d.e-]*\d", told["clips"]))

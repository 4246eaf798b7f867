"""Scaled units of where values usually lie, within ranges that are wider."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

HOUR = 3_600_000_000


def plan_of(**model: Any) -> Plan:
    config = {
        "name": "usual",
        "schema": {"time": "t"},
        "clock": {"start": "1970-01-01T00:00:00Z", "period": "1h", "end": "1970-01-01T04:00:00Z"},
        "privacy": {
            "epsilon": 1.0,
            "delta": 1e-6,
            "protect_for": "all",
            "relation": "replace_one",
        },
        "model": {
            "algorithm": "regression.incremental",
            "features": ["u", "v"],
            "target": "y",
            "ranges": {"u": [-10, 10], "v": [0, 100], "y": [-50, 50]},
            "usual": {"u": [-1, 1], "v": [10, 20]},
            "set": {"l2_ball": 50},
            **model,
        },
    }
    return Plan.from_yaml(json.dumps(config))


def columns(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Mostly usual, one in ten anywhere, some beyond every range or missing."""
    rng = np.random.default_rng(seed)
    far = rng.random(n) < 0.1
    u = np.where(far, rng.uniform(-12, 12, n), rng.normal(0, 0.5, n))
    v = np.where(far, rng.uniform(-5, 110, n), rng.normal(15, 2, n))
    u[::97] = np.nan
    return {"u": u, "v": v, "y": rng.uniform(-60, 60, n)}


@pytest.mark.slow
@pytest.mark.parametrize("clip", [None, 0.5, 1.0, 1.5, 2.0, 3.7])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_row_is_longer_than_its_bound(clip: float | None, intercept: bool) -> None:
    more: Any = {} if clip is None else {"clip": {"features": clip}}
    program: Any = plan_of(intercept=intercept, **more).program
    moments, d = program.rows.moments, program.rows.moments.features
    rows = program.bound(columns(4000), 4000).rows
    square = [int(sum(int(x) ** 2 for x in row[:d])) for row in rows]
    assert max(square) <= (moments.reach * 2**moments.bits) ** 2
    assert max(square) > (0.99 * moments.reach * 2**moments.bits) ** 2  # far ones are shortened
    assert np.abs(rows[:, d:]).max() <= moments.height * 2**moments.bits
    assert np.abs(rows).max() <= moments.entry * 2**moments.bits


def test_no_pair_of_events_moves_the_moments_by_more_than_is_priced() -> None:
    program: Any = plan_of().program
    moments = program.rows.moments
    rows = program.bound(columns(600, 1), 600).rows
    each = np.stack(
        [moments.accumulate(row[None], np.zeros(1, dtype=np.int64), 1)[0] for row in rows]
    )
    scaled = each / np.array(moments.scales)
    moved = np.linalg.norm(scaled[:300] - scaled[300:], axis=1)
    most = moments.sensitivity("replace_one")
    assert moved.max() <= most and moved.max() > 0.6 * most


def test_a_far_event_is_shortened_and_lies_where_it_lay() -> None:
    """Events on one plane: its coefficients come back though a tenth of them is far away."""
    n = 3000
    made = plan_of(ridge=0.0)
    given = {name: np.nan_to_num(column) for name, column in columns(n, 2).items()}
    given["u"], given["v"] = np.clip(given["u"], -10, 10), np.clip(given["v"], 0, 100)
    given["y"] = 1.5 * given["u"] + 0.25 * given["v"] - 3
    times = np.random.default_rng(3).integers(0, 4 * HOUR, n)
    (found,) = simulate(made, Events(times, [""] * n, given), bytes(32), noise=NoNoise())
    (got,) = [one.value[-1, 0] for one in found.released if one.name == "coefficients"]
    np.testing.assert_allclose(got, [1.5, 0.25, -3], rtol=1e-3)


def test_it_is_another_plan_and_only_then() -> None:
    bare = plan_of(usual={})
    assert bare.digest == plan_of(usual={}, ridge="default").digest != plan_of().digest
    assert "outer" not in str(bare.canonical) and "outer" in str(plan_of().canonical)


@pytest.mark.parametrize(
    ("usual", "words"),
    [
        ({"w": [0, 1]}, "is of no feature"),
        ({"y": [0, 1]}, "is of no feature"),
        ({"u": [-11, 1]}, "must lie in model.ranges.u"),
        ({"u": [1, 1]}, "low < high"),
        ({"v": [10, 10.1]}, "at least a 256th"),
    ],
)
def test_what_is_not_usual_is_refused(usual: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        plan_of(usual=usual)
    assert caught.value.field == f"model.usual.{next(iter(usual))}"

"""Every row of every regression from moments is within its bounds, whatever the dimension and clip.

Clips that are sums of few powers of two, and events at the corners of their ranges, lie on the
lattice exactly: there a check that was skipped, because a bound seems to hold already, shows.
"""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from weir.dpcore.plan import Plan

pytestmark = pytest.mark.slow

CLIPS = (None, 0.25, 1.0, 1.5, 2.0)
MORE: dict[str, tuple[dict[str, Any], ...]] = {
    "regression.incremental": ({}, {"usual": {"x0": [-0.125, 0.25]}}),
    "regression.two_trees": ({},),
    "regression.projected": ({"projection": {"dimension": 1}}, {"projection": {"dimension": 2}}),
}


def program_of(name: str, p: int, clip: float | None, intercept: bool, more: Any) -> Any:
    columns = [*(f"x{i}" for i in range(p)), "y"]
    config = {
        "name": "bounds",
        "schema": {"time": "t"},
        "clock": {"start": "2024-01-01T00:00:00Z", "period": "1d", "end": "2024-01-03T00:00:00Z"},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "all"},
        "mechanism": {"continual_sum": "tree"},
        "model": {
            "algorithm": name,
            "features": columns[:-1],
            "target": "y",
            "intercept": intercept,
            "ranges": dict.fromkeys(columns, [-1, 1]),
            **({} if clip is None else {"clip": {"features": clip, "target": clip / 2}}),
            **more,
        },
    }
    return Plan.from_yaml(json.dumps(config)).program


def corners(p: int, n: int = 300) -> dict[str, np.ndarray]:
    """Columns of ends, halves and zeros, and of numbers next to them; a few spread evenly."""
    rng = np.random.default_rng(p)
    x = rng.choice([-1, 1, 0, 0.5, -1 + 2.0**-17, 1 - 2.0**-17], (n, p + 1))
    x[:50] = rng.uniform(-1.2, 1.2, (50, p + 1))
    return {name: x[:, i].copy() for i, name in enumerate([*(f"x{i}" for i in range(p)), "y"])}


@pytest.mark.parametrize("name", MORE)
def test_no_dimension_and_no_clip_skips_a_bound(name: str) -> None:
    nearest = 0.0
    for p, clip, intercept, more in product((1, 2, 5), CLIPS, (True, False), MORE[name]):
        program = program_of(name, p, clip, intercept, more)
        moments = program.rows.moments
        rows = np.asarray(program.bound(corners(p), 300).rows)
        d, one = moments.features, 2.0**moments.bits
        x, y = (np.sqrt(np.sum(part * part, axis=1)) for part in (rows[:, :d], rows[:, d:]))
        told = f"{p} features, clip {clip}, intercept {intercept}, {more}"
        assert x.max() <= moments.reach * one and y.max() <= moments.height * one, told
        assert np.abs(rows).max() <= max(moments.entry, moments.height) * one, told
        nearest = max(nearest, x.max() / (moments.reach * one))
    assert nearest > 0.999  # some were shortened, or as long as they may be

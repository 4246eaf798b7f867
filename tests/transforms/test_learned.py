"""Learned clips through the whole transform: what is simulated, of files and of streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.running import SECRET, run
from weir import Events, simulate
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef

TICKS, MINUTE, START = 12, 60_000_000, 1_704_067_200_000_000
USERS = "unit: user, per: 4m, contributions: {ticks: 2, keys: 2, events: 3},"


def plan_of(privacy: str) -> Plan:
    return Plan.from_yaml(f"""
name: learned
schema: {{time: t, id: i{", unit: who" if privacy else ""}}}
key: {{column: k, declared: [a, b, c]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T00:12:00Z}}
privacy: {{epsilon: 4, delta: 1e-6, {privacy} protect_for: all}}
aggregates:
  s: {{sum: x, clip: {{learn: {{ticks: 4m, top: 1e5, start: 10}}}}, over: [all, 3]}}
  low:
    {{sum: x, clip: {{learn: {{ticks: 4, top: 1e3, start: 1, times: 1}}}}, over: 1, where: x < 50}}
  n: {{count: events}}
blocks: 2
""")


def rows_of(n: int = 900) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    times = (START + rng.integers(0, TICKS * MINUTE, n)).astype("datetime64[us]")
    return [
        {
            "t": times[i].item(),
            "k": "abc"[min(rng.geometric(0.6), 3) - 1],
            "who": f"user {rng.integers(200)}",
            "i": f"e{i}",
            "x": float(np.round(rng.lognormal(3, 1.5), 2) * rng.choice([1, 1, -1])),
        }
        for i in range(n)
    ]


def simulated(plan: Plan, rows: list[dict[str, Any]]) -> dict[Any, str]:
    times = np.array([row["t"] for row in rows], dtype="datetime64[us]").astype(np.int64)
    x = np.array([row["x"] for row in rows])
    columns = {"x": x, "@where x < 50": (x < 50).astype(np.float64)}
    keys, ids, who = ([row[name] for row in rows] for name in ("k", "i", "who"))
    events = Events(times, keys, columns, ids, who)
    return {
        (one.key, tick, out.name, out.over): str(np.float64(value))
        for one in simulate(plan, events, SECRET)
        for out in one.released
        for tick, value in enumerate(out.value[:, 0, 0].tolist(), one.first_tick)
    }


@pytest.mark.slow
@pytest.mark.parametrize("privacy", ["", USERS])
def test_what_is_piped_is_what_is_simulated(privacy: str, secret: SecretRef) -> None:
    plan, rows = plan_of(privacy), rows_of()
    expected = simulated(plan, rows)
    assert {
        value for (_, tick, name, _), value in expected.items() if name == "s" and tick < 4
    } == {"nan"}
    again = [rows[i] for i in np.random.default_rng(1).permutation(len(rows)).tolist()]
    for how in ({}, {"bounded": False}):
        ran = run(plan, [*again, *rows[:20]], secret=secret, kind=dict, **how).rows
        found = {
            (r["key"], r["tick"], r["name"], r["over"]): str(np.float64(r["value"][0])) for r in ran
        }
        assert found == expected

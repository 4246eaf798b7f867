"""Users in several groupings through the whole transform: what is simulated, on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.running import SECRET, run
from weir import Events, simulate
from weir.dpcore.leaves.keys import key_text
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef

TICKS, MINUTE, START = 16, 60_000_000, 1_704_067_200_000_000
CITIES, PRODUCTS = ("paris", "rome", "oslo"), ("shoes", "hats", "ties", "socks")
LISTED = f"declared: {[[city, product] for city in CITIES for product in PRODUCTS]}"
KNOWN = {
    "listed": f"{LISTED}, weights: [1, 1, 5]",
    "found": "discover: {min_users: 3}",
}


def plan_of(known: str, epsilon: float = 20, order: str = "") -> Plan:
    return Plan.from_yaml(f"""
name: groups
schema: {{time: t, unit: who, id: i}}
key: {{columns: [city, product], groups: [[city], [city, product], []], {KNOWN[known]}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T00:16:00Z}}
privacy: {{epsilon: {epsilon}, delta: 1e-3, unit: user, per: 8m, protect_for: all,
  contributions: {{ticks: 3, keys: 3, events: 2, ticks_per_key: 2{order}}}}}
aggregates:
  views: {{count: events, over: [all, 5]}}
  users: {{count: users}}
  new: {{count: users, per: period}}
  own: {{mean: x, clip: [0, 10], of: users}}
  most: {{sum: x, clip_user: [0, 30]}}
  seen: {{histogram: x, edges: [0, 2, 5, 10], of: users, where: x > 1}}
blocks: 4
""")


def rows_of(n: int = 1200) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    times = (START + rng.integers(0, TICKS * MINUTE, n)).astype("datetime64[us]")
    return [
        {
            "t": times[i].item(),
            "city": CITIES[min(rng.geometric(0.5), 3) - 1],
            "product": PRODUCTS[min(rng.geometric(0.4), 4) - 1],
            "who": f"user {rng.integers(60)}",
            "i": f"e{i}",
            "x": float(rng.integers(-2, 13)),
        }
        for i in range(n)
    ]


def simulated(plan: Plan, rows: list[dict[str, Any]]) -> dict[Any, Any]:
    times = np.array([row["t"] for row in rows], dtype="datetime64[us]").astype(np.int64)
    columns = {"x": np.array([row["x"] for row in rows])}
    columns["@where x > 1"] = (columns["x"] > 1).astype(np.float64)
    events = Events(
        times,
        [key_text((row["city"], row["product"])) for row in rows],
        columns,
        [row["i"] for row in rows],
        [row["who"] for row in rows],
    )
    return {
        (one.key, tick, out.name, out.over): value
        for one in simulate(plan, events, SECRET)
        for out in one.released
        for tick, value in enumerate(out.value[:, 0].tolist(), one.first_tick)
    }


def piped(plan: Plan, rows: list[dict[str, Any]], secret: SecretRef, **how: Any) -> dict[Any, Any]:
    ran = run(plan, rows, secret=secret, kind=dict, **how).rows
    return {(r["key"], r["tick"], r["name"], r["over"]): r["value"] for r in ran}


@pytest.mark.slow
@pytest.mark.parametrize("known", sorted(KNOWN))
def test_what_is_piped_is_what_is_simulated(known: str, secret: SecretRef) -> None:
    """Duplicates and another order change nothing; nor does it whether ticks close one by one."""
    plan, rows = plan_of(known), rows_of()
    expected = simulated(plan, rows)
    total, paris = key_text((None, None)), key_text(("paris", None))
    assert {total, paris, key_text(("paris", "shoes"))} <= {key for key, *_ in expected}
    again = [rows[i] for i in np.random.default_rng(1).permutation(len(rows)).tolist()]
    assert piped(plan, [*again, *rows[:50]], secret) == expected
    assert piped(plan, again, secret, bounded=False) == expected


@pytest.mark.slow
@pytest.mark.parametrize("order", ["", ", order: hash"])
def test_the_local_engine_releases_what_is_simulated(order: str, secret: SecretRef) -> None:
    import pyarrow as pa

    from tests.transforms.running import run_here

    plan, rows = plan_of("listed", order=order), rows_of(300)
    batch = pa.RecordBatch.from_pydict(
        {
            "@time": pa.array([row["t"] for row in rows], pa.timestamp("us")).cast(
                pa.timestamp("us", "UTC")
            ),
            "@key0": pa.array([row["city"] for row in rows]).dictionary_encode(),
            "@key1": pa.array([row["product"] for row in rows]).dictionary_encode(),
            "@id": pa.array([row["i"] for row in rows]),
            "@unit": pa.array([row["who"] for row in rows]),
            "@position": pa.array(range(len(rows)), pa.int64()),
            "x": pa.array([row["x"] for row in rows]),
        }
    )
    ran = run_here(plan, [batch.slice(0, 100), batch.slice(100)], secret)
    assert {(r["key"], r["tick"], r["name"], r["over"]): r["value"] for r in ran.rows} == simulated(
        plan, rows
    )

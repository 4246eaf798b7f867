"""Clocks of the calendar through the whole stream: what simulate says, bit for bit."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from tests.transforms.doubles import events
from tests.transforms.running import cut, run, shuffled
from tests.transforms.test_cap import simulated as simulated_users
from tests.transforms.test_pipeline import as_cells, simulated
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef

DAY = 86_400_000_000
MONTHS = """
name: shop
schema: {time: t}
key: {column: k, declared: [a, b]}
clock: {start: 2024-01-01T00:00:00, period: 1 month, zone: Europe/Berlin, end: 2026-01-01T00:00:00}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 12 months}
aggregates:
  n: {count: events, over: [all, 3]}
  s: {sum: v, clip: [0, 10]}
"""
PEOPLE = """
name: shop
schema: {time: t, unit: u, id: i}
key: {column: k, declared: [a, b]}
clock: {start: 2024-02-01T00:00:00, period: 1d, zone: America/New_York, end: 2024-04-21T00:00:00}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 30d, unit: user, per: 1 month,
  contributions: {ticks: 3, keys: 1, events: 2}}
aggregates:
  n: {count: events}
"""


@pytest.mark.slow
def test_a_clock_of_months_over_two_years_of_days(secret: SecretRef) -> None:
    made = Plan.from_yaml(MONTHS)
    times = made.clock.start + np.arange(731) * DAY
    batch = events(times, ["ab"[i % 2] for i in range(731)], np.arange(731) % 9.0)
    expected = simulated(made, batch)
    ran = run(made, cut(shuffled(batch), 3), secret=secret)
    assert as_cells(ran) == expected and len(expected) == 24 * 2 * 3 and ran.dead == []
    starts = {row["tick"]: (row["tick_start"], row["tick_end"]) for row in ran.rows}
    assert str(starts[0][0]) == "2023-12-31 23:00:00+00:00"
    assert str(starts[5][0]) == "2024-05-31 22:00:00+00:00"
    assert all(starts[tick][1] == starts[tick + 1][0] for tick in range(23))
    followed = run(made, cut(batch, 2), secret=secret, bounded=False, every=30)
    assert as_cells(followed) == expected


@pytest.mark.slow
def test_months_of_users_on_days_of_a_zone(secret: SecretRef) -> None:
    made = Plan.from_yaml(PEOPLE)
    assert made.person is not None and made.clock.ticks == 80
    rng = np.random.default_rng(1)
    n = 1500
    times = made.clock.start + rng.integers(0, 80 * DAY - 3_600_000_000, n)
    users = [f"u{i}" for i in rng.integers(0, 25, n)]
    keys = ["ab"[i] for i in rng.integers(0, 2, n)]
    batch = events(times, keys, np.ones(n), [f"e{i}" for i in range(n)], users=users)
    expected = simulated_users(made, batch)
    ran = run(made, cut(shuffled(batch), 3), secret=secret)
    got = {(row["tick"], row["key"], row["name"]): row["value"][0] for row in ran.rows}
    assert got == expected and len(got) == 160 and ran.counts["capped_ticks"] > 100
    first = made.person.periods.first(1)
    assert first == (date(2024, 3, 1) - date(2024, 2, 1)).days

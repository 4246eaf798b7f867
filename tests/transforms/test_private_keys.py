"""Users and private keys as a config asks for them: from events to releases, as simulated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.running import SECRET, run
from weir import Events, simulate
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef

TICKS, MINUTE = 24, 60_000_000
START = 1_704_067_200_000_000
CONFIG = """
name: pages
schema: {{time: t, unit: who}}
key: {{{key}, discover: {{min_users: {users}, max_bytes: {longest}}}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T00:24:00Z}}
privacy: {{epsilon: 20, delta: 1e-3, unit: user, per: 12m, protect_for: all,
  contributions: {{ticks: 2, keys: 2, events: 2}}}}
aggregates:
  views: {{count: events, over: [all, 5]}}
  {more}
{mechanism}
blocks: {blocks}
"""


def plan_of(
    users: int = 2,
    more: str = "",
    blocks: int = 4,
    mechanism: str = "",
    key: str = "column: k",
    longest: int = 12,
) -> Plan:
    given = {"users": users, "more": more, "blocks": blocks, "mechanism": mechanism, "key": key}
    return Plan.from_yaml(CONFIG.format(**given, longest=longest))


def events_of(seed: int, n: int = 2500) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    times = (START + rng.integers(0, TICKS * MINUTE, n)).astype("datetime64[us]")
    keys = np.minimum(rng.geometric(0.12, n), 40).tolist()
    return [
        {"t": times[i].item(), "k": f"key {keys[i]}", "who": f"user {rng.integers(700)}"}
        for i in range(n)
    ]


def simulated(plan: Plan, rows: list[dict[str, Any]]) -> dict[Any, float]:
    times = np.array([row["t"] for row in rows], dtype="datetime64[us]").astype(np.int64)
    events = Events(times, [r["k"] for r in rows], {}, users=[r["who"] for r in rows])
    return {
        (one.key, tick, out.name, out.over): value
        for one in simulate(plan, events, SECRET)
        for out in one.released
        for tick, value in enumerate(out.value[:, 0, 0].tolist(), one.first_tick)
    }


def piped(plan: Plan, rows: list[dict[str, Any]], secret: SecretRef) -> dict[Any, float]:
    found = run(plan, rows, secret=secret, kind=dict).rows
    return {(r["key"], r["tick"], r["name"], r["over"]): r["value"][0] for r in found}


FREE = "newcomers: {count: users, per: period}"
CASES = [
    (1, "", ""),
    (20, "", ""),
    (20, FREE, ""),
    (5, FREE, "mechanism: {noise: k_norm}"),
    (5, "", "mechanism: {noise: discrete_gaussian}"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("users", "more", "mechanism"), CASES)
def test_what_is_piped_is_what_is_simulated(users, more, mechanism, secret) -> None:
    """Duplicates and another order change nothing; nor do blocks."""
    plan = plan_of(users, more, mechanism=mechanism)
    assert plan.discovery is not None and plan.discovery.hidden is (more == "")
    rows = events_of(users)
    expected = simulated(plan, rows)
    keys = {key for key, *_ in expected}
    assert 2 < len(keys) < 35
    again = [rows[i] for i in np.random.default_rng(1).permutation(len(rows)).tolist()]
    assert piped(plan, again, secret) == expected
    assert simulated(plan_of(users, more, 1, mechanism), rows) == expected


@pytest.mark.slow
def test_keys_go_and_come_again_in_a_pipeline_as_simulated(secret) -> None:
    text = "discover: {min_users: 2, max_bytes: 12}"
    config = CONFIG.format(
        users=2, longest=12, more=FREE, blocks=2, mechanism="", key="column: k"
    ).replace(text, "discover: {min_users: 2, max_bytes: 12, retire: {below: 26}}")
    plan = Plan.from_yaml(config.replace("per: 12m", "per: 4m"))
    rows = [row for row in events_of(6) if row["k"] != "key 2" or row["t"].minute // 4 % 2 == 0]
    expected = simulated(plan, rows)
    ticks: dict[str, set[int]] = {}
    for key, tick, *_ in expected:
        ticks.setdefault(key, set()).add(tick)
    assert any(max(t) < TICKS - 1 for t in ticks.values()), "some are gone at the end"
    assert any(max(t) - min(t) + 1 > len(t) for t in ticks.values()), "some came again"
    assert piped(plan, rows, secret) == expected
    assert plan.canonical["discovery"]["retire"] == {"below": 26, "after": 1}
    assert plan.digest != Plan.from_yaml(config.replace("below: 26", "below: 27")).digest


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (CONFIG.replace("per: 12m", "per: all"), "per: all has one without end"),
        (CONFIG, "no output releases its users"),
        (CONFIG.replace("min_users: {users}", "retire: {{below: 0}}"), "from 1"),
    ],
)
def test_a_rule_that_nothing_could_follow_is_refused(config: str, said: str) -> None:
    asked = config.replace("min_users: {users}", "retire: {{below: 20}}")
    given = {"more": "", "blocks": 2, "mechanism": "", "key": "column: k", "longest": 12}
    with pytest.raises(ConfigError, match=said) as refused:
        Plan.from_yaml(asked.format(**given))
    assert refused.value.field.startswith("key.discover.retire")


def test_other_users_do_not_move_a_key(secret) -> None:
    """Without one user, keys that the user never met keep every bit and their order."""
    plan, rows = plan_of(3), events_of(8)
    gone = "user 7"
    met = {row["k"] for row in rows if row["who"] == gone}
    before = simulated(plan, rows)
    after = simulated(plan, [row for row in rows if row["who"] != gone])
    assert met
    assert {at: v for at, v in before.items() if at[0] not in met} == {
        at: v for at, v in after.items() if at[0] not in met
    }


def test_simulate_gives_keys_in_order() -> None:
    plan, rows = plan_of(3), events_of(9)
    times = np.array([row["t"] for row in rows], dtype="datetime64[us]").astype(np.int64)
    events = Events(times, [r["k"] for r in rows], {}, users=[r["who"] for r in rows])
    found = [(one.key, one.first_tick) for one in simulate(plan, events, SECRET)]
    assert found == sorted(found) and len({tick for _, tick in found}) > 1


def test_a_plan_tells_of_it() -> None:
    plan = plan_of(20)
    told = plan.to_json()
    assert told["keys"] is None and plan.guarantee.delta_sel == 5e-4
    assert "20 users or more" in plan.guarantee.statement
    assert plan.guarantee.delta == 1e-3
    assert plan.canonical["discovery"]["min_users"] == 20
    assert plan_of(21).digest != plan.digest
    with pytest.raises(ConfigError, match="0.0005 of delta next to the noise"):
        plan.dp_event()
    released = plan_of(20, FREE)
    assert released.discovery is not None and not released.discovery.hidden


@pytest.mark.slow
def test_several_columns_make_a_key(secret) -> None:
    rows = [{**row, "site": "s"} for row in events_of(5)]
    named = [{**row, "k": f'["{row["k"]}","s"]'} for row in rows]
    plan = plan_of(5, key="columns: [k, site]", longest=13)
    expected = simulated(plan, named)
    assert {key for key, *_ in expected} <= {f'["key {i}","s"]' for i in range(1, 10)}
    assert expected and piped(plan, rows, secret) == expected, "longer names do not count"

"""Distinct users of the last N ticks, from events to releases: every user-period, there and not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.people import config_of
from tests.contracts.test_user_sensitivity import (
    SPAN,
    TICKS,
    drawn_caps,
    drawn_events,
    left_out,
)
from weir.dpcore import bounded_events
from weir.dpcore.arrays import Floats
from weir.dpcore.audit.law import Law, has_law
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.continual.active_users import ActiveUsers, changes_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate, sum_leaves

OVERS = [1, 2, 6]


def plan_of(caps: dict[str, Any], **privacy: Any) -> Plan:
    """The plan of several spans."""
    body = {"aggregates": {"active": {"count": "users", "over": OVERS}}}
    return Plan.from_config(config_of(body, {**caps}, **{"protect_for": "all", **privacy}))


def active(plan: Plan, events: Events) -> dict[int, Floats]:
    """N -> (ticks, K) exact numbers of active users, as leaves have them."""
    leaves = sum_leaves(plan, bounded(plan, events, TICKS), TICKS)
    step = round(1 / plan.program.channels[0].resolution)  # type: ignore[attr-defined]
    out = {}
    for over in OVERS:
        changes, _ = changes_of(np.zeros((leaves.shape[1], over), dtype=np.int64), leaves)
        out[over] = np.cumsum(changes[:, :, 0], axis=0) / step
    return out


def charged(plan: Plan, events: Events, stay: np.ndarray) -> dict[int, float]:
    """N -> units that what goes moves, over those that are paid for."""
    whole, rest = active(plan, events), active(plan, left_out(events, stay))
    found = {}
    for part in plan.program.parts:  # type: ignore[attr-defined]
        mechanism: ActiveUsers = part.mechanism
        change = whole[mechanism.over] - rest[mechanism.over]
        assert set(np.unique(change)) <= {0.0, 1.0}
        units = np.linalg.solve(mechanism.materialize(TICKS), change)
        mu = float((units**2).sum()) / mechanism.noise_scale**2 * mechanism.sensitivity**2
        found[mechanism.over] = mu / mechanism.loss(None).value ** 2
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_user_period_that_goes_moves_no_more_than_is_paid_for(seed: int) -> None:
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(3):
        plan = plan_of(drawn_caps(rng))
        events = drawn_events(rng, plan.clock.start, int(rng.integers(1, 3)))
        tick, users = plan.clock.tick_of(events.times), np.array(events.users)
        for user in np.unique(users):
            for period in (0, 1):
                stay = (users != user) | (tick // SPAN != period)
                found = charged(plan, events, stay)
                assert max(found.values()) <= 1 + 1e-9
                worst = max(worst, *found.values())
    assert worst > 0.3


def regular(plan: Plan, ticks: list[int], keys: list[str]) -> Events:
    """Two users who come at some ticks, one of them in the first period alone."""
    day = plan.clock.period
    at = [(who, t, k) for who in ("ann", "bob") for t in ticks for k in keys]
    times = np.array([plan.clock.start + t * day for _, t, _ in at])
    ids = [f"e{i}" for i in range(len(at))]
    return Events(times, [k for *_, k in at], {}, ids, [who for who, *_ in at])


def test_a_user_who_is_always_there_attains_the_bound() -> None:
    plan = plan_of({"keys": 1, "events": 1, "period_keys": 1})
    events = regular(plan, list(range(SPAN)), ["home"])
    found = charged(plan, events, np.array([who != "ann" for who in events.users or ()]))
    assert 0.99 < max(found.values()) <= 1 + 1e-9


def test_an_audit_knows_the_law_of_active_users_and_proves_nearly_the_claim() -> None:
    plan = plan_of({"keys": 1, "events": 1, "period_keys": 1})
    events = regular(plan, list(range(SPAN)), ["home"])
    both = [events, left_out(events, np.array([who != "ann" for who in events.users or ()]))]
    here, there = ([sum_leaves(plan, bounded(plan, e, TICKS), TICKS)[:, 1]] for e in both)
    law, claimed = Law(plan.program, TICKS), plan.program.loss(None).value
    weights, mu, exact = law.strongest(here, there, 0, TICKS)
    assert has_law(plan.program) and exact and weights.shape == (1, TICKS, len(OVERS))
    assert 0.9 * claimed < mu <= claimed
    assert law.most([here[0] - there[0]], TICKS) == pytest.approx(mu)


def test_a_mechanism_that_pays_k_times_one_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """``over_keys`` is for sums of which no two columns point against each other: here a user who
    changes keys moves more than it pays for."""
    from weir.dpcore.continual import active_users as module

    def short_cut(of_key: Any, most: int, cells: int, keys: int | None) -> float:
        return (cells // most) * of_key(most)

    def attacked() -> float:
        for cached in (module.user_units, module.chosen):
            cached.cache_clear()
        plan = plan_of({"ticks": SPAN, "keys": 1, "events": 1})
        day, ticks = plan.clock.period, list(range(SPAN))
        events = Events(
            np.array([plan.clock.start + t * day for t in ticks]),
            [("home", "help")[t // 2 % 2] for t in ticks],
            {},
            [f"e{t}" for t in ticks],
            ["ann"] * SPAN,
        )
        return max(charged(plan, events, np.zeros(SPAN, dtype=bool)).values())

    assert attacked() <= 1 + 1e-9
    monkeypatch.setattr(module, "shared", short_cut)
    assert attacked() > 1.2
    for cached in (module.user_units, module.chosen):
        cached.cache_clear()


def numbers(plan: Plan, events: Events) -> dict[tuple[str, int | None], list[float]]:
    """Releases without noise."""
    return {
        (run.key, out.over): out.value[:, 0, 0].tolist()
        for run in simulate(plan, events, bytes(32), noise=NoNoise(0))
        for out in run.released
    }


def true(plan: Plan, events: Events, key: str, over: int) -> list[float]:
    tick = plan.clock.tick_of(events.times)
    cells = {(t, who) for t, who, k in zip(tick, events.users or (), events.keys or (), strict=True)
             if k == key}  # fmt: skip
    return [float(len({w for t, w in cells if now - over < t <= now})) for now in range(TICKS)]


def test_releases_are_distinct_users_across_periods_and_keys() -> None:
    plan, rng = plan_of({"keys": 2, "events": 2}), np.random.default_rng(5)
    events = drawn_events(rng, plan.clock.start, 9)
    found = numbers(plan, events)
    assert len(found) == 6
    for (key, over), values in found.items():
        assert over is not None and values == true(plan, events, key, over)


def test_a_user_who_is_forgotten_when_a_period_ends_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: hashes of who was seen that are of their period, as those that caps choose by."""
    plan = plan_of({"keys": 1, "events": 1})
    events = regular(plan, [SPAN - 1, SPAN], ["home"])
    assert numbers(plan, events)["home", 6][SPAN : SPAN + 2] == [2.0, 2.0]

    def of_period(users: Any, names: Any, keys: Any) -> Any:
        ticks = plan.clock.tick_of(events.times)
        return bounded_events.pair_hashes(users, ticks // SPAN, names, keys)

    monkeypatch.setattr(bounded_events, "lasting_hashes", of_period)
    assert numbers(plan, events)["home", 6][SPAN] == 4.0


def test_without_a_bound_on_ticks_all_of_a_period_count() -> None:
    plan = plan_of({"keys": 1, "events": 1})
    assert plan.person is not None and plan.person.caps.ticks == SPAN
    assert plan_of({"ticks": SPAN, "keys": 1, "events": 1}).digest == plan.digest
    few = plan_of({"ticks": 2, "keys": 1, "events": 1, "period_keys": 1})
    many = plan_of({"keys": 1, "events": 1, "period_keys": 1})
    ratio = many.outputs[-1].stddev_worst / few.outputs[-1].stddev_worst
    assert 1 <= ratio < 1.15


def test_a_replaced_user_costs_twice() -> None:
    plan = plan_of({"keys": 1, "events": 1})
    twice = plan_of({"keys": 1, "events": 1}, relation="replace_one")
    for a, b in zip(plan.outputs, twice.outputs, strict=True):
        assert b.stddev_worst == pytest.approx(2 * a.stddev_worst, rel=1e-6)


REFUSED = [
    ({"over": "all"}, {}, r"aggregates\.a\.over = 'all'.*per: period"),
    ({"over": 7, "where": "x > 1"}, {}, r"aggregates\.a\.where.*over: 1"),
    ({"over": 5000}, {}, r"aggregates\.a\.over = 5000.*4,096.*longer clock\.period"),
    ({"over": "1 month"}, {}, r"aggregates\.a\.over = '1 month'.*clock of months.*90d"),
    ({"over": 25}, {}, r"aggregates\.a\.over = 25.*longer than the clock of 24 ticks"),
    ({"over": 7}, {"release_every": 7}, r"release_every = 7.*longer clock\.period"),
    ({"over": 7}, {"key": {"column": "page", "discover": {}}}, r"key\.discover.*declared"),
    ({"over": 7}, {"mechanism": {"noise": "k_norm"}}, r"mechanism\.noise = 'k_norm'.*Gaussian"),
    ({"over": 7}, {"mechanism": {"continual_sum": "tree"}}, r"mechanism\.continual_sum = 'tree'"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "rest", "said"), REFUSED)
def test_refusals_say_what_to_write(body: Any, rest: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Plan.from_config(config_of({"aggregates": {"a": {"count": "users", **body}}, **rest}))


def test_other_refusals_say_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"privacy\.delta = 0.*Gaussian.*1e-6"):
        plan_of({"keys": 1, "events": 1}, delta=0)
    with pytest.raises(ConfigError, match=r"privacy\.contributions\.ticks.*per: all.*365"):
        plan_of({"keys": 1, "events": 1}, per="all")
    with pytest.raises(ConfigError, match=r"privacy\.contributions\.ticks.*is missing; write"):
        config_of({"aggregates": {"n": {"count": "events"}}}, {"keys": 1, "events": 1})

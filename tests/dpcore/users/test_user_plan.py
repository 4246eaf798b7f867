"""What a plan says to users: three guarantees, in numbers and in words, and what their caps "
"cost."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.contracts.patterns import pattern
from tests.dpcore.users.test_user_config import VISITS, changed
from weir.dpcore.accounting.guarantee import PrivacyLoss, added_up
from weir.dpcore.accounting.statement import caps_in_words
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing import user_periods
from weir.dpcore.pricing.user_periods import loss_of_periods


def plan(data: dict[str, Any] | None = None, **sections: Any) -> Plan:
    return Plan.from_config(PlanConfig.from_dict(data or changed(**sections)))


HOURS: dict[str, Any] = {
    "clock": {"period": "1h"},
    "privacy": {
        "epsilon": 1,
        "per": "1d",
        "protect_for": "1d",
        "contributions": {"ticks": 4, "keys": 1, "events": 1},
    },
    "mechanism": {"continual_sum": "blt"},
}


def test_three_promises_are_told() -> None:
    promised = plan(**HOURS).guarantee
    assert promised.unit == "user"
    assert promised.event is not None and promised.event < promised.epsilon
    two, seven, thirty = promised.together
    assert [row.count for row in promised.together] == [2, 7, 30]
    assert (two.epsilon, seven.epsilon) == (
        pytest.approx(2.1, abs=0.1),
        pytest.approx(10, rel=0.05),
    )
    assert thirty.epsilon == pytest.approx(132, rel=0.04)
    for row in promised.together:
        assert row.anywhere is not None and row.anywhere >= row.epsilon
        assert row.delta == promised.delta


def test_the_statement_says_who_what_and_on_which_condition() -> None:
    text = plan(**HOURS).guarantee.statement
    assert "all events of a single user in one period (1d, counted from clock.start on)" in text
    assert "absent in the other" in text
    assert "only those of 4 ticks, of 1 key in each, and of 1 event in each key and tick" in text
    assert "during the 24 ticks from the last tick of that period on, and before it" in text
    assert "epsilon = 1)" in text and "A single event that moves no contribution bound" in text
    assert "30 periods in a row: epsilon = " in text and "anywhere within a year" in text
    assert "follows what has been released" in text
    assert "conditional on no event being overdue" in text
    replaced = plan(**{**HOURS, "privacy": {**HOURS["privacy"], "relation": "replace_one"}})
    assert "replaced by any others of that user" in replaced.guarantee.statement
    months = plan(privacy={"per": "1 month"}).guarantee.statement
    assert "in one period (1 month of the calendar, in UTC)" in months


def test_caps_are_told_where_they_are_set() -> None:
    told = caps_in_words(pattern(30, 8, 3, 2, per_key=4, period_keys=10, total=20), 5)
    assert "8 ticks, 2 ticks apart or more" in told
    assert "4 ticks of a key and 10 keys and 20 pairs of a key and a tick in the whole" in told
    assert "whole period at most" not in caps_in_words(pattern(30, 8, 3), 5)


def test_a_period_without_end_is_protected_for_ever() -> None:
    promised = plan(privacy={"per": "all"})
    assert promised.guarantee.window is None
    assert promised.guarantee.together == ()
    assert any("keeps what every user has used up" in text for text in promised.warnings)
    assert promised.program.loss(None).epsilon(1e-6) == pytest.approx(2, rel=1e-6)


def test_a_clock_of_one_period_has_no_more_of_them() -> None:
    short = plan(clock={"end": "2025-01-21T00:00:00Z"})
    assert short.guarantee.together == ()
    some = plan(clock={"end": "2025-05-21T00:00:00Z"})
    assert [row.count for row in some.guarantee.together] == [2]


def test_a_year_has_no_room_for_thirty_months() -> None:
    rows = plan(privacy={"per": "1 month"}).guarantee.together
    assert [(row.count, row.anywhere is None) for row in rows] == [
        (2, False),
        (7, False),
        (30, True),
    ]


def test_what_finds_keys_adds_to_delta_and_ends_with_its_period() -> None:
    key = {"column": "page", "declared": None, "discover": {"min_users": 20}}
    found = plan(key=key, clock={"period": "1h"}, privacy={"per": "1d"})
    promised = found.guarantee
    assert promised.delta == pytest.approx(1e-6)
    assert 0 < promised.delta_sel < promised.delta
    for row in promised.together:
        noise = promised.delta - promised.delta_sel
        assert row.delta == pytest.approx(noise + row.count * promised.delta_sel)
    assert "a noisy count of them is large enough" in promised.statement
    (hidden,) = [part for part in found.program.parts if part.hidden]  # type: ignore[attr-defined]
    one = hidden.loss(24)
    # Noise begins again with a period: three of them compose, as mu does, and are no group.
    assert one.kind == "gdp" and hidden.loss(None) == one
    assert hidden.loss_of_periods(3, 24, 9).value == pytest.approx(math.sqrt(3) * one.value)
    assert hidden.loss_of_event(24).value < one.value


def test_a_short_window_makes_long_stays_dear_and_says_so() -> None:
    words = "protect_for is short compared with the stays of users"
    assert any(words in text for text in plan(**HOURS).warnings)
    longer = {**HOURS["privacy"], "protect_for": "30d"}
    assert not any(words in text for text in plan(**{**HOURS, "privacy": longer}).warnings)


def test_caps_are_priced_by_what_the_plan_would_be() -> None:
    priced = plan(**HOURS)
    fixed = {"continual_sum": "blt", "noise": "gaussian"}
    for one in priced.cap_prices:
        caps = {**HOURS["privacy"]["contributions"], one.cap: one.other}
        other = plan(
            **{
                **HOURS,
                "privacy": {**HOURS["privacy"], "contributions": caps},
                "mechanism": fixed,
            }
        )
        ratio = other.outputs[0].stddev_worst / priced.outputs[0].stddev_worst
        assert one.noise == pytest.approx(ratio, rel=0.02), one
    found = {(one.cap, one.other): one.noise for one in priced.cap_prices}
    assert found["ticks", 2] < found["ticks", 3] < 1 < found["ticks", 8] < 2
    assert found["events", 2] == pytest.approx(2, rel=1e-6)
    assert found["keys", 2] == pytest.approx(math.sqrt(2), rel=1e-6)


def test_json_holds_all_of_it_and_plans_of_events_none() -> None:
    facts = json.loads(json.dumps(plan(**HOURS).to_json()))
    user = facts["user"]
    assert user["caps"]["ticks"] == 4
    assert (user["per"], user["period_ticks"]) == (86_400_000_000, 24)
    assert [row["count"] for row in user["periods"]] == [2, 7, 30]
    prices = user.pop("cap_prices")
    assert {row["cap"] for row in prices} == {"ticks", "spacing", "keys", "events"}
    assert plan(**HOURS).to_json(prices=False)["user"] == user
    assert facts["canonical"]["person"]["caps"]["keys"] == 1
    events = plan(privacy={"unit": "event", "per": None, "contributions": None})
    assert events.to_json()["user"] is None
    assert "person" not in events.canonical
    assert "pattern" not in json.dumps(events.canonical)


def test_other_caps_are_another_plan() -> None:
    digests = {
        plan(privacy={"contributions": {"ticks": 8, "keys": 3, "events": 5, **more}}).digest
        for more in ({}, {"ticks": 7}, {"total": 24}, {"period_keys": 24}, {"spacing": 2})
    }
    digests.add(plan(privacy={"per": "15d"}).digest)
    assert len(digests) == 6


def test_releases_at_every_nth_tick_are_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        plan({**VISITS, "release_every": 2})
    assert refused.value.field == "release_every"


def test_losses_of_periods_that_nothing_joins_add_up() -> None:
    def gdp(ticks: int | None) -> PrivacyLoss:
        return PrivacyLoss("gdp", float(ticks or 0))

    assert added_up(gdp, 10, 3, 5, 3).value == 25 + 15 + 5
    assert added_up(gdp, 10, 2, 5, 4).value == 35 + 5
    rho = added_up(lambda ticks: PrivacyLoss("zcdp", 4.0), 10, 3, None, 3)
    assert rho.value == pytest.approx(36.0)


@pytest.mark.slow
def test_a_user_of_the_whole_clock_is_told_however_many_periods_it_has() -> None:
    for months in range(1, 8):
        promised = plan(
            privacy={"per": "1 month"}, clock={"end": f"2025-{months + 1:02d}-01T00:00:00Z"}
        )
        every = promised.guarantee.every_period
        assert every is not None and every.count == months
        loss = loss_of_periods(
            promised.program, promised.person, months, months, promised.guarantee.window
        )
        delta = promised.guarantee.delta
        assert every.epsilon == pytest.approx(loss.epsilon(delta), rel=1e-9)
        rows = [row.epsilon for row in promised.guarantee.together if row.count < months]
        assert every.epsilon > max(rows, default=0.0)
        words = f"a user present in every period ({months}) adds has epsilon = {every.epsilon:.4g}"
        assert words in promised.guarantee.statement
        row = promised.to_json()["user"]["every_period"]
        assert (row["count"], row["epsilon"]) == (months, every.epsilon)
        assert f"{every.epsilon:.6g}" in promised._repr_html_()


def test_nothing_bounds_a_user_of_a_clock_without_end() -> None:
    endless = plan(**HOURS)
    every = endless.guarantee.every_period
    assert every is not None and every.count is None and math.isinf(every.epsilon)
    assert endless.to_json()["user"]["every_period"]["epsilon"] is None
    assert "(the clock has no end) adds has epsilon = no bound" in endless.guarantee.statement
    assert "no bound" in endless._repr_html_()
    once = plan(privacy={"per": "all"}).guarantee.every_period
    assert once is not None and (once.count, once.epsilon) == (1, pytest.approx(2, rel=1e-6))
    events = plan(privacy={"unit": "event", "per": None, "contributions": None})
    assert events.guarantee.every_period is None


@pytest.mark.parametrize("name", ["blt", "tree", "merging_tree", "independent"])
@pytest.mark.parametrize("window", ["1d", "3d", "all"])
def test_of_very_many_periods_the_bound_is_never_too_small(
    name: str, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = {
        **HOURS,
        "clock": {"period": "1h", "end": "2025-01-13T00:00:00Z"},
        "privacy": {**HOURS["privacy"], "protect_for": window},
        "mechanism": {"continual_sum": name},
    }
    exact = plan(**sections).guarantee.every_period
    monkeypatch.setattr(user_periods, "EXACT_PERIODS", 2)
    bounded = plan(**sections).guarantee.every_period
    assert exact is not None and bounded is not None and exact.count == bounded.count == 12
    assert bounded.epsilon >= exact.epsilon * (1 - 1e-12)

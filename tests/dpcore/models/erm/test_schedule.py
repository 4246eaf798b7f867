"""Schedules: no record can pay more than the budget, by brute force over its arrival."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.erm import tau
from weir.dpcore.models.erm.schedule import (
    FIRST,
    FOREVER,
    RefitPhase,
    RefitSchedule,
    endless,
    schedule_for,
)

BUDGETS = [PrivacyLoss("gdp", 0.5), PrivacyLoss("zcdp", 0.2), PrivacyLoss("pure", 1.0)]


def paid(schedule: RefitSchedule, arrival: int, ticks: int) -> Fraction:
    """By the runs that actually happen from its arrival on."""
    shares = (schedule.share(tick) for tick in range(arrival, arrival + ticks))
    return sum((share for share in shares if share is not None), Fraction(0))


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2, 5, 7, 30])
@pytest.mark.parametrize("window", [1, 2, 6, 30, 61, None])
@pytest.mark.parametrize("horizon", [30, 60, 61, None])
def test_no_record_pays_more_than_the_budget_within_the_window(
    every: int, window: int | None, horizon: int | None
) -> None:
    schedule = schedule_for(lambda ticks: every, window, horizon, BUDGETS[0])
    ticks = window or horizon or 500
    worst = max(paid(schedule, arrival, ticks) for arrival in range(horizon or 130))
    assert worst <= 1
    spent = schedule.spent(window)
    assert spent is not None and worst <= spent <= 1
    if not (window is None and horizon is None):
        assert worst == spent == 1  # and nothing is left over
    for n in (0, 1, 3, 17, 200):
        worst = max(paid(schedule, arrival, n) for arrival in range(horizon or 130))
        bound = schedule.spent(n)
        assert bound is None or worst <= bound


def test_the_loss_is_that_of_the_shares_in_every_currency() -> None:
    for budget in BUDGETS:
        schedule = schedule_for(lambda ticks: 5, 20, None, budget)
        assert schedule.loss(20) == budget and schedule.loss(0).value == 0
        half = schedule.loss(10).value / budget.value
        assert half == pytest.approx(math.sqrt(0.5) if budget.kind == "gdp" else 0.5)
        assert schedule.loss(80).value == pytest.approx(
            budget.value * (2 if budget.kind == "gdp" else 4)
        )
        assert math.isinf(schedule.loss(None).value)
        values = [schedule.loss(n).value for n in (0, 1, 5, 6, 20, 21, 1000, None)]
        assert values == sorted(values)


@pytest.mark.parametrize("every", [lambda ticks: 1, lambda ticks: 1000, lambda ticks: ticks // 9])
def test_a_stream_without_end_never_pays_more_than_the_budget(every: object) -> None:
    phases = endless(every)  # type: ignore[arg-type]
    total = sum(phase.share * ((phase.stop - phase.start) // phase.every) for phase in phases)
    assert total == 1  # for ever, from the first tick on
    assert phases[-1].stop == FOREVER
    for one, other in zip(phases, phases[1:], strict=False):
        assert one.stop == other.start and other.stop == 2 * other.start
    schedule = RefitSchedule(phases, BUDGETS[1])
    assert schedule.loss(None) == BUDGETS[1] == schedule.loss(FOREVER)
    assert schedule.share(FOREVER + every(FOREVER) - 1) is None  # type: ignore[operator]
    assert schedule.smallest <= schedule.largest < 1


def test_phases_run_at_public_ticks() -> None:
    schedule = RefitSchedule(endless(lambda ticks: 16), BUDGETS[0])
    runs = [tick for tick in range(4 * FIRST) if schedule.share(tick) is not None]
    assert runs == list(range(15, 4 * FIRST, 16))
    assert schedule.share(15) == 2 * schedule.share(4 * FIRST - 1)


def test_a_schedule_without_a_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing would ever be fitted"):
        schedule_for(lambda ticks: 31, None, 30, BUDGETS[0])
    with pytest.raises(ConfigError, match="model.every"):
        RefitSchedule((RefitPhase(0, 5, 6, Fraction(1)),), BUDGETS[0])


@pytest.mark.parametrize("ticks", [1, 10, 1000, 10**5, 1 << 40])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_rules_are_the_papers(ticks: int, epsilon: float) -> None:
    def near(found: int, formula: float) -> bool:
        expected = min(max(1, ticks), max(1, math.ceil(formula)))
        return found == expected or abs(formula - round(formula)) < 1e-9 * formula

    d, lipschitz, nu, size = 20, 2.5, 0.3, 2.0
    assert near(tau.convex(ticks, d, epsilon), (ticks * d) ** (1 / 3) / epsilon ** (2 / 3))
    strong = math.sqrt(d * lipschitz) / (math.sqrt(nu) * epsilon * math.sqrt(size))
    assert near(tau.strongly_convex(ticks, d, epsilon, lipschitz, nu, size), strong)


def test_roots_that_are_whole_are_not_rounded_up() -> None:
    assert tau.convex(8000, 1, 1.0) == 20  # a cube: 8000 ** (1 / 3) is 19.999999999999996
    assert tau.convex(8001, 1, 1.0) == 21
    assert tau.strongly_convex(10**6, 9, 1.0, 4.0, 1.0, 1.0) == 6
    with pytest.raises(ConfigError, match="curvature"):
        tau.strongly_convex(100, 9, 1.0, 4.0, 0.0, 1.0)

"""Ledgers of users: a period of a plan, several of them, and parts of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.ledger.conftest import asking
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.price import PeriodGrid
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.pricing.user_periods import loss_of_periods
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.ledger import adjustments as hand
from weir.pipelines.ledger.charge_request import opened, price_of
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.ledger.reservations import look, reserve

USERS = SMALL.replace("id: id}", "id: id, unit: who}").replace(
    "protect_for: 8 ticks}",
    "protect_for: 8 ticks, unit: user, per: 4h, contributions: {ticks: 2, keys: 2, events: 3}}",
)


def of(tmp_path: Path, *sets: str, text: str = USERS) -> tuple[Ledger, Plan]:
    """A ledger and a plan of users in periods of four hours."""
    place = f"{{sqlite: {tmp_path / 'ledger.db'}, scope: x, budget: {{epsilon: 9, delta: 1e-5}}}}"
    job = loads(f"{text}ledger: {place}\n", sets)
    assert job.ledger is not None
    return job.ledger, plan_of(job)


def test_a_plan_opens_a_scope_of_its_own_periods(tmp_path: Path) -> None:
    ledger, plan = of(tmp_path)
    scope = opened(ledger, plan)
    assert (scope.unit, scope.relation) == ("user", "add_remove")
    assert scope.grid == PeriodGrid(per=4 * 3_600_000_000, origin=plan.clock.start)
    found = look(ledger, plan)
    assert found.asked == pytest.approx(1.0, rel=1e-3) or found.asked < 1.0
    assert found.asked == pytest.approx(plan.program.loss(8).epsilon(1e-5))


@pytest.mark.parametrize(("per", "periods"), [("4h", 1), ("8h", 2), ("1d", 6), ("all", 6)])
def test_longer_periods_hold_several(tmp_path: Path, per: str, periods: int) -> None:
    ledger, plan = of(tmp_path, f"ledger.per={per}")
    found = look(ledger, plan)
    exact = (
        plan.program.loss(8)
        if periods == 1
        else loss_of_periods(plan.program, plan.person, periods, periods, 8)
    )
    assert found.asked == pytest.approx(exact.epsilon(1e-5))
    assert all(
        point.periods in (1, periods) for point in price_of(plan, opened(ledger, plan)).points
    )


@pytest.mark.parametrize("narrow", ["ledger.per=1h", "ledger.unit=event"])
def test_a_part_of_a_period_is_a_replacement(tmp_path: Path, narrow: str) -> None:
    ledger, plan = of(tmp_path, narrow)
    twice = plan.program.loss(8).of_group(2)
    assert look(ledger, plan).asked == pytest.approx(twice.epsilon(1e-5))


def test_plans_of_users_and_of_events_in_one_scope(tmp_path: Path) -> None:
    ledger, plan = of(tmp_path)
    reserve(ledger, asking(plan, "mark"))
    _, events = of(tmp_path, text=SMALL)
    with pytest.raises(ConfigError, match="any number of them"):
        reserve(ledger, asking(events, "mark", "b"))
    of_events, other = of(tmp_path, "ledger.scope=y", "ledger.unit=event", text=SMALL)
    hand.open_scope(of_events, other)
    reserve(of_events, asking(other, "mark", "c"))
    found = reserve(of_events.model_copy(update={"unit": None}), asking(plan, "mark", "d"))
    alone = [PrivacyLoss("gdp", plan.program.loss(8).value * 2), other.program.loss(8)]
    mu = sum(one.value**2 for one in alone) ** 0.5
    assert found.standing.together == pytest.approx(PrivacyLoss("gdp", mu).epsilon(1e-5))


def test_what_finds_keys_adds_its_delta(tmp_path: Path) -> None:
    text = USERS.replace("declared: [north, south]", "discover: {min_users: 5}").replace(
        "visits: {count: events}", "visits: {count: users}"
    )
    ledger, plan = of(tmp_path, text=text)
    assert plan.guarantee.delta_sel > 0
    scope = opened(ledger, plan)
    assert price_of(plan, scope).slack == plan.guarantee.delta_sel
    assert look(ledger, plan).slack == pytest.approx(plan.guarantee.delta_sel)
    wide, _ = of(tmp_path, "ledger.per=8h", text=text)
    assert look(wide, plan).slack == pytest.approx(2 * plan.guarantee.delta_sel)


def test_months_of_days(tmp_path: Path) -> None:
    text = (
        USERS.replace("period: 1h, end: 2024-01-02T", "period: 1d, end: 2025-01-01T")
        .replace("per: 4h", "per: 1d")
        .replace("ticks: 2", "ticks: 1")
    )
    ledger, plan = of(tmp_path, "ledger.per=1 month", text=text)
    exact = loss_of_periods(plan.program, plan.person, 31, 31, 8)
    assert look(ledger, plan).asked == pytest.approx(exact.epsilon(1e-5))


@pytest.mark.slow
def test_a_run_over_users_is_entered(weir: Weir, tmp_path: Path) -> None:
    rows = [
        f"2024-01-01T{hour:02d}:{i:02d}:00Z,e{hour}-{i},{('north', 'south')[i % 2]},{i},u{i % 4}"
        for hour in range(24)
        for i in range(8)
    ]
    (tmp_path / "events.csv").write_text("\n".join(["at,id,store,amount,who", *rows]) + "\n")
    (tmp_path / "secret.key").write_text("ab" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    job = tmp_path / "shop.yaml"
    section = "{sqlite: ledger.db, scope: x, budget: {epsilon: 1.3, delta: 1e-6}, per: 4h}"
    job.write_text(f"{USERS}secret: {{file: secret.key}}\nledger: {section}\n")
    result = weir("run", job, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["ledger"]["together"] == pytest.approx(1.0, rel=1e-3)
    page = " ".join(weir("ledger", "show", job).stdout.split())
    assert "one user in a period of 4h (add_remove), for 8h" in page
    again = weir("run", job, "--set", "sink.parquet=b", "--set", "privacy.epsilon=0.99")
    assert again.exit_code == 2 and "is not enough" in again.stderr

"""What a plan asks of a ledger: its price, and the scope that it opens where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.accounting.price import ANY_TIME, PeriodGrid, Point, Price, Unit
from weir.dpcore.accounting.scope import Scope, periods
from weir.dpcore.config import durations
from weir.dpcore.config.durations import months_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import DAY, UTC, Calendar
from weir.dpcore.plan import Plan
from weir.dpcore.pricing.user_periods import loss_of_periods
from weir.dpcore.users.unit import Months
from weir.pipelines.ledger.ledger import Ledger

TIMES: Final = (1, 2, 10, 100)
"""Windows at which a price is kept in addition the scope's horizon."""


def opened(ledger: Ledger, plan: Plan) -> Scope:
    """The scope that a plan opens: as the section says, and for the rest as the plan is.

    Raises:
      ConfigError: they do not go together.
    """
    unit: Unit = ledger.whose or _unit(plan)
    relation = ledger.relation or plan.guarantee.relation
    if unit == "user" and relation == "replace_anywhere":
        raise ConfigError(
            "ledger.relation", relation, "is for scopes of events: users have keys and ticks."
        )
    kinds: dict[str, LossKind] = {"gdp": "gdp", "zcdp": "zcdp", "pure": "pure"}
    accounting = kinds[ledger.accounting or plan.program.loss(1).kind]
    return Scope(
        unit,
        relation,
        ledger.budget.epsilon,
        ledger.budget.delta,
        accounting,
        _horizon(ledger, plan),
        _grid(ledger, plan) if unit == "user" else None,
    )


def refuse_other(ledger: Ledger, scope: Scope) -> None:
    """Refuses a section that says something else than the scope was opened with.

    Raises:
      ConfigError: names the field, both values and the remedy.
    """
    grid = scope.grid
    said = {
        "budget.epsilon": (ledger.budget.epsilon, scope.epsilon),
        "budget.delta": (ledger.budget.delta, scope.delta),
        "unit": (ledger.whose, scope.unit),
        "relation": (ledger.relation, scope.relation),
        "accounting": (ledger.accounting, scope.accounting),
    }
    for name, (now, before) in said.items():
        if now is not None and now != before:
            remedy = (
                "put it back, or change the scope for all plans: weir ledger add CONFIG --budget."
                if name.startswith("budget")
                else "put it back, or open another scope, which keeps a budget of its own: weir "
                "ledger open CONFIG."
            )
            raise ConfigError(
                f"ledger.{name}",
                now,
                f"differs from the scope {ledger.scope!r}, which was opened with {before}: "
                f"{remedy}",
            )
    if ledger.protect_for is not None and _microseconds(ledger.protect_for) != scope.horizon:
        raise ConfigError(
            "ledger.protect_for",
            ledger.protect_for,
            f"differs from the scope {ledger.scope!r}, which was opened with "
            f"{shown_horizon(scope)}: put it back, or open another scope: weir ledger open CONFIG.",
        )
    if ledger.per is not None and grid is not None:
        months, per = months_of(ledger.per), None
        if months is None:
            per = _microseconds(ledger.per)
        held = grid.per if grid.days is None else grid.days * DAY
        if (per, months) != (held, grid.months):
            raise ConfigError(
                "ledger.per",
                ledger.per,
                f"differs from the scope {ledger.scope!r}, which was opened with "
                f"{shown_grid(grid)}: put it back, or open another scope: weir ledger open CONFIG.",
            )


def price_of(plan: Plan, scope: Scope) -> Price:
    """What a plan costs one of its units: at its own windows, and at the scope's horizon."""
    clock, window = plan.clock, plan.guarantee.window
    wanted = {scope.horizon, None if window is None else window * clock.period}
    if window is not None:
        wanted |= {times * window * clock.period for times in TIMES} | {None}
    first, last = clock.start, None if clock.ticks is None else clock.tick_start(clock.ticks)
    if clock.once:
        first, last = ANY_TIME, None
    grid = None if plan.person is None else _own_grid(plan)
    promise = plan.guarantee
    bare = Price(_unit(plan), promise.relation, first, last, (), promise.delta_sel, grid)
    count, _ = periods(bare, scope)
    points = tuple(
        Point(many, horizon, _loss(plan, many, _ticks(plan, horizon)))
        for horizon in sorted(wanted, key=lambda item: (item is None, item))
        for many in sorted({1, count})
    )
    return replace(bare, points=points)


def _loss(plan: Plan, many: int, ticks: int | None) -> PrivacyLoss:
    """Loss of a unit in so many periods in a row, against what is released within ``ticks``."""
    if many == 1:
        return plan.program.loss(ticks)
    return loss_of_periods(plan.program, plan.person, many, many, ticks)


def _ticks(plan: Plan, horizon: int | None) -> int | None:
    """Releases of so many ticks are within a horizon of any event: rounded up, at least one."""
    if horizon is None:
        return plan.clock.ticks
    ticks = max(1, -(-horizon // plan.clock.period))
    return ticks if plan.clock.ticks is None else min(ticks, plan.clock.ticks)


def _unit(plan: Plan) -> Unit:
    return "event" if plan.person is None else "user"


def _own_grid(plan: Plan) -> PeriodGrid:
    assert plan.person is not None
    per, calendar = plan.person.periods.per, plan.clock.calendar
    if per is not None and calendar is not None and calendar.zone != UTC:
        return _zoned(plan, calendar)
    if isinstance(per, Months):
        return PeriodGrid(months=per.count, origin=plan.clock.start)
    return PeriodGrid(per=per, origin=plan.clock.start)


def _zoned(plan: Plan, calendar: Calendar) -> PeriodGrid:
    """Periods of a calendar clock in its zone: months of it, or days.

    Raises:
      ConfigError: this machine's rules of the zone are not those that the plan was made by, or the
        zone left out a day within a period.
    """
    assert plan.person is not None and plan.clock.ticks is not None
    periods, start = plan.person.periods, plan.clock.start
    if isinstance(periods.per, Months):
        grid = PeriodGrid(months=periods.per.count, origin=start, zone=calendar.zone)
    elif calendar.months:
        length = periods.longest or 1
        grid = PeriodGrid(months=length * calendar.months, origin=start, zone=calendar.zone)
    else:
        length = plan.clock.ticks_in(periods.per or 0)[0] * calendar.days
        grid = PeriodGrid(origin=start, days=length, zone=calendar.zone)
    ticks = np.arange(plan.clock.ticks)
    firsts = ticks[1:][np.diff(periods.of(ticks)) > 0]
    begun = [plan.clock.tick_start(tick) for tick in firsts.tolist()]
    numbers = [grid.of(moment) for moment in begun]
    whole = grid.days == 1 or numbers == list(range(1, len(numbers) + 1))
    if not whole or begun != [grid.first(number) for number in numbers]:
        raise ConfigError(
            "clock.zone",
            calendar.zone,
            "has other days on this machine than in this plan, or left one out within a period of "
            "privacy.per, so that a ledger cannot tell its periods: take per: 1d or 1 month, and "
            "the same tzdata everywhere.",
        )
    return grid


def _grid(ledger: Ledger, plan: Plan) -> PeriodGrid:
    """The periods of the scope that a plan opens."""
    if ledger.per is None:
        if plan.person is None:
            raise ConfigError(
                "ledger.per",
                None,
                "is missing: a scope of users has a budget for a period, like per: 30d, or all.",
            )
        return _own_grid(plan)
    months, calendar = months_of(ledger.per), plan.clock.calendar
    zone = UTC if calendar is None else calendar.zone
    if months is not None:
        return PeriodGrid(months=months, origin=plan.clock.start, zone=zone)
    per = _microseconds(ledger.per)
    if per is not None and per % DAY == 0 and zone != UTC:
        return PeriodGrid(origin=plan.clock.start, days=per // DAY, zone=zone)
    return PeriodGrid(per=per, origin=plan.clock.start)


def _horizon(ledger: Ledger, plan: Plan) -> int | None:
    if ledger.protect_for is not None:
        return _microseconds(ledger.protect_for)
    window = plan.guarantee.window
    if window is not None and plan.clock.calendar is not None:
        raise ConfigError(
            "ledger.protect_for",
            None,
            f"is needed where ticks are of the calendar ({plan.clock.unit}), whose lengths differ: "
            "write a duration, like 365d, or all.",
        )
    return None if window is None else window * plan.clock.period


def _microseconds(text: str) -> int | None:
    return None if text == "all" else durations.duration(text)


def shown_horizon(scope: Scope) -> str:
    """A scope's horizon as a config writes it."""
    return "all" if scope.horizon is None else durations.show_duration(scope.horizon)


def shown_grid(grid: PeriodGrid | None) -> str:
    """A scope's periods as a config writes them."""
    if grid is None or grid.is_all:
        return "all"
    if grid.months is not None:
        return f"{grid.months} month{'' if grid.months == 1 else 's'}"
    if grid.days is not None:
        return f"{grid.days}d"
    return durations.show_duration(grid.per or 0)

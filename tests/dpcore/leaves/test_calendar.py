"""Ticks of the calendar against a walk through every zone's days with zoneinfo."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from weir.dpcore.config import clock as clock_section
from weir.dpcore.config.clock import ClockConfig
from weir.dpcore.config.durations import timestamp
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.users.unit import Months, Periods

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HALF_HOUR = 1_800_000_000
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "America/Sao_Paulo",
    "America/Havana",
)
SPANS = (("2023-01-01", "2025-02-01"), ("1985-12-01", "1986-02-01"), ("2018-02-01", "2018-12-01"))
"""A leap year and its changes; when Kathmandu went forward by a quarter of an hour; when clocks
jumped over midnight in Sao Paulo, and went back to it in Havana."""


def clock(start: str, period: str, zone: str | None, end: str | None) -> Clock:
    fields = {"start": start, "period": period, "zone": zone, "end": end}
    return ClockConfig(**{k: v for k, v in fields.items() if v is not None}).to_clock()


def local(micros: int, zone: str) -> date:
    return (EPOCH + timedelta(microseconds=micros)).astimezone(ZoneInfo(zone)).date()


@pytest.mark.slow
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("zone", ZONES)
def test_a_moment_belongs_to_the_day_and_month_that_its_zone_says(
    zone: str, span: tuple[str, str]
) -> None:
    start, end = (f"{day}T00:00:00" for day in span)
    days, months = clock(start, "1d", zone, end), clock(start, "1 month", zone, end)
    first = date.fromisoformat(span[0])
    assert days.end is not None and days.end == months.end
    moments = np.arange(days.start, days.end, HALF_HOUR)
    edges = days.starts(np.arange(1, days.ticks or 0))
    moments = np.concatenate([moments, edges - 1, edges])
    dates = [local(int(moment), zone) for moment in moments]
    of_months = [12 * (d.year - first.year) + d.month - first.month for d in dates]
    assert days.tick_of(moments).tolist() == [(d - first).days for d in dates]
    assert months.tick_of(moments).tolist() == of_months
    assert days.ticks == (date.fromisoformat(span[1]) - first).days
    assert [days.tick_at(int(m)) for m in moments[:99]] == days.tick_of(moments[:99]).tolist()


@pytest.mark.parametrize(
    ("period", "end"),
    [
        ("1d", "2026-01-01"),
        ("7d", "2025-12-29"),
        ("1 month", "2026-01-01"),
        ("5 months", "2026-02-01"),
    ],
)
@pytest.mark.parametrize("zone", [*ZONES, "UTC"])
def test_a_tick_begins_where_the_one_before_ends_beyond_the_clock_too(
    zone: str, period: str, end: str
) -> None:
    made = clock("2024-01-01T00:00:00", period, zone, end)
    ticks = np.arange(-20, (made.ticks or 0) + 50)
    starts = made.starts(ticks)
    assert (np.diff(starts) >= made.period).all()
    assert made.tick_of(starts).tolist() == ticks.tolist()
    assert made.tick_of(starts - 1).tolist() == (ticks - 1).tolist()
    assert [made.tick_start(int(tick)) for tick in ticks] == starts.tolist()
    assert pickle.loads(pickle.dumps(made)) == made and made.start == made.tick_start(0)


def test_days_of_berlin_have_23_and_25_hours() -> None:
    made = clock("2024-01-01T00:00:00", "1d", "Europe/Berlin", "2025-01-01T00:00:00")
    hours = np.diff(made.starts(np.arange(367))) // 3_600_000_000
    assert {int(h): int(n) for h, n in zip(*np.unique(hours, return_counts=True), strict=True)} == {
        23: 1, 24: 364, 25: 1,
    }  # fmt: skip
    assert made.period == 23 * 3_600_000_000


def test_a_day_that_a_zone_skipped_is_no_tick() -> None:
    made = clock("2011-12-28T00:00:00", "1d", "Pacific/Apia", "2012-01-02T00:00:00")
    assert made.ticks == 4 and made.calendar is not None
    walls = made.calendar.walls(np.arange(4)).astype("datetime64[us]").astype("datetime64[D]")
    assert [str(day) for day in walls] == ["2011-12-28", "2011-12-29", "2011-12-31", "2012-01-01"]


@pytest.mark.parametrize("zone", [*ZONES, "UTC"])
@pytest.mark.parametrize(("end", "ticks"), [("2025-04-01T00:00:00", 3), ("2025-02-01", 1)])
def test_the_last_month_ends_with_the_clock(zone: str, end: str, ticks: int) -> None:
    made = clock("2025-01-01T00:00:00", "1 month", zone, end)
    assert made.ticks == ticks and made.end is not None
    assert made.tick_of(np.asarray([made.end - 1, made.end])).tolist() == [ticks - 1, ticks]


def test_months_of_utc_never_end_and_know_leap_years() -> None:
    made = clock("2024-01-01T00:00:00Z", "1 month", None, None)
    assert made.ticks is None
    days = np.diff(made.starts(np.arange(49))) // 86_400_000_000
    assert days[[1, 13, 25, 37]].tolist() == [29, 28, 28, 28]
    assert made.tick_start(12 * 1000) == timestamp("3024-01-01T00:00:00Z")


def test_months_of_users_are_those_of_the_zone() -> None:
    made = clock("2024-01-01T00:00:00", "1d", "Europe/Berlin", "2026-01-01T00:00:00")
    periods = Periods(made, Months(1))
    ticks = np.arange(made.ticks or 0)
    dates = [date(2024, 1, 1) + timedelta(days=int(tick)) for tick in ticks]
    expected = [12 * (d.year - 2024) + d.month - 1 for d in dates]
    assert periods.of(ticks).tolist() == expected
    assert (periods.longest, periods.shortest) == (31, 28)
    for period in range(24):
        assert periods.first(period) == expected.index(period)
        assert periods.last(period) == len(expected) - 1 - expected[::-1].index(period)
    assert Periods(made, 30 * 86_400_000_000).longest == 30
    assert "Europe/Berlin" in periods.words


def test_periods_of_a_clock_of_months() -> None:
    endless = clock("2024-02-01T00:00:00Z", "1 month", None, None)
    quarters = Periods(endless, Months(3))
    assert quarters.of(np.arange(7)).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert (quarters.longest, quarters.shortest) == (3, 3)
    assert [quarters.first(p) for p in range(3)] == [0, 3, 6] and quarters.last(1) == 5
    zoned = clock("2024-02-01T00:00:00", "2 months", "America/New_York", "2025-02-01T00:00:00")
    assert Periods(zoned, Months(4)).of(np.arange(6)).tolist() == [0, 0, 1, 1, 2, 2]
    for per in (Months(3), 30 * 86_400_000_000):
        with pytest.raises(ConfigError, match=r"privacy\.per"):
            Periods(zoned, per)


BERLIN = {
    "start": "2025-01-01T00:00:00",
    "period": "1 month",
    "zone": "Europe/Berlin",
    "end": "2027-01-01T00:00:00",
}


def plan(clock: dict[str, Any], **privacy: Any) -> Plan:
    promised = {"epsilon": 1.0, "delta": 1e-6, "protect_for": "3 ticks", **privacy}
    data = {"name": "n", "schema": {"time": "at"}, "clock": clock, "privacy": promised}
    data["aggregates"] = {"n": {"count": "events"}}
    return Plan.from_config(PlanConfig.from_dict(data))


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"end": None}, "clock.end", "needed with a zone"),
        ({"zone": None}, "clock.start", "must say its zone"),
        ({"zone": "Europe/Berln"}, "clock.zone", "IANA"),
        ({"zone": 5}, "clock.zone", "IANA"),
        ({"period": "1h"}, "clock.zone", "remove it"),
        ({"period": "36h"}, "clock.zone", "whole days"),
        ({"period": "0 months"}, "clock.period", "1 month"),
        ({"period": "0d"}, "clock.period", "longer than nothing"),
        ({"start": "2025-01-02T00:00:00"}, "clock.start", "2025-01-01T00:00:00"),
        ({"start": "2025-01-01T00:00:00Z"}, "clock.start", "first moment"),
        ({"start": "0001-01-01T00:00:00"}, "clock.start", "year 1"),
        ({"start": "soon"}, "clock.start", "timestamp"),
        ({"end": "2025-01-31T00:00:00"}, "clock.end", "2025-02-01T00:00:00 or later"),
        ({"end": "2024-01-31T00:00:00"}, "clock.end", "2025-02-01T00:00:00 or later"),
        ({"end": "9999-12-31T00:00:00", "period": "1d"}, "clock.end", "100,000"),
        ({"start": "9990-01-01T00:00:00", "end": "9999-12-31T00:00:00"}, "clock.end", "9999"),
    ],
)
def test_what_is_no_calendar_is_refused_with_a_remedy(
    change: dict[str, Any], field: str, says: str
) -> None:
    told = {name: value for name, value in {**BERLIN, **change}.items() if value is not None}
    with pytest.raises(ConfigError) as refused:
        plan(told)
    assert refused.value.field == field and says in str(refused.value)


def test_windows_of_months_and_of_days() -> None:
    assert plan(BERLIN, protect_for="3 months").guarantee.window == 3
    assert plan({**BERLIN, "period": "1d"}, protect_for="90d").guarantee.window == 90
    for period, window in (("1 month", "90d"), ("2 months", "3 months"), ("1d", "3 months")):
        with pytest.raises(ConfigError, match=r"privacy\.protect_for"):
            plan({**BERLIN, "period": period}, protect_for=window)
    with pytest.raises(ConfigError, match=r"privacy\.protect_for"):
        plan({**BERLIN, "period": "1d"}, protect_for="36h")


def test_what_the_zone_says_is_in_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other rules for a zone, as another machine may have them, are another plan."""
    made = plan(BERLIN)
    assert plan(BERLIN).digest == made.digest
    known = ZoneInfo("Africa/Algiers")  # an hour ahead in winter too, and without summer time
    monkeypatch.setattr(clock_section, "zone_of", lambda name: known)
    clock_section._table.cache_clear()
    other = plan(BERLIN)
    clock_section._table.cache_clear()
    assert other.clock.start == made.clock.start and other.digest != made.digest


def test_utc_by_name_is_the_clock_without_a_zone() -> None:
    days = {"start": "2025-01-01T00:00:00Z", "period": "1d"}
    named = {**days, "start": "2025-01-01T00:00:00", "zone": "UTC"}
    assert plan(days).digest == plan(named).digest


def test_release_every_is_for_ticks_of_a_fixed_length() -> None:
    data = plan(BERLIN).config.to_dict() | {"release_every": 3}
    with pytest.raises(ConfigError, match="release_every"):
        Plan.from_config(PlanConfig.from_dict(data))

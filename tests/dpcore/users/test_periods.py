"""Periods cut the clock into whole ticks."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from weir.dpcore.config.durations import duration, timestamp
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.users.unit import ContributionBounds, Months, Periods, UserUnit

HOUR = duration("1h")


def clock(start: str = "2024-01-17T00:00:00Z", end: str | None = None, period: int = HOUR) -> Clock:
    return Clock(timestamp(start), period, None if end is None else timestamp(end))


@pytest.mark.slow
@pytest.mark.parametrize("per", [HOUR, duration("1d"), duration("30d"), Months(), Months(3), None])
@pytest.mark.parametrize("end", [None, "2025-03-05T07:00:00Z"])
def test_a_tick_lies_in_its_period(per: int | Months | None, end: str | None) -> None:
    periods = Periods(clock(end=end), per)
    last = periods.clock.ticks or 30_000
    numbers = periods.of(np.arange(last))
    assert numbers[0] == 0
    assert set(np.diff(numbers)) <= {0, 1}
    for number in np.unique(numbers)[:-1].tolist() + ([int(numbers[-1])] if end else []):
        inside = np.flatnonzero(numbers == number)
        assert periods.first(number) == inside[0]
        assert periods.last(number) == inside[-1]
    if per is None and end is None:
        assert periods.last(0) is None
        assert periods.longest is None


def test_months_are_those_of_the_calendar() -> None:
    periods = Periods(clock(), Months())
    for month, number in ((1, 0), (2, 1), (3, 2), (12, 11)):
        start = int(datetime(2024, month, 28, 23, tzinfo=UTC).timestamp() * 1e6)
        assert periods.of(periods.clock.tick_of(np.asarray([start])))[0] == number
    assert (periods.longest, periods.shortest) == (31 * 24, 28 * 24)
    quarter = Periods(clock("2024-01-01T00:00:00Z"), Months(3))
    assert (quarter.longest, quarter.shortest) == (92 * 24, 90 * 24)
    short = Periods(clock(end="2024-03-05T00:00:00Z"), Months())
    assert (short.longest, short.shortest) == (29 * 24, 29 * 24)  # two are cut


def test_lengths_of_a_duration() -> None:
    assert Periods(clock(), duration("1d")).longest == 24
    assert Periods(clock(end="2024-01-17T05:00:00Z"), duration("1d")).longest == 5
    assert Periods(clock(end="2024-01-27T05:00:00Z"), None).longest == 245


@pytest.mark.parametrize(
    ("per", "period", "start"),
    [
        (duration("90m"), HOUR, "2024-01-17T00:00:00Z"),
        (duration("30m"), HOUR, "2024-01-17T00:00:00Z"),
        (Months(), duration("7h"), "2024-01-17T00:00:00Z"),
        (Months(), duration("2d"), "2024-01-17T00:00:00Z"),
        (Months(), HOUR, "2024-01-17T00:30:00Z"),
        (Months(0), HOUR, "2024-01-17T00:00:00Z"),
    ],
)
def test_a_period_that_is_no_whole_number_of_ticks_is_refused(
    per: int | Months, period: int, start: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        Periods(clock(start, period=period), per)
    assert refused.value.field == "privacy.per"


def test_more_ticks_than_a_period_has_room_for_are_refused() -> None:
    day = Periods(clock(), duration("1d"))
    UserUnit(ContributionBounds(24, 1, 1), day)
    UserUnit(ContributionBounds(4, 1, 1, spacing=7), day)
    for caps in (ContributionBounds(25, 1, 1), ContributionBounds(5, 1, 1, spacing=7)):
        with pytest.raises(ConfigError, match="is full"):
            UserUnit(caps, day)
    UserUnit(ContributionBounds(60_000, 1, 1), Periods(clock(), None))

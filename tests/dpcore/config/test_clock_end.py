"""A clock ends where a tick does: an end within a tick is refused with the two nearest ends."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.dpcore.config import yaml
from weir.dpcore.config.clock import ClockConfig
from weir.dpcore.config.durations import show_timestamp
from weir.dpcore.config.validation import validate
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.plan import Plan

ZONES = (None, "UTC", "Europe/Berlin", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe")
HOUR = 3_600_000_000


def clock(**fields: Any) -> Clock:
    given_ = {name: value for name, value in fields.items() if value is not None}
    return validate(ClockConfig, given_, "clock").to_clock()


def nearest(**fields: Any) -> list[str]:
    """The ends that a refusal names."""
    with pytest.raises(ConfigError) as refused:
        clock(**fields)
    error = refused.value
    assert error.field == "clock.end" and error.value == fields["end"]
    assert "lies within a tick" in error.remedy
    return re.findall(r"\d{4}-\d\d-\d\dT[0-9:.]+Z?", error.remedy)


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        (
            {"start": "2025-01-01T06:00:00Z", "period": "1d", "end": "2025-01-04T00:00:00Z"},
            ["2025-01-03T06:00:00Z", "2025-01-04T06:00:00Z"],
        ),
        (
            {"start": "2025-01-01", "period": "1d", "end": "2025-01-29T05:00:00+02:00"},
            ["2025-01-29T00:00:00Z", "2025-01-30T00:00:00Z"],
        ),
        (
            {"start": "2025-01-01T00:00:00Z", "period": "1 month", "end": "2025-08-30T00:00:00Z"},
            ["2025-08-01T00:00:00Z", "2025-09-01T00:00:00Z"],
        ),
        (  # a day of 23 hours
            {
                "start": "2025-01-01",
                "period": "1d",
                "zone": "Europe/Berlin",
                "end": "2025-03-30T23:59:59",
            },
            ["2025-03-30T00:00:00", "2025-03-31T00:00:00"],
        ),
        (  # the same, written with an offset
            {
                "start": "2025-01-01",
                "period": "1d",
                "zone": "Europe/Berlin",
                "end": "2025-03-30T21:00:00Z",
            },
            ["2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z"],
        ),
        (  # there is no end behind it
            {"start": "2025-01-01T00:00:00Z", "period": "30d", "end": "9999-12-30T00:00:00Z"},
            ["9999-12-14T00:00:00Z"],
        ),
    ],
)
def test_the_two_nearest_ends_are_named(fields: dict[str, str], ends: list[str]) -> None:
    assert nearest(**fields) == ends
    for end in ends:
        assert clock(**{**fields, "end": end}).ticks


@settings(max_examples=80)
@given(
    zone=st.sampled_from(ZONES),
    period=st.sampled_from(["1d", "7d", "1 month", "5 months"]),
    hours=st.integers(26 * 365, 40 * 365),
    late=st.integers(1, HOUR - 1),
)
def test_every_end_is_a_border_or_lies_between_those_that_are_named(
    zone: str | None, period: str, hours: int, late: int
) -> None:
    begin = datetime(2009, 1, 1, tzinfo=UTC if zone is None else ZoneInfo(zone))
    origin = (begin - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    moment = origin + hours * HOUR + late
    fields = {"start": show_timestamp(origin), "period": period, "zone": zone}
    near = nearest(**fields, end=show_timestamp(moment))
    below, above = (clock(**fields, end=end) for end in near)
    assert below.end is not None and above.end is not None
    assert below.end < moment < above.end
    assert below.ticks == above.tick_at(moment) and above.ticks == (below.ticks or 0) + 1


@settings(max_examples=80)
@given(
    start=st.integers(0, 2**51),
    period=st.integers(1, 2**44),
    ticks=st.integers(1, 1000),
    late=st.integers(0, 2**44),
)
def test_ticks_of_a_fixed_length_end_at_their_multiples(
    start: int, period: int, ticks: int, late: int
) -> None:
    late %= period
    end = start + ticks * period + late
    fields = {"start": show_timestamp(start), "period": f"{period}us"}
    if not late:
        assert clock(**fields, end=show_timestamp(end)).ticks == ticks
        return
    assert nearest(**fields, end=show_timestamp(end)) == [
        show_timestamp(end - late),
        show_timestamp(end - late + period),
    ]


@pytest.mark.parametrize(
    ("protect_for", "period", "window"),
    [("30 ticks", "15m", 30), ("1 tick", "1 month", 1), ("30d", "15m", 2880), ("all", "15m", None)],
)
def test_a_horizon_has_a_unit(protect_for: str, period: str, window: int | None) -> None:
    assert Plan.from_yaml(lasting(protect_for, period)).guarantee.window == window


@pytest.mark.parametrize("protect_for", ["30", "'30'", "1.5", "true", "30 tick s", "0 ticks", "0"])
def test_a_horizon_without_a_unit_is_refused_with_what_to_write(protect_for: str) -> None:
    with pytest.raises(ConfigError, match=r"privacy\.protect_for = ") as refused:
        Plan.from_yaml(lasting(protect_for, "15m"))
    assert "must be" in str(refused.value) or str(refused.value).endswith(
        "30: has no unit. Write a time like 30d, or 30 ticks for so many periods of the clock."
    )


def lasting(protect_for: str, period: str) -> str:
    """A config with this horizon."""
    return f"""
        name: visits
        schema: {{time: at, id: id}}
        clock: {{start: 2025-01-01, period: {period}, end: 2026-01-01}}
        privacy: {{epsilon: 1, delta: 1e-6, protect_for: {protect_for}}}
        aggregates: {{visits: {{count: events}}}}
    """


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("moment", "zone", "same"),
    [
        (datetime(2025, 1, 1, tzinfo=UTC), None, "2025-01-01T00:00:00Z"),
        (datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), None, "2025-01-01"),
        (datetime(2025, 1, 1, tzinfo=ZoneInfo(BERLIN)), BERLIN, "2025-01-01T00:00:00+01:00"),
        (datetime(2025, 1, 1), BERLIN, "2025-01-01T00:00:00"),
        (date(2025, 1, 1), None, "2025-01-01T00:00:00Z"),
        (date(2025, 1, 1), BERLIN, "2025-01-01T00:00:00"),
        ("2025-01-01", None, "2025-01-01T00:00:00Z"),
        ("2025-01-01", BERLIN, "2025-01-01T00:00:00"),
    ],
)
def test_times_that_a_reader_of_yaml_made_are_times(
    moment: Any, zone: str | None, same: str
) -> None:
    """PyYAML reads an unquoted time as a datetime, and a day as a date."""
    more = {"period": "1d", "zone": zone, "end": "2025-02-01" if zone else None}
    made = clock(start=moment, **more)
    assert made.start == clock(start=same, **more).start
    assert clock(start=date(2024, 12, 1), period="1 month", zone=zone, end=moment).ticks == 1


def test_a_time_of_no_zone_is_refused_without_one() -> None:
    for moment in (datetime(2025, 1, 1, 5), "2025-01-01T05:00:00"):
        with pytest.raises(ConfigError, match=r"2025-01-01T05:00:00'?: must say its zone"):
            clock(start=moment, period="1d")
    with pytest.raises(ConfigError, match="must be a timestamp"):
        clock(start=20250101, period="1d")


def test_days_and_times_stay_text_in_yaml_1_2() -> None:
    assert yaml.parse("start: 2025-01-01") == {"start": "2025-01-01"}

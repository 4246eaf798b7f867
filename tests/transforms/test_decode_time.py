"""Times in every spelling, held against Python's own datetime."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.schema import Stamp
from weir.transforms.decode.time import to_time


def read(values: Any, form: str | None = None, zone: str = "UTC") -> list[datetime | None]:
    column = values if isinstance(values, pa.Array) else pa.array(values)
    times = to_time(column, Stamp("t", form, zone), "x")
    assert times.type == pa.timestamp("us", "UTC")
    return [t.astimezone(UTC) if t else None for t in times.to_pylist()]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


ISO = {
    "2020-01-02": utc(2020, 1, 2),
    "2020-01-02T03": utc(2020, 1, 2, 3),
    "2020-01-02 03:04": utc(2020, 1, 2, 3, 4),
    "2020-01-02T03:04:05": utc(2020, 1, 2, 3, 4, 5),
    "2020-01-02T03:04:05.5": utc(2020, 1, 2, 3, 4, 5, 500_000),
    "2020-01-02T03:04:05.123456789": utc(2020, 1, 2, 3, 4, 5, 123_456),
    "2020-01-02T03:04:05Z": utc(2020, 1, 2, 3, 4, 5),
    "2020-01-02T03:04:05+02:00": utc(2020, 1, 2, 1, 4, 5),
    "2020-01-02T03:04:05-0130": utc(2020, 1, 2, 4, 34, 5),
    " 2020-01-02 ": utc(2020, 1, 2),
    "2020-02-29": utc(2020, 2, 29),
    "2019-02-29": None,
    "2020-04-31": None,
    "2020-13-01": None,
    "2020-01-02T24:00:00": None,
    "2020-01-02T03:04:05+99:00": None,
    "20200102": None,
    "": None,
    "now": None,
}


def test_iso_text_alone_and_mixed() -> None:
    assert read(list(ISO)) == list(ISO.values())
    for text, expected in ISO.items():
        assert read([text]) == [expected]
        assert read([text, None, "x"]) == [expected, None, None]


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("%Y%m%d", "19970101", utc(1997, 1, 1)),
        ("%Y%m%d", "19970229", None),
        ("%Y%m%d", "19970431", None),
        ("%Y%m%d", "19970301", utc(1997, 3, 1)),
        ("%Y%m%d", "1997010", None),
        ("%Y%m%d", "19970101x", None),
        ("%m/%d/%Y", "1/2/2011", utc(2011, 1, 2)),
        ("%m/%d/%Y %H:%M", "12/1/2011 07:05", utc(2011, 12, 1, 7, 5)),
        ("%d.%m.%Y %H:%M:%S", "31.12.2011 23:59:59", utc(2011, 12, 31, 23, 59, 59)),
        ("%Y-%m-%d %H:%M:%S.%f", "2011-01-01 00:00:00.25", utc(2011, 1, 1, 0, 0, 0, 250_000)),
        ("%d.%m.%Y %H:%M:%S.%f", "31.12.2011 23:59:59.5", utc(2011, 12, 31, 23, 59, 59, 500_000)),
        ("%Y-%m-%d %H:%M:%S %z", "2011-01-01 00:00:00 +0100", utc(2010, 12, 31, 23)),
        ("epoch_s", "1500000000", utc(2017, 7, 14, 2, 40)),
        ("epoch_ms", "1500000000123", utc(2017, 7, 14, 2, 40, 0, 123_000)),
        ("epoch_s", "1500000000.5", utc(2017, 7, 14, 2, 40, 0, 500_000)),
        ("epoch_s", "soon", None),
        ("epoch_s", "1e300", None),
        ("epoch_s", "0x10", None),
        ("epoch_s", "-0.0000001", utc(1969, 12, 31, 23, 59, 59, 999_999)),
        ("epoch_ms", "1.5000000001235E12", utc(2017, 7, 14, 2, 40, 0, 123_500)),
        ("epoch_ns", "1500000000000000999", utc(2017, 7, 14, 2, 40)),
        ("epoch_ns", "1500000000000000999.9", utc(2017, 7, 14, 2, 40)),
        ("epoch_us", "1500000000000000.99999999999999999999", utc(2017, 7, 14, 2, 40)),
    ],
)
def test_formats(form: str, text: str, expected: datetime | None) -> None:
    assert read([text], form) == [expected]
    assert read(["", text, None], form) == [None, expected, None]


EPOCHS = ["1704103199999999999", "1704103200000000000.0", "1e18", "soon", "0x10", "-0.5", "9" * 19]


@pytest.mark.parametrize("form", ["epoch_s", "epoch_ms", "epoch_us", "epoch_ns"])
def test_a_number_is_read_as_if_it_were_alone(form: str) -> None:
    for texts in (EPOCHS, EPOCHS[:1] * 9 + EPOCHS[1:2]):
        assert read(texts, form) == [read([text], form)[0] for text in texts]


def test_a_whole_number_is_one_time_as_text_integer_and_float() -> None:
    for form, number in (("epoch_ns", 1_009_000), ("epoch_ms", 253_402_300_799_998)):
        whole = read([number], form)
        assert read([str(number)], form) == read([float(number)], form) == whole
        assert read([f"{number}.0"], form) == whole
    big = pa.array([2**64 - 1, 7, 2**63], pa.uint64())
    assert read(big, "epoch_s") == [None, utc(1970, 1, 1, 0, 0, 7), None]


def test_text_that_is_not_utf8_is_no_time_and_alone_so() -> None:
    raw = pa.array([b"2020-01-02", b"\xff", b"2020-01-03"])
    spoilt = pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    for column in (spoilt, spoilt.cast(pa.large_string())):
        assert read(column) == [utc(2020, 1, 2), None, utc(2020, 1, 3)]


def test_columns_of_other_types() -> None:
    moment = datetime(2017, 7, 14, 2, 40, 0, 123_000)
    for unit in ("ms", "us", "ns"):
        assert read(pa.array([moment], pa.timestamp(unit))) == [moment.replace(tzinfo=UTC)]
    assert read(pa.array([moment.replace(microsecond=0)], pa.timestamp("s")))[0] == utc(
        2017, 7, 14, 2, 40
    )
    aware = moment.replace(tzinfo=ZoneInfo("Europe/Berlin"))
    column = pa.array([aware], pa.timestamp("us", "Europe/Berlin"))
    assert read(column, zone="America/New_York") == [aware]
    assert read([date(2020, 1, 2)], zone="Europe/Berlin") == [utc(2020, 1, 1, 23)]
    assert read(pa.array([date(2020, 1, 2)], pa.date64())) == [utc(2020, 1, 2)]
    assert read([19970101, 19970230], "%Y%m%d") == [utc(1997, 1, 1), None]
    assert read([19970101.0, 0.5], "%Y%m%d") == [utc(1997, 1, 1), None]
    assert read([1_500_000_000], "epoch_s") == [utc(2017, 7, 14, 2, 40)]
    assert read([-1], "epoch_ns") == [utc(1969, 12, 31, 23, 59, 59, 999_999)]
    assert read([2**62], "epoch_s") == [None]
    assert read([1.5, float("nan")], "epoch_s") == [utc(1970, 1, 1, 0, 0, 1, 500_000), None]
    assert read(pa.nulls(2)) == [None, None]
    assert read(pa.array(["2020-01-02"]).dictionary_encode()) == [utc(2020, 1, 2)]


def test_a_change_of_clocks_is_decided() -> None:
    texts = ["2021-10-31T02:30:00", "2021-03-28T02:30:00"]
    assert read(texts, zone="Europe/Berlin") == [utc(2021, 10, 31, 0, 30), utc(2021, 3, 28, 1)]


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)), min_size=1, max_size=8),
    st.sampled_from([None, "%Y-%m-%d %H:%M:%S", "%d/%m/%y %I:%M:%S %p", "%Y%m%d"]),
    st.sampled_from(["UTC", "Asia/Kolkata"]),
)
def test_as_datetime_does(moments: list[datetime], form: str | None, zone: str) -> None:
    if form == "%d/%m/%y %I:%M:%S %p":
        moments = [
            m.replace(year=1970 + m.year % 60) for m in moments if (m.month, m.day) != (2, 29)
        ]
    texts = [m.isoformat() if form is None else m.strftime(form) for m in moments]
    expected = [
        datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
        for text in texts
    ]
    early = datetime(1950, 1, 1)  # Zones had odd offsets before.
    pairs = [(t, e) for t, e in zip(texts, expected, strict=True) if zone == "UTC" or e > early]
    shift = timedelta(0) if zone == "UTC" else timedelta(hours=5, minutes=30)
    found = read(pa.array([t for t, _ in pairs], pa.string()), form, zone)
    assert found == [(e - shift).replace(tzinfo=UTC) for _, e in pairs]


@pytest.mark.parametrize("form", ["%Q", "%Z", "%y%j", "", "yyyy-mm-dd", "%S%f", "%"])
def test_formats_that_cannot_be_read(form: str) -> None:
    with pytest.raises(ConfigError, match="schema.time.format"):
        Stamp("t", form)
    with pytest.raises(ConfigError, match="schema.time.zone"):
        Stamp("t", None, "Mars/Olympus")


@pytest.mark.parametrize("value", [pa.array([5, None]), pa.array([0.5, 1.0]), pa.array([[1], [2]])])
def test_on_a_stream_a_column_of_the_wrong_type_holds_no_times(value: pa.Array) -> None:
    strict = Stamp("date")
    with pytest.raises(ConfigError, match=r"schema\.time"):
        to_time(value, strict, "events")
    found = to_time(value, dataclasses.replace(strict, strict=False), "events")
    assert found.type == pa.timestamp("us", "UTC") and found.null_count == len(value)


@pytest.mark.parametrize("form", ["epoch_s", "epoch_ms", "epoch_us", "epoch_ns"])
def test_long_numbers_and_exponents_are_read_alike_alone_and_beside_others(form: str) -> None:
    """Arrow's own parser of decimals makes -1 of 400 nines, and 0 of what has a long fraction."""
    odd = ["9" * length for length in (19, 38, 39, 60, 400)]
    odd += [
        f"-{'9' * 400}",
        f"1.{'3' * 60}",
        f"170410320{'.'}{'7' * 45}",
        "-3e-42",
        "1e-42",
        "3e42",
    ]
    for text in odd:
        (alone,) = read([text], form)
        for neighbour in ("1704103200.5", "soon", "1704103200", "1.7E9"):
            assert read([text, neighbour], form)[0] == alone, text[:50]
    assert read(["9" * 400], form) == [None]
    assert read(["-3e-42"], form) == read([f"-0.{'0' * 41}3"], form)

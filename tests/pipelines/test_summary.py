"""The tables at the end of a run."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from weir.pipelines.show.summary import BINS, long_table, one, pivot, shown, starts


def printed(renderable: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(renderable)
    return out.getvalue()


def row(**changes: Any) -> dict[str, Any]:
    made = {
        "key": "north",
        "tick": 3,
        "tick_start": datetime(2024, 1, 4, tzinfo=UTC),
        "name": "visits",
        "over": None,
        "value": [1234.567],
        "stddev": [5.0],
    }
    return {**made, **changes}


@pytest.mark.parametrize(
    ("value", "stddev", "text"),
    [
        (1234.567, 5.0, "1,234.6 ± 9.8"),
        (1234.567, 500.0, "1,235 ± 980"),
        (0.012347, 0.0001, "0.01235 ± 0.00020"),
        (3.5, None, "3.5"),
        (3.5, 0.0, "3.5"),
        (3.5, float("inf"), "3.5"),
        (float("nan"), 1.0, "-"),
    ],
)
def test_values_are_rounded_to_what_the_noise_leaves(
    value: float, stddev: float | None, text: str
) -> None:
    assert one(value, stddev) == text


def test_a_margin_whose_value_is_not_in_its_middle_is_an_interval() -> None:
    assert one(263.7, 5098.0, 1.96, 158.5, 5623.0) == "264 (158 to 5,623)"
    assert one(8.0, 5098.0, 1.96, 1.0, 10000.0) == "8 (1 to 10,000)"
    assert one(50.0, 5.0, 2.0, 40.0, 60.0) == "50 ± 10"
    line = printed(long_table([row(low=[1000.0], high=[5000.0])]))
    assert "1,235 (1,000 to 5,000)" in line


def test_the_band_is_as_wide_as_it_is_asked_to_be() -> None:
    assert one(0.0, 10.0, 2.1183) == "0 ± 21"


def test_ticks_are_columns_and_bins_are_rows() -> None:
    rows = [
        row(tick=t, tick_start=datetime(2024, 1, 1 + t, tzinfo=UTC), value=[1.0, 2.0],
            stddev=[1.0, 1.0])
        for t in (2, 3)
    ]  # fmt: skip
    text = printed(long_table(rows, labels={("visits", None): ("[0, 1)", "[1, 2]")}))
    assert "2024-01-03" in text and "2024-01-04" in text
    assert "(tick 3)" in text and "[0, 1)" in text and "[1, 2]" in text
    assert text.count("visits") == 1


def test_long_histograms_are_cut_and_say_so() -> None:
    size = BINS + 8
    text = printed(long_table([row(value=[1.0] * size, stddev=None)]))
    assert f"(of {size})" in text
    assert f"({size} values)" in shown(row(value=[1.0] * size, stddev=None))


def test_one_key_needs_no_column() -> None:
    assert "key" not in printed(long_table([row(key="")]))
    assert "key" in printed(long_table([row()]))


def test_wide_pivots() -> None:
    rows = [row(), row(name="paid", over=7, value=[9.0], stddev=[1.0])]
    lines = printed(pivot(rows)).splitlines()
    assert "paid" in "".join(lines[:2]) and "last 7" in "".join(lines[:2])
    assert "1,234.6 ± 9.8" in lines[-1] and "9.0 ± 2.0" in lines[-1]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01"),
        (datetime(2024, 1, 1, 5, tzinfo=UTC), "2024-01-01 05:00"),
        (datetime(2024, 1, 1, 5, 0, 7, tzinfo=UTC), "2024-01-01 05:00:07"),
        (datetime(2024, 1, 1, 5, 0, 0, 250_000, tzinfo=UTC), "2024-01-01 05:00:00.250"),
    ],
)
def test_starts(moment: datetime, text: str) -> None:
    assert starts(moment) == text

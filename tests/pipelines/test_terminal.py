"""Tables on narrow screens."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.padding import Padding

from weir.pipelines.show.summary import fitting
from weir.pipelines.terminal import Screen, table


@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_a_narrow_screen_loses_no_key_no_name_and_no_number(width: int) -> None:
    names = ("new-york-city", "purchases", "1,234,567 ± 1,000")
    made = table("key", "release", "value", "note", right=("value",))
    made.add_row(*names, "some words that may be broken into several lines, as prose may be")
    out = StringIO()
    Screen(file=out, width=width).print(Padding(made, (0, 0, 0, 2), expand=False))
    for name in names:
        assert name in out.getvalue()
    wide = StringIO()
    Screen(file=wide, width=200).print(made)
    assert len(wide.getvalue().splitlines()) == 2


def test_a_narrow_screen_shows_fewer_ticks() -> None:
    rows = [
        {
            "key": key,
            "tick": tick,
            "tick_start": datetime(2025, 1, 1 + tick, tzinfo=UTC),
            "name": "visits",
            "over": None,
            "value": [1e6 + tick],
            "stddev": [1.0],
        }
        for key in ("north", "south")
        for tick in range(3)
    ]
    for columns, ticks in ((20, 1), (60, 1), (80, 2), (120, 3)):
        made = fitting(rows, 2.0, {}, columns)
        shown = [column.header for column in made.columns if "tick" in str(column.header)]
        assert len(shown) == ticks and "tick 2" in str(shown[-1]), columns

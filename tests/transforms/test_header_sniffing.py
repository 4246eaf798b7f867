"""The header test: names pass, records do not, and nothing is quoted."""

from __future__ import annotations

import pytest

from tests.transforms.events import MARKER, SCHEMA
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.header_sniffing import described, doubt

HEADERS = [
    ["date", "purchase_id", "customer_id", "store", "dollar value", "n", "no"],
    ["Time-stamp", "c-ip", "cs(User-Agent)", "Price (USD)", "share in %"],
    ["größe", "日付", "τιμή"],
    ["id", "x1", "x2", "pm2.5", "q4_2024"],
    ["year", "month", "day", "dep_time", "carrier", "geo:lat"],
]
RECORDS = [
    (["196", "242", "3", "881250949"], "4 fields of numbers"),
    (["2024-01-05T10:00:00Z", "north", "3.5"], "3 fields: 1 of times, 1 of names, 1 of numbers"),
    (["user", "ada@example.org"], "2 fields: 1 of names, 1 of addresses"),
    (["date", ""], "2 fields: 1 of names, 1 of nothing"),
    (["date", "date"], "2 fields, some of them the same"),
    (["date", "x" * 65], "2 fields: 1 of names, 1 of other text"),
    (["date", "a\x1b[31m"], "2 fields: 1 of names, 1 of other text"),
    (["a", "d41d8cd98f00b204e9800998ecf8427e"], "2 fields: 1 of names, 1 of other text"),
    (["a", "3f2a-90bb-1c77"], "2 fields: 1 of names, 1 of other text"),
    (["a", "+49 170 1234567"], "2 fields: 1 of names, 1 of numbers"),
    (["a", "order 1234567"], "2 fields: 1 of names, 1 of other text"),
    (["5 Jan 2024", "north"], "2 fields: 1 of times, 1 of names"),
    (["January 5, 2024", "north"], "2 fields: 1 of times, 1 of names"),
    (["$5.00", "north"], "2 fields: 1 of numbers, 1 of names"),
    (["NaN", "north"], "2 fields: 1 of numbers, 1 of names"),
    (["2024-01-05 10:00:01 ERROR Ada logged in"], "1 field of times"),
    (["she came in and took all of it"], "1 field of other text"),
    (['{"name": "Ada"}'], "1 field of other text"),
    ([], "0 fields"),
]


@pytest.mark.parametrize("names", HEADERS)
def test_names_pass(names: list[str]) -> None:
    assert doubt(names) is None
    assert doubt(names, [["2024-01-05", "7"] + ["north"] * (len(names) - 2)] * 3) is None


@pytest.mark.parametrize(("fields", "told"), RECORDS)
def test_records_do_not(fields: list[str], told: str) -> None:
    assert doubt(fields) == told


def test_words_that_come_again_are_no_names() -> None:
    rows = [["tea", "south", "7"], ["coffee", "north", "7"]]
    assert doubt(["tea", "north", "ada"], rows) == "3 fields like those of the lines below"
    assert doubt(["u17", "red"], [["u4", "blue"], ["u199", "green"]]) is not None
    # A header that is repeated, as where files were put together, is one.
    assert doubt(["drink", "side", "n"], [*rows, ["drink", "side", "n"]]) is None


@pytest.mark.parametrize("rows", [[], [["7"]], [["tea", "ada"]] * 3, [["coffee", "bob"]]])
def test_words_that_nothing_tells_from_a_record_are_no_names(rows: list[list[str]]) -> None:
    told = "2 fields of names, and nothing below tells that they are no event"
    assert doubt(["tea", "ada"], rows) == told
    assert doubt(["tea", "ada"]) is None


def test_a_description_quotes_nothing() -> None:
    assert MARKER not in described([MARKER, f"{MARKER}@x", f"{MARKER} " * 9, "7"])


def test_a_missing_column_is_told_with_names_that_are_names() -> None:
    with pytest.raises(ConfigError, match="did you mean stores[?] Its columns are date, stores"):
        SCHEMA.require(["date", "stores", "order", "items", "dollars"], "events.csv")


def test_a_missing_column_is_told_without_what_may_be_a_record() -> None:
    with pytest.raises(ConfigError) as caught:
        SCHEMA.require(["2024-01-05", MARKER, "7", "8", "9"], "events.csv")
    assert MARKER not in str(caught.value) and "2024" not in str(caught.value)
    assert "5 fields: 1 of times, 1 of names, 3 of numbers" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        SCHEMA.require(["tea", MARKER], "events.csv", [])
    assert MARKER not in str(caught.value)

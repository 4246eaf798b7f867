"""``weir plan``, ``diff`` and ``init`` where the unit is a user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import SMALL, Weir
from weir.pipelines.config.job import loads
from weir.pipelines.show.diff import compare

USERS = SMALL.replace("id: id}", "id: id, unit: who}").replace(
    "protect_for: 8 ticks}",
    "protect_for: 8 ticks, unit: user, per: 4h, contributions: {ticks: 2, keys: 2, events: 3}}",
)


@pytest.fixture
def users(small: Path) -> Path:
    small.write_text(USERS)
    return small


def test_the_page_has_the_promises_and_the_prices_of_caps(weir: Weir, users: Path) -> None:
    result = weir("plan", users, "--full")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    for words in (
        "one user in 4h (add_remove)",
        "Privacy loss of a user",
        "one event, where no contribution bound is binding",
        "one user in one period",
        "one user in 2 periods in a row",
        "What contribution bounds cost",
        "events of a key in a tick 3",
        "from a period's last tick on",
        "beyond the contribution bounds",
    ):
        assert words in text, words
    assert "has been seen before" not in text
    facts = json.loads(weir("plan", users, "--json").stdout)
    assert facts["guarantee"]["unit"] == "user"
    assert [row["count"] for row in facts["user"]["periods"]] == [2]


def test_diff_compares_periods_and_says_whom_both_protect(users: Path) -> None:
    told = compare(loads(USERS), loads(USERS, ["privacy.contributions.events=6"]))
    assert [row["field"] for row in told["fields"]] == ["privacy.contributions.events"]
    assert all(row["ratio"] == pytest.approx(2, rel=1e-6) for row in told["releases"])
    assert any("A user in a period that both" in line for line in told["meaning"])
    other = compare(loads(SMALL), loads(USERS))
    assert other["user"][0] is None
    assert any("not a user" in line for line in other["meaning"])


def test_diff_is_printed(weir: Weir, users: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(SMALL)
    result = weir("diff", users, other)
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "unit user event" in text
    assert "epsilon of a user in 2 periods" in text


def test_init_leaves_caps_to_people(weir: Weir, tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text("at,customer_id,n\n2024-01-01T00:00:00Z,c1,3\n")
    text = weir("init", events).stdout
    assert "  contributions: {ticks: 4, keys: 1, events: 2}" in text
    assert "privacy.contributions: how much a user usually adds is private" in text
    assert "by what you know, never by the data" in text
    nobody = tmp_path / "nobody.csv"
    nobody.write_text("at,n\n2024-01-01T00:00:00Z,3\n")
    assert "contributions" not in weir("init", nobody).stdout

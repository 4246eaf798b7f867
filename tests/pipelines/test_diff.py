"""``weir diff``: fields, effects, and what they mean for state and budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import SMALL, Weir
from weir.pipelines.config.job import load, loads
from weir.pipelines.results.plan_file import changed_fields
from weir.pipelines.show.diff import compare
from weir.pipelines.terminal import number


def against(*sets: str) -> dict[str, Any]:
    return compare(loads(SMALL), loads(SMALL, sets))


def test_the_same_plan_shares_everything() -> None:
    result = against()
    assert result["fields"] == []
    assert result["same_plan"] and result["same_state"]
    assert "costs nothing more" in result["meaning"][0]
    assert all(release["ratio"] == 1 for release in result["releases"])


def test_where_events_come_from_changes_no_plan() -> None:
    result = against("source.csv=other.csv", "sink.parquet=elsewhere/")
    assert [row["field"] for row in result["fields"]] == ["source.csv", "sink.parquet"]
    assert result["same_plan"] and result["same_state"]


def test_blocks_change_state_but_no_release() -> None:
    result = against("blocks=32")
    assert result["same_plan"] and not result["same_state"]


def test_half_the_epsilon_doubles_the_noise_and_shares_nothing() -> None:
    result = against("privacy.epsilon=0.5")
    assert result["fields"] == [{"field": "privacy.epsilon", "a": 1.0, "b": 0.5}]
    assert not result["same_plan"]
    for release in result["releases"]:
        assert 1.7 < release["ratio"] < 2.3
    assert any("epsilon 1.5" in line for line in result["meaning"])


def test_releases_that_come_and_go() -> None:
    result = against("aggregates={visits: {count: events, over: 7}}", "mechanism=null")
    found = {(row["name"], row["over"]): row["stddev_worst"] for row in result["releases"]}
    assert found["paid", None][1] is None
    assert found["visits", 7][0] is None


@pytest.mark.parametrize(
    ("one", "row"),
    [
        ("where=amount > 1", {"field": "where", "a": None, "b": "amount > 1"}),
        ("key=null", {"field": "key.column", "a": "store", "b": None}),
        ("clock.period=2h", {"field": "clock.period", "a": "1h", "b": "2h"}),
    ],
)
def test_fields_by_path(one: str, row: dict[str, Any]) -> None:
    assert row in changed_fields(loads(SMALL), loads(SMALL, (one,)))


def test_the_command(weir: Weir, small: Path) -> None:
    other = small.parent / "other.yaml"
    other.write_text(SMALL.replace("epsilon: 1.0", "epsilon: 2.0"))
    result = weir("diff", small, other)
    assert result.exit_code == 0
    assert "privacy.epsilon" in result.stdout and "noise is not shared" in result.stdout
    facts = json.loads(weir("diff", small, other, "--json").stdout)
    assert set(facts) == {
        "fields", "same_plan", "same_state", "digest", "version", "guarantee", "mechanism",
        "state_bytes_per_key", "expiration", "releases", "sums", "meaning", "notes", "user",
    }  # fmt: skip
    assert weir("diff", small, small.parent / "none.yaml").exit_code == 2


def test_the_noise_of_a_mean_is_that_of_the_plan(weir: Weir, small: Path) -> None:
    small.write_text(SMALL.replace("sum: amount", "mean: amount"))
    (row,) = (row for row in against_itself(small) if row["name"] == "paid")
    shown = f"{number(row['stddev_worst'][0])}*"
    assert row["mark"] == "*" and row["ratio"] == 1
    for words in (("plan", small), ("diff", small, small)):
        text = " ".join(weir(*words).stdout.split())
        assert shown in text and "* at 1,000 events in the span" in text


def against_itself(path: Path) -> list[dict[str, Any]]:
    job = load(path)
    return list(compare(job, job)["releases"])

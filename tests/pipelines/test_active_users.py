"""What people read of active users: their plan, the figures of a dry run, and of a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import loads
from weir.pipelines.feed.truth import Truth

CONFIG = """
name: visits
source: {{csv: visits.csv}}
schema: {{time: at, unit: user, id: event}}
{key}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-03-02T00:00:00Z}}
privacy: {{epsilon: 4, delta: 1e-6, protect_for: all, unit: user, per: 30d,
          contributions: {{{caps}}}}}
{more}
aggregates: {{mau: {{count: users, over: 28d}}}}
sink: {{parquet: out/}}
"""
FEW, ALL = "ticks: 4, keys: 1, events: 1", "keys: 1, events: 1"


def plan_of(caps: str = ALL, key: str = "", more: str = "") -> Plan:
    return Plan.from_config(loads(CONFIG.format(caps=caps, key=key, more=more)))


def test_what_bounds_leave_out_is_said_and_nothing_where_they_leave_nothing_out() -> None:
    assert plan_of().left_out("mau") == ""
    few = plan_of(FEW).left_out("mau")
    assert (
        few
        == "undercount: at most 4 days in 30d per user, and no tick beyond that keeps them active"
    )
    keyed = plan_of(ALL, "key: {column: page, declared: [a, b]}").left_out("mau")
    assert keyed.startswith("undercount: at most 1 key a day per user, and no tick")


def test_a_plan_says_what_a_hundred_million_users_take() -> None:
    (note,) = (note for note in plan_of().notes if "remembered" in note)
    assert "last 28 ticks" in note and "about 25 bytes" in note
    assert "2.5 GB for 100 million" in note and "expect.users" not in note
    (note,) = (
        note
        for note in plan_of(more="expect: {events: 5, users: 1000000}").notes
        if "remembered" in note
    )
    assert "At most 700 MB a key with expect.users: 1,000,000." in note


def test_a_dry_run_compares_with_distinct_users(weir: Weir, tmp_path: Path) -> None:
    (tmp_path / "visits.yaml").write_text(CONFIG.format(caps=ALL, key="", more=""))
    done = weir("rehearse", tmp_path / "visits.yaml", "--events", "3000", "--json")
    (score,) = json.loads(done.output)["outputs"]
    assert score["over"] == 28 and score["grade"] == "useful" and score["clip"] == 0
    assert 100 < score["true"] < 3000 * 28 / 60


def test_truth_has_no_line_for_users(tmp_path: Path) -> None:
    config = loads(CONFIG.format(caps=ALL, key="", more=""))
    with pytest.raises(ConfigError, match="needs a count of events or a sum"):
        Truth(config, tmp_path / "truth.ndjson")

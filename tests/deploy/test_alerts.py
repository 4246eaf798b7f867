"""Alert rules: whole, about metrics that exist, and each with what to do."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from tests.deploy.promql import check, metrics
from weir.pipelines.results.verdict import COUNTERS
from weir.pipelines.sources.source import Limits
from weir.transforms.runtime.counters import UNREAD as PARTITION
from weir.transforms.runtime.reasons import (
    MISSING,
    REASONS,
    UNREAD,
    VALUES,
    counter_of,
    refused_by_field,
)

ROOT = Path(__file__).resolve().parents[2]
RULES: dict[str, Any] = YAML(typ="safe").load(
    (ROOT / "deploy" / "alerts" / "weir.rules.yaml").read_text()
)
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "weir.json").read_text())
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
OPERATIONS = "\n".join(
    (ROOT / "docs" / page).read_text()
    for page in ("how-to/flink.md", "how-to/troubleshoot.md", "reference/counters.md")
)
DURATION = {"type": "string", "pattern": r"^\d+[smhd]$"}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["alert", "expr", "labels", "annotations"],
    "properties": {
        "alert": {"type": "string", "pattern": "^Weir[A-Za-z]+$"},
        "expr": {"type": "string"},
        "for": DURATION,
        "keep_firing_for": DURATION,
        "labels": {
            "type": "object",
            "required": ["severity"],
            "properties": {"severity": {"enum": ["page", "warn"]}},
        },
        "annotations": {
            "type": "object",
            "required": ["summary", "action", "section"],
            "additionalProperties": {"type": "string"},
        },
    },
}
PLACE = {
    "type": "object",
    "required": ["x", "y", "w", "h"],
    "properties": {
        "x": {"type": "integer", "minimum": 0, "maximum": 23},
        "y": {"type": "integer", "minimum": 0},
        "w": {"type": "integer", "minimum": 1, "maximum": 24},
        "h": {"type": "integer", "minimum": 1},
    },
}
SOURCE = {
    "type": "object",
    "required": ["type", "uid"],
    "properties": {"type": {"const": "prometheus"}, "uid": {"const": "${prometheus}"}},
}
PANEL = {
    "type": "object",
    "required": ["id", "type", "title", "description", "gridPos", "datasource", "targets"],
    "properties": {
        "type": {"enum": ["timeseries", "stat"]},
        "description": {"type": "string", "pattern": "[.]$"},
        "gridPos": PLACE,
        "datasource": SOURCE,
        "targets": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["refId", "expr", "legendFormat"],
                "properties": {"refId": {"type": "string", "pattern": "^[A-Z]$"}},
            },
        },
    },
}
BOARD = {
    "type": "object",
    "required": ["title", "uid", "schemaVersion", "panels", "templating", "time", "refresh"],
    "properties": {
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {"type": "array", "minItems": 1},
        "templating": {
            "type": "object",
            "properties": {
                "list": {
                    "type": "array",
                    "contains": {"properties": {"name": {"const": "prometheus"}}},
                }
            },
        },
    },
}
"""As Grafana 10 and later import a dashboard, as far as ours uses it."""
BEAM = "flink_taskmanager_job_task_operator_weir_"
FLINK = {
    "flink_jobmanager_job_uptime",
    "flink_jobmanager_job_numRestarts",
    "flink_jobmanager_job_numberOfFailedCheckpoints",
    "flink_jobmanager_job_numberOfCompletedCheckpoints",
    "flink_taskmanager_job_task_operator_currentOutputWatermark",
}
"""Names as Flink 1.19's reporter gave them for a running Beam job."""


@pytest.mark.parametrize("name", ALERTS)
def test_rule_is_whole(name: str) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(ALERTS[name])
    check(ALERTS[name]["expr"])


@pytest.mark.parametrize("name", ALERTS)
def test_rule_reads_metrics_that_exist(name: str) -> None:
    refuse_unknown(ALERTS[name]["expr"])


def refuse_unknown(expression: str) -> None:
    """Metrics that nothing reports, and those of jobs that are not Weir's."""
    fields = {counter_of("", reason) + ".+" for reason in (MISSING, *VALUES)}
    counted = {*COUNTERS, "ticks_released", "releases", f"{PARTITION}.+", *fields}
    found = metrics(expression)
    assert found
    for metric in found:
        assert metric in FLINK or metric.removeprefix(BEAM) in counted, metric
    assert 'job_name=~"weir[-_].*"' in expression


@pytest.mark.parametrize("name", ALERTS)
def test_rule_says_what_to_do_and_where_it_is_written(name: str) -> None:
    notes = ALERTS[name]["annotations"]
    titles = re.findall(r"^#+ (.+)$", OPERATIONS, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", t).strip().lower().replace(" ", "-") for t in titles}
    assert notes["section"] in anchors
    assert notes["action"].endswith(".") and notes["summary"].endswith(".")
    for label in re.findall(r"\$labels\.(\w+)", notes["summary"]):
        assert re.search(rf"sum by \([^)]*\b{label}\b|by \({label}\)", ALERTS[name]["expr"])
    assert f"`{name}`" in OPERATIONS


@pytest.mark.parametrize("title", PANELS)
def test_panel_is_whole(title: str) -> None:
    jsonschema.Draft202012Validator(PANEL).validate(PANELS[title])
    for target in PANELS[title]["targets"]:
        check(target["expr"])
        refuse_unknown(target["expr"])


def test_a_dashboard_can_be_imported_and_shows_what_alerts_watch() -> None:
    jsonschema.Draft202012Validator(BOARD).validate(DASHBOARD)
    assert len(PANELS) == len({panel["id"] for panel in DASHBOARD["panels"]})
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    for a, b in itertools.combinations(places, 2):
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], "panels overlap"
    drawn = {
        metric
        for panel in PANELS.values()
        for target in panel["targets"]
        for metric in metrics(target["expr"])
    }
    watched = {metric for rule in ALERTS.values() for metric in metrics(rule["expr"])}
    assert watched <= drawn


def test_what_must_be_zero_is_watched_without_delay() -> None:
    assert "for" not in ALERTS["WeirDivergent"] and "for" not in ALERTS["WeirOverdue"]
    assert ALERTS["WeirDivergent"]["labels"]["severity"] == "page"


def test_what_is_refused_is_every_reason_that_a_run_over_files_counts() -> None:
    """``refused_by_field`` says which reasons those are; each must be in the page's rule."""
    left, _, right = ALERTS["WeirRefuses"]["expr"].partition(f"> {Limits().refused} *")
    reasons = {name for name in REASONS if refused_by_field({name: 1})} - set(VALUES)
    assert {name.removeprefix(BEAM) for name in metrics(left)} == reasons
    assert {name.removeprefix(BEAM) for name in metrics(right)} == {"events", *UNREAD}
    assert metrics(ALERTS["WeirDeadLetters"]["expr"]) == {
        BEAM + name for name in ("events", *UNREAD)
    }


@pytest.mark.parametrize(
    "broken",
    [
        "sum(rate(x[5m])",
        "x > > 1",
        "x[5m",
        "rate(x[5m]) >",
        "grate(x[5m])",
        "x{a=b}",
        "rate(x[5m:1m])",
        'rate({__name__=~"x_(a|b)"}[5m])',
    ],
)
def test_broken_expressions_are_seen(broken: str) -> None:
    with pytest.raises(ValueError):
        check(broken)

"""A config without a clock: what needs one is refused by name, and what it says stays."""

from __future__ import annotations

from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig

EVENTS: dict[str, Any] = {
    "name": "n",
    "privacy": {"epsilon": 1, "delta": 1e-6},
    "aggregates": {"visits": {"count": "events"}},
}
USERS: dict[str, Any] = {
    "name": "n",
    "schema": {"unit": "u"},
    "key": {"column": "k", "discover": {"min_users": 3}},
    "privacy": {
        "epsilon": 1,
        "delta": 1e-6,
        "unit": "user",
        "contributions": {"keys": 2, "events": 3},
    },
    "aggregates": {"visits": {"count": "events"}, "people": {"count": "users"}},
}
CLOCK = {"start": "2025-01-01T00:00:00Z", "period": "1d", "end": "2025-01-08T00:00:00Z"}


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    inside = changed(config.get(first, {}), rest, value) if rest else value
    return {**config, first: inside}


@pytest.mark.parametrize(
    ("base", "field", "value"),
    [
        (EVENTS, "schema.time", "at"),
        (EVENTS, "schema.arrival", "came"),
        (EVENTS, "privacy.protect_for", "all"),
        (USERS, "privacy.per", "1d"),
        (USERS, "privacy.contributions.ticks", 4),
        (USERS, "privacy.contributions.spacing", 2),
        (USERS, "privacy.contributions.ticks_per_key", 2),
        (USERS, "key.discover.retire", {"below": 3}),
        (EVENTS, "release_every", 7),
        (EVENTS, "aggregates.visits.over", 7),
        (EVENTS, "aggregates.visits.over", "7d"),
    ],
)
def test_what_needs_a_clock_is_refused_by_name(
    base: dict[str, Any], field: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match="needs a clock, and this config has none") as refused:
        PlanConfig.from_dict(changed(base, field, value))
    assert refused.value.field == field
    assert refused.value.value == ("{...}" if isinstance(value, dict) else value)
    assert f"remove {field}: without a clock all rows are one release" in refused.value.remedy


def test_all_that_needs_a_clock_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match="remove schema.time and privacy.protect_for: without"):
        PlanConfig.from_dict(
            changed(changed(EVENTS, "schema.time", "at"), "privacy.protect_for", "7d")
        )


@pytest.mark.parametrize(
    ("base", "missing"),
    [
        (EVENTS, "schema.time"),
        (changed(EVENTS, "schema.time", "at"), "privacy.protect_for"),
        (changed(changed(USERS, "schema.time", "at"), "privacy.protect_for", "all"), "privacy.per"),
        (
            changed(
                changed(changed(USERS, "schema.time", "at"), "privacy.protect_for", "all"),
                "privacy.per",
                "all",
            ),
            "privacy.contributions.ticks",
        ),
    ],
)
def test_a_clock_needs_what_it_needed(base: dict[str, Any], missing: str) -> None:
    with pytest.raises(ConfigError, match="is missing") as refused:
        PlanConfig.from_dict({**base, "clock": CLOCK})
    assert refused.value.field == missing


@pytest.mark.parametrize("data", [EVENTS, USERS])
def test_it_is_the_same_when_written_and_read_again(data: dict[str, Any]) -> None:
    config = PlanConfig.from_dict(data)
    again = PlanConfig.from_dict(config.to_dict())
    assert again == config and Plan.from_config(again).digest == Plan.from_config(config).digest
    built = PlanConfig(**{**data, "aggregates": dict(config.aggregates)})  # sections as objects
    assert Plan.from_config(built).digest == Plan.from_config(config).digest


def test_a_released_number_names_no_span() -> None:
    plan = Plan.from_config(PlanConfig.from_dict(USERS))
    assert {output.over for output in plan.outputs} == {None}
    assert [plan.config.algorithm.shown(name).what for name in ("visits", "people")] == [
        "events",
        "users",
    ]
    assert plan.left_out("people") == "undercount: at most 2 keys per user"
    # The count that finds keys is the one that is released: none takes a part of the budget.
    assert plan.discovery is not None and not plan.discovery.hidden


@pytest.mark.parametrize("name", ["online.follow_the_leader", "online.pqftl"])
def test_a_model_of_no_row_is_refused(name: str) -> None:
    model = {"algorithm": name, "features": ["a"], "target": "y", "ranges": {"a": [0, 1]}}
    model["ranges"] = {"a": [0, 1], "y": [0, 1]}
    data = {name: value for name, value in EVENTS.items() if name != "aggregates"}
    with pytest.raises(ConfigError, match="of no row") as refused:
        PlanConfig.from_dict({**data, "model": model})
    assert refused.value.field == "model.algorithm"

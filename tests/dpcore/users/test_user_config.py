"""How a config speaks of users."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.users.unit import ContributionBounds, Months

VISITS: dict[str, Any] = {
    "name": "visits",
    "schema": {"time": "at", "unit": "user"},
    "key": {"column": "page", "declared": ["home", "help"]},
    "clock": {"start": "2025-01-01T00:00:00Z", "period": "1d"},
    "privacy": {
        "epsilon": 2,
        "delta": 1e-6,
        "unit": "user",
        "per": "30d",
        "protect_for": "90d",
        "contributions": {"ticks": 8, "keys": 3, "events": 5},
    },
    "aggregates": {"views": {"count": "events"}},
}


def changed(**sections: Any) -> dict[str, Any]:
    data = copy.deepcopy(VISITS)
    for section, fields in sections.items():
        data[section] = {**data.get(section, {}), **fields}
    for section in data.values():
        if isinstance(section, dict):
            for name in [name for name, value in section.items() if value is None]:
                del section[name]
    return data


def test_the_terms_know_the_person() -> None:
    terms = PlanConfig.from_dict(VISITS).terms()
    assert terms.unit == "user"
    assert terms.relation == "add_remove"
    assert terms.person is not None
    assert terms.person.caps == ContributionBounds(8, 3, 5)
    assert terms.person.periods.longest == 30
    months = PlanConfig.from_dict(changed(privacy={"per": "1 month"})).terms()
    assert months.person is not None and months.person.periods.per == Months()
    every = PlanConfig.from_dict(changed(privacy={"per": "all"})).terms()
    assert every.person is not None and every.person.periods.longest is None


def test_a_config_of_users_survives_being_written() -> None:
    config = PlanConfig.from_dict(changed(expect={"events": 10, "users": 5}))
    assert PlanConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(
    ("sections", "field", "words"),
    [
        ({"privacy": {"per": None}}, "privacy.per", "is missing"),
        (
            {"privacy": {"contributions": None}},
            "privacy.contributions",
            "needs contribution bounds",
        ),
        ({"privacy": {"relation": "replace_anywhere"}}, "privacy.relation", "add_remove"),
        ({"schema": {"unit": None}}, "schema.unit", "whom an event belongs to"),
        (
            {"privacy": {"contributions": {"ticks": 8, "keys": 3}}},
            "privacy.contributions.events",
            "is missing",
        ),
        (
            {"privacy": {"contributions": {"ticks": 1 << 16, "keys": 3, "events": 1}}},
            "privacy.contributions.ticks",
            "1 to 65,535",
        ),
        (
            {"privacy": {"contributions": {"ticks": 5, "keys": 3, "events": 1, "spacing": 8}}},
            "privacy.contributions.ticks",
            "is full",
        ),
        ({"privacy": {"per": "36h"}}, "privacy.per", "whole number of periods"),
        (
            {
                "privacy": {"unit": "event", "per": None, "contributions": None},
                "expect": {"events": 1, "users": 1},
            },
            "expect.users",
            "belongs to privacy.unit: user",
        ),
    ],
)
def test_what_is_said_of_users_is_checked(sections: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        PlanConfig.from_dict(changed(**sections)).terms()
    assert refused.value.field == field

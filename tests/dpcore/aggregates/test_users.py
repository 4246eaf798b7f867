"""How a config asks for users, and what it is told where that means nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contracts.people import config_of
from weir.dpcore.aggregates.compile import compile_aggregates
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.spaced import compiled

EVENTS: dict[str, Any] = {
    "name": "shop",
    "schema": {"time": "at"},
    "clock": {"start": "2025-01-01T00:00:00Z", "period": "1d", "end": "2025-01-09T00:00:00Z"},
    "privacy": {"epsilon": 1, "delta": 1e-6, "protect_for": "all"},
}
EDGES = [0, 1, 2]


def refusal(aggregate: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as refused:
        config_of({"aggregates": {"one": aggregate}})
    return str(refused.value)


@pytest.mark.parametrize(
    ("aggregate", "field"),
    [
        ({"count": "users"}, "count"),
        ({"count": "users", "per": "period"}, "count"),
        ({"sum": "x", "clip_user": [0, 1]}, "clip_user"),
        ({"mean": "x", "clip": [0, 1], "of": "users"}, "of"),
        ({"variance": "x", "clip": [0, 1], "of": "users"}, "of"),
        ({"histogram": "x", "edges": EDGES, "of": "users"}, "of"),
    ],
)
def test_a_plan_of_events_knows_no_users(aggregate: dict[str, Any], field: str) -> None:
    config = PlanConfig.from_dict({**EVENTS, "aggregates": {"one": aggregate}})
    with pytest.raises(ConfigError, match=r"privacy\.unit: user") as refused:
        Plan.from_config(config)
    assert str(refused.value).startswith(f"aggregates.one.{field}")


@pytest.mark.parametrize("over", ["all", 7, [1, 7], [1, "all"]])
def test_bins_of_users_of_several_ticks_are_no_sum(over: Any) -> None:
    said = refusal({"histogram": "x", "edges": EDGES, "of": "users", "over": over})
    assert said.startswith("aggregates.one.over")
    assert "over: 1" in said


def test_users_are_of_each_tick_unless_they_are_of_the_period() -> None:
    config = config_of(
        {
            "aggregates": {
                "visitors": {"count": "users"},
                "newcomers": {"count": "users", "per": "period"},
                "week": {"count": "users", "per": "period", "over": 7},
                "views": {"count": "events"},
                "by_size": {"histogram": "x", "edges": EDGES, "of": "users"},
            }
        }
    )
    overs = {name: one.overs for name, one in config.aggregates.items()}
    assert overs == {
        "visitors": (1,),
        "newcomers": (None,),
        "week": (7,),
        "views": (None,),
        "by_size": (1,),
    }
    assert PlanConfig.from_dict(config.to_dict()) == config
    shown = {name: config.algorithm.shown(name).what for name in config.aggregates}
    assert shown == {
        "visitors": "users per tick",
        "newcomers": "users, each once a period",
        "week": "users, each once a period",
        "views": "events",
        "by_size": "users per tick by x",
    }


def test_a_sum_has_one_clip_and_says_of_what() -> None:
    assert "cannot be combined with clip" in refusal(
        {"sum": "x", "clip": [0, 1], "clip_user": [0, 1]}
    )
    assert "is missing" in refusal({"sum": "x"})
    assert "low below high" in refusal({"sum": "x", "clip_user": [1, 1]})
    assert "is for count: users" in refusal({"count": "events", "per": "period"})
    config = config_of({"aggregates": {"spent": {"sum": "x", "clip_user": [0, 200]}}})
    (said,) = config.algorithm.refused()
    assert "of a user in a key and tick add up to" in said and "[0, 200]" in said


def test_what_is_clipped_is_a_users_own_total() -> None:
    """Two users: 30 + 30 + 30 and 5 + 6, clipped once to 50 and 11."""
    config = config_of(
        {"aggregates": {"spent": {"sum": "x", "clip_user": [0, 50]}, "all": {"count": "events"}}},
        {"ticks": 4, "keys": 2, "events": 3},
    )
    program, _ = compile_aggregates(config.aggregates, config.terms())
    columns = {
        "x": np.array([30.0, 30.0, 30.0, 5.0, 6.0]),
        "@cell": np.array([0, 0, 0, 1, 1]),
        "@new": np.ones(5, dtype=bool),
    }
    bounded = program.bound(columns, 5)
    (sums,) = program.accumulate(bounded.rows, np.zeros(5, dtype=np.int64), 1)
    found = sums * np.array([channel.resolution for channel in program.channels])
    assert found.tolist() == [61.0, 5.0]
    assert bounded.clipped == 1
    sensitivity = {info.name: info.sensitivity for info in program.describe(np.arange(4))}
    assert sensitivity == {"spent": 50.0, "all": 3.0}


def test_means_of_users_and_of_events_are_two_estimands() -> None:
    """One user with three events of 0, another with one of 4."""
    bodies = {
        "events": {"mean": "x", "clip": [0, 4], "missing": 0},
        "users": {"mean": "x", "clip": [0, 4], "missing": 0, "of": "users"},
        "visitors": {"count": "users"},
    }
    config = config_of({"aggregates": bodies})
    program, _ = compile_aggregates(config.aggregates, config.terms())
    columns = {
        "x": np.array([0.0, 0.0, 0.0, 4.0]),
        "@cell": np.array([0, 0, 0, 1]),
        "@new": np.ones(4, dtype=bool),
    }
    rows = program.bound(columns, 4).rows
    (sums,) = program.accumulate(rows, np.zeros(4, dtype=np.int64), 1)
    channels = [
        (channel.kind, channel.takes, value * channel.resolution)
        for channel, value in zip(program.channels, sums, strict=True)
    ]
    assert channels == [
        ("value", "events", -4.0),
        ("count", "events", 4.0),
        ("value", "users", 0.0),
        ("count", "users", 2.0),
    ]
    shown = config.algorithm.shown
    assert shown("events").what == "mean of x"
    assert shown("users").what == "mean of users' own means of x"


def test_who_counts_once_a_period_is_priced_apart_where_that_pays() -> None:
    """N F(1) against F(m) of every key: eight ticks of a user are eight times a view."""
    caps = {"ticks": 8, "keys": 2, "events": 5, "period_keys": 3}
    both = {"newcomers": {"count": "users", "per": "period"}, "views": {"count": "events"}}
    config = config_of({"aggregates": both, "mechanism": {"continual_sum": "blt"}}, caps)
    program, (chosen, *_) = compile_aggregates(config.aggregates, config.terms())
    once, rest = sorted(program.parts, key=lambda part: part.mechanism.pattern.key_ticks)  # type: ignore[union-attr]
    patterns = once.mechanism.pattern, rest.mechanism.pattern
    assert [p and (p.key_ticks, p.cells) for p in patterns] == [(1, 3), (8, 16)]
    assert [[program.channels[c].takes for c in part.channels] for part in (once, rest)] == [
        ["newcomers"],
        ["events"],
    ]
    assert program.loss(8).epsilon(1e-6) <= 1 + 1e-9
    alone = config_of({"aggregates": {"views": both["views"]}}, caps)
    (dearest,) = compile_aggregates(alone.aggregates, alone.terms())[0].describe(np.arange(24))
    found = {info.name: info.stddev_worst for info in program.describe(np.arange(24))}
    assert found["newcomers"] < found["views"] / 4
    assert found["views"] < 1.5 * dearest.stddev_worst
    assert chosen.chosen


def test_newcomers_alone_cost_their_keys_and_not_their_ticks() -> None:
    caps = {"ticks": 8, "keys": 2, "events": 5, "period_keys": 3}
    config = config_of({"aggregates": {"new": {"count": "users", "per": "period"}}}, caps)
    program, _ = compile_aggregates(config.aggregates, config.terms())
    (part,) = program.parts
    assert part.mechanism.pattern is not None
    assert (part.mechanism.pattern.key_ticks, part.mechanism.pattern.cells) == (1, 3)


def test_ticks_of_users_are_not_released_together() -> None:
    config = config_of({"aggregates": {"views": {"count": "events"}}, "release_every": 4})
    with pytest.raises(ConfigError, match=r"clock\.period") as refused:
        compiled(config.algorithm, config.terms(), config.release_every)
    assert str(refused.value).startswith("release_every")


def test_users_at_their_bound_count_once_a_cell() -> None:
    """Of three events at most: one user with three, one with two, one with three elsewhere."""
    bodies = {"full": {"count": "users", "at": "events"}, "users": {"count": "users"}}
    config = config_of({"aggregates": bodies}, {"ticks": 2, "keys": 1, "events": 3})
    program, _ = compile_aggregates(config.aggregates, config.terms())
    columns = {
        "@cell": np.array([0, 0, 0, 1, 1, 2, 2, 2]),
        "@new": np.ones(8, dtype=bool),
    }
    rows = program.bound(columns, 8).rows
    sums = program.accumulate(rows, np.array([0, 0, 0, 0, 0, 1, 1, 1]), 2)
    steps = np.array([channel.resolution for channel in program.channels])
    assert [channel.full for channel in program.channels] == [True, False]
    assert (sums * steps).tolist() == [[1.0, 2.0], [1.0, 1.0]]
    assert config.algorithm.shown("full").what == "users per tick at their bound on events"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"count": "events", "at": "events"}, "at"),
        ({"count": "users", "per": "period", "at": "events"}, "at"),
        ({"count": "users", "at": "events", "where": "x > 1"}, "where"),
        ({"count": "users", "at": "keys"}, "at"),
        ({"count": "users", "at": "events", "over": 7}, "at"),
    ],
)
def test_where_users_at_their_bound_cannot_be_counted(body: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_of({"aggregates": {"n": body}})
    assert caught.value.field == f"aggregates.n.{field}"


def test_users_at_their_bound_are_not_those_that_find_keys() -> None:
    """Without a clock, where all users of a key find it and are its only count."""
    caps = {"keys": 1, "events": 3}
    plan = Plan.from_config(
        PlanConfig.from_dict(
            {
                "name": "once",
                "schema": {"unit": "who"},
                "key": {"column": "town", "discover": {"min_users": 20}},
                "privacy": {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "contributions": caps},
                "aggregates": {
                    "full": {"count": "users", "at": "events"},
                    "users": {"count": "users"},
                },
            }
        )
    )
    program: Any = plan.program
    assert {(c.takes, c.full) for c in program.channels} == {("users", True), ("newcomers", False)}
    algorithm: Any = plan.config.algorithm
    assert algorithm.shown("full").what == "users at their bound on events"
    assert algorithm.aggregates["full"].takes == "users"
    assert not any(part.hidden for part in program.parts)

"""Lengths of time where ticks are counted."""

from __future__ import annotations

from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig

BASE: dict[str, Any] = {
    "name": "visits",
    "schema": {"time": "at"},
    "clock": {"start": "2025-01-01T00:00:00Z", "period": "1d", "end": "2025-01-29T00:00:00Z"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "14d"},
    "aggregates": {"n": {"count": "events", "over": 7}},
}


def made(over: Any, **rest: Any) -> PlanConfig:
    return PlanConfig.from_dict(
        {**BASE, "aggregates": {"n": {"count": "events", "over": over}}, **rest}
    )


@pytest.mark.parametrize(
    ("written", "ticks"),
    [("7d", (7,)), ("1w", (7,)), ("168h", (7,)), (["all", "7d", 1], ("all", 7, 1)), ("24h", (1,))],
)
def test_a_duration_is_so_many_ticks(written: Any, ticks: tuple[Any, ...]) -> None:
    assert made(written).aggregates["n"].over == ticks


def test_the_plan_is_that_of_the_ticks() -> None:
    assert Plan.from_config(made("7d")).digest == Plan.from_config(made(7)).digest


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("36h", r"aggregates\.n\.over = '36h': must be a whole number of periods of 1d: 1d"),
        ("1h", r"aggregates\.n\.over = '1h': must be a whole number of periods of 1d: 1d \(1 tick"),
        ("1 month", "is for a clock of months"),
        ("7 days", "must be all, a number of ticks .*, a duration like 7d, or a list"),
        (["7d", 7], "names the same span twice"),
    ],
)
def test_what_is_no_whole_number_of_ticks_is_refused(written: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        made(written)


def test_every_field_that_counts_ticks_takes_one() -> None:
    assert made(7, release_every="7d").release_every == 7
    model = {
        "algorithm": "regression.incremental",
        "features": ["x"],
        "target": "y",
        "ranges": {"x": [0, 1], "y": [0, 1]},
        "over": "7d",
    }
    config: Any = PlanConfig.from_dict({**BASE, "aggregates": {}, "model": model})
    assert config.model.over == 7
    erm = {**model, "algorithm": "regression.erm", "every": "2d"}
    del erm["over"]
    config = PlanConfig.from_dict({**BASE, "aggregates": {}, "model": erm})
    assert config.model.every == 2
    person = {
        "unit": "user",
        "per": "14d",
        "contributions": {"ticks": 2, "keys": 1, "events": 1, "spacing": "3d"},
    }
    config = PlanConfig.from_dict(
        {**BASE, "schema": {"time": "at", "unit": "u"}, "privacy": {**BASE["privacy"], **person}}
    )
    assert config.privacy.contributions.spacing == 3


def test_months_on_a_clock_of_months() -> None:
    clock = {"start": "2025-01-01T00:00:00Z", "period": "1 month", "end": "2026-01-01T00:00:00Z"}
    privacy = {**BASE["privacy"], "protect_for": "3 months"}
    assert made("3 months", clock=clock, privacy=privacy).aggregates["n"].over == (3,)
    with pytest.raises(ConfigError, match=r"aggregates\.n\.over = '90d'.*like 3 months"):
        made("90d", clock=clock, privacy=privacy)


def test_a_clock_that_cannot_be_read_is_told_of_first() -> None:
    with pytest.raises(ConfigError, match=r"clock\.period"):
        made("7d", clock={**BASE["clock"], "period": "day"})
    with pytest.raises(ConfigError, match=r"clock"):
        PlanConfig.from_dict({k: v for k, v in BASE.items() if k != "clock"})


def test_numbers_that_yaml_1_1_takes_for_text_are_read_and_told_of() -> None:
    privacy = {"epsilon": "1e0", "delta": "1e-6", "protect_for": "14d"}
    aggregates = {"s": {"sum": "x", "clip": [0, "2e2"]}, "h": {"histogram": "1e5", "edges": [0, 1]}}
    config = PlanConfig.from_dict({**BASE, "privacy": privacy, "aggregates": aggregates})
    assert (config.privacy.delta, config.aggregates["s"].bounds) == (1e-6, (0.0, 200.0))
    assert config.aggregates["h"].column == "1e5"
    told = [one for one in Plan.from_config(config).warnings if "was read as a number" in one]
    assert len(told) == 1
    assert "privacy.epsilon, privacy.delta, aggregates.s.clip[1]." in told[0]
    quantile = {"quantile": "x", "at": "5e-1", "edges": {"log": ["1e0", 100, 16]}}
    config = PlanConfig.from_dict({**BASE, "aggregates": {"q": quantile}})
    assert config.yaml11_numbers == ("aggregates.q.at", "aggregates.q.edges.log[0]")
    for wrong in ("1", "0.5", "one", "1e"):
        with pytest.raises(ConfigError, match=r"privacy\.delta = .*must be a number"):
            PlanConfig.from_dict({**BASE, "privacy": {**privacy, "delta": wrong}})
    with pytest.raises(ConfigError, match=r"privacy\.epsilon.*above 0"):
        PlanConfig.from_dict({**BASE, "privacy": {**privacy, "epsilon": "-1e0"}})
    plain = Plan.from_config(PlanConfig.from_dict(BASE))
    assert not any("was read as a number" in one for one in plain.warnings)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"max": "x"}, r"aggregates\.n\.max = 'x': is not served: one event alone decides"),
        ({"min": "x", "clip": [0, 1]}, "one event alone decides"),
        ({"median": "x"}, r"quantile: COLUMN, at: \[0\.5\]"),
        ({"avg": "x"}, r"use \{mean: COLUMN, clip"),
        ({"distinct": "x"}, r"\{count: users\}"),
        ({"std": "x"}, "root"),
        ({"top": 5}, r"aggregates\.n\.top = 5: is not served: .*`weir top DIR`"),
        ({"count": "events", "heavy_hitters": 5}, "`weir top DIR`"),
        ({"mox": "x"}, "is not a field"),
    ],
)
def test_what_others_have_is_answered_with_what_there_is(written: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        PlanConfig.from_dict({**BASE, "aggregates": {"n": written}})

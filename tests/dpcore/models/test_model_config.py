"""The model section: defaults that follow from other fields, and refusals in words."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.registry import MODELS

FLIGHTS: dict[str, Any] = {
    "name": "flights",
    "schema": {"time": "at"},
    "key": {"column": "carrier", "declared": ["AA", "UA"]},
    "clock": {"start": "2013-01-01T00:00:00Z", "period": "1h", "end": "2013-02-01T00:00:00Z"},
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "24h"},
    "model": {
        "algorithm": "online.follow_the_leader",
        "features": ["late", "distance"],
        "target": "delay",
        "ranges": {"late": [-30, 120], "distance": [0, 5000], "delay": [-60, 180]},
    },
}


def changed(**fields: Any) -> dict[str, Any]:
    """FLIGHTS with some of the model's fields replaced; None removes one."""
    data = copy.deepcopy(FLIGHTS)
    data["model"] = {k: v for k, v in {**data["model"], **fields}.items() if v is not None}
    return data


def test_defaults_follow_from_the_number_of_coefficients() -> None:
    model = PlanConfig.from_dict(FLIGHTS).model
    assert model is not None
    assert model.dimension == 3 and model.columns == ("late", "distance", "delay")
    assert model.clip.gradient == math.sqrt(3) / 2 and model.clip.loss == 1.0
    without = PlanConfig.from_dict(changed(intercept=False, clip={"loss": 2.0})).model
    assert without is not None
    assert without.clip.gradient == math.sqrt(2) / 2 and without.clip.loss == 2.0


WITH_SETS = [name for name in MODELS if MODELS[name].takes("set")]
NEEDS_ITS_SET = "optimize.frank_wolfe"
"""It fits a window again: its noise, and the number of its steps, are in proportion to the set."""


def test_a_set_without_a_default_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="model.set"):
        PlanConfig.from_dict(changed(algorithm=NEEDS_ITS_SET))


@pytest.mark.parametrize("name", [name for name in WITH_SETS if name != NEEDS_ITS_SET])
def test_a_default_set_suits_its_algorithm(name: str) -> None:
    model = PlanConfig.from_dict(changed(algorithm=name)).model
    assert model is not None
    corners = ("online.conditional_gradient", "optimize.sfw_polyhedral")
    ball = "l1_ball" if name in corners else "l2_ball"
    assert model.set == {ball: 2.0}


@pytest.mark.parametrize("given", [None, "add_remove", "replace_one", "replace_anywhere"])
def test_neighbours_of_a_model_differ_in_a_payload_unless_said_otherwise(given: str | None) -> None:
    data = changed()
    if given is not None:
        data["privacy"]["relation"] = given
    config = PlanConfig.from_dict(data)
    assert config.privacy.relation == (given or "replace_one")
    assert PlanConfig.from_dict(config.to_dict()) == config
    rebuilt = PlanConfig(
        name="x", schema=config.schema_, clock=config.clock, privacy=config.privacy,
        model=config.model,
    )  # fmt: skip
    assert rebuilt.privacy == config.privacy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"algorithm": "online.follow_leader"}, "algorithm", "mean online.follow_the_leader?"),
        ({"algorithm": "ftal"}, "algorithm", "online.pftal"),
        ({"algorithm": None}, "algorithm", "is missing"),
        ({"features": []}, "features", "at least one"),
        ({"features": "late"}, "features", "a list"),
        ({"features": ["late", "late"]}, "features", "twice"),
        ({"features": ["late", "@tick"]}, "features.1", "reserved"),
        ({"target": "late"}, "target", "predict itself"),
        ({"target": None}, "target", "is missing"),
        ({"intercept": 1}, "intercept", "true or false"),
        ({"ranges": None}, "ranges", "is missing"),
        ({"ranges": {"late": [0, 1], "delay": [0, 1]}}, "ranges.distance", "is missing"),
        ({"ranges": {"late": [0, 1], "distance": [0, 1]}}, "ranges.delay", "is missing"),
        ({"target": "delai"}, "ranges.delai", "is missing"),
        ({"features": ["late"]}, "ranges.distance", "neither a feature nor the target"),
        ({"clip": {"gradint": 1}}, "clip.gradint", "did you mean gradient?"),
        ({"clip": {"gradient": 0}}, "clip.gradient", "above 0"),
        ({"clip": {"gradient": math.nan}}, "clip.gradient", "finite"),
        ({"clip": {"loss": -1}}, "clip.loss", "or 0 for no loss"),
        ({"clip": [1, 2]}, "clip", "a section"),
        ({"loss": 5}, "loss", "squared"),
        ({"set": 5}, "set", "mapping"),
        ({"curvature": 0}, "curvature", "above 0"),
        ({"curvature": math.inf}, "curvature", "finite"),
        ({"centre": [1.0]}, "centre", "3 numbers, one a coefficient (late, distance, intercept)"),
        ({"centre": [1.0, math.nan, 0]}, "centre", "finite"),
        ({"own_curvature": "yes"}, "own_curvature", "true or false"),
        ({"step": "constant"}, "step", "not a setting of online.follow_the_leader"),
        ({"algorithm": "online.pqftl", "clip": {"gradient": 1}}, "clip", "not a setting"),
        ({"algorithm": "online.pocg", "weight": 0.5}, "weight", "not a setting"),
        ({"algorithm": "online.conditional_gradient", "step": "long"}, "step", "line_search"),
        ({"step": "long"}, "step", "not a setting of online.follow_the_leader"),
        ({"cap": 0}, "cap", "from 1"),
        ({"weight": 1}, "weight", "between 0 and 1"),
        ({"featurs": ["late"]}, "featurs", "did you mean features?"),
    ],
)
def test_refused_by_name(fields: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PlanConfig.from_dict(changed(**fields))
    assert caught.value.field == f"model.{field}"
    assert words in caught.value.remedy


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ([0], "two finite"),
        ([0, math.inf], "two finite"),
        ([1, 0], "low below high"),
        ([2, 2], "low below high"),
        ([-1e300, 1e300], "rescale"),
    ],
)
def test_ranges_are_pairs(bounds: list[float], words: str) -> None:
    ranges = {**FLIGHTS["model"]["ranges"], "late": bounds}
    with pytest.raises(ConfigError) as caught:
        PlanConfig.from_dict(changed(ranges=ranges))
    assert caught.value.field == "model.ranges.late" and words in caught.value.remedy


def test_a_model_stands_alone() -> None:
    data = changed()
    data["aggregates"] = {"n": {"count": "events"}}
    with pytest.raises(ConfigError, match="keep one"):
        PlanConfig.from_dict(data)


REGRESSION: dict[str, Any] = {"algorithm": "regression.incremental", "set": {"l2_ball": 3}}


def test_a_regression_has_its_own_fields() -> None:
    fields = {
        **REGRESSION,
        "target": ["delay", "late"],
        "features": ["distance"],
        "clip": {"features": 1.0, "target": 0.5},
        "ridge": 2.0,
        "over": 24,
        "error": True,
    }
    config = PlanConfig.from_dict(changed(**fields))
    model = config.model
    assert model is not None and model.targets == ("delay", "late")
    assert model.columns == ("distance", "delay", "late") and model.over == 24
    assert PlanConfig.from_dict(config.to_dict()) == config
    single = PlanConfig.from_dict(changed(**REGRESSION)).model
    assert single is not None and single.targets == ("delay",) and single.over == "all"
    assert single.clip.features is None and single.clip.target is None


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_does_not_read_is_refused_by_name(name: str) -> None:
    values = {"ridge": 1.0, "over": 3, "weight": 0.2, "every": 5, "inputs": {"k_sparse": 1},
              "projection": {"dimension": 2}, "cap": 7, "centre": [0.0, 0.0, 0.0]}  # fmt: skip
    for field, value in values.items():
        if MODELS[name].takes(field):
            continue
        with pytest.raises(ConfigError, match="not a setting of") as caught:
            PlanConfig.from_dict(changed(algorithm=name, **{field: value}))
        assert caught.value.field == f"model.{field}"
    for field in ("gradient", "loss", "features", "target"):
        if MODELS[name].takes(f"clip.{field}"):
            continue
        with pytest.raises(ConfigError, match="not a setting of"):
            PlanConfig.from_dict(changed(algorithm=name, clip={field: 1.0}))


def test_a_plan_tells_what_a_bound_on_events_would_save() -> None:
    open_ended = Plan.from_config(PlanConfig.from_dict(changed(**REGRESSION)))
    assert any("times less noise" in warning for warning in open_ended.warnings)
    clipped = changed(**REGRESSION, clip={"features": 1.2})
    warnings = Plan.from_config(PlanConfig.from_dict(clipped)).warnings
    assert not any("times less noise" in warning for warning in warnings)

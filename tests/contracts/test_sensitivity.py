"""Every registered algorithm at the corners of its config: no event moves a sum by more than is
paid for, and at some corner one moves it by that much.

One feature without a constant, clips that are powers of two and their neighbours, ranges one wide:
where a bound "already holds", or a root is a whole number, checks were once left out.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contracts.corners import candidates, moved, weights
from weir.dpcore.aggregates import leaf as aggregates
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.models.regression import event_kernel
from weir.dpcore.models.regression import rows as module
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.registry import AGGREGATES, MODELS

RELATIONS = ("add_remove", "replace_one", "replace_anywhere")
CLIPS = (2.0**-8, 0.5, 1.0, 1.5, 2.0, 4.0, None)
RANGES = ((0.0, 1.0), (-1.0, 1.0), (1e6, 1e6 + 1))
SHAPES = ((1, False), (1, True), (3, False), (3, True))
MOMENTS = ("regression.incremental", "regression.two_trees", "regression.projected")
L1 = ("online.conditional_gradient", "optimize.frank_wolfe")
WITH_ERROR = {"regression.incremental": {"error": True}}
SLOW = ("online.pocg",)
ONE_PASS = ("optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd")
SLACK = 1 + 1e-9
SECOND = "online.follow_the_leader, second order"
STEPS = "erm.sliding_window, steps"
PLACED = ("erm.sampled", STEPS)
VARIANTS: dict[str, dict[str, Any]] = {
    STEPS: {"solver": "sgd", "passes": 2, "window": 3},
    SECOND: {"schedule": "second_order"},
    "online.pocg, fading": {"expect": {"events": 3}},
    "optimize.phased_sgd, learned": {"form": "learned", "records": 32},
    "optimize.phased_sgd, erm": {"form": "erm", "keep": 40},
    "optimize.phased_sgd, erm in one pass": {"form": "erm", "passes": 1, "loss": "absolute"},
    "optimize.sfw_polyhedral, one sample": {"form": "one_sample"},
    "optimize.sfw_polyhedral, tree": {"form": "tree"},
    "optimize.frank_wolfe, gaussian": {"set": {"l2_ball": 2}},
    "optimize.frank_wolfe, sliding": {"window": 3, "loss": {"huber": 0.5}},
    "optimize.frank_wolfe, refit": {"form": "refit"},
}


def plan_of(rest: dict[str, Any], relation: str) -> Any:
    clock = {"start": "2024-01-01T00:00:00Z", "period": "1d", "end": "2024-01-13T00:00:00Z"}
    privacy = {"epsilon": 1.0, "delta": 1e-6, "protect_for": "all", "relation": relation}
    whole = {"name": "corner", "schema": {"time": "t"}, "clock": clock, "privacy": privacy, **rest}
    return Plan.from_config(PlanConfig.from_yaml(json.dumps(whole))).program


def model_of(
    name: str, features: int, intercept: bool, clip: Any, ranges: Any, relation: str, **more: Any
) -> tuple[Any, dict[str, Any]]:
    """A compiled model, or a variant of one, and the ranges of its columns."""
    variant = dict(VARIANTS.get(name, {}))
    expect = {"expect": variant.pop("expect")} if "expect" in variant else {}
    placed, name = name in PLACED, name.partition(",")[0]
    more = {**variant, **more}
    names = [f"x{i}" for i in range(features)]
    columns = {**dict.fromkeys(names, ranges), "y": ranges}
    one_pass = name in ONE_PASS
    of_blocks = name.startswith(("erm.", "optimize.")) and not one_pass
    field = {"clip": {"features" if name in MOMENTS or of_blocks or one_pass else "gradient": clip}}
    model = {
        "algorithm": name,
        "features": names,
        "target": "y",
        "intercept": intercept,
        "ranges": {column: list(ends) for column, ends in columns.items()},
        **(field if clip is not None and name != "online.pqftl" else {}),
        **more,
    }
    if one_pass:
        model = {"records": 9, **model}
        return plan_of({"model": model, "schema": {"time": "t", "id": "i"}}, relation), columns
    if placed:
        model = {**model, "block": 9, **({"doublings": 1} if name == "erm.sampled" else {})}
        return plan_of({"model": model, "schema": {"time": "t", "id": "i"}}, relation), columns
    if name in L1:
        model.setdefault("set", {"l1_ball": 2})
    if of_blocks:
        return plan_of(
            {"model": {**model, "block": "1d"}, "expect": {"events": 9}}, relation
        ), columns
    model.setdefault("set", {"l2_ball": 2})
    return plan_of({"model": model, **expect}, relation), columns


def worst_of(name: str, relation: str) -> float:
    """Over all corners; asserts none is beyond what is paid for."""
    worst = 0.0
    for features, intercept in SHAPES:
        for i, clip in enumerate(CLIPS):
            slow = name.partition(",")[0] in SLOW
            if clip is not None and (name == "online.pqftl" or slow and i % 2):
                continue
            more: dict[str, Any] = {}
            if name == "regression.projected" and features > 1:
                more["projection"] = {"dimension": 1, "seed": i}
            if intercept and i % 2:
                more.update(WITH_ERROR.get(name, {}))
            given = RANGES[i % len(RANGES)]
            program, columns = model_of(name, features, intercept, clip, given, relation, **more)
            for added in weights(program, candidates(columns)):
                found = moved(added, relation)
                assert found <= SLACK, (features, intercept, clip, given, found)
                worst = max(worst, found)
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", [*MODELS, *VARIANTS])
def test_no_event_moves_a_model_by_more_than_is_paid_for(name: str, relation: str) -> None:
    """Rows that compete pay for an exchange whatever the relation, which one event is half of."""
    one_pass = name.startswith(ONE_PASS)
    if (name in PLACED or one_pass) and relation != "replace_one":
        with pytest.raises(ConfigError, match="must be replace_one"):
            worst_of(name, relation)
        return
    whole = relation == "replace_one" or name in MOMENTS or name == "online.pqftl"
    least = 0.9 if whole else 0.45
    if name == SECOND:
        least = 0.4  # its parts are not at their most at once
    if name == "regression.two_trees":
        least = 0.45  # the paper's own bound is above what is attained
    if one_pass:
        least = 0.45  # some corners of the set do not attain the slope
    assert worst_of(name, relation) > least


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", AGGREGATES)
def test_no_event_moves_an_aggregate_by_more_than_is_paid_for(name: str, relation: str) -> None:
    worst = 0.0
    clips = ((0, 1), (-1, 1), (-1, 3), (0, 2**-9), (1e6, 1e6 + 1), (0, 3), (-2, 0))
    for low, high in clips:
        body: dict[str, Any] = {name: "events" if name == "count" else "x"}
        if name == "histogram":
            body["edges"] = [low, high]
        elif name == "quantile":
            body |= {"at": 0.5, "edges": {"linear": [low, high, 40]}}
        elif name != "count":
            body["clip"] = [low, high]
        try:
            program = plan_of(
                {"aggregates": {"one": body, "two": {"sum": "x", "clip": [low, high]}}}, relation
            )
        except ConfigError as refused:
            assert "public under" in str(refused)
            continue
        for added in weights(program, candidates({"x": (low, high)})):
            in_l1 = program.sums[0].real_noise[0] == "laplace"
            found = moved(added, relation, False, in_l1)
            assert found <= SLACK, (low, high, found)
            worst = max(worst, found)
    assert worst > 0.7


@pytest.mark.parametrize("dimension", [1, 2])
def test_the_scan_finds_a_bound_that_is_not_enforced(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, columns = model_of(
        "regression.projected",
        3,
        False,
        1.0,
        (-1.0, 1.0),
        "replace_one",
        projection={"dimension": dimension},
    )
    (added,) = weights(program, candidates(columns))
    assert moved(added, "replace_one") <= SLACK
    monkeypatch.setattr(module, "_shorten", lambda *_: 0)
    (added,) = weights(program, candidates(columns))
    assert moved(added, "replace_one") > 1.5


@pytest.mark.parametrize("compiled", [True, False])
def test_rows_that_stay_too_long_end_the_step(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Norms are measured again after rows were shortened and truncated."""
    if not compiled:
        monkeypatch.setattr(event_kernel, "kernels", None)
    program, columns = model_of("regression.incremental", 3, True, 0.5, (-1.0, 1.0), "replace_one")
    given = candidates(columns)
    for where in (module, event_kernel):
        monkeypatch.setattr(where, "SHRINK", 2.0)
    with pytest.raises(WeirError, match="longer than its bound"):
        program.bound(given, len(given["y"]))


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_scan_finds_an_l2_scale_under_laplace_noise(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"n": {"count": "events"}, "s": {"sum": "x", "clip": [-1, 3]}}
    body |= {"h": {"histogram": "x", "edges": [-1, 0, 3]}}
    rest = {"aggregates": body, "mechanism": {"continual_sum": "tree", "noise": "laplace"}}
    given = candidates({"x": (-1.0, 3.0)})

    def worst() -> float:
        (added,) = weights(plan_of(rest, relation), given)
        return moved(added, relation, vanishes=False, in_l1=True)

    assert 0.7 < worst() <= SLACK
    right = aggregates.joint_sensitivity
    monkeypatch.setattr(aggregates, "joint_sensitivity", lambda *a: right(*a[:4], 2))
    assert worst() > 1.3

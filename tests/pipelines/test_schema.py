"""``weir schema``: complete, documented, and in step with what is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.registry import MODELS
from weir.pipelines.config.job import JobConfig, json_schema


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "config", schema
    yield from schema["$defs"].items()


def test_every_property_is_documented_with_an_example() -> None:
    for title, section in objects(json_schema()):
        for name, value in section["properties"].items():
            assert value.get("description"), (title, name)
            assert value.get("examples"), (title, name)


def test_sections_refuse_what_they_do_not_know() -> None:
    for title, section in objects(json_schema()):
        assert section["additionalProperties"] is False, title


def test_all_sections_are_there() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {
        info.alias or name for name, info in JobConfig.model_fields.items()
    }
    assert set(schema["required"]) == {"name", "privacy"}


def test_short_forms_are_in_it() -> None:
    schema = json_schema()
    time = schema["$defs"]["Schema"]["properties"]["time"]
    assert {"type": "string"} in time["anyOf"]
    for kind in ("Count", "Sum", "Mean", "Variance", "Histogram"):
        over = schema["$defs"][kind]["properties"]["over"]
        assert {"const": "all", "type": "string"} in over["anyOf"]
        assert {"array", "integer"} <= {one["type"] for one in over["anyOf"]}


def test_examples_are_values_not_yaml() -> None:
    examples = json_schema()["properties"]["privacy"]["examples"]
    assert examples == [{"epsilon": 1.0, "delta": 1e-6, "protect_for": "365d"}]


@pytest.mark.slow
def test_the_command_prints_json(weir: Weir) -> None:
    result = weir("schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema()


MODEL: dict[str, Any] = {
    "features": ["u", "v"],
    "target": "y",
    "ranges": {"u": [-2, 2], "v": [-1, 1], "y": [0, 16]},
}


def config(**changed: Any) -> dict[str, Any]:
    """A whole config; a section that is None is left out."""
    whole: dict[str, Any] = {
        "name": "checked",
        "schema": {"time": "at"},
        "clock": {"start": "2024-01-01T00:00:00Z", "period": "1h"},
        "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "24h"},
        **changed,
    }
    return {name: value for name, value in whole.items() if value is not None}


def counted(**changed: Any) -> dict[str, Any]:
    return config(aggregates={"n": {"count": "events", **changed}})


def summed(**changed: Any) -> dict[str, Any]:
    return config(aggregates={"s": {"sum": "x", "clip": [0, 1], **changed}})


def learned(algorithm: str, **changed: Any) -> dict[str, Any]:
    if algorithm in ("optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd"):
        model = {"algorithm": algorithm, **MODEL, **changed}
        return config(model=model, schema={"time": "at", "id": "id"})
    if algorithm == "erm.sampled":
        model = {"algorithm": algorithm, **MODEL, "block": 20, **changed}
        return config(model=model, schema={"time": "at", "id": "id"})
    if algorithm.startswith("erm."):
        model = {"algorithm": algorithm, **MODEL, "block": "7h", **changed}
        return config(model=model, expect={"events": 9})
    if algorithm == "optimize.frank_wolfe":
        model = {"algorithm": algorithm, **MODEL, "block": "7h", "set": {"l1_ball": 1}, **changed}
        return config(model=model, expect={"events": 9})
    return config(model={"algorithm": algorithm, **MODEL, **changed})


def promised(**changed: Any) -> dict[str, Any]:
    privacy = {"epsilon": 1.0, "delta": 1e-6, "protect_for": "24h", **changed}
    return {**counted(), "privacy": privacy}


SETS: list[dict[str, Any]] = [
    {"l1_ball": 1},
    {"l2_ball": 0.5},
    {"simplex": 1},
    {"box": [-1, 1]},
    {"box": [[-1, 0, 0], [1, 1, 2]]},
    {"polytope": {"vertices": [[0, 0, 0], [1, 0, 0]]}},
    {"product": [{"l1_ball": 1, "size": 2}, {"box": [-1, 1], "size": 1}]},
    {"lp_ball": {"radius": 1, "p": 1.5}},
    {"group_l1_ball": {"radius": 1, "groups": 2}},
    {"group_l1_ball": {"radius": 1, "groups": [1, 2]}},
]
NO_SETS: list[Any] = [
    {},
    5,
    {"l3_ball": 1},
    {"l1_ball": 0},
    {"l1_ball": "1"},
    {"l1_ball": 1, "l2_ball": 1},
    {"box": [1]},
    {"polytope": {"vertices": []}},
    {"product": [{"l1_ball": 1}]},
    {"lp_ball": {"radius": 1, "p": 0.5}},
    {"group_l1_ball": {"radius": 1}},
    {"permutations": 0},
]
GOOD = [
    counted(),
    counted(over=["all", 7], weight=2.0),
    counted(over=1),
    summed(),
    config(aggregates={"h": {"histogram": "x", "edges": [1, 2, 5]}}),
    config(aggregates={"q": {"quantile": "x", "at": 0.5, "edges": {"log": [1, 10, 4]}}}),
    config(aggregates={"q": {"quantile": "x", "at": [0.1, 0.5], "edges": [1, 2, 5]}}),
    counted(over="6h"),
    counted(where="x > 1"),
    promised(protect_for="3 ticks"),
    promised(protect_for="all", delta=0),
    {**counted(), "mechanism": {"continual_sum": "blt", "noise": "gaussian", "buffers": 3}},
    *(learned(name) for name in MODELS),
    *(learned("online.follow_the_leader", set=one) for one in SETS),
    learned("online.conditional_gradient", set={"trace_norm_ball": {"radius": 1, "shape": [3, 1]}}),
    *(
        learned("regression.erm", loss=loss)
        for loss in ("absolute", "logistic", {"quantile": 0.9}, {"huber": 1}, {"hinge": 0.5})
    ),
    learned("regression.incremental", target=["y", "u"], features=["v"], over=3, ridge=0),
    learned("regression.projected", inputs={"k_sparse": 1}, projection={"dimension": 1}),
    learned("optimize.frank_wolfe", loss={"huber": 0.5}, window=3, iterations=7),
    learned("optimize.frank_wolfe", set={"simplex": 1}, clip={"features": 1.0}),
    learned("regression.erm", every="convex", solver="noisy_sgd", rows=10),
    *(
        learned("erm.sliding_window", ranges={"u": [-2, 2], "v": [-1, 1]}, **more)
        for more in (
            {"classes": ["no", "yes"], "loss": {"hinge": 0.5}},
            {"classes": [0, 1, 2.5], "window": 15, "split": "even", "loss": "softmax"},
        )
    ),
]
BAD = [
    {**counted(), "agregates": {}},
    {**counted(), "blocks": "many"},
    promised(epsilon=-1),
    promised(epsilon=0),
    promised(delta=0.7),
    promised(delta=-0.1),
    promised(protect_for=0),
    promised(protect_for=30),
    promised(protect_for="some"),
    promised(relation="neighbours"),
    {**counted(), "mechanism": {"buffers": 9}},
    {**counted(), "mechanism": {"noise": "cauchy"}},
    {**counted(), "mechanism": {"continual_sum": "forest"}},
    {**counted(), "blocks": 0},
    {**counted(), "blocks": 1 << 20},
    {**counted(), "name": "two words"},
    {**counted(), "clock": {"start": "2024-01-01T00:00:00Z", "period": "daily"}},
    config(aggregates={"n": {}}),
    counted(sum="x"),
    counted(weight=0),
    counted(over=0),
    counted(over=[]),
    counted(clip=[0, 1]),
    summed(clip=[1]),
    config(aggregates={"h": {"histogram": "x", "edges": [1]}}),
    learned("online.follow_leader"),
    learned("online.follow_the_leader", ridge=1.0),
    learned("online.follow_the_leader", step="constant"),
    learned("online.follow_the_leader", clip={"features": 1}),
    learned("online.follow_the_leader", weight=1),
    learned("online.follow_the_leader", curvature=0),
    learned("online.follow_the_leader", target=["y"]),
    learned("online.follow_the_leader", features=[]),
    learned("regression.incremental", loss="absolute"),
    learned("regression.incremental", solver="noisy_sgd"),
    learned("regression.erm", solver="accelerated"),
    learned("regression.erm", every=0),
    learned("regression.erm", loss="cubic"),
    learned("optimize.frank_wolfe", iterations=0),
    learned("optimize.frank_wolfe", window=0),
    learned("optimize.frank_wolfe", loss="cubic"),
    learned("erm.sliding_window", block=0),
    learned("erm.sliding_window", block="1 week"),
    learned("erm.sliding_window", split="worst"),
    learned("erm.sliding_window", classes=["only"]),
    learned("erm.sliding_window", set={"l2_ball": 1}),
    learned("regression.erm", loss={"quantile": 2}),
    *(learned("online.follow_the_leader", set=one) for one in NO_SETS),
]


@pytest.mark.slow
@pytest.mark.parametrize("data", GOOD, ids=str)
def test_what_is_taken_is_valid(data: dict[str, Any]) -> None:
    """An editor that knows the schema marks nothing that would run."""
    validator().validate(data)
    Plan.from_config(PlanConfig.from_dict(ending(data)))


@pytest.mark.slow
@pytest.mark.parametrize("data", BAD, ids=str)
def test_what_is_refused_is_invalid(data: dict[str, Any]) -> None:
    assert list(validator().iter_errors(data))
    with pytest.raises(ConfigError):
        Plan.from_config(PlanConfig.from_dict(ending(data)))


def numbers(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Every number in plain values, with its path."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, one in items:
            yield from numbers(one, (*at, name))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, value


def with_text(value: Any, at: tuple[Any, ...], text: str) -> Any:
    """A copy with text at a path."""
    if not at:
        return text
    found = dict(value) if isinstance(value, dict) else list(value)
    found[at[0]] = with_text(value[at[0]], at[1:], text)
    return found


def as_text() -> Iterator[Any]:
    """One case for each section and place of a number in GOOD, and in what is documented."""
    seen = set()
    for data in [*GOOD, *documented()]:
        for at, number in numbers(data):
            kind = data.get("model", {}).get("algorithm")
            spot = (at, kind, *(tuple(one) for one in data.get("aggregates", {}).values()))
            if spot not in seen and "product" not in at:  # a part of a product has no schema
                seen.add(spot)
                yield data, at, number


def documented() -> Iterator[dict[str, Any]]:
    """Configs with the examples of the sections that all configs have."""
    for name in ("privacy", "expect", "mechanism"):
        for example in json_schema()["properties"][name]["examples"]:
            yield {**counted(), name: example}


@pytest.mark.slow
def test_numbers_as_yaml_1_1_writes_them_are_marked_where_they_are_refused_only() -> None:
    for data, at, number in as_text():
        written = with_text(data, at, f"{number:.9e}")
        marked = bool(list(validator().iter_errors(written)))
        try:
            plan = PlanConfig.from_dict(ending(written))
            Plan.from_config(plan)
            refused = False
        except ConfigError:
            refused = True
        assert marked == refused, (at, written)
    wrong = promised(delta="one in a million")
    assert list(validator().iter_errors(wrong))


@cache
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    return jsonschema.Draft202012Validator(json_schema())


def ending(data: dict[str, Any]) -> dict[str, Any]:
    """With an end of the clock, which some algorithms need."""
    return {**data, "clock": {**data["clock"], "end": "2024-02-01T00:00:00Z"}}


def test_a_model_is_told_by_its_algorithm() -> None:
    schema = json_schema()
    choices = schema["properties"]["model"]["anyOf"][0]
    assert choices["discriminator"]["propertyName"] == "algorithm"
    assert set(choices["discriminator"]["mapping"]) == set(MODELS)
    for name, reference in choices["discriminator"]["mapping"].items():
        section = schema["$defs"][reference.rpartition("/")[2]]
        assert section["properties"]["algorithm"]["const"] == name
        assert set(section["properties"]) == set(MODELS[name].model_fields)

"""Projected regression from config to model."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.projected import Projected
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig

DAY = 86_400_000_000


def config_of(features: int = 60, **changed: Any) -> PlanConfig:
    """A plan of ``features`` features x0, x1, ... in [-1, 1], with other fields as given."""
    names = [f"x{i}" for i in range(features)]
    clock = {"start": "2024-01-01T00:00:00Z", "period": "1d", "end": "2024-02-01T00:00:00Z"}
    clock |= changed.pop("clock", {})
    if clock["end"] is None:
        del clock["end"]
    privacy = {"epsilon": 1.0, "delta": 1e-6, "protect_for": "all", "relation": "replace_one"}
    model = {
        "algorithm": "regression.projected",
        "features": names,
        "target": "y",
        "intercept": True,
        "ranges": {**{name: [-1, 1] for name in names}, "y": [-1, 1]},
        "set": {"l1_ball": 2},
        "inputs": {"k_sparse": 5},
        "projection": {"dimension": 24, "seed": 1},
        "ridge": 0.0,
        **changed,
    }
    model = {name: value for name, value in model.items() if value is not None}
    return PlanConfig.from_yaml(
        json.dumps(
            {
                "name": "projected",
                "schema": {"time": "t"},
                "key": {"column": "k", "declared": ["a", "b"]},
                "clock": clock,
                "privacy": privacy,
                "model": model,
            }
        )
    )


def program_of(features: int = 60, **changed: Any) -> Any:
    return Plan.from_config(config_of(features, **changed)).program


def sparse_events(n: int, p: int, k: int, seed: int = 0) -> tuple[np.ndarray, dict[str, Any]]:
    """(p,) true coefficients, and columns of k-sparse events that they explain."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, p))
    for row in x:
        row[rng.choice(p, k, replace=False)] = rng.uniform(-1, 1, k)
    theta = np.zeros(p)
    theta[rng.choice(p, 3, replace=False)] = [0.5, -0.4, 0.3]
    columns = {f"x{i}": np.ascontiguousarray(x[:, i]) for i in range(p)}
    return theta, {**columns, "y": x @ theta}


def run(program: Any, columns: Any, cells: Any, shape: tuple[int, int]) -> dict[str, Any]:
    leaves = program.accumulate(program.bound(columns, len(cells)).rows, cells, shape[0] * shape[1])
    stream = leaves.reshape(*shape, -1)
    _, noisy = program.step(program.init(shape[1]), stream, lambda part: NoNoise())
    return {one.name: one for one in program.solve(noisy, np.arange(shape[0]))}


@pytest.mark.slow
def test_without_noise_a_sparse_model_is_found() -> None:
    """m = 40 of 60 features is enough for a model of three; what is left is the embedding's."""
    program = program_of(projection={"dimension": 40})
    theta, columns = sparse_events(6000, 60, 5)
    found = run(program, columns, np.zeros(6000, dtype=np.int64), (1, 1))
    got = found["theta"].value[0, 0]
    assert got[:-1] @ theta > 0.85 * np.linalg.norm(got) * np.linalg.norm(theta)
    assert np.abs(got).sum() <= 2 + 1e-9
    np.testing.assert_allclose(found["coefficients"].value[0, 0], got, atol=1e-12)
    fewer = program_of(projection={"dimension": 6})
    worse = run(fewer, columns, np.zeros(6000, dtype=np.int64), (1, 1))["theta"].value[0, 0]
    assert worse[:-1] @ theta < 0.7 * np.linalg.norm(worse) * np.linalg.norm(theta)


def test_the_model_is_optimal_for_the_projected_moments() -> None:
    """Nothing in the set is better for the events as they were projected."""
    program = program_of(set={"l2_ball": 0.5})
    _, columns = sparse_events(2000, 60, 5)
    rows = program.bound(columns, 2000).rows / 2**16
    found = run(program, columns, np.zeros(2000, dtype=np.int64), (1, 1))
    theta = found["theta"].value[0, 0]
    image = np.append(program.rows.projection.matrix @ theta[:-1], theta[-1])
    risk = np.sum((rows[:, 25] - rows[:, :25] @ image) ** 2)
    rng = np.random.default_rng(0)
    others = program.set.project(theta + 0.1 * rng.standard_normal((300, 61)))
    images = np.concatenate([others[:, :-1] @ program.rows.projection.matrix.T, others[:, -1:]], 1)
    risks = np.sum((rows[:, 25] - images @ rows[:, :25].T) ** 2, axis=1)
    assert risk <= risks.min() * (1 + 1e-6)


def test_events_outside_the_inputs_do_not_move_it() -> None:
    program = program_of()
    _, columns = sparse_events(500, 60, 5)
    dense = {name: np.append(column, [0.5, -0.5]) for name, column in columns.items()}
    assert program.bound(dense, 502).out_of_range == 2
    shape = (1, 1)
    one = run(program, columns, np.zeros(500, dtype=np.int64), shape)["theta"].value
    two = run(program, dense, np.zeros(502, dtype=np.int64), shape)["theta"].value
    assert one.tobytes() == two.tobytes()


@pytest.mark.slow
def test_keys_ticks_and_strides_stand_alone() -> None:
    program = program_of()
    _, columns = sparse_events(900, 60, 5)
    cells = np.random.default_rng(1).integers(0, 12, 900)
    leaves = program.accumulate(program.bound(columns, 900).rows, cells, 12).reshape(6, 2, -1)
    noisy = leaves.astype(np.float64)
    whole = program.solve((noisy,), np.arange(6))
    copied = pickle.loads(pickle.dumps(program))
    for at, keys in ((slice(2, 3), slice(0, 2)), (slice(0, 6), slice(1, 2))):
        part = copied.solve((noisy[at, keys],), np.arange(6)[at])
        for a, b in zip(whole, part, strict=True):
            assert np.ascontiguousarray(a.value[at, keys]).tobytes() == b.value.tobytes()


def test_no_event_no_noise_is_the_zero_model() -> None:
    found = run(
        program_of(statistics=True),
        {name: np.zeros(0) for name in [*(f"x{i}" for i in range(60)), "y"]},
        np.zeros(0, dtype=np.int64),
        (2, 2),
    )
    assert not found["theta"].value.any()
    assert not found["moments"].value.any()
    assert np.all(found["moments"].stddev > 0)


def test_several_targets_and_what_is_described() -> None:
    ranges = {**{f"x{i}": [-1, 1] for i in range(60)}, "y": [-1, 1], "z": [-2, 2]}
    program = program_of(target=["y", "z"], ranges=ranges, statistics=True)
    theta, columns = sparse_events(800, 60, 5)
    columns["z"] = -2 * columns["y"]
    found = run(program, columns, np.zeros(800, dtype=np.int64), (1, 1))
    value = found["theta"].value[0, 0].reshape(2, 61)
    np.testing.assert_allclose(value[1], -value[0], atol=2e-3)
    for info in program.describe(np.arange(3)):
        assert found[info.name].value.shape == (1, 1, info.dimension)
        assert len(set(info.labels)) == info.dimension
    assert found["theta"].stddev is None


def test_noise_follows_the_projected_dimension_and_the_inputs() -> None:
    """Five entries of at most 1 and the constant: ||x||^2 <= 6, whatever the 60 features; 5 / 3 + 1
    where they are spread evenly, which is what events are held to."""
    assert program_of().rows.moments.reach == pytest.approx(math.sqrt(5 / 3 + 1))
    within = program_of(inputs={"l1_ball": 1})
    assert within.rows.moments.reach == pytest.approx(math.sqrt(2))
    program = program_of(clip={"features": 9.0})
    assert program.rows.moments.reach == pytest.approx(math.sqrt(6))
    assert program.dimension == 25 * 26 // 2 + 25
    shorter = program_of(clip={"features": 1.0})
    assert shorter.mechanism.sensitivity == pytest.approx(math.sqrt(4.5))
    assert shorter.mechanism.sensitivity < program.mechanism.sensitivity / 4


def test_a_plan_names_everything_public() -> None:
    digests = {
        Plan.from_config(config_of(**changed)).digest
        for changed in (
            {},
            {"projection": {"dimension": 24, "seed": 2}},
            {"projection": {"dimension": 25, "seed": 1}},
            {"inputs": {"k_sparse": 4}},
            {"inputs": {"l1_ball": 1}},
            {"set": {"l1_ball": 3}},
            {"ridge": 1.0},
            {"tolerance": 1e-6},
        )
    }
    assert len(digests) == 8
    plan = Plan.from_config(config_of())
    json.dumps(plan.to_json(), allow_nan=False)
    assert len(pickle.dumps(plan.program)) < 60_000
    plan.program.solve((np.zeros((1, 1, plan.program.dimension)),), np.zeros(1, dtype=np.int64))
    assert len(pickle.dumps(plan.program)) < 60_000
    assert any("24 dimensions, of 60 features" in text for text in plan.warnings)
    assert any("outside model.inputs counts as none" in text for text in plan.warnings)


@pytest.mark.slow
def test_the_rule_chooses_when_nothing_is_named() -> None:
    small = program_of(500, projection={"constant": 0.02})
    assert isinstance(small, Projected)
    assert 1 < small.rows.projection.dimension < 500
    larger = program_of(500, projection={"constant": 0.04})
    ratio = larger.rows.projection.dimension / small.rows.projection.dimension
    assert ratio == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("projection", [{"dimension": 60}, {"dimension": 80}, {}])
def test_as_many_dimensions_as_features_run_the_other(projection: Any) -> None:
    plan = Plan.from_config(config_of(projection=projection))
    assert isinstance(plan.program, Incremental)
    assert plan.algorithm == "regression.projected"
    said = [text for text in plan.warnings if "runs regression.incremental" in text]
    assert len(said) == 1
    assert "there are only 60 features" in said[0]
    assert any("model.inputs chooses no events then" in text for text in plan.warnings)
    assert plan.program.rows.moments.reach == pytest.approx(math.sqrt(5 / 3 + 1))
    again = pickle.loads(pickle.dumps(plan.program))
    assert again.canonical() == plan.program.canonical()


@pytest.mark.parametrize(
    ("changed", "field", "says"),
    [
        ({"inputs": {"k_sparse": 61}}, "model.inputs.k_sparse", "from 1 to 60"),
        ({"set": {"trace_norm_ball": {"radius": 1, "shape": [61, 1]}}}, "model.set", "projection"),
        ({"loss": "logistic"}, "model.loss", "squared"),
        ({"clock": {"end": None}, "projection": {}}, "model.projection.dimension", "no end"),
        ({"error": True}, "model.error", "not a setting"),
        ({"solver": "noisy_projected_gradient"}, "model.solver", ""),
        (
            {"ranges": {**{f"x{i}": [-1, 1] for i in range(59)}, "x59": [0, 2], "y": [0, 1]}},
            "model.ranges.x59",
            "[-2, 2]",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_refused(changed: Any, field: str, says: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        Plan.from_config(config_of(**changed))
    assert wrong.value.field == field
    assert says in wrong.value.remedy


def test_a_clock_without_end_takes_a_dimension() -> None:
    plan = Plan.from_config(config_of(clock={"end": None}))
    assert isinstance(plan.program, Projected)
    assert plan.guarantee.epsilon == 1.0

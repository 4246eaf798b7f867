"""Features of one list column are those of as many columns, to the last bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from weir.dpcore.bounded_events import Events
from weir.dpcore.config.schema import ListFeatures
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import simulate

P = 4
CONFIG = """
name: wide
schema: {{time: at, id: id}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-04T00:00:00Z}}
privacy: {{epsilon: 5, delta: 1e-6, protect_for: all}}
model:
  algorithm: {algorithm}
  features: {features}
  target: y
  ranges: {ranges}
"""
ALGORITHMS = {
    "online.follow_the_leader": "",
    "regression.incremental": "",
    "erm.sliding_window": "  block: 20\n  window: 1\n  clip: {features: 1.0}\n",
    "regression.erm": "",
}
LIST = "{column: x, size: 4}"


def plan_of(algorithm: str, features: str, ranges: str) -> Plan:
    text = CONFIG.format(algorithm=algorithm, features=features, ranges=ranges)
    return Plan.from_yaml(text + ALGORITHMS.get(algorithm, ""))


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = np.random.default_rng(5)
    x = np.where(made.random((90, P)) < 0.5, 0.0, made.integers(-12, 13, (90, P)) / 4)
    x[7, 2] = np.nan
    days = made.integers(0, 3 * 86_400_000_000, 90)
    return np.datetime64("2025-01-01", "us").astype(np.int64) + days, x, x[:, 0] / 3


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_list_is_its_columns(algorithm: str) -> None:
    times, x, y = data()
    names = [f"x[{j}]" for j in range(P)]
    apart = ", ".join(f'"{name}": [-2, 3]' for name in names)
    listed = plan_of(algorithm, LIST, "{x: [-2, 3], y: [-1, 1]}")
    plain = plan_of(algorithm, str(names).replace("'", '"'), f"{{{apart}, y: [-1, 1]}}")
    assert listed.digest == plain.digest
    ids = [f"e{i}" for i in range(len(times))]
    columns = {name: x[:, j] for j, name in enumerate(names)}
    want = simulate(plain, Events(times, None, {**columns, "y": y}, ids), bytes(32))
    for given in (x, SparseRows.from_dense(x)):
        found = simulate(listed, Events(times, None, {"x": given, "y": y}, ids), bytes(32))
        for one, other in zip(found[0].released, want[0].released, strict=True):
            np.testing.assert_array_equal(one.value, other.value)


def test_the_section_writes_itself() -> None:
    listed = plan_of("online.follow_the_leader", LIST, "{x: [0, 3], y: [-1, 1]}")
    config = listed.config
    assert PlanConfig.from_dict(config.to_dict()) == config
    assert config.to_dict()["model"]["features"] == {"column": "x", "size": 4}
    again = pickle.loads(pickle.dumps(config.model.features))
    assert isinstance(again, ListFeatures) and again.listed == config.model.features.listed
    assert ("from", "4 features of column x, and a constant") in list(
        config.model.facts(listed.program, {})
    )


@pytest.mark.parametrize(
    ("features", "ranges", "said"),
    [
        ("{column: x}", "{x: [0, 1], y: [0, 1]}", "model.features.size"),
        ("{size: 4}", "{x: [0, 1], y: [0, 1]}", "write {column: pixels, size: 784}"),
        ("{column: x, size: 0}", "{x: [0, 1], y: [0, 1]}", "from 1 to 1,048,576"),
        ("{column: x, sise: 4}", "{x: [0, 1], y: [0, 1]}", "did you mean size"),
        ("{indices: i, size: 4}", "{x: [0, 1], y: [0, 1]}", "model.features.values"),
        ("{indices: i, values: i, size: 4}", "{i: [0, 1], y: [0, 1]}", "column of indices too"),
        ("{column: x, values: v, size: 4}", "{x: [0, 1], y: [0, 1]}", "combined with column"),
        ("{column: y, size: 4}", "{y: [0, 1]}", "is read for the features too"),
        (LIST, "{'x[0]': [0, 1], y: [0, 1]}", "model.ranges.x"),
        ("{column: x, size: 5000}", "{x: [-1, 1], y: [0, 1]}", "model.features.size = 5000"),
    ],
)
def test_what_is_refused(features: str, ranges: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_of("online.follow_the_leader", features, ranges)
    assert said in str(refused.value)

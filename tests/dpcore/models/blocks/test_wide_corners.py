"""Corners of wide rows: what sparse rows give is what dense ones give, and it is within the set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from weir.dpcore.bounded_events import Events
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.optimize.fit import BatchPlan, fit
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

P, BLOCK = 4200, 10
START, HOUR = 1_704_067_200_000_000, 3_600_000_000
CONFIG = """
name: corners
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T04:00:00Z}}
privacy: {{epsilon: 4, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  algorithm: optimize.frank_wolfe
  features: {{column: x, size: {size}}}
  target: y
  {target}
  set: {{l1_ball: 1}}
  block: {block}
  iterations: 4
"""
NUMBERS = "ranges: {x: [-2, 2], y: [-1, 1]}"
LABELS = "classes: [0, 1]\n  ranges: {x: [-2, 2]}"


def released(x: Any, y: Any, target: str, size: int = P) -> dict[str, Any]:
    made = Plan.from_yaml(CONFIG.format(size=size, target=target, block=BLOCK))
    n = len(y)
    times = START + np.arange(n) * (4 * HOUR // max(n, 1))
    events = Events(times, None, {"x": x, "y": y}, [f"e{i}" for i in range(n)])
    (found,) = simulate(made, events, bytes(32))
    return {one.name: one.value[:, 0] for one in found.released}


def rows(kind: str, n: int, size: int = P) -> Any:
    """A table of n rows."""
    rng = np.random.default_rng(2)
    table = np.zeros((n, size))
    if kind == "one each":
        table[np.arange(n), rng.integers(0, size, n)] = 1.5
    elif kind == "ends":
        table[:, 0], table[:, -1] = -5.0, 1e300
    elif kind == "void":
        table[:, 3] = np.nan
    else:
        assert kind == "all zero"
    return table


@pytest.mark.slow
@pytest.mark.parametrize("target", [NUMBERS, LABELS], ids=["numbers", "labels"])
@pytest.mark.parametrize("kind", ["all zero", "one each", "ends", "void"])
def test_odd_rows_give_models_that_are_those_of_dense_ones(kind: str, target: str) -> None:
    table, y = rows(kind, 24), np.tile([0.0, 1.0], 12)
    found = released(SparseRows.from_dense(table), y, target)
    want = released(table, y, target)
    assert all(found[name].tobytes() == want[name].tobytes() for name in want)
    theta = found["theta"][-1]
    assert np.isfinite(theta).all() and np.abs(theta).sum() <= 1 + 1e-9
    assert 0 < np.count_nonzero(theta) <= 4


@pytest.mark.parametrize("target", [NUMBERS, LABELS], ids=["numbers", "labels"])
@pytest.mark.parametrize("n", [0, 1, BLOCK - 1])
def test_fewer_records_than_a_block_release_nothing(n: int, target: str) -> None:
    found = released(SparseRows.from_dense(rows("one each", n)), np.ones(n), target)
    assert all(np.isnan(values).all() for values in found.values())
    full = released(SparseRows.from_dense(rows("one each", BLOCK)), np.ones(BLOCK), target)
    assert np.isfinite(full["theta"][-1]).all()


@pytest.mark.parametrize("target", [NUMBERS, LABELS], ids=["numbers", "labels"])
def test_a_list_of_one_number(target: str) -> None:
    x, y = np.linspace(-3, 3, 24)[:, None], np.tile([0.0, 1.0], 12)
    found = released(x, y, target, size=1)
    other = released(SparseRows.from_dense(x), y, target, size=1)
    assert all(found[name].tobytes() == other[name].tobytes() for name in found)
    assert found["theta"].shape == (4, 2) and np.isfinite(found["theta"][-1]).all()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_vertices_that_are_listed_twice_are_listed_once(loss: str) -> None:
    """In thousands of coordinates too, of dense and of sparse rows."""
    rng = np.random.default_rng(4)
    corners = np.zeros((4, P))
    corners[np.arange(4), [0, 7, 4100, P - 1]] = [1.0, -1.0, 1.0, 1.0]
    x = np.where(rng.random((40, P)) < 0.01, rng.choice([-1.0, 1.0], (40, P)), 0.0)
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    models = []
    for order in ([0, 1, 2, 3], [0, 1, 1, 2, 3, 0]):
        made = BatchPlan.of(
            n=40,
            features=P,
            set={"polytope": {"vertices": corners[order].tolist()}},
            feature_range=(-1, 1),
            target_range=(-1, 1),
            epsilon=4.0,
            delta=1e-6,
            loss=loss,
            iterations=5,
        )
        theta = [fit(form, y, made, bytes(32)).theta for form in (x, sparse.csr_array(x))]
        assert theta[0].tobytes() == theta[1].tobytes()
        assert made.way.candidates.count == 4
        models.append((made.way.scale, theta[0]))
    (once, theta), (twice, _) = models
    assert once == twice
    assert theta.min() >= -1 and np.count_nonzero(theta) <= 4

"""The best fixed point in hindsight against scipy, and regret by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from benchmarks.regret import Quadratics, best_in_hindsight, regret
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.simplex import Simplex

D = 4
ENDS = np.array([1, 7, 40])
SETS = (L1Ball(0.4, D), L2Ball(0.3, D), Simplex(1.0, D), L2Ball(50.0, D))


@pytest.fixture(scope="module")
def quadratics() -> Quadratics:
    rng = np.random.default_rng(1)
    a, y = rng.normal(size=(40, D)), rng.normal(size=40)
    return Quadratics.of_prefixes(a, y, 0.2, np.full(D, 0.1), ENDS)


def test_prefixes_add_up(quadratics: Quadratics) -> None:
    rng = np.random.default_rng(1)
    a, y = rng.normal(size=(40, D)), rng.normal(size=40)
    x = rng.normal(size=D)
    for k, end in enumerate(ENDS):
        losses = (a[:end] @ x - y[:end]) ** 2 / 2 + 0.1 * ((x - 0.1) ** 2).sum()
        assert quadratics.value(np.tile(x, (3, 1)))[k] == pytest.approx(losses.sum())
        step = 1e-6 * np.eye(D)
        slope = [
            (quadratics.value(np.tile(x + e, (3, 1))) - quadratics.value(np.tile(x - e, (3, 1))))[k]
            for e in step
        ]
        assert quadratics.gradient(np.tile(x, (3, 1)))[k] == pytest.approx(
            np.array(slope) / 2e-6, rel=1e-5, abs=1e-6
        )


@pytest.mark.parametrize("convex_set", SETS, ids=lambda s: f"{s.name} {s.diameter:g}")
def test_best_is_the_minimum(convex_set: Any, quadratics: Quadratics) -> None:
    best = best_in_hindsight(quadratics, convex_set, 1e-9)
    assert (best.gap <= 1e-9).all()
    assert convex_set.contains(best.x).all()
    for k in range(len(ENDS)):

        def value(p: Any, k: int = k) -> float:
            inside = convex_set.project(p[None])
            far = ((p - inside[0]) ** 2).sum()
            return float(quadratics.value(np.repeat(inside, 3, axis=0))[k] + far)

        found = minimize(value, best.x[k] + 0.05, method="Nelder-Mead", options={"maxiter": 4000})
        assert best.value[k] <= found.fun + 1e-8
        assert best.value[k] == pytest.approx(found.fun, rel=0.01)  # Nelder-Mead stops early


def test_a_tolerance_that_is_not_reached_is_an_error(quadratics: Quadratics) -> None:
    with pytest.raises(WeirError, match="after 2 steps"):
        best_in_hindsight(quadratics, L1Ball(0.4, D), 1e-12, steps=2)
    with pytest.raises(ConfigError, match="tolerance"):
        best_in_hindsight(quadratics, L1Ball(0.4, D), 0.0)


def test_regret_by_hand() -> None:
    losses = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    got = regret(losses, np.array([1, 3]), np.array([0.5, 2.0]))
    assert np.array_equal(got, [[0.5, 1.5], [7.0, 10.0]])

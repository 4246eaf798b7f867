"""Why the algorithms are not run as Lou and Cheung (2020) print them: both forms on one stream.

f_t(x) = ||x - z_t||^2 / 2 over the l1 ball in 8 dimensions, the best fixed point in the interior,
no noise: regret of the printed forms is linear in T, that of the corrected ones logarithmic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.local_oracle import local_oracle
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.rule import FollowTheLeader

D, ENDS = 8, (500, 2000)
BALL = L1Ball(1.0, D)
CENTRE = (0.0,) * D


class Printed(NamedTuple):
    x: Any
    played: Any
    t: int


@dataclass(frozen=True)
class PrintedProjection:
    """Algorithm 1 as printed: line 3 projects sum x - ghat / mu, without the 1/t."""

    def init(self, n_keys: int) -> Printed:
        x = np.repeat(BALL.start()[None], n_keys, axis=0)
        return Printed(x, np.zeros_like(x), 0)

    def update(self, state: Printed, ghat: Any) -> Printed:
        played = state.played + state.x
        return Printed(BALL.project(played - ghat), played, state.t + 1)


@dataclass(frozen=True)
class PrintedConditionalGradient:
    """Algorithm 2 as printed: line 7 asks the oracle for sum x + C0 x_1 - ghat / mu, which is minus
    the gradient of F_t at 0, within the radius of line 6 (no privacy: C_W = 0); mu = 1."""

    lipschitz: float

    def init(self, n_keys: int) -> Printed:
        x = np.repeat(BALL.start()[None], n_keys, axis=0)
        return Printed(x, np.zeros_like(x), 0)

    def update(self, state: Printed, ghat: Any) -> Printed:
        oracle = local_oracle(BALL)
        assert oracle is not None
        rho, t = oracle.rho, state.t + 1
        rate, offset = 1 / (5 * rho**2), (25 * rho**2) ** 2
        size = self.lipschitz + BALL.diameter
        eta = 26 * rho**2 * size / (t + offset)
        radius = math.sqrt(4 * eta / (t + offset) + 2 * size / (t + offset))
        played = state.played + state.x
        cost = played + offset * BALL.start() - ghat
        n_keys = len(cost)
        found = oracle(state.x, np.full(n_keys, radius), cost, oracle.init(n_keys))
        return Printed(state.x + rate * (found.point - state.x), played, t)


def regrets(rule: Any, points: Any) -> list[float]:
    """Regret at ENDS against the best fixed point (the projected mean)."""
    state, ghat, losses = rule.init(1), np.zeros((1, D)), []
    for z in points:
        losses.append(((state.x[0] - z) ** 2).sum() / 2)
        ghat = ghat + state.x - z
        state = rule.update(state, ghat)
    out = []
    for end in ENDS:
        best = BALL.project(points[:end].mean(axis=0)[None])[0]
        out.append(sum(losses[:end]) - ((points[:end] - best) ** 2).sum() / 2)
    return out


@pytest.fixture(scope="module")
def points() -> Any:
    rng = np.random.default_rng(8)
    middle = np.array([0.2, -0.15, 0.1, 0, 0, 0.05, 0, 0])
    return middle + rng.normal(size=(ENDS[-1], D)) * math.sqrt(3.2 / D)


def test_projection(points: Any) -> None:
    right = regrets(FollowTheLeader(BALL, 1.0, CENTRE, own_curvature=True), points)
    wrong = regrets(PrintedProjection(), points)
    grows = (right[1] - right[0]) / math.log(ENDS[1] / ENDS[0])
    assert 0.5 * 1.6 < grows < 2 * 1.6  # (variance / 2) a unit of ln T
    assert wrong[1] > 3.5 * wrong[0]
    assert wrong[1] > 0.3 * ENDS[1] > 30 * right[1]


@pytest.mark.slow
def test_conditional_gradient(points: Any) -> None:
    exact = regrets(FollowTheLeader(BALL, 1.0, CENTRE, own_curvature=True), points)
    right = regrets(ConditionalGradient(BALL, 1.0, CENTRE, own_curvature=True), points)
    wrong = regrets(PrintedConditionalGradient(4.0), points)
    assert right[1] < 1.5 * right[0]
    assert right[1] < 1.05 * exact[1]
    assert wrong[1] > 3.5 * wrong[0]
    assert wrong[1] > 0.3 * ENDS[1] > 30 * right[1]

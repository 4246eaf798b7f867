"""Noisy gradients over any set: what one row moves, the noise's size, and the same bits always."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.constant_noise import NoNoise
from tests.dpcore.models.optimize.test_selection import draws, grid
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import GroupL1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall, TraceNormBall
from weir.dpcore.models.kit.loss import Huber, Logistic, Squared
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.width import Width, width_for

SETS: dict[str, ConvexSet] = {
    "l2": L2Ball(1.5, 4),
    "box": Box.uniform(-0.5, 1.0, 4),
    "lp": LpBall(1.0, 1.3, 4),
    "nearly l1": LpBall(1.0, 1.01, 4),
    "groups": GroupL1Ball(1.0, (2, 2)),
    "trace": TraceNormBall(1.0, (2, 2)),
    "line": L2Ball(1.0, 1),
}
KINDS: dict[str, PrivacyLoss] = {
    "gaussian": PrivacyLoss("gdp", 0.5),
    "discrete": PrivacyLoss("zcdp", 0.125),
    "k_norm": PrivacyLoss("pure", 1.0),
}


def made(convex_set: ConvexSet, loss: Any, kind: str = "gaussian", **more: Any) -> Width:
    norm = more.pop("norm", 1.0)
    linear = Linear(loss, convex_set, convex_set.dimension, False, norm)
    given = {"share": Fraction(1), "steps": None, **more}
    return width_for(linear, 1, 40.0, 40, 1, KINDS[kind], **given)


def data(d: int, n: int = 40) -> tuple[Any, Any]:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((n, d))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None] * (1 + 1e-5)
    return np.trunc(x * 2**20) / 2**20, grid(rng.uniform(-1, 1, n))


@pytest.mark.parametrize("loss", [Squared(), Huber(0.5), Logistic()], ids=lambda one: one.name)
@pytest.mark.parametrize("name", SETS)
def test_a_row_moves_a_sum_by_no_more_than_is_paid_for(name: str, loss: Any) -> None:
    way = made(SETS[name], loss)
    d, worst = way.dimension, 0.0
    directions = np.concatenate([np.eye(d), -np.eye(d), np.ones((1, d)) / math.sqrt(d)])
    models = [way.begin, *way.linear.set.linear_oracle(directions)]
    rows = np.trunc(directions * (1 - 2.0**-30) * 2**20) / 2**20
    for x in models:
        found = []
        for row in rows:
            for y in (-1.0, 1.0):
                run = way.fit(row[None], np.array([y]), np.zeros(0), draws())
                found.append(run.sums(x, int(x is not way.begin)))
        each = np.array(found, dtype=np.float64)
        apart = np.linalg.norm(each[:, None] - each[None], axis=2)
        worst = max(worst, float(apart.max()))
        if x is way.begin:
            most = way.first_point.sensitivity
            assert 0.6 * most <= worst <= most
    assert 0.45 * way.sensitivity <= worst <= way.sensitivity


@pytest.mark.parametrize("kind", KINDS)
def test_the_budget_is_kept_and_used(kind: str) -> None:
    for share in (Fraction(1), Fraction(1, 3)):
        way = made(SETS["l2"], Squared(), kind, share=share)
        root = math.sqrt(share) if kind == "gaussian" else float(share)
        assert way.loss.value <= KINDS[kind].value * root
        assert way.loss.value >= KINDS[kind].value * root * (1 - 1e-6)
        assert way.steps == made(SETS["l2"], Squared(), kind, share=share).steps >= 1


def test_noise_is_of_the_size_that_is_said() -> None:
    way = made(SETS["l2"], Squared(), steps=3)
    rows, targets = data(4)
    drawn, nothing = [], np.zeros(way.linear.set.dimension, dtype=np.int64)
    for i in range(800):
        run = way.fit(rows, targets, np.zeros(0), draws(i + 1))
        drawn.append(run._noisy(1, nothing))
    found = np.concatenate(drawn) / way.scale
    assert stats.kstest(found, "norm").pvalue > 1e-3
    assert stats.kstest(found * 1.2, "norm").pvalue < 1e-3
    wanted = way.scale * way.lattice / way.divisor
    assert way.stddev == pytest.approx(wanted)
    # The spec's sigma, (2 L / n) sqrt(T / (2 rho)), with mu^2 = 2 rho.
    rho = KINDS["gaussian"].value ** 2 / 2
    share = way.first / way.steepest  # of the first step, at 0
    printed = 2 * way.linear.lipschitz_in(2.0) / 40 * math.sqrt((2 + share**2) / (2 * rho))
    assert way.stddev == pytest.approx(printed, rel=1e-4) and share == pytest.approx(0.4, rel=1e-4)


@pytest.mark.parametrize("name", SETS)
def test_the_same_bits_however_it_is_cut_and_within_the_set(name: str) -> None:
    way = made(SETS[name], Huber(0.5), steps=17)
    rows, targets = data(way.dimension)

    def fitted(cuts: tuple[int, ...]) -> Any:
        x, y = way.fit(rows, targets, np.zeros(0), draws()).start()
        done = 0
        for steps in cuts:
            run = way.fit(rows, targets, np.zeros(0), draws())
            x, y = run.advance(x, y, done, steps)
            done += steps
        return run.finish(x, y).model

    whole = fitted((17,))
    assert fitted((1, 9, 7)).tobytes() == whole.tobytes() == fitted((1,) * 17).tobytes()
    assert way.linear.set.contains(whole[None], 1e-6).all()


@pytest.mark.slow
def test_without_noise_it_finds_the_least() -> None:
    way = made(SETS["l2"], Squared(), steps=4000)
    rng = np.random.default_rng(8)
    rows = np.trunc(rng.uniform(-0.5, 0.5, (40, 4)) * 2**20) / 2**20
    targets = grid(rows @ np.array([0.6, -0.3, 0.2, 0.1]))
    run = way.fit(rows, targets, np.zeros(0), draws(noise=NoNoise(0)))
    theta = run.finish(*run.advance(*run.start(), 0, 4000)).model
    np.testing.assert_allclose(theta, [0.6, -0.3, 0.2, 0.1], atol=5e-3)


def test_a_point_is_refused() -> None:
    with pytest.raises(ConfigError, match="single point"):
        made(Box((1.0, 1.0), (1.0, 1.0)), Squared())

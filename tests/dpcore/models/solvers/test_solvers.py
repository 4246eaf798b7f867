"""Batch solvers: the optimum without noise, the bound with it, and the same bits in any company."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.constant_noise import NoNoise
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.solvers.design import Design
from weir.dpcore.models.solvers.noisy_gradient import NoisyGradient, most_useful
from weir.dpcore.models.solvers.noisy_sgd import NoisySgd
from weir.dpcore.models.solvers.queries import Problem, Queries
from weir.dpcore.models.solvers.solver import steps_for
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.registry import SOLVERS

P, D = 2, 3
ROOT = RootKey.derive(bytes(range(32)), "test", bytes(32))
GENEROUS = PrivacyLoss("gdp", 1e5)
BOX = Box((-2.0,) * D, (2.0,) * D)
LOSSES = ["squared", {"huber": 0.2}, "logistic", "hinge"]


def problem(
    loss: Any = "squared", convex_set: Any = BOX, curvature: float = 0.0, clip: float = 1.0
) -> Problem:
    gradients = Gradients(parse_loss(loss), clip, None, P, True)
    return Problem(convex_set, gradients, curvature, (0.0,) * D, 1, 100_000)


def random_rows(n: int, seed: int = 0, noise: float = 0.3) -> Any:
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1, 1, (n, P + 1))
    clean = 0.7 * rows[:, 0] - 0.2 * rows[:, 1] + 0.1
    rows[:, P] = np.clip(clean + noise * rng.normal(size=n), -1, 1)
    return np.rint(rows * 2**20) * 2.0**-20


def design(one: Problem, rows: Any, keys: Any = None) -> Design:
    n = len(rows)
    keys = np.zeros(n, dtype=np.int64) if keys is None else keys
    hashes = np.random.default_rng(n).integers(0, 1 << 62, (n, 2)).astype(np.uint64)
    return Design.of(keys, rows, hashes, one.gradients)


def objective(one: Problem, rows: Any, strength: float) -> Any:
    """F, with each row's loss straight where its gradient would be longer than the clip."""
    points = np.concatenate([rows[:, :P], np.ones((len(rows), 1))], axis=1)
    steepest = one.lipschitz / np.linalg.norm(points, axis=1)
    grid = np.linspace(0, 1, 33)

    def value(x: Any) -> float:
        # The integral of the clipped slope along the segment from 0 to the prediction.
        p = points @ np.asarray(x)
        along = grid[:, None] * p
        slopes = one.gradients.loss.derivative(along.ravel(), np.tile(rows[:, P], len(grid)))
        slopes = np.clip(slopes.reshape(along.shape), -steepest, steepest)
        area = np.trapezoid(slopes, grid, axis=0) * p
        return float(area.sum() + strength / 2 * np.dot(x, x))

    return value


def optimum(one: Problem, rows: Any, strength: float) -> Any:
    value = objective(one, rows, strength)
    bounds, options = [(-2, 2)] * D, {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000}
    found = minimize(value, np.zeros(D), method="Nelder-Mead", bounds=bounds, options=options)
    return found.x


def solved(
    solver: Any, one: Problem, rows: Any, strength: float, budget: PrivacyLoss = GENEROUS
) -> Any:
    queries = Queries(
        one, design(one, rows), NoNoise(5), np.ones((1, 2), np.uint64), budget, Fraction(1)
    )
    start = np.zeros((1, D))
    return solver.solve(queries, start, np.array([strength]))[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("strength", [0.0, 60.0])
def test_without_noise_it_comes_to_the_batch_optimum(name: str, loss: Any, strength: float) -> None:
    one, rows = problem(loss), random_rows(600)
    solver = SOLVERS[name].make(one, 2_000 if name != "noisy_sgd" else 60, GENEROUS)
    found, best = solved(solver, one, rows, strength), optimum(one, rows, strength)
    value = objective(one, rows, strength)
    assert value(found) - value(best) < 2e-4 * len(rows)
    if loss == "squared":
        assert found == pytest.approx(best, abs=5e-3)


@pytest.mark.slow
def test_squared_losses_that_are_never_clipped_give_least_squares() -> None:
    one, rows = problem(clip=8.0), random_rows(2_000, noise=0.1)
    points = np.concatenate([rows[:, :P], np.ones((len(rows), 1))], axis=1)
    exact = np.linalg.lstsq(points, rows[:, P], rcond=None)[0]
    found = solved(NoisyGradient(one, 2_000), one, rows, 0.0)
    assert found == pytest.approx(exact, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("convex_set", [L1Ball(0.3, D), L2Ball(0.3, D)], ids=lambda s: s.name)
def test_the_constraint_holds_and_binds(convex_set: Any) -> None:
    one, rows = problem(convex_set=convex_set), random_rows(600)
    found = solved(NoisyGradient(one, 2_000), one, rows, 0.0)
    assert convex_set.contains(found[None]).all()
    value, best = objective(one, rows, 0.0), math.inf
    rng = np.random.default_rng(0)
    for point in convex_set.project(rng.normal(size=(4_000, D))):
        best = min(best, value(point))
    assert value(found) < best + 1e-4 * len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.0, 400.0])
def test_the_mean_excess_is_within_the_bound(strength: float) -> None:
    one, rows, k, budget = problem(), random_rows(400), 150, PrivacyLoss("gdp", 1.5)
    keys = np.repeat(np.arange(k), len(rows))
    ready = Design.of(
        keys, np.tile(rows, (k, 1)), np.zeros((len(keys), 2), np.uint64), one.gradients
    )
    solver = NoisyGradient(one, 48)
    keyed = KeyedNoise(ROOT, 0, tuple(b"%d" % i for i in range(k)), 5)
    queries = Queries(one, ready, keyed, np.ones((k, 2), np.uint64), budget, Fraction(1))
    found = solver.solve(queries, np.zeros((k, D)), np.full(k, strength))
    value = objective(one, rows, strength)
    best = value(optimum(one, rows, strength))
    excess = np.array([value(x) - best for x in found])
    steps = steps_for(
        np.array([float(len(rows))]),
        1.0,
        np.array([strength]),
        one.set.diameter,
        D * queries.stddev(solver.share) ** 2,
        np.array([48]),
    )
    assert steps.useful.all() and steps.strong[0] == (strength > 0)
    assert 0 < excess.mean() < steps.bound[0]


def test_a_run_that_promises_nothing_gives_back_its_start() -> None:
    one, rows = problem(), random_rows(5)
    poor = PrivacyLoss("gdp", 0.01)
    for name in SOLVERS:
        solver = SOLVERS[name](one, 3)
        bound = 1e-3 if name == "steps" else 0.0  # which moves as far as noise allows: hardly
        assert np.abs(solved(solver, one, rows, 0.0, poor)).max() <= bound
        assert (solved(solver, one, rows, 0.0) != 0).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", ["gdp", "zcdp", "pure"])
def test_a_key_has_its_bits_whoever_else_is_there(name: str, kind: Any) -> None:
    one, sizes = problem(curvature=0.5), [400, 0, 3, 900, 60]
    rows = random_rows(sum(sizes))
    keys = np.repeat(np.arange(5), sizes)
    hashes = np.random.default_rng(1).integers(0, 1 << 62, (len(keys), 2)).astype(np.uint64)
    names = tuple(b"%d" % i for i in range(5))
    solver = SOLVERS[name].make(one, 6, PrivacyLoss(kind, 2.0))

    def answer(some: list[int]) -> Any:
        mine = np.concatenate([np.flatnonzero(keys == key) for key in some])
        local = np.repeat(np.arange(len(some)), [sizes[key] for key in some])
        ready = Design.of(local, rows[mine], hashes[mine], one.gradients)
        keyed = KeyedNoise(ROOT, 0, tuple(names[key] for key in some), 5)
        digests = np.arange(10, dtype=np.uint64).reshape(5, 2)[some]
        queries = Queries(one, ready, keyed, digests, PrivacyLoss(kind, 2.0), Fraction(1))
        start = np.full((len(some), D), 0.125)
        return solver.solve(queries, start, np.array([30.0, 1.0, 0.0, 5.0, 2.0])[some])

    together = answer([0, 1, 2, 3, 4])
    assert one.set.contains(together).all()
    for some in ([0], [1], [2], [3], [4], [3, 0], [2, 4, 1]):
        assert (answer(some) == together[some]).all()


def test_iterations_that_gain_nothing_are_not_run() -> None:
    one = replace(problem(), limit=30)
    assert most_useful(one, PrivacyLoss("zcdp", 0.0201)) == math.ceil(8 * 0.0201 * 900 / 6) == 25
    assert most_useful(one, PrivacyLoss("gdp", 0.2005)) == 25
    assert most_useful(one, PrivacyLoss("pure", 1.0)) == 5
    assert NoisyGradient.make(one, 50, PrivacyLoss("zcdp", 0.0201)).iterations == 25
    assert NoisyGradient.make(one, 2, PrivacyLoss("zcdp", 0.0201)).iterations == 2
    assert NoisyGradient.make(problem(), None, GENEROUS).iterations == 64


def test_batches_are_as_many_as_noise_allows() -> None:
    """With much budget a pass has many batches, with little one: then it is full gradients."""
    one, rows = problem(), random_rows(2_000)
    for budget, many in ((GENEROUS, True), (PrivacyLoss("gdp", 0.05), False)):
        asked: list[int] = []

        class Counting(Queries):
            def batches(self, counts: Any, number: int, share: Any, first: int = 0) -> Any:
                asked.append(int(counts[0]))  # noqa: B023
                return super().batches(counts, number, share, first)

        digests = np.ones((1, 2), np.uint64)
        queries = Counting(one, design(one, rows), NoNoise(5), digests, budget, Fraction(1))
        NoisySgd(one, 4).solve(queries, np.zeros((1, D)), np.zeros(1))
        assert asked == ([64] * 4 if many else asked[:1] * 4)
        assert many or all(count < 64 for count in asked)


def test_steps_shrink_only_where_that_is_better() -> None:
    counts, none = np.array([1e4, 1e4]), np.array([0.0, 1e5])
    steps = steps_for(counts, 1.0, none, 4.0, 10.0, np.array([64, 64]))
    assert steps.strong.tolist() == [False, True]
    assert steps.length(3)[1] == 2 / (1e5 * 4) and steps.length(3)[0] == steps.length(60)[0]
    assert steps.weight(3).ravel().tolist() == [0.0, 3.0]
    assert steps.weight(33).ravel().tolist() == [1.0, 33.0]
    assert steps.weight(65).ravel().tolist() == [0.0, 0.0]
    energy = 1e8 + 10.0
    assert steps.bound[0] == pytest.approx(4 * math.sqrt(energy / 32))
    wide = (1e4 + 4e5) ** 2 + 10.0
    assert steps.bound[1] == pytest.approx(2 * wide / (1e5 * 65))


@pytest.mark.slow
def test_batches_cost_what_they_add_in_noise() -> None:
    """As many as can be multiply the noise of a pass; they are as many as pay."""
    one, rows, k = problem(convex_set=L2Ball(2.0, D)), random_rows(2_000), 24
    keys = np.repeat(np.arange(k), len(rows))
    ready = Design.of(
        keys,
        np.tile(rows, (k, 1)),
        np.random.default_rng(0).integers(0, 1 << 62, (len(keys), 2)).astype(np.uint64),
        one.gradients,
    )
    value = objective(one, rows, 0.0)
    best, budget = value(optimum(one, rows, 0.0)), PrivacyLoss("gdp", 0.24)  # epsilon about 1

    def excess(solver: Any) -> float:
        noise = KeyedNoise(ROOT, 0, tuple(b"%d" % i for i in range(k)), 5)
        digests = np.ones((k, 2), np.uint64)
        queries = Queries(one, ready, noise, digests, budget, Fraction(1))
        found = solver.solve(queries, np.zeros((k, D)), np.zeros(k))
        return float(np.median([value(x) - best for x in found])) / len(rows)

    sgd, full = excess(NoisySgd(one, 16)), excess(NoisyGradient.make(one, 16, budget))
    most = NoisySgd(one, 16, quiet=cast(int, 1e-9))
    assert excess(most) > 5 * sgd and sgd < 3 * full

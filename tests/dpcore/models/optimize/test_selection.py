"""Selections: what one row moves, how often each vertex is chosen, and the same bits always."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

from tests.constant_noise import NoNoise
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Simplex
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.polytope import Polytope
from weir.dpcore.models.blocks.fitter import Draws
from weir.dpcore.models.kit.loss import Absolute, Hinge, Huber, Logistic, PinballLoss, Squared
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.models.optimize import selection as selecting
from weir.dpcore.models.optimize.linear import Linear, best_steps, gap, total
from weir.dpcore.models.optimize.rows import RowMatrix
from weir.dpcore.models.optimize.selection import Selection, selection_for
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROOT = RootKey.derive(bytes(range(32)), "select", bytes(32))
RHO = PrivacyLoss("zcdp", 0.05)
SETS: dict[str, ConvexSet] = {
    "l1": L1Ball(1.5, 3),
    "simplex": Simplex(2.0, 3),
    "polytope": Polytope(((1.0, 0.0, 0.5), (-1.0, 0.25, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 1.0))),
    "line": L1Ball(1.0, 1),
}
LOSSES = (Squared(), Huber(0.75), Logistic(), Hinge(0.5))


def grid(values: Any) -> Any:
    return np.rint(np.asarray(values, dtype=np.float64) * 2**20) / 2**20


def draws(complete: int = 1, noise: Any = None, digest: int = 7) -> Draws:
    keyed = KeyedNoise(ROOT, 0, (b"k",), 0) if noise is None else noise
    return Draws(keyed, 0, complete, np.full(2, digest, dtype=np.uint64))


def made(convex_set: ConvexSet, loss: Any, n: int = 6, **more: Any) -> Selection:
    linear = Linear(loss, convex_set, convex_set.dimension, False, math.inf)
    given = {"noise": "gumbel", "budget": RHO, "share": Fraction(1), "steps": None, **more}
    return selection_for(linear, 1, float(n), n, 1, **given)


def vertices(convex_set: ConvexSet) -> Any:
    found = convex_set.corners()
    assert found is not None
    if found.listed is not None:
        return found.listed
    axes = found.radius * np.eye(convex_set.dimension)
    return np.concatenate([axes, -axes]) if found.signed else axes


def scores(way: Selection, rows: Any, targets: Any, z: Any, t: int) -> Any:
    """Of every vertex, by the code that runs."""
    run: Any = way.fit(rows, targets, np.zeros(0), draws())
    h = np.zeros(way.sizes[1])
    if way.quadratic:
        for j in np.flatnonzero(z):
            h = h + z[j] * run._column(j)
    along = run.gradient(z, h, t) * way.candidates.radius
    return np.concatenate([along, -along]) if way.candidates.signed else along


def reached(way: Selection, rng: Any, t: int) -> Any:
    """Weights that t steps may have left."""
    z = np.zeros(way.candidates.columns)
    for weight in range(1, t + 1):
        sign = rng.choice([-1.0, 1.0]) if way.candidates.signed else 1.0
        z[rng.integers(len(z))] += sign * weight
    return z


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("name", SETS)
def test_the_range_of_the_changes_is_what_is_paid_for(name: str, loss: Any) -> None:
    """By brute force: every corner of a row's bounds, in place of every other."""
    convex_set, rng, worst, first = SETS[name], np.random.default_rng(1), 0.0, 0.0
    way = made(convex_set, loss)
    d = convex_set.dimension
    corners = [np.array(one) for one in np.ndindex(*(2,) * (d + 1))]
    for t in (0, 1, 2, 5):
        for _ in range(4):
            z = reached(way, rng, t)
            rest, others = grid(rng.uniform(-1, 1, (5, d))), grid(rng.uniform(-1, 1, 5))
            found = []
            for corner in corners:
                x = np.concatenate([rest, 2.0 * corner[None, :d] - 1])
                found.append(scores(way, x, np.append(others, 2.0 * corner[d] - 1), z, t))
            found.append(scores(way, rest, others, z, t))  # the row is void
            each = np.array(found)
            change = (each[:, None] - each[None]).reshape(-1, each.shape[1])
            worst = max(worst, float(np.max(np.ptp(change, axis=1))))
            first = first if t else worst
    assert worst <= way.sensitivity
    # The first step pays for the slopes at its public start: at 0 those of the targets alone.
    assert first <= way.first_sensitivity <= way.sensitivity
    if way.candidates.signed and name != "line":
        assert first >= 0.9 * way.first_sensitivity
        if way.quadratic:
            assert way.first_sensitivity < 0.6 * way.sensitivity
    # Of one feature, a row far on one side is met by slopes of one sign alone.
    assert worst >= (0.45 if name == "line" else 0.6) * way.sensitivity


def test_the_lasso_has_the_known_scale() -> None:
    n, c, p = 1000, 2.0, 50
    way = made(L1Ball(c, p), Squared(), n)
    assert way.sensitivity == pytest.approx(4 * c * (c + 1) / n, rel=1e-8)
    assert way.first_sensitivity == pytest.approx(4 * c / n, rel=1e-8)
    wanted = way.sensitivity * math.sqrt((way.steps - 1 + 1 / 9) / (8 * RHO.value))
    assert way.scale == pytest.approx(wanted, rel=1e-8)
    assert 0.999 * RHO.value < way.loss.value <= RHO.value
    a = 4 * c * (c + 1) / n * math.log(2 * p) / math.sqrt(8 * RHO.value)
    assert way.steps == pytest.approx((4 * 4 * c * c / a) ** (2 / 3), rel=0.2)
    assert way.error == pytest.approx(2.38 * a ** (2 / 3) * (4 * c * c) ** (1 / 3), rel=0.1)


def test_laplace_costs_four_times_as_much_and_the_printed_scale_twice_its_epsilon() -> None:
    ball, n = L1Ball(1.0, 20), 500
    gumbel = made(ball, Squared(), n, steps=9)
    laplace = made(ball, Squared(), n, steps=9, noise="laplace")
    assert laplace.scale == pytest.approx(2 * gumbel.scale, rel=1e-8)
    epsilon, delta, steps = 1.0, 1e-5, 400
    printed = 2 * math.sqrt(8 * steps * math.log(1 / delta)) / (n * epsilon)
    way = replace(gumbel, noise="laplace", steps=steps, scale=printed)
    assert 1.5 * epsilon < way.loss.epsilon(delta) < 2.5 * epsilon
    pure = made(ball, Squared(), n, budget=PrivacyLoss("pure", 1.0))
    assert pure.loss.value == pytest.approx(1.0, rel=1e-8) and pure.loss.value <= 1.0
    assert pure.scale == pytest.approx(pure.sensitivity * (pure.steps - 0.5), rel=1e-8)


@pytest.mark.parametrize("gamma", [0.5, 4.0, 100.0])
@pytest.mark.parametrize("noise", [1e-3, 0.05, 3.0])
@pytest.mark.parametrize("straight", [False, True])
def test_the_rule_is_where_the_bound_is_least(gamma: float, noise: float, straight: bool) -> None:
    steps = best_steps(gamma, noise, straight)

    def bound(taken: int) -> float:
        return gap(gamma, taken, noise * (taken if straight else math.sqrt(taken)))

    least = min(bound(taken) for taken in range(1, 4 * steps + 8))
    assert bound(steps) <= 1.02 * least


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_vertices_are_chosen_as_often_as_they_should_be(noise: str) -> None:
    """Gumbel noise is the exponential mechanism; a scale that is 30 % off is seen."""
    rng = np.random.default_rng(3)
    rows, targets = grid(rng.choice([-1, 1], (6, 3))), grid(rng.uniform(-1, 1, 6))
    way = replace(made(SETS["l1"], Squared(), steps=1, noise=noise), scale=0.35)
    along = scores(way, rows, targets, np.zeros(3), 0)
    run: Any = way.fit(rows, targets, np.zeros(0), draws())
    chosen, many = np.zeros(6), 2500
    for i in range(many):
        run._draws = draws(i + 1)
        z, _ = run.advance(*run.start(), 0, 1)
        j = int(np.flatnonzero(z)[0])
        chosen[j + (3 if z[j] < 0 else 0)] += 1

    def p_value(scale: float) -> float:
        if noise == "laplace":
            other = np.random.default_rng(9).laplace(size=(200_000, 6))
            likely = np.bincount(np.argmin(along - scale * other, axis=1), minlength=6) / 200_000
        else:
            likely = np.exp(-along / scale) / np.exp(-along / scale).sum()
        return float(stats.chisquare(chosen, many * likely).pvalue)

    assert p_value(0.35) > 1e-3
    assert p_value(0.35 * 1.3) < 1e-3 and p_value(0.35 / 1.3) < 1e-3


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("name", SETS)
def test_the_same_bits_however_it_is_cut_and_stored(
    name: str, loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    convex_set, rng = SETS[name], np.random.default_rng(4)
    way = made(convex_set, loss, n=40, steps=23)
    d = convex_set.dimension
    rows, targets = grid(rng.uniform(-1, 1, (40, d))), grid(rng.uniform(-1, 1, 40))
    rows[rng.random(rows.shape) < 0.5] = 0.0

    def fitted(features: Any, cuts: tuple[int, ...]) -> tuple[bytes, ...]:
        run: Any = way.fit(features, targets, np.zeros(0), draws())
        z, h = run.start()
        done = 0
        for steps in cuts:
            if done:
                run = way.fit(features, targets, np.zeros(0), draws())
            z, h = run.advance(z, h, done, steps)
            done += steps
        assert done == 23 and np.abs(z).sum() <= total(23)
        return z.tobytes(), h.tobytes(), run.finish(z, h).model.tobytes()

    whole = fitted(rows, (23,))
    assert fitted(rows, (1, 7, 15)) == whole == fitted(rows, (1,) * 23)
    assert fitted(rows.astype(np.float32), (23,)) == whole
    monkeypatch.setattr(selecting, "TOGETHER", 0)  # columns of the moments one by one
    assert fitted(rows, (4, 19)) == whole
    monkeypatch.setattr(selecting, "AT_ONCE", 1)
    assert fitted(rows, (4, 19)) == whole


def test_products_are_exact_dense_and_sparse() -> None:
    rng = np.random.default_rng(5)
    values = grid(rng.uniform(-1, 1, (9000, 7)))  # more than one chunk
    values[rng.random(values.shape) < 0.7] = 0.0
    slopes = np.rint(rng.uniform(-1, 1, 9000) * 2**20) / 2**20
    whole = (values * 2**20).astype(object)
    wanted = (whole * (slopes * 2**20).astype(object)[:, None]).sum(axis=0)
    for form in (values, values.astype(np.float32), sparse.csr_array(values)):
        rows = RowMatrix(form)
        assert rows.down(slopes, 2.0**-20).tolist() == [int(one) for one in wanted]
        assert np.array_equal(rows.column(3), values[:, 3])
        moments = np.array([[int(sum(whole[:, i] * whole[:, j])) for j in (0, 3)] for i in (0, 3)])
        assert np.array_equal(rows.moments[np.ix_([0, 3], [0, 3])], moments.astype(np.float64))


@pytest.mark.parametrize("n", [50, 9000])
def test_columns_of_the_moments_are_exact_however_few_numbers_they_have(n: int) -> None:
    rng = np.random.default_rng(8)
    share = np.array([0.0, 0.01, 0.05, 0.4, 1.0, 0.2])
    values = np.where(rng.random((n, 6)) < share, grid(rng.uniform(-1, 1, (n, 6))), 0.0)
    for form in (sparse.csr_array(values), sparse.csr_matrix(values), values):
        rows = RowMatrix(form)
        for j in range(6):
            whole = rows.down(rows.column(j), STEP).astype(np.float64)
            assert rows.against(j).tobytes() == whole.tobytes()


def test_gradients_that_are_not_finite_are_nothing() -> None:
    class Odd(Huber):
        def derivative(self, prediction: Any, target: Any) -> Any:
            found = super().derivative(prediction, target)
            return np.where(target == 0.5, np.nan, np.where(target == 0.25, -np.inf, found))

    rng = np.random.default_rng(6)
    rows, targets = grid(rng.uniform(-1, 1, (6, 3))), grid(rng.uniform(-1, 1, 6))
    targets[2], targets[4] = 0.5, 0.25
    keep = [0, 1, 3, 5]
    z = np.array([0.0, 3.0, 0.0])
    found = scores(made(SETS["l1"], Odd(0.75)), rows, targets, z, 2)
    plain = scores(made(SETS["l1"], Huber(0.75)), rows[keep], targets[keep], z, 2)
    assert np.isfinite(found).all() and np.array_equal(found, plain)


def test_a_slope_beyond_its_bound_is_clipped() -> None:
    class Steep(Huber):
        def derivative(self, prediction: Any, target: Any) -> Any:
            return np.full_like(prediction, 1e9)

    way = made(SETS["l1"], Steep(0.75))
    rows = np.ones((6, 3))
    found = scores(way, rows, np.zeros(6), np.array([0.0, 3.0, 0.0]), 2)
    most = way.steepest * way.unit * way.candidates.radius
    assert np.abs(found).max() == pytest.approx(most) and most < 0.75 * 1.5 * (1 + 1e-5)


def test_without_noise_it_is_frank_wolfe() -> None:
    rng = np.random.default_rng(7)
    n, d, steps = 200, 12, 60
    x, y = grid(rng.choice([-1, 1], (n, d))), grid(rng.uniform(-1, 1, n))
    for convex_set in (L1Ball(1.0, d), Simplex(1.0, d)):
        way = made(convex_set, Squared(), n, steps=steps)
        run = way.fit(x, y, np.zeros(0), draws(noise=NoNoise(0)))
        theta = run.finish(*run.advance(*run.start(), 0, steps)).model
        plain, corners = np.zeros(d), vertices(convex_set)
        if convex_set.name == "simplex":
            plain = corners[0]
        for t in range(steps):
            costs = x.T @ (x @ plain - y) / n
            plain = plain + 2 / (t + 2) * (corners[np.argmin(corners @ costs)] - plain)
        np.testing.assert_allclose(theta, plain, atol=1e-12)
        assert convex_set.contains(theta[None], 1e-9).all()
        assert np.count_nonzero(theta) <= steps


@pytest.mark.parametrize("loss", [Absolute(), PinballLoss(0.9)], ids=["absolute", "quantile"])
def test_a_loss_with_a_corner_is_refused(loss: Any) -> None:
    with pytest.raises(ConfigError, match="has a corner"):
        made(SETS["l1"], loss)


def test_sets_without_vertices_or_of_one_point_are_refused() -> None:
    with pytest.raises(ConfigError, match="no list of vertices"):
        made(L2Ball(1.0, 3), Squared())
    with pytest.raises(ConfigError, match="single point"):
        made(Simplex(1.0, 1), Squared())
    with pytest.raises(ConfigError, match="no budget"):
        made(SETS["l1"], Squared(), budget=PrivacyLoss("zcdp", 0.0))

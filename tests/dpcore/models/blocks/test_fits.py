"""Fits of blocks: how far a record moves them, what certifies them, and what noise they get."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.accelerated import accelerated
from weir.dpcore.models.blocks.level import Level, level_for
from weir.dpcore.models.blocks.objective import Objective, Softmax, row_loss
from weir.dpcore.models.kit.loss import Absolute, Hinge, Huber, Logistic, PinballLoss
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROOT = RootKey.derive(bytes(range(32)), "blocks", bytes(32))
LOSSES: dict[str, Any] = {
    "logistic": Logistic(),
    "hinge": Hinge(0.5),
    "huber": Huber(0.3),
    "softmax": Softmax(3),
}
BUDGETS = {
    "gaussian": PrivacyLoss("gdp", 0.5),
    "discrete_gaussian": PrivacyLoss("zcdp", 0.1),
    "k_norm": PrivacyLoss("pure", 1.0),
}


def objective(name: str = "logistic", strength: float = 0.05, norm: float = 1.0) -> Objective:
    return Objective(LOSSES[name], 2, True, norm, strength)


def level(made: Objective, n: int, kind: str = "gaussian", changes: int = 1) -> Level:
    return level_for(made, 1, float(n), n, changes, BUDGETS[kind], Fraction(1, 2))


def rows(made: Objective, n: int, seed: int, classes: int = 2) -> tuple[Any, Any]:
    """Points whose features have the largest norm, and targets."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, made.features))
    x *= made.norm / np.linalg.norm(x, axis=1, keepdims=True)
    if made.loss.outputs > 1:
        return made.points(x), rng.integers(0, made.loss.outputs, n).astype(float)
    y = np.sign(rng.standard_normal(n))
    return made.points(x), y


def solved(made: Objective, at: Level, points: Any, targets: Any, centre: Any = None) -> Any:
    centre = np.zeros(made.dimension) if centre is None else centre

    def gradient(w: Any) -> Any:
        return made.gradient(w, centre, points, targets, at.divisor)

    x = y = centre.copy()
    for k in range(at.minimiser.steps):
        x, y = at.minimiser.step(k, x, y, gradient)
    assert at.certified(gradient(x), made.rounding(x, len(points), len(points) / at.divisor))
    return x


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_the_loss_and_within_their_bounds(name: str) -> None:
    made = objective(name)
    points, targets = rows(made, 40, 1)
    rng = np.random.default_rng(2)
    for size in (0.1, 1.0, 1e4):
        w = size * rng.standard_normal(made.dimension)
        scores = points @ w.reshape(made.loss.outputs, made.width).T
        slopes = made.loss.derivatives(scores, targets)
        lengths = np.linalg.norm(slopes, axis=1) * np.linalg.norm(points, axis=1)
        assert (lengths <= made.lipschitz).all()
        if size == 1e4:
            assert lengths.max() > 0.999 * made.lipschitz  # the bound is attained
        for other in (w + 1e-3 * rng.standard_normal(made.dimension) for _ in range(5)):
            moved = made.loss.derivatives(
                points @ other.reshape(made.loss.outputs, made.width).T, targets
            )
            change = np.linalg.norm(moved - slopes, axis=1) * np.linalg.norm(points, axis=1)
            assert (change <= made.smoothness * np.linalg.norm(other - w) * (1 + 1e-9)).all()


def test_the_softmax_gradient_is_a_numerical_derivative() -> None:
    made = objective("softmax")
    points, targets = rows(made, 30, 3)

    def value(w: Any) -> float:
        scores = points @ w.reshape(3, made.width).T
        picked = scores[np.arange(30), targets.astype(int)]
        total = np.log(np.exp(scores).sum(axis=1)) - picked
        return float(total.sum() / 30 + made.strength * w @ w)

    w = np.random.default_rng(4).standard_normal(made.dimension)
    found = made.gradient(w, np.zeros_like(w), points, targets, 30.0)
    assert np.allclose(found, optimize.approx_fprime(w, value, 1e-6), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_no_replaced_record_moves_a_solve_by_more_than_is_paid_for(name: str) -> None:
    """Over random blocks and the worst of them: all rows alike, one turned around."""
    most = 0.0
    for strength, n in ((0.01, 20), (0.5, 20), (0.05, 1)):
        made = objective(name, strength)
        at = level(made, n)
        paid = at.noise.moved
        for seed in range(12):
            points, targets = rows(made, n, seed)
            if seed % 3 == 0:  # duplicates of one record, and a constant class
                points[:], targets[:] = points[0], targets[0]
            centre = np.random.default_rng(seed).standard_normal(made.dimension) * (seed % 4)
            whole = solved(made, at, points, targets, centre)
            for other in range(4):
                p, t = points.copy(), targets.copy()
                fresh, labels = rows(made, 1, 100 + other)
                p[0], t[0] = fresh[0], labels[0]
                if other == 1:
                    p[0, : made.features] = -points[0, : made.features]
                if other == 2:
                    t[0] = -targets[0] if made.loss.outputs == 1 else (targets[0] + 1) % 3
                if other == 3:  # a void row says nothing
                    p, t = p[1:], t[1:]
                moved = float(np.linalg.norm(solved(made, at, p, t, centre) - whole))
                assert moved <= paid
                most = max(most, moved / paid)
    assert most > 0.3  # no bound with room for a mistake of a factor of four


def test_the_sensitivity_is_attained_where_losses_are_straight() -> None:
    made = objective("huber", 0.5)
    at = level(made, 10)
    points, targets = rows(made, 10, 5)
    whole = solved(made, at, points, targets)
    targets[0] = -targets[0]
    moved = float(np.linalg.norm(solved(made, at, points, targets) - whole))
    assert 0.999 * made.moves(10.0) < moved <= at.noise.moved


@pytest.mark.parametrize("n", [3, 30, 500])
@pytest.mark.parametrize("width", [0.05, 0.5, 1.0])
def test_one_row_among_void_ones_reaches_the_sensitivity_but_for_its_curvature(
    width: float, n: int
) -> None:
    """No constant below s serves every N: at 500 rows 2 % are left at most."""
    made = replace(objective("huber", 0.1), loss=Huber(width))
    at = level(made, n)
    points, targets = rows(made, 1, 5)
    ends = [solved(made, at, points, sign * np.abs(targets)) for sign in (1.0, -1.0)]
    share = float(np.linalg.norm(ends[0] - ends[1])) / made.moves(float(n))
    pull = 2 * made.strength * n
    assert share == pytest.approx(min(1.0, pull / (pull + made.reach**2) / width), rel=2e-3)
    assert share <= at.noise.moved / made.moves(float(n))
    assert n < 500 or share > 0.98 - 2e-3
    assert n > 3 or width < 1 or share < 0.24, "a fit of three rows leaves three quarters of it"


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_the_certified_point_is_as_near_to_the_minimiser_as_it_says(name: str) -> None:
    made = objective(name, 0.02)
    at = level(made, 50)
    points, targets = rows(made, 50, 6)
    found = solved(made, at, points, targets)
    x = found
    for _ in range(5000):
        gradient = made.gradient(x, np.zeros_like(x), points, targets, 50.0)
        x = x - gradient / at.minimiser.smoothness  # type: ignore[attr-defined]
    assert np.linalg.norm(found - x) <= at.tau / (2 * made.strength)


def test_steps_are_enough_for_the_worst_start_and_too_many_are_refused() -> None:
    """Every curvature between the two, and corners at every place: the bound is attained."""
    for smoothness, convexity in ((1.0, 1.0), (1.0, 0.5), (1.0, 1e-3)):
        made = accelerated(smoothness, convexity, 3.0, 1e-8)
        curves, corners = np.geomspace(convexity, smoothness, 50), np.geomspace(1e-9, 3.0, 300)
        for gradient in (
            lambda w, c=curves: c * w,
            lambda w, c=corners, a=convexity, b=smoothness: a * w + (b - a) * np.clip(w, -c, c),
            lambda w, c=corners, a=convexity, b=smoothness: b * w - (b - a) * np.clip(w, -c, c),
        ):
            x = y = np.full(len(gradient(0.0)), 3.0)
            for k in range(made.steps):
                x, y = made.step(k, x, y, gradient)
            assert np.abs(gradient(x)).max() <= 0.5e-8
            assert made.steps < 3 or np.abs(x).max() * smoothness > 1e-9
    with pytest.raises(ConfigError, match=r"model\.regularise"):
        accelerated(1.0, 1e-10, 3.0, 1e-8)


@pytest.mark.slow
def test_errors_in_gradients_add_up_to_no_more_than_is_allowed_for() -> None:
    for convexity in (0.5, 0.1, 1e-3):
        made = accelerated(1.0, convexity, 3.0, 1e-8)
        curves = np.linspace(convexity, 1.0, 200)
        total = np.zeros(200)
        for wrong in range(made.steps):
            x = y = np.zeros(200)
            for k in range(wrong, made.steps):
                x, y = made.step(k, x, y, lambda w, c=curves, e=k == wrong: c * w + e)
            total += np.abs(curves * x)
        assert 1 < total.max() <= 2 / convexity


@pytest.mark.parametrize("loss", [PinballLoss(0.3), Absolute()])
def test_losses_without_bounded_smooth_gradients_are_refused(loss: Any) -> None:
    with pytest.raises(ConfigError, match="huber"):
        row_loss(loss, 0)


@pytest.mark.parametrize(("loss", "classes"), [(None, 0), (Logistic(), 3), (Huber(1.0), 2)])
def test_losses_that_do_not_suit_the_target_are_refused(loss: Any, classes: int) -> None:
    with pytest.raises(ConfigError, match=r"model\.loss"):
        row_loss(loss, classes)


def drawn(at: Level, dimension: int, n: int) -> Any:
    """Noise of n fits, in units of what one costs the least: (n, dimension)."""
    keys = tuple(f"{i}".encode() for i in range(n))
    noise = KeyedNoise(ROOT, 0, keys, 0)
    digest, w = np.array([7, 9], dtype=np.uint64), np.zeros(dimension)
    return np.array(
        [at.noise.released(w, noise.at(0, slice(i, i + 1)), label(0, 5), digest) for i in range(n)]
    )


@pytest.mark.parametrize("kind", BUDGETS)
def test_models_get_noise_of_the_scale_that_is_paid_for_and_of_no_other(kind: str) -> None:
    made = objective("softmax", 0.1)
    at, n = level(made, 100, kind), 600
    d, unit = made.dimension, at.noise.scale * at.noise.resolution
    noise = drawn(at, d, n)
    norms = np.linalg.norm(noise, axis=1) / unit

    def fits(sample: Any) -> float:
        law = stats.gamma(d) if kind == "k_norm" else stats.chi(d)
        return float(stats.kstest(sample, law.cdf).pvalue)

    assert fits(norms) > 1e-3
    assert fits(norms * 1.1) < 1e-6 and fits(norms / 1.1) < 1e-6
    cosine = noise @ np.ones(d) / np.linalg.norm(noise, axis=1) / math.sqrt(d)
    beta = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    assert stats.kstest(cosine, beta.cdf).pvalue > 1e-3  # no direction is preferred


@pytest.mark.parametrize("kind", BUDGETS)
def test_a_fit_costs_its_share_and_changes_count_twice(kind: str) -> None:
    made = objective()
    one, two = level(made, 100, kind), level(made, 100, kind, changes=2)
    whole = Fraction(BUDGETS[kind].value) ** (2 if kind == "gaussian" else 1)
    for at in (one, two):
        assert Fraction(999_999, 1_000_000) < at.cost / (whole / 2) <= 1
    ratio = two.noise.moved / one.noise.moved
    assert abs(ratio - 2) < 0.01
    assert one.noise.moved < 1.002 * made.moves(100.0)


def test_a_centre_is_shortened_where_rounding_would_take_over() -> None:
    made = objective()
    at = replace(level(made, 100), room=8.0)
    assert np.linalg.norm(at.centre(np.full(3, 1e9))) <= 8.0 * (1 + 1e-12)
    assert (at.centre(np.ones(3)) == 1).all()
    with pytest.raises(ConfigError, match="double precision"):
        level_for(made, 1, 2.0**30, 1 << 30, 1, BUDGETS["gaussian"], Fraction(1))


def test_wide_models_are_multiplied_in_small_pieces_that_change_nothing_but_rounding() -> None:
    made = Objective(Softmax(10), 784, True, 1.0, 0.1)
    assert made.chunk == 33 and objective().chunk == 1 << 10
    assert made.added(1000) == 33 + 31 and made.added(5) == 6
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 784))
    points = made.points(x / np.linalg.norm(x, axis=1, keepdims=True))
    targets, w = rng.integers(0, 10, 300).astype(float), rng.standard_normal(made.dimension)
    found = made.gradient(w, np.zeros_like(w), points, targets, 300.0)
    slopes = made.loss.derivatives(points @ w.reshape(10, 785).T, targets)
    whole = (slopes.T @ points).reshape(-1) / 300 + 0.2 * w
    assert np.linalg.norm(found - whole) <= 2 * made.rounding(w, 300, 1.0)

"""Learners that follow the curvature of the losses: their sums, their rule, what they are for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.dpcore.models.online.test_fading import EVENTS, error, optimum, plan, rule, stream
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import Gradients, SecondMoments, typical_reach
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.online.learner_section import Curving, split
from weir.dpcore.models.online.oracle_step import Nearest
from weir.dpcore.models.online.regularisation import PAYS, pull_of_second_order
from weir.dpcore.models.online.second_order import AveragedLeader, SecondOrderLeader, symmetric

P, D = 3, 4
SECOND = SecondMoments(P, True, typical_reach(P, True))
GRADIENTS = Gradients(parse_loss("squared"), 0.7, 0.5, P, True)


def leaf_of(rows: Any) -> RowLeaf:
    n = len(rows)
    return RowLeaf.from_events(
        np.zeros(n, np.int64), rows, np.arange(n), np.zeros((n, 2), np.uint64), 1
    )


def test_sums_are_those_of_shortened_rows_and_void_ones_add_nothing() -> None:
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1, 1, (50, P + 1))
    rows[::7] = 0.0
    rows[::7, -1] = np.nan
    x = np.c_[rows[:, :P], np.ones(50)][np.isfinite(rows[:, -1])]
    length = np.linalg.norm(x, axis=1)
    assert (length > SECOND.reach).any() and (length < SECOND.reach).any()
    x *= np.minimum(1, SECOND.reach / length)[:, None]
    found = symmetric(SECOND.sums(leaf_of(rows)) * SECOND.resolution, D)[0]
    np.testing.assert_allclose(found, x.T @ x, atol=1e-3)
    assert not SECOND.sums(leaf_of(rows[::7])).any()


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [False, True])
def test_no_exchange_moves_the_joint_leaf_by_more_than_the_sensitivity(intercept: bool) -> None:
    second = SecondMoments(P, intercept, typical_reach(P, intercept))
    gradients = Gradients(parse_loss("squared"), 0.7, 0.5, P, intercept)
    scales, sensitivity = split(gradients, 0.1, Curving(second, 0.3))
    rng, worst, parts = np.random.default_rng(2), 0.0, np.zeros(3)
    d = gradients.parameters
    for trial in range(400):
        rows = rng.uniform(-1, 1, (2, P + 1))
        if trial % 2:
            rows = np.sign(rows)
        x = 3 * rng.normal(size=(1, d))
        leaves = [
            np.r_[gradients.sums(x, leaf_of(one[None]))[0], second.sums(leaf_of(one[None]))[0]]
            for one in rows
        ]
        change = (leaves[0] - leaves[1]) / np.asarray(scales)
        size = float(np.linalg.norm(change))
        assert size <= sensitivity
        worst = max(worst, size)
        each = (change[:d], change[d : d + 1], change[d + 1 :])
        parts = np.maximum(parts, [np.linalg.norm(one) for one in each])
    assert worst > 0.8 * sensitivity
    assert (parts <= np.sqrt([0.6, 0.1, 0.3]) * (1 + 1e-9)).all()


@pytest.mark.parametrize("convex_set", [L2Ball(5.0, D), L1Ball(5.0, D)], ids=lambda one: one.name)
def test_without_noise_it_is_least_squares_wherever_gradients_were_taken(convex_set: Any) -> None:
    rng, centre = np.random.default_rng(3), (0.2, 0.0, -0.1, 0.0)
    exact = SecondOrderLeader(convex_set, 2.0, centre)
    near = SecondOrderLeader(convex_set, 2.0, centre, calls=8)
    states = [exact.init(1), near.init(1)]
    sums = [np.zeros((1, D)), np.zeros((1, D))]
    matrix, right = np.zeros((D, D)), np.zeros(D)
    truth = np.array([0.5, -0.3, 0.2, 0.1])
    for _ in range(30):
        x = rng.uniform(-1, 1, (6, D))
        y = x @ truth + 0.1 * rng.normal(size=6)
        matrix, right = matrix + x.T @ x, right + x.T @ y
        for i, one in enumerate((exact, near)):
            sums[i] = sums[i] + (states[i].x @ x.T - y) @ x
            whole = np.concatenate([sums[i], matrix[np.triu_indices(D)][None]], axis=1)
            states[i] = one.update(states[i], whole)
        want = np.linalg.solve(matrix + 2 * np.eye(D), right + 2 * np.array(centre))
        assert states[0].x[0] == pytest.approx(want, abs=1e-8)
    if convex_set.name == "l1_ball":  # its points are approached by the oracle
        assert states[1].x[0] == pytest.approx(want, abs=1e-3)


def test_noise_of_the_second_moments_is_felt_where_models_move_and_not_where_they_stand() -> None:
    """sum_s E_s (x_s - y): a ridge solution of released products has E y for ever."""
    rng, k, n, w = np.random.default_rng(4), 300, 40.0, 20.0
    truth, upper = np.array([1.0, -0.5, 0.5, 0.2]), np.triu_indices(D)
    off = {}
    for name, since in (("late", 100), ("early", 0)):
        one = SecondOrderLeader(L2Ball(5.0, D), w, (0.0,) * D)
        state, sums = one.init(k), np.zeros((k, D))
        for t in range(1, 200):
            sums = sums + n * (state.x - truth)
            noise = 20.0 * rng.normal(size=(k, 10)) * (t > since)  # fresh in every running sum
            matrix = np.eye(D)[upper] * n * t + noise
            state = one.update(state, np.concatenate([sums, matrix], axis=1))
        leader = truth * 199 * n / (199 * n + w)
        off[name] = float(np.median(np.linalg.norm(state.x - leader, axis=1)))
    plain = 20.0 * np.linalg.norm(truth) / (199 * n)
    assert off["late"] < 0.1 * plain < off["early"] < 3 * plain


@pytest.mark.parametrize("d", [1, 11])
def test_rows_stand_alone_on_the_grid_whatever_noise_makes_of_a_system(d: int) -> None:
    rng, k = np.random.default_rng(7), 19
    one = SecondOrderLeader(L1Ball(3.0, d), 1.0, (0.0,) * d)
    width = d + d * (d + 1) // 2
    whole, singles = one.init(k), [one.init(1) for _ in range(k)]
    for sums in rng.normal(size=(12, k, width)).cumsum(0) * 1e3:
        whole = one.update(whole, sums)
        singles = [one.update(s, sums[i : i + 1]) for i, s in enumerate(singles)]
        assert (np.concatenate([s.x for s in singles]) == whole.x).all()
        assert np.isfinite(whole.x).all() and one.set.contains(whole.x, 1e-8).all()
    grid = float.fromhex(str(one.canonical()["grid"]))
    assert (np.rint(whole.x / grid) * grid == whole.x).all()


@pytest.mark.parametrize(
    "spec", [{"l1_ball": 1.5}, {"simplex": 1}, {"box": [-1, 1]}, {"permutations": 2}], ids=str
)
def test_points_that_are_approached_come_within_their_gap(spec: Any) -> None:
    convex_set, rng = parse_set(spec, 4), np.random.default_rng(5)
    near = Nearest(convex_set, 6)
    kept, y = near.init(7), np.zeros((7, 4))
    for t in range(60):
        y = y + rng.normal(size=(7, 4)) / (1 + t)
        x, kept = near(y, kept)
        assert convex_set.contains(x, 1e-8).all()
        if convex_set.projects:
            far = np.linalg.norm(x - convex_set.project(y), axis=1)
            assert (far**2 <= kept.gap * (1 + 1e-9)).all()
            assert t < 30 or far.max() < 0.05
    exact, _ = Nearest(parse_set({"l1_ball": 1.5}, 4))(y, ())
    assert exact == pytest.approx(parse_set({"l1_ball": 1.5}, 4).project(y))


def test_the_plan_takes_second_moments_where_their_noise_is_small() -> None:
    quiet = plan(EVENTS, 1e5)
    assert isinstance(quiet.program.rule, SecondOrderLeader)  # type: ignore[attr-defined]
    assert isinstance(rule(EVENTS), AveragedLeader)
    assert isinstance(rule(400 * EVENTS), SecondOrderLeader)
    for other in ({"momentum": 0.5}, {"loss": "logistic"}, {"schedule": "constant"}):
        assert isinstance(rule(EVENTS, 1e5, **other), AveragedLeader)
    facts = dict(quiet.config.algorithm.facts(quiet.program, {}))
    assert "curvature" in facts["played"] and "0.2 of the squared budget" in facts["played"]
    assert "fades" in facts["curvature"] and "least squares" in facts["regret"]
    weight = quiet.program.rule.curvature  # type: ignore[attr-defined]
    assert 1 + EVENTS / 50 < weight < 1.1 * (1 + EVENTS / 50) + PAYS * EVENTS
    assert pull_of_second_order(None, 3.0) == pytest.approx(1 + 3 * math.sqrt(2))
    named = plan(None, schedule="second_order", curvature=3.0).program
    assert named.rule.curvature == 3.0  # type: ignore[attr-defined]
    assert named.second.reach == pytest.approx(typical_reach(4, True))  # type: ignore[attr-defined]


def test_half_of_the_budget_of_second_moments_is_more_noise_of_the_gradients() -> None:
    noise = [
        plan(EVENTS, schedule="second_order", curvature_weight=share)
        .program.gradient_stddev(np.array([50]))  # type: ignore[attr-defined]
        .item()
        for share in (0.2, 0.5)
    ]
    assert noise[1] / noise[0] == pytest.approx(math.sqrt(0.8 / 0.5), rel=1e-5)


def test_the_loss_that_is_released_keeps_its_own_noise() -> None:
    made: Any = plan(EVENTS, schedule="second_order", clip={"gradient": 1.0, "loss": 0.5}).program
    one = made.mechanism.stddev(np.array([9]), None)[0]
    assert made.loss_stddev(np.array([9]))[0] == one[5] * made.gradients.loss_lattice.resolution


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["online.conditional_gradient", "online.pftal"])
def test_every_learner_of_gradients_learns_out_of_the_box(algorithm: str) -> None:
    data = stream(5)
    ball = {"l1_ball": 3} if algorithm.endswith("gradient") else {"l2_ball": 2}
    best = error(plan(), data, optimum(data))
    assert error(plan(EVENTS, 1e5, algorithm=algorithm, set=ball), data) < 1.02 * best
    before = plan(EVENTS, 1e5, algorithm=algorithm, set=ball, schedule="linear")
    assert error(before, data) > 1.08 * best


@pytest.mark.slow
def test_quadratic_learners_and_noisy_iterates_learn_out_of_the_box() -> None:
    data = stream(5)
    best = error(plan(), data, optimum(data))
    free = {"clip": {"gradient": 1.1}}
    assert error(plan(EVENTS, 1e5, algorithm="online.pocg", cap=60, **free), data) < 1.05 * best
    made = plan(EVENTS, 1.0, algorithm="online.pocg", cap=60, **free)
    tuned = [
        error(plan(None, 1.0, algorithm="online.pocg", cap=60, curvature=mu * EVENTS, **free), data)
        for mu in (0.1, 0.3)
    ]
    assert error(made, data) < min(tuned)


def test_what_cannot_be_followed_is_refused() -> None:
    with pytest.raises(ConfigError, match="projection"):
        SecondOrderLeader(parse_set({"permutations": 2}, 4), 1.0, (0.0,) * 4)
    wide = {"features": [f"x{i}" for i in range(80)], "ranges": {"y": [-1, 1]}}
    wide["ranges"] = {name: [-1, 1] for name in (*wide["features"], "y")}
    with pytest.raises(ConfigError, match="at most 64"):
        plan(9, schedule="second_order", **wide)

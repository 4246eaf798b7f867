"""Rules alone: they see a running sum of gradients and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weir.dpcore.arrays import arrays_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Simplex
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.rule import FollowTheLeader
from weir.dpcore.models.online.second_order import AveragedLeader

D = 6
SETS: list[Any] = [L1Ball(2.0, D), Simplex(1.0, D), parse_set({"box": [-1, 1]}, D)]
POLYTOPE = parse_set({"polytope": {"vertices": [[0, 0], [1, 0], [0, 1], [1.0, 1.0]]}}, 2)


def leader_of(rule: Any, sums: Any, played: Any) -> Any:
    """x*_t = Proj(y_t) by the definition: (K, d)."""
    t, offset = len(played), getattr(rule, "offset", 0)
    start = rule.start
    anchor = np.sum(played, axis=0) if rule.own_curvature else t * np.asarray(rule.centre)
    return rule.set.project((anchor + offset * start - sums / rule.curvature) / (t + offset))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["line_search", "constant"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("index", range(4))
def test_the_certificate_holds_at_every_step(index: int, own: bool, step: Any) -> None:
    convex_set = [*SETS, POLYTOPE][index]
    d = convex_set.dimension
    rng = np.random.default_rng(index)
    centre = tuple(rng.uniform(-0.2, 0.2, d))
    rule = ConditionalGradient(convex_set, 0.5, centre, own, step)
    k = 8
    state, sums, played, ratios = rule.init(k), np.zeros((k, d)), [], []
    drift = rng.normal(size=(k, d)) * np.array([0, 0.1, 0.5, 1, 2, 5, 0.01, 20.0])[:, None]
    for _ in range(150):
        played.append(state.x)
        assert convex_set.contains(state.x, 1e-8).all()
        noise = rng.normal(size=(k, d)) * np.array([0, 1, 1, 0.1, 3, 10, 0, 0])[:, None]
        sums = sums + drift
        state = rule.update(state, sums + noise)
        best = leader_of(rule, sums + noise, played)
        distance = np.linalg.norm(played[-1] - best, axis=1)
        assert (distance <= state.certificate * (1 + 1e-9)).all()
        ratios.append(distance / np.maximum(state.certificate, 1e-300))
        after = np.linalg.norm(state.x - best, axis=1)
        assert (after**2 <= state.gap * (1 + 1e-9)).all()
    assert np.max(ratios) > 0.2  # and it is not void


@pytest.mark.parametrize("convex_set", [*SETS, L2Ball(2.0, D)], ids=lambda one: one.name)
@pytest.mark.parametrize("own", [False, True])
def test_the_leader_is_the_projection(convex_set: Any, own: bool) -> None:
    rng = np.random.default_rng(3)
    rule = FollowTheLeader(convex_set, 2.0, tuple(rng.normal(size=D)), own)
    state, played, sums = rule.init(3), [], np.zeros((3, D))
    for _ in range(40):
        played.append(state.x)
        sums += rng.normal(size=(3, D))
        state = rule.update(state, sums)
        assert state.x == pytest.approx(leader_of(rule, sums, played), abs=1e-9)
    assert (state.t == 40).all()


def quadratic_regret(rule: Any, ticks: int, optimum: Any, seed: int) -> float:
    """One loss (1/2) ||x - z_t||^2 a tick, strongly convex by itself, without noise."""
    rng = np.random.default_rng(seed)
    z = np.clip(optimum + 0.3 * rng.normal(size=(ticks, len(optimum))), -1, 1)
    state, sums, cost = rule.init(1), np.zeros((1, len(optimum))), 0.0
    for target in z:
        cost += float(np.sum((state.x[0] - target) ** 2)) / 2
        sums = sums + (state.x - target)
        state = rule.update(state, sums)
    best = rule.set.project(z.mean(axis=0)[None])[0]
    return cost - float(np.sum((z - best) ** 2)) / 2


@pytest.mark.slow
@pytest.mark.parametrize("convex_set", [*SETS, L2Ball(2.0, D)], ids=lambda one: one.name)
def test_regret_grows_as_the_logarithm_and_projections_are_not_needed(convex_set: Any) -> None:
    optimum = np.array([0.3, -0.2, 0.1, 0.0, 0.25, 0.05])
    centre = (0.0,) * D
    exact = FollowTheLeader(convex_set, 1.0, centre, True)
    short = quadratic_regret(exact, 400, optimum, 5)
    long = quadratic_regret(exact, 3200, optimum, 5)
    assert short >= 0 and long - short < 2.0 * D * 0.09 * np.log(8)
    if convex_set.name != "l2_ball":
        free = ConditionalGradient(convex_set, 1.0, centre, True)
        # The price of C0 ticks at x_1 comes once; what grows with T does not grow faster.
        once = (
            free.offset
            / 2
            * float(np.sum((convex_set.project(optimum[None])[0] - free.start) ** 2))
        )
        free_short = quadratic_regret(free, 400, optimum, 5)
        free_long = quadratic_regret(free, 3200, optimum, 5)
        assert free_long <= 1.05 * (long + once)
        assert free_long - free_short <= 1.05 * (long - short) + 0.25 * once  # (C0 / t)^2 fades


@pytest.mark.slow
def test_without_noise_it_converges_to_the_optimum() -> None:
    gradient = np.array([[-1.0, 0.5, 0.0, 0.2, -0.1, 0.3]])
    for convex_set in SETS:
        for rule in (
            FollowTheLeader(convex_set, 1.0, (0.0,) * D),
            ConditionalGradient(convex_set, 1.0, (0.0,) * D),
        ):
            state = rule.init(1)
            for t in range(1, 1500):
                state = rule.update(state, t * gradient)
            want = convex_set.project(-gradient)
            assert np.abs(state.x - want).max() < 0.1  # C0 ticks' worth of x_1 remain
            if isinstance(rule, ConditionalGradient):
                t, c = 1499, rule.offset
                y = (c * rule.start - t * gradient) / (t + c)
                assert np.abs(state.x - convex_set.project(y)).max() < 1e-3


def test_sets_without_a_local_oracle_take_the_general_step() -> None:
    free = parse_set({"permutations": 3}, 9)
    rule = ConditionalGradient(free, 1.0, (0.0,) * 9)
    assert "not guaranteed" in rule.regret and "ln T" in rule.regret
    cost = np.random.default_rng(1).normal(size=(2, 9))
    state = rule.init(2)
    for t in range(1, 200):
        state = rule.update(state, t * cost)
        assert free.contains(state.x, 1e-6).all()
    assert ((state.x * cost).sum(1) < (free.start() * cost).sum(1)).all()
    with pytest.raises(ConfigError, match="projection"):
        FollowTheLeader(free, 1.0, (0.0,) * 9)
    with pytest.raises(ConfigError, match="line_search"):
        ConditionalGradient(free, 1.0, (0.0,) * 9, step="constant")


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="follow_the_leader"):
        ConditionalGradient(L2Ball(1.0, D), 1.0, (0.0,) * D)
    with pytest.raises(ConfigError, match="centre"):
        FollowTheLeader(L2Ball(1.0, D), 1.0, (0.0,) * (D + 1))
    with pytest.raises(ConfigError, match="curvature"):
        FollowTheLeader(L2Ball(1.0, D), 0.0, (0.0,) * D)
    assert Box  # the set behind {box: ..}


@pytest.mark.slow
@pytest.mark.parametrize("make", [FollowTheLeader, ConditionalGradient, AveragedLeader])
@pytest.mark.parametrize("d", [1, 2, 11, 150])
def test_iterates_lie_on_a_public_grid_and_rows_stand_alone(make: Any, d: int) -> None:
    rng = np.random.default_rng(7)
    k = 37
    rule = make(L1Ball(3.0, d), 1.0, (0.0,) * d)
    sums = rng.normal(size=(20, k, d)).cumsum(0) * 3
    whole, singles = rule.init(k), [rule.init(1) for _ in range(k)]
    backwards = rule.init(k)
    for one in sums:
        whole = rule.update(whole, one)
        backwards = rule.update(backwards, one[::-1])
        singles = [rule.update(s, one[i : i + 1]) for i, s in enumerate(singles)]
    assert (np.concatenate([s.x for s in singles]) == whole.x).all()
    parts = zip(*(arrays_of(s) for s in singles), strict=True)
    for apart, array in zip(parts, arrays_of(whole), strict=True):
        assert (np.concatenate(apart) == array).all()
    assert (backwards.x[::-1] == whole.x).all()
    grid = float.fromhex(rule.canonical()["grid"])
    for points in (whole.x, rule.probe(whole)):
        assert (np.rint(points / grid) * grid == points).all()


def test_a_model_starts_at_its_centre_where_the_set_holds_it() -> None:
    inside, outside = (0.5, 0, 0, 0, 0, -0.25), (3.0, 0, 0, 0, 0, 0)
    for kind in (FollowTheLeader, ConditionalGradient):
        rule = kind(SETS[0], 0.3, inside, False)
        assert np.array_equal(rule.init(3).x, np.repeat([inside], 3, axis=0))
        nothing = rule.update(rule.init(3), np.zeros((3, D)))
        np.testing.assert_allclose(nothing.x, np.repeat([inside], 3, axis=0), atol=1e-9)
        assert np.array_equal(kind(SETS[0], 0.3, outside, False).start, SETS[0].start())
        assert np.array_equal(kind(SETS[0], 0.3, inside, True).start, SETS[0].start())
    polytope = ConditionalGradient(POLYTOPE, 0.3, (0.5, 0.25), False)
    assert np.array_equal(polytope.start, POLYTOPE.start()), "its oracle knows weights of vertices"


@pytest.mark.slow
@pytest.mark.parametrize("convex_set", [*SETS, L2Ball(2.0, D)], ids=lambda one: one.name)
@pytest.mark.parametrize(("growth", "momentum"), [("constant", 0.6), ("root", 0.0), ("root", 1.0)])
def test_what_is_played_is_the_weighted_average_of_the_leaders(
    convex_set: Any, growth: Any, momentum: float
) -> None:
    """By the definition: leader s weighs s (s + 1), gradients are taken between it and them."""
    rng = np.random.default_rng(11)
    centre = tuple(rng.uniform(-0.1, 0.1, D))
    rule = AveragedLeader(convex_set, 4.0, centre, growth, momentum)
    state, sums, leaders = rule.init(5), np.zeros((5, D)), []
    assert (state.x == rule.start).all() and (rule.probe(state) == rule.start).all()
    for t in range(1, 60):
        sums = sums + rng.normal(size=(5, D))
        state = rule.update(state, sums)
        weight = 4.0 * (np.sqrt(t) if growth == "root" else 1.0)
        leaders.append(convex_set.project(np.asarray(centre) - sums / weight))
        s = np.arange(1, t + 1)
        expected = np.average(leaders, axis=0, weights=s * (s + 1.0))
        assert state.x == pytest.approx(expected, abs=1e-7)
        between = (1 - momentum) * leaders[-1] + momentum * expected
        assert rule.probe(state) == pytest.approx(between, abs=1e-7)
        assert convex_set.contains(state.x, 1e-8).all()
        assert convex_set.contains(rule.probe(state), 1e-8).all()
    assert (state.t == 59).all()


def test_a_fading_pull_lets_models_reach_the_optimum() -> None:
    """Ten events a tick whose loss is (1/2) ||x - z||^2: the optimum is their mean, to which the
    linear schedule never comes; leaders whose steps are for one event flip about it."""
    target, n = np.array([0.4, -0.3, 0.2, 0.0, 0.1, -0.2]), 10
    far = {}
    rules: dict[str, Any] = {
        "constant": AveragedLeader(L2Ball(2.0, D), 0.7 * n, (0.0,) * D),
        "root": AveragedLeader(L2Ball(2.0, D), 0.7 * n, (0.0,) * D, "root"),
        "too long": AveragedLeader(L2Ball(2.0, D), 1.0, (0.0,) * D, momentum=0.0),
        "linear": FollowTheLeader(L2Ball(2.0, D), 2.0, (0.0,) * D),
    }
    for name, rule in rules.items():
        state, sums = rule.init(1), np.zeros((1, D))
        for _ in range(300):
            sums = sums + n * (rule.probe(state) - target)
            state = rule.update(state, sums)
        points = {"played": state.x, "probe": rule.probe(state)}
        far[name] = {where: float(np.abs(x - target).max()) for where, x in points.items()}
    assert max(far["constant"].values()) < 1e-3 and max(far["root"].values()) < 0.01
    assert far["linear"]["played"] > 0.05 and far["too long"]["probe"] > 0.5


def test_the_noise_of_an_average_falls_with_the_ticks() -> None:
    """Independent noise in every sum: that of the leader stays, that of the average is 1 / t."""
    rng, n, k = np.random.default_rng(12), 10, 400
    rule = AveragedLeader(L2Ball(5.0, D), 0.7 * n, (0.0,) * D)
    state, sums, spread = rule.init(k), np.zeros((k, D)), {}
    for t in range(1, 401):
        sums = sums + n * rule.probe(state)  # the optimum is 0
        state = rule.update(state, sums + rng.normal(size=(k, D)))
        spread[t] = float(np.sqrt((state.x**2).mean()))
    assert spread[400] < 0.35 * spread[100] < 0.15 * spread[25]
    leader = rule.probe(state) - state.x
    assert np.sqrt((leader**2).mean()) > 5 * spread[400]


def test_an_average_refuses_what_it_cannot_be() -> None:
    with pytest.raises(ConfigError, match="projection"):
        AveragedLeader(parse_set({"permutations": 3}, 9), 1.0, (0.0,) * 9)
    with pytest.raises(ConfigError, match="curvature"):
        AveragedLeader(L2Ball(1.0, D), 0.0, (0.0,) * D)
    with pytest.raises(ConfigError, match="momentum"):
        AveragedLeader(L2Ball(1.0, D), 1.0, (0.0,) * D, momentum=1.5)
    inside = (0.5, 0, 0, 0, 0, -0.25)
    rule = AveragedLeader(L2Ball(2.0, D), 1.0, inside)
    assert np.array_equal(rule.init(2).x, [inside] * 2)
    nothing = rule.update(rule.init(2), np.zeros((2, D)))
    np.testing.assert_allclose(nothing.x, [inside] * 2, atol=1e-9)

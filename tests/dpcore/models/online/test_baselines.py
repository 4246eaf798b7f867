"""Baselines: their sensitivity by replay, their optima against scipy, their noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.constant_noise import ConstantNoise, NoNoise
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Simplex
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.kit.loss import Huber, Logistic, PinballLoss, Squared
from weir.dpcore.models.moments import moments_sensitivity
from weir.dpcore.models.online.implicit_descent import ImplicitDescent
from weir.dpcore.models.online.second_order import solve_positive
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig

SETS = (L1Ball(1.0, 3), L2Ball(0.7, 3), Simplex(1.0, 3))


def leaf_of(rows: Any, keys: Any, n_keys: int) -> RowLeaf:
    n = len(rows)
    times = np.arange(n, dtype=np.int64)
    hashes = np.zeros((n, 2), dtype=np.uint64)
    return RowLeaf.from_events(np.asarray(keys, dtype=np.int64), rows, times, hashes, n_keys)


def descent(convex_set: Any, **changed: Any) -> ImplicitDescent:
    given: dict[str, Any] = {
        "set": convex_set,
        "curvature": 0.5,
        "centre": (0.0,) * convex_set.dimension,
        "loss": Squared(),
        "gradient_bound": 1.0,
        "reach": math.sqrt(convex_set.dimension),
        "cap": 4,
        "horizon": 60,
        "relation": "replace_one",
        "budget": 1.0,
    }
    return ImplicitDescent(**{**given, **changed})


def random_rows(rng: Any, n: int, d: int) -> Any:
    return rng.uniform(-1, 1, (n, d + 1))


@pytest.mark.slow
@pytest.mark.parametrize("convex_set", SETS, ids=lambda s: s.name)
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(0.3)], ids=lambda x: x.name)
def test_neighbours_stay_within_the_sensitivity_for_ever(convex_set: Any, loss: Any) -> None:
    rng = np.random.default_rng(3)
    rule = descent(convex_set, loss=loss)
    n_keys = 40  # pairs of neighbours, each differing in one event of its own
    x = np.repeat(convex_set.start()[None], n_keys, axis=0)
    other, worst = x.copy(), 0.0
    changed_at = rng.integers(0, 30, n_keys)
    for tick in range(60):
        keys = np.sort(rng.integers(0, n_keys, 2 * n_keys))
        rows = random_rows(rng, len(keys), 3)
        first = np.unique(keys, return_index=True)[1]
        rows[first] = np.sign(rows[first])  # extreme events, where neighbours differ most
        swapped = rows.copy()
        for row in first[changed_at[keys[first]] == tick]:
            swapped[row, -1] *= -1
        x = rule.advance(x, leaf_of(rows, keys, n_keys), tick)
        other = rule.advance(other, leaf_of(swapped, keys, n_keys), tick)
        bound = rule.sensitivity(np.array([tick]))[0]
        assert bound == pytest.approx((2 + 2**-6) / (0.5 * (tick + 2)))
        distances = np.linalg.norm(x - other, axis=1)
        worst = max(worst, float(distances.max() / bound))
        assert (distances <= bound).all()
        assert convex_set.contains(x).all()
    assert worst > 0.3  # the bound is no slack one


@pytest.mark.slow
@pytest.mark.parametrize("convex_set", SETS, ids=lambda s: s.name)
def test_under_a_pull_that_fades_neighbours_stay_within_the_sensitivity(convex_set: Any) -> None:
    """2L / w_s with w_s = w + b sqrt(s + 1), at the tick of the change and at every later one."""
    rng = np.random.default_rng(3)
    rule = descent(convex_set, curvature=2.0, fading=0.7)
    n_keys, worst = 40, 0.0
    x = np.repeat(convex_set.start()[None], n_keys, axis=0)
    other = x.copy()
    changed_at = rng.integers(0, 30, n_keys)
    for tick in range(60):
        keys = np.sort(rng.integers(0, n_keys, 2 * n_keys))
        rows = random_rows(rng, len(keys), 3)
        first = np.unique(keys, return_index=True)[1]
        rows[first] = np.sign(rows[first])
        swapped = rows.copy()
        for row in first[changed_at[keys[first]] == tick]:
            swapped[row, -1] *= -1
        x = rule.advance(x, leaf_of(rows, keys, n_keys), tick)
        other = rule.advance(other, leaf_of(swapped, keys, n_keys), tick)
        bound = rule.sensitivity(np.array([tick]))[0]
        assert bound == pytest.approx((2 + 2**-6) / (2.0 + 0.7 * math.sqrt(tick + 2)))
        distances = np.linalg.norm(x - other, axis=1)
        assert (distances <= bound).all()
        worst = max(worst, float(distances.max() / bound))
    assert worst > 0.3


def test_the_mean_of_noisy_iterates_is_played_and_drawn_to_the_centre() -> None:
    rule = descent(L2Ball(50.0, 2), curvature=2.0, fading=0.5, centre=(0.5, 0.0), budget=3.0)
    x = np.random.default_rng(2).normal(size=(30, 3, 2))
    played, average = rule.publish(x, NoNoise(), np.zeros((3, 2)))
    sigma, centre = rule.sigma(np.arange(30)), np.array([0.5, 0.0])
    for k in range(1, 31):
        weights = np.arange(1, k + 1) * np.arange(2, k + 2.0)
        weights /= weights.sum()
        mean, spread = np.tensordot(weights, x[:k], 1), float(weights**2 @ sigma[:k] ** 2)
        prior = 25.0**2 / 2
        kept = prior / (prior + spread)
        assert played[k - 1] == pytest.approx(centre + kept * (mean - centre), abs=1e-6)
    assert average == pytest.approx(mean)


@pytest.mark.parametrize("fading", [None, 0.4])
def test_fewer_releases_share_the_budget_where_it_is_for_a_window_or_a_schedule(
    fading: Any,
) -> None:
    every = descent(L1Ball(1.0, 3), fading=fading, every=5)
    ticks = np.arange(60)
    due = ticks[every.due(ticks)]
    assert due.tolist() == list(range(4, 60, 5))
    one = every.sensitivity(due) / every.sigma(due)
    assert np.sqrt((one**2).sum()) == pytest.approx(1.0) and every.privacy(None).value == 1.0
    assert every.privacy(6).value == pytest.approx(math.sqrt(2 / 12))
    window = descent(L1Ball(1.0, 3), fading=fading, spread=16)
    one = window.sensitivity(ticks) / window.sigma(ticks)
    assert np.sqrt((one[20:36] ** 2).sum()) == pytest.approx(1.0)
    assert window.privacy(16).value == 1.0 and window.privacy(None).value > 1.9
    # What is played changes after those ticks alone, and noise feeds back into nothing.
    rows = np.array([[1.0, 1.0, 1.0, 1.0]])
    leaves = (leaf_of(rows, [0], 1),) * 12
    state, played = every.step(every.init(1), leaves, ConstantNoise(0.01))
    quiet, _ = descent(L1Ball(1.0, 3), fading=fading).step(every.init(1), leaves, NoNoise())
    assert np.array_equal(state.x, quiet.x)
    changes = np.flatnonzero((np.diff(played[:, 0], axis=0) != 0).any(axis=1)) + 1
    assert changes.tolist() == [5, 10]


def test_the_constraint_belongs_inside_the_step() -> None:
    """One step from the same point: events pull to opposite corners as hard as they may."""
    rule = descent(L2Ball(50.0, 2), gradient_bound=1.0, cap=1, centre=(0.0, 0.0))
    start = np.zeros((1, 2))
    pull = 1.0 / math.sqrt(2)
    up, down = (np.array([[1.0, 1.0, y]]) for y in (1e3, -1e3))
    moved = [rule.advance(start, leaf_of(row, [0], 1), 0)[0] for row in (up, down)]
    distance = np.linalg.norm(moved[0] - moved[1])
    assert distance == pytest.approx(2 / (0.5 * 2), rel=1e-3)  # 2L / (mu (t + 1)), attained
    assert moved[0] == pytest.approx(np.full(2, pull) / (0.5 * 2), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("convex_set", SETS, ids=lambda s: s.name)
def test_a_step_is_the_constrained_minimum(convex_set: Any) -> None:
    rng = np.random.default_rng(5)
    rule = descent(convex_set, centre=(0.1, -0.2, 0.3))
    for tick in (0, 1, 7, 40):
        x = convex_set.project(rng.normal(size=(1, 3)))
        rows = random_rows(rng, 3, 3)
        got = rule.advance(x, leaf_of(rows, [0, 0, 0], 1), tick)
        eta = 1 / (0.5 * (tick + 1))

        def objective(p: Any, x: Any = x, rows: Any = rows, eta: float = eta) -> float:
            rest = rows[:, :3] @ p - rows[:, 3]
            steep = 1 / np.linalg.norm(rows[:, :3], axis=1)
            inner = np.minimum(np.abs(rest), steep)
            data = (inner * (np.abs(rest) - inner / 2)).sum()
            own = 0.25 * ((p - np.array([0.1, -0.2, 0.3])) ** 2).sum()
            return float(((p - x[0]) ** 2).sum() / 2 + eta * (data + own))

        mine = objective(got[0])
        for _ in range(3):
            point = convex_set.project(rng.normal(size=(1, 3)))
            found = minimize(
                lambda p: objective(convex_set.project(p[None])[0]), point[0], method="Nelder-Mead"
            )
            assert mine <= found.fun + 1e-6
        near = convex_set.project(got + rng.normal(size=(500, 3)) * 0.05)
        assert mine <= min(map(objective, near)) + 1e-9


def test_keys_do_not_touch_each_other() -> None:
    rng = np.random.default_rng(1)
    rule = descent(L1Ball(1.0, 3))
    rows, keys = random_rows(rng, 8, 3), np.array([0, 0, 0, 2, 3, 3, 5, 5])
    x = rule.set.project(rng.normal(size=(6, 3)))
    together = rule.advance(x, leaf_of(rows, keys, 6), 2)
    for key in range(6):
        mine = rows[keys == key]
        alone = rule.advance(x[key : key + 1], leaf_of(mine, np.zeros(len(mine)), 1), 2)
        assert np.array_equal(alone[0], together[key])


def released(rule: ImplicitDescent, noise_scale: float, n_keys: int) -> Any:
    """Published less un-noised iterates over a wide set, in units of what sigma should be."""
    root = RootKey.derive(bytes(32), "pocg", bytes(32))
    keys = [str(i).encode() for i in range(n_keys)]
    x = np.zeros((4, n_keys, rule.dimension))
    out, _ = rule.publish(x, KeyedNoise(root, 0, keys, 5))
    sigma = np.array([2 * (1 + 2**-7) / (0.5 * (t + 2)) for t in range(5, 9)]) * math.sqrt(60)
    return out / (noise_scale * sigma[:, None, None])


def test_noise_has_the_stated_scale_and_no_other() -> None:
    rule = descent(L2Ball(1e4, 3), horizon=60, gradient_bound=1.0, reach=0.01)
    sample = released(rule, 1.0, 2000)
    n = sample.size
    assert abs(sample.var() - 1) < 5 * math.sqrt(2 / n)
    for wrong in (1 / math.sqrt(2), 1.1, 0.9):
        assert abs(released(rule, wrong, 2000).var() - 1) > 5 * math.sqrt(2 / n)


def test_loss_adds_up_over_the_releases() -> None:
    rule = descent(L1Ball(1.0, 3))
    ticks = np.arange(60)
    one = rule.sensitivity(ticks) / rule.sigma(ticks)
    assert np.sqrt((one**2).sum()) <= 1.0
    assert np.sqrt((one**2).sum()) == pytest.approx(1.0)
    assert rule.privacy(None).value == 1.0
    assert rule.privacy(15).value == pytest.approx(0.5)
    anywhere = descent(L1Ball(1.0, 3), relation="replace_anywhere")
    assert anywhere.sigma(ticks)[0] > 1.9 * rule.sigma(ticks)[0]


def test_strides_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    rule = descent(L1Ball(1.0, 3))
    leaves = tuple(leaf_of(random_rows(rng, 4, 3), [0, 0, 1, 2], 3) for _ in range(6))
    root, keys = RootKey.derive(bytes(32), "pocg", bytes(32)), [b"a", b"b", b"c"]
    whole = rule.step(rule.init(3), leaves, KeyedNoise(root, 0, keys, 0))
    state, pieces = rule.init(3), []
    for tick, leaf in enumerate(leaves):
        state, played = rule.step(state, (leaf,), KeyedNoise(root, 0, keys, tick))
        pieces.append(played)
    assert np.array_equal(np.concatenate(pieces), whole[1])
    assert all(np.array_equal(a, b) for a, b in zip(state, whole[0], strict=True))


def test_what_is_released_hides_the_state() -> None:
    rule = descent(L2Ball(1.0, 3))
    rows = np.array([[1.0, 1.0, 1.0, 1.0]])
    state, played = rule.step(rule.init(1), (leaf_of(rows, [0], 1),) * 3, ConstantNoise(1.0))
    quiet, plain = rule.step(rule.init(1), (leaf_of(rows, [0], 1),) * 3, NoNoise())
    assert np.array_equal(state.x, quiet.x)  # noise never feeds back
    assert not np.allclose(played[1:], plain[1:])
    assert np.array_equal(played[0, 0], rule.set.start())


# ---- moments


def test_the_sensitivity_of_moments_is_the_largest_change() -> None:
    rng = np.random.default_rng(4)
    for reach, target in ((1.0, 1.0), (1.0, 2.0), (2.0, 0.3), (1.0, 0.0 + 1e-3)):
        x, v = (rng.normal(size=(40_000, 2)) for _ in range(2))
        x, v = (reach * a / np.linalg.norm(a, axis=1)[:, None] for a in (x, v))

        def vector(a: Any, y: Any) -> Any:
            root = math.sqrt(2)
            off = root * a[:, 0] * a[:, 1]
            return np.stack([a[:, 0] ** 2, a[:, 1] ** 2, off, a[:, 0] * y, a[:, 1] * y], axis=1)

        change = np.linalg.norm(vector(x, target) - vector(v, -target), axis=1).max()
        bound = moments_sensitivity(reach, target, "replace_one")
        assert change <= bound < change * 1.001
        one = np.linalg.norm(vector(x, target), axis=1).max()
        assert one <= moments_sensitivity(reach, target, "add_remove") < one * 1.001
    assert moments_sensitivity(1, 1, "replace_one") ** 2 == pytest.approx(4.5)


def test_solver_agrees_with_numpy_and_survives_indefinite_systems() -> None:
    rng = np.random.default_rng(6)
    factor = rng.normal(size=(20, 5, 7))
    matrix = factor @ factor.transpose(0, 2, 1) + 0.1 * np.eye(5)
    right = rng.normal(size=(20, 5))
    got = solve_positive(matrix, right, np.full(20, 0.1))
    assert got == pytest.approx(np.linalg.solve(matrix, right[:, :, None])[:, :, 0], rel=1e-8)
    alone = solve_positive(matrix[3:4], right[3:4], np.full(1, 0.1))
    assert np.array_equal(alone[0], got[3])
    noisy = matrix + (n := rng.normal(size=(20, 5, 5)) * 50) + n.transpose(0, 2, 1)
    assert np.isfinite(solve_positive(noisy, right, np.full(20, 0.1))).all()
    noise = rng.normal(size=(500, 40, 40)) * 1e6  # hopeless, but bounded
    assert np.isfinite(
        solve_positive(
            noise + noise.transpose(0, 2, 1), rng.normal(size=(500, 40)), np.full(500, 1e-9)
        )
    ).all()


CONFIG = """
name: base
schema: {{time: t}}
key: {{column: k, declared: [a, b]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: {end}}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: all}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  ranges: {{u: [0, 2], v: [-1, 3], y: [0, 10]}}
  set: {{l2_ball: 4}}
  loss: {loss}
  curvature: 0.05
"""


def config_of(**changed: Any) -> PlanConfig:
    given = {
        "algorithm": "online.pqftl",
        "end": "2024-01-09T00:00:00Z",
        "epsilon": 1.0,
        "delta": 1e-6,
        "loss": "squared",
    }
    return PlanConfig.from_yaml(CONFIG.format(**{**given, **changed}))


def table(rng: Any, n: int) -> dict[str, Any]:
    u, v = rng.uniform(0, 2, n), rng.uniform(-1, 3, n)
    return {"u": u, "v": v, "y": 2 + 3 * u - v + rng.normal(size=n) * 0.1}


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_moments_of_neighbours_differ_by_the_sensitivity_at_most(relation: str) -> None:
    config = config_of()
    program = config.model.compile(config.terms()).program
    n, rng = 4000, np.random.default_rng(7)
    corners = {name: rng.choice(ends, n) for name, ends in _ends().items()}
    bounded = program.bound(corners, n)
    leaves = program.accumulate(bounded.rows, np.arange(n), n)
    scaled = leaves / np.asarray(program.mechanism.scales)
    pairs = scaled[: n // 2] - (scaled[n // 2 :] if relation == "replace_one" else 0.0)
    worst = np.linalg.norm(pairs, axis=1).max()
    bound = moments_sensitivity(program.reach, 1.0, relation)  # type: ignore[arg-type]
    assert worst <= bound
    assert worst > 0.8 * bound


def _ends() -> dict[str, tuple[float, ...]]:
    return {"u": (0.0, 2.0, math.nan), "v": (-1.0, 3.0), "y": (0.0, 10.0, math.inf)}


def test_moments_without_noise_give_the_ridge_solution_in_the_users_units() -> None:
    config = config_of()
    program = config.model.compile(config.terms()).program
    n, rng = 3000, np.random.default_rng(8)
    columns = table(rng, n)
    leaves = program.accumulate(program.bound(columns, n).rows, np.zeros(n, dtype=np.int64), 1)
    stream = np.stack([leaves, leaves * 0, leaves * 0])
    _, noisy = program.step(program.init(1), stream, lambda part: NoNoise())
    theta, coefficients = program.solve(noisy, np.arange(3))
    assert np.array_equal(theta.value[0, 0], np.zeros(3))
    assert not np.array_equal(theta.value[1], theta.value[2])  # the ridge grows by the tick
    assert coefficients.value[1, 0] == pytest.approx([3, -1, 2], abs=0.03)


@pytest.mark.parametrize("algorithm", ["online.pocg", "online.pqftl", "online.pftal"])
def test_plans_keep_their_promise(algorithm: str) -> None:
    plan = Plan.from_config(config_of(algorithm=algorithm))
    spent = plan.program.loss(None).epsilon(1e-6)
    assert 0.99 < spent <= 1.0 + 1e-9
    assert [info.name for info in plan.program.describe(np.arange(3))][:2] == [
        "theta",
        "coefficients",
    ]
    assert plan.program.state_bytes() > 0
    assert plan.digest != Plan.from_config(config_of(algorithm=algorithm, epsilon=2.0)).digest


def test_pure_baselines() -> None:
    for algorithm in ("online.pqftl", "online.pftal"):
        plan = Plan.from_config(config_of(algorithm=algorithm, delta=0))
        assert plan.program.loss(None).kind == "pure"
        assert plan.program.loss(None).value <= 1.0


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"algorithm": "online.pocg", "end": "null"}, "clock.end"),
        ({"algorithm": "online.pocg", "delta": 0}, "privacy.delta"),
        ({"algorithm": "online.pocg", "loss": "absolute"}, "model.loss"),
        ({"loss": "logistic"}, "model.loss"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(changed: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Plan.from_config(config_of(**changed))
    assert caught.value.field == field


def test_a_loss_with_a_corner_is_refused() -> None:
    with pytest.raises(ConfigError, match="corner"):
        descent(L1Ball(1.0, 3), loss=PinballLoss(0.5)).advance(
            np.zeros((1, 3)), RowLeaf.empty(1, 4), 0
        )

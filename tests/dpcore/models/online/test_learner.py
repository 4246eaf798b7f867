"""Learners as programs: what neighbours change, what strides and blocks do not, and the noise."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import arrays_of
from weir.dpcore.continual.blt import Blt
from weir.dpcore.continual.tree import Tree
from weir.dpcore.continual.window_tree import WindowTree
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.kit.rows import Scaling, shorten
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.learner_section import split
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.online.rule import FollowTheLeader
from weir.dpcore.models.online.second_order import AveragedLeader
from weir.dpcore.noise.prf import KeyedNoise, RootKey

P, D = 4, 5
SCALING = Scaling(("a", "b", "c", "d", "y"), (-1.0,) * 5, (1.0,) * 5)
GRADIENTS = Gradients(parse_loss("squared"), 1.0, 0.5, P, True)
TRUTH = np.array([0.5, -0.3, 0.0, 0.2, 0.1])
ROOT = RootKey.derive(bytes(range(32)), "test", bytes(32))
GAUSSIAN, PURE = PrivacyLoss("gdp", 0.5), PrivacyLoss("pure", 2.0)


MAKERS: dict[str, Any] = {
    "leader": FollowTheLeader,
    "gradient": ConditionalGradient,
    "averaged": AveragedLeader,
}


def learner(
    rule: str = "leader",
    spec: Any = None,
    mechanism: Any = Blt,
    budget: PrivacyLoss = GAUSSIAN,
    gradients: Gradients = GRADIENTS,
    window: int | None = 64,
) -> Learner:
    convex_set = parse_set(spec or {"l1_ball": 2}, D)
    make: Any = MAKERS[rule]
    scales, sensitivity = split(gradients, 0.1)
    sums = mechanism.calibrated(
        dimension=gradients.dimension,
        scales=scales,
        sensitivity=sensitivity,
        overs=(None,),
        window=window,
        horizon=1 << 12,
        budget=budget,
    )
    return Learner(SCALING, gradients, make(convex_set, 1.0, (0.0,) * D), sums, 50, "online.test")


def leaf_of(keys: Any, rows: Any, n_keys: int) -> RowLeaf:
    rng = np.random.default_rng(len(rows))
    hashes = rng.integers(0, 1 << 60, (len(rows), 2)).astype(np.uint64)
    times = np.arange(len(rows), dtype=np.int64)
    return RowLeaf.from_events(np.asarray(keys, dtype=np.int64), rows, times, hashes, n_keys)


def leaves(n: int, k: int, seed: int = 0, rate: float = 2.0) -> tuple[RowLeaf, ...]:
    """Some keys have many rows a tick, some none; tick 3 has none at all."""
    rng = np.random.default_rng(seed)
    found = []
    for tick in range(n):
        keys = np.repeat(np.arange(k), 0 if tick == 3 else rng.poisson(rate, k))
        rows = np.rint(rng.uniform(-1, 1, (len(keys), 5)) * 2**20) * 2.0**-20
        clean = rows[:, :P] @ TRUTH[:P] + TRUTH[P]
        rows[:, P] = np.rint((clean + 0.1 * rng.normal(size=len(keys))) * 2**20) * 2.0**-20
        found.append(leaf_of(keys, rows, k))
    return tuple(found)


def names(k: int) -> tuple[bytes, ...]:
    return tuple(b"key%d" % i for i in range(k))


def run(one: Learner, data: Any, keys: Any, cuts: Any = ()) -> tuple[Any, Any]:
    state, found = one.init(len(keys)), []
    edges = [0, *cuts, len(data)]
    for low, high in zip(edges, edges[1:], strict=False):
        noise = KeyedNoise(ROOT, 0, keys, low)
        state, noisy = one.step(state, data[low:high], lambda part, noise=noise: noise)
        found.append(noisy)
    return state, tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


CASES = [
    ("leader", {"l1_ball": 2}, Blt, GAUSSIAN),
    ("gradient", {"l1_ball": 2}, Blt, GAUSSIAN),
    ("gradient", {"simplex": 1}, WindowTree, GAUSSIAN),
    ("leader", {"l2_ball": 2}, Tree, PURE),
    ("averaged", {"l2_ball": 2}, Blt, GAUSSIAN),
    ("gradient", {"box": [-1, 1]}, WindowTree, PURE),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_strides_blocks_and_order_of_keys_change_nothing(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, k, n = learner(*case), 7, 12
    data, keys = leaves(n, k), names(7)
    state, whole = run(one, data, keys)
    for cuts in ((5,), range(1, n)):
        again, parts = run(one, data, keys, cuts)
        assert all((a == b).all() for a, b in zip(parts, whole, strict=True))
        pairs = zip(arrays_of(again), arrays_of(state), strict=True)
        assert all((a == b).all() for a, b in pairs)
    for key in range(k):  # each key by itself
        mine = tuple(leaf_of(np.zeros(len(leaf.of(key))), leaf.of(key).copy(), 1) for leaf in data)
        _, single = run(one, mine, keys[key : key + 1])
        assert all((a[:, 0] == b[:, key]).all() for a, b in zip(single, whole, strict=True))
    order = np.random.default_rng(1).permutation(k)
    place = np.argsort(order)
    moved = tuple(leaf_of(place[leaf.keys], leaf.rows[::1].copy(), k) for leaf in data)
    _, permuted = run(one, moved, tuple(keys[i] for i in order))
    assert all((a == b[:, order]).all() for a, b in zip(permuted, whole, strict=True))
    monkeypatch.setattr("weir.dpcore.models.online.program.TOGETHER", 2 * D)
    assert all((a == b).all() for a, b in zip(run(one, data, keys)[1], whole, strict=True))


def test_step_is_pure_and_the_learner_a_value() -> None:
    one, data, keys = learner(), leaves(4, 3), names(3)
    state = one.init(3)
    before = [array.copy() for array in arrays_of(state)]
    noise = KeyedNoise(ROOT, 0, keys, 0)
    first = one.step(state, data, lambda part: noise)
    again = pickle.loads(pickle.dumps(one)).step(state, data, lambda part: noise)
    assert all((a == b).all() for a, b in zip(arrays_of(state), before, strict=True))
    assert all((a == b).all() for a, b in zip(first[1], again[1], strict=True))
    assert one.state_bytes() == sum(array.nbytes for array in arrays_of(one.init(1)))
    assert one.canonical() == pickle.loads(pickle.dumps(one)).canonical()
    assert one.canonical() != replace(one, cap=51).canonical()
    with pytest.raises(TypeError):
        one.accumulate(None, np.zeros(0, dtype=np.int64), 0)


def test_what_is_released_was_played_before_the_data() -> None:
    one, keys = learner(), names(2)
    first, second = leaves(3, 2, seed=1), leaves(3, 2, seed=2)
    _, (a, _) = run(one, first, keys)
    _, (b, _) = run(one, (*first[:2], second[2]), keys)
    assert (a == b).all()  # tick 2's rows do not touch theta_2
    assert (a[0] == one.rule.start).all()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "absolute", {"quantile": 0.9}, "logistic", "hinge"])
@pytest.mark.parametrize("cap", [3, 50])
def test_no_neighbour_changes_a_leaf_by_more_than_the_sensitivity(loss: Any, cap: int) -> None:
    gradients = replace(GRADIENTS, loss=parse_loss(loss), clip=0.7)
    scales, sensitivity = (np.asarray(part) for part in split(gradients, 0.1))
    rng = np.random.default_rng(4)
    worst = 0.0
    for trial in range(300):
        x = rng.normal(size=(1, D)) * rng.choice([0.1, 1, 10])
        n = int(rng.integers(1, 7))
        rows = rng.uniform(-1, 1, (n + 1, 5))
        if trial % 3 == 0:  # as far apart as can be
            rows = np.sign(rows)
            rows[n] = rows[n - 1] * np.array([1, 1, 1, 1, -1])
        times, hashes = np.arange(n + 1), rng.integers(0, 99, (n + 1, 2)).astype(np.uint64)

        def leaf(kept: Any, rows: Any = rows, times: Any = times, hashes: Any = hashes) -> Any:
            at = np.zeros(len(kept), dtype=np.int64)
            return RowLeaf.from_events(at, rows[kept], times[kept], hashes[kept], 1).capped(cap)

        base = np.arange(n)
        neighbours = [np.arange(n + 1), np.arange(n - 1), np.r_[np.arange(n - 1), n]]
        # Losses may be counted at another point than gradients.
        played = None if trial % 2 else rng.normal(size=(1, D))
        here = gradients.sums(x, leaf(base).leaf, played)
        for other in neighbours:
            change = (gradients.sums(x, leaf(other).leaf, played) - here)[0]
            size = float(np.sqrt(np.sum((change / scales) ** 2)))
            assert size <= sensitivity
            worst = max(worst, size)
    assert worst > 0.6 * sensitivity  # and the bound is not void


def test_clipping_is_exact_and_by_row() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(400, 9)) * 10.0 ** rng.integers(-200, 200, (400, 1))
    small = rows[:3].copy()
    shorten(rows, 0.3)
    shorten(small, 0.3)
    assert (small == rows[:3]).all() and np.isfinite(rows).all()
    from fractions import Fraction

    for row in rows:
        assert sum(Fraction(v) ** 2 for v in row.tolist()) <= Fraction(0.3) ** 2


def test_gradients_are_those_of_the_loss_summed_exactly() -> None:
    data = leaves(1, 6, rate=3.0)[0]
    x = np.random.default_rng(6).normal(size=(6, D)) * 0.2
    sums = GRADIENTS.sums(x, data)
    for key in range(6):
        rows = data.of(key)
        point = np.concatenate([rows[:, :P], np.ones((len(rows), 1))], axis=1)
        rest = point @ x[key] - rows[:, P]
        gradient = point * rest[:, None]
        norm = np.linalg.norm(gradient, axis=1, keepdims=True)
        gradient *= np.minimum(1, 1 / np.maximum(norm, 1e-9))
        found = sums[key, :D] * GRADIENTS.lattice.resolution
        assert found == pytest.approx(gradient.sum(axis=0), abs=1e-5)
        value = np.minimum(rest**2 / 2, 0.5).sum()
        assert sums[key, D] * GRADIENTS.loss_lattice.resolution == pytest.approx(value, abs=1e-5)
    shuffled = np.random.default_rng(7).permutation(len(data.rows))
    moved = leaf_of(data.keys[shuffled], data.rows[shuffled], 6)
    assert (GRADIENTS.sums(x, moved) == sums).all()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["leader", "gradient"])
def test_without_noise_it_learns(rule: str) -> None:
    one = learner(rule)
    one = replace(one, rule=replace(one.rule, curvature=0.2))
    data = leaves(800, 2, rate=5.0)
    _, (theta, losses) = one.step(one.init(2), data, lambda part: NoNoise())
    # Five rows a tick against a curvature of 0.2 at 0: hardly any shrinkage.
    assert np.abs(theta[-1] - TRUTH).max() < 0.12
    per_tick = np.diff(losses[:, 0, 0])
    assert per_tick[-300:].mean() < 0.5 * per_tick[:5].mean()
    assert (losses[:, 0, 1] == np.arange(1, 801)).all()


def test_empty_ticks_pull_to_the_centre_and_still_release() -> None:
    one = learner()
    nothing = tuple(RowLeaf.empty(3, 5) for _ in range(5))
    _, (theta, losses) = one.step(one.init(3), nothing, lambda part: NoNoise())
    assert (theta == 0).all() and (losses[:, :, 0] == 0).all()
    _, (noisy, _) = run(one, nothing, names(3))
    assert (noisy[1:] != 0).any(axis=2).all()


def test_bad_values_are_bounded_and_counted() -> None:
    scaling = replace(SCALING, low=(0.0,) * 5, high=(10.0,) * 5)
    columns = {name: np.array([5.0, np.nan, 11.0, -np.inf]) for name in SCALING.columns}
    bounded = replace(learner(), scaling=scaling).bound(columns, 4)
    void = [0.0, 0.0, 0.0, 0.0, np.nan]
    expected = np.array([[0.0] * 5, void, [1.0] * 5, void])
    assert np.array_equal(bounded.rows, expected, equal_nan=True)
    assert bounded.clipped == 5 and bounded.non_finite == 10
    with pytest.raises(ConfigError, match="ranges"):
        replace(SCALING, high=(-1.0,) * 5)
    with pytest.raises(ConfigError, match="clip.gradient"):
        replace(GRADIENTS, clip=0.0)


def test_coefficients_are_the_same_model_in_the_users_units() -> None:
    low, high = (0.0, -5.0, 100.0, 3.0, -60.0), (10.0, 5.0, 400.0, 4.0, 180.0)
    scaling = Scaling(("a", "b", "c", "d", "y"), low, high)
    rng = np.random.default_rng(8)
    raw = rng.uniform(low, high, (50, 5))
    theta = rng.normal(size=D)
    rows = scaling.bound(dict(zip(scaling.columns, raw.T, strict=True)), 50).rows
    scaled = rows[:, :P] @ theta[:P] + theta[P]
    weights = scaling.coefficients(theta, True, False)
    assert raw[:, :P] @ weights[:P] + weights[P] == pytest.approx(60 + scaled * 120, abs=1e-3)
    weights = scaling.coefficients(theta, True, True)
    assert raw[:, :P] @ weights[:P] + weights[P] == pytest.approx(scaled, abs=1e-4)
    weights = scaling.coefficients(theta[:P], False, True)
    assert raw[:, :P] @ weights[:P] + weights[P] == pytest.approx(scaled - theta[P], abs=1e-4)


@pytest.mark.parametrize("case", [(Blt, GAUSSIAN), (Tree, GAUSSIAN), (WindowTree, PURE)], ids=str)
def test_the_noise_of_the_gradient_sum_is_the_one_that_is_said(case: Any) -> None:
    one = learner("leader", {"l2_ball": 1e9}, *case)
    k, ticks = 500, 9
    _, noisy = run(one, leaves(ticks + 1, k, rate=0.3), names(k))
    theta, losses = noisy
    # With a set that never binds, theta_{t+1} = -Sum_t / (mu t): Sum can be read off.
    released = -ticks * one.rule.curvature * theta[ticks]
    clean = np.zeros((k, D + 1))
    for tick, leaf in enumerate(leaves(ticks + 1, k, rate=0.3)[:ticks]):
        sums = one.gradients.sums(theta[tick], leaf)
        clean[:, :D] += sums[:, :D] * one.gradients.lattice.resolution
        clean[:, D] += sums[:, D] * one.gradients.loss_lattice.resolution
    at = np.array([ticks - 1])
    said = float(one.gradient_stddev(at)[0])
    found = (released - clean[:, :D]).ravel()
    assert accepts(found / said) and not accepts(found / (1.15 * said))
    loss = (losses[ticks - 1, :, 0] - clean[:, D]) / float(one.loss_stddev(at)[0])
    assert accepts(loss) and not accepts(loss * 1.5)


@pytest.mark.parametrize("growth", ["constant", "root"])
def test_the_noise_of_a_fading_pull_is_that_of_the_sum(growth: Any) -> None:
    """Gradients are at a public point, so every average is a known sum of noises: its stddev
    follows from the mechanism's covariance and the public weights alone."""
    rule = AveragedLeader(parse_set({"l2_ball": 1e9}, D), 7.0, (0.0,) * D, growth)
    one, k, ticks = replace(learner(), rule=rule), 600, 8
    nothing = tuple(RowLeaf.empty(k, 5) for _ in range(ticks + 1))
    _, (theta, _, probes) = run(one, nothing, names(k))
    s = np.arange(1, ticks + 1)
    share = s * (s + 1.0) / (s * (s + 1.0)).sum()
    weight = 7.0 * (np.sqrt(s) if growth == "root" else np.ones(ticks))
    materialized = one.mechanism.materialize(ticks)  # (ticks, units): noise of the sums
    scale = float(one.gradient_stddev(np.array([ticks - 1]))[0])
    scale /= float(np.sqrt((materialized[-1] ** 2).sum()))
    said = scale * float(np.sqrt((((share / weight) @ materialized) ** 2).sum()))
    found = theta[ticks].ravel()
    assert accepts(found / said) and not accepts(found / (1.15 * said))
    last = scale * np.sqrt((materialized[-1] ** 2).sum()) / weight[-1]
    newest = (probes[ticks] - 0.6 * theta[ticks]).ravel() / 0.4
    assert accepts(newest / last) and not accepts(newest / (1.15 * last))


def test_losses_are_those_of_what_is_played() -> None:
    one = replace(learner(), rule=AveragedLeader(parse_set({"l2_ball": 2}, D), 3.0, (0.0,) * D))
    data = leaves(30, 2)
    _, (theta, losses, probes) = one.step(one.init(2), data, lambda part: NoNoise())
    assert (theta[5:] != probes[5:]).any()
    total = np.zeros(2)
    for tick, leaf in enumerate(data):
        own = one.gradients.sums(theta[tick], leaf)[:, D] * one.gradients.loss_lattice.resolution
        total += own
    assert losses[-1, :, 0] == pytest.approx(total)
    released = one.solve((theta, losses, probes), np.arange(30))
    assert [r.name for r in released] == ["theta", "coefficients", "last", "loss"]
    assert released[2].value == pytest.approx(one.scaling.coefficients(probes, True, False))


def accepts(standard: Any) -> bool:
    """Mean square within 5 of its standard errors of 1 (those of the sample itself)."""
    square = np.asarray(standard) ** 2
    return bool(abs(square.mean() - 1) < 5 * square.std() / np.sqrt(square.size))


def test_releases_have_names_labels_and_errors() -> None:
    one, keys = learner(), names(3)
    _, noisy = run(one, leaves(6, 3), keys)
    theta, coefficients, loss = one.solve(noisy, np.arange(6))
    assert [r.name for r in (theta, coefficients, loss)] == ["theta", "coefficients", "loss"]
    assert theta.stddev is None and loss.stddev is not None
    infos = one.describe(np.arange(6))
    for info, released in zip(infos, (theta, coefficients, loss), strict=True):
        assert released.value.shape == (6, 3, info.dimension) == (6, 3, len(info.labels))
    assert loss.value[5, :, 1] == pytest.approx(loss.value[5, :, 0] / 6)
    assert loss.stddev[:, 0, 0].max() == pytest.approx(infos[2].stddev_worst)
    quiet = learner(gradients=replace(GRADIENTS, loss_bound=None))
    _, noisy = run(quiet, leaves(4, 3), keys)
    assert [r.name for r in quiet.solve(noisy, np.arange(4))] == ["theta", "coefficients"]
    assert quiet.mechanism.dimension == D


def test_totals_come_out_the_same_by_either_way() -> None:
    from weir.dpcore.leaves.lattice import (
        add_wide,
        shift_wide,
        total_of,
        wide_modulo,
        wide_to_float,
    )

    rng = np.random.default_rng(9)
    for size in (5, 40, 60, 61, 62):
        low = rng.integers(-(1 << size) + 1, 1 << size, (1, 50, 3), dtype=np.int64)
        for high in (-1, 0, 1, 7):
            total = np.zeros((50, 3, 2), dtype=np.int64)
            total[..., 1] = high
            exact = add_wide(total, low)
            drawn = rng.integers(-(1 << 60), 1 << 60, low.shape, dtype=np.int64)
            noisy = wide_modulo(exact) + drawn
            slow = wide_to_float(shift_wide(exact, drawn))
            assert (total_of(exact, drawn, noisy) == slow).all()

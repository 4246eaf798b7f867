"""Fits by noisy preconditioned steps: what a record moves, and noise, its scale and its keys."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fitter import Draws
from weir.dpcore.models.blocks.objective import Objective, Softmax
from weir.dpcore.models.blocks.steps import (
    GRADIENTS,
    HALVINGS,
    LEAST_STEPS,
    LENGTH,
    LINKED,
    LINKED_BY_CLASSES,
    MOMENTS,
    PATHS,
    SCALES,
    SLOPE_CLIPS,
    STRIDE,
    StepsLevel,
    steps_level,
)
from weir.dpcore.models.blocks.steps_fit import StepsFit, StepsFitter
from weir.dpcore.models.kit.eigen import eigen
from weir.dpcore.models.kit.filter import LENGTHS, TIMES, FilterRule
from weir.dpcore.models.kit.loss import Hinge, Huber, Logistic
from weir.dpcore.models.kit.short_rows import CHUNK
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan

ROOT = RootKey.derive(bytes(range(32)), "steps", bytes(32))
LOSSES: dict[str, Any] = {
    "logistic": Logistic(),
    "hinge": Hinge(0.5),
    "huber": Huber(0.3),
    "softmax": Softmax(3),
}
BUDGETS = {
    "gaussian": PrivacyLoss("gdp", 0.5),
    "discrete_gaussian": PrivacyLoss("zcdp", 0.1),
    "k_norm": PrivacyLoss("pure", 2.0),
}


def draws(key: bytes = b"", digest: int = 7) -> Draws:
    word = np.array([digest, 9], dtype=np.uint64)
    return Draws(KeyedNoise(ROOT, 0, [key], 0), 0, 1, word)


def level(
    name: str,
    n: int,
    d: int = 2,
    kind: str = "gaussian",
    changes: int = 1,
    moments: bool | None = True,
) -> StepsLevel:
    norm = math.sqrt(d) * (1 + 2.0**-50)
    aim = Objective(LOSSES[name], d, True, norm, 0.0)
    return steps_level(aim, 1, float(n), n, changes, BUDGETS[kind], Fraction(1, 2), moments)


def block(name: str, n: int, seed: int, d: int = 2) -> tuple[Any, Any]:
    """Features in their ranges as rows hold them, corners among them, and targets."""
    rng = np.random.default_rng(seed)
    x = np.rint(rng.uniform(-1, 1, (n, d)) * 2**20) / 2**20
    x[::3] = np.sign(x[::3])
    if name == "softmax":
        return x, rng.integers(0, 3, n) - 1.0
    return x, np.sign(rng.standard_normal(n))


def fit(at: StepsLevel, x: Any, y: Any, source: Draws | None = None, **more: Any) -> StepsFit:
    centre = more.pop("centre", np.zeros(at.objective.dimension))
    return StepsFitter(at).fit(x, y, centre, source or draws(), **more)


CLASSES = {"huber": 0, "logistic": 1, "hinge": 1, "softmax": 2}


def queries(run: StepsFit, w: Any, reach: float) -> tuple[Any, Any, Any, Any]:
    """What gets noise, without any."""
    moments = run.second_moments(reach) if run.level.moments else np.zeros(1)
    scale = run.along(w, HALVINGS[1][0]) if run.level.scale else np.zeros(1)
    return run.mean_length(), moments, run.gradient(w, 0.9 * reach), scale


def paid_for(at: StepsLevel) -> tuple[float, ...]:
    """Most that a record may move each of them; what is not asked may move by anything."""
    parts = (at.length, at.moments, at.gradients[0], at.scale)
    return tuple(part.moved if part else 1.0 for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize("moments", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_no_replaced_record_moves_a_query_by_more_than_is_paid_for(
    name: str, moments: bool
) -> None:
    """Corners, duplicates and void rows; clips below and above the rows' lengths; any model."""
    most = np.zeros(4)
    n = 5
    at = level(name, n, moments=moments)
    paid = paid_for(at)
    values = [-1.0, 0.0, 1.0] if name == "softmax" else [-1.0, 1.0]
    corners = [*product((-1.0, 0.0, 1.0), repeat=2)]
    for seed, reach in product(range(3), (0.6, 1.2, math.sqrt(3.0))):
        x, y = block(name, n, seed)
        w = np.random.default_rng(seed).standard_normal(at.objective.dimension) * 10.0**seed
        whole = queries(fit(at, x[1:], y[1:]), w, reach)
        own = [(whole, None)]  # a void row adds nothing
        for corner, value in product(corners, values):
            x[0], y[0] = corner, value
            own.append((queries(fit(at, x, y), w, reach), (corner, value)))
        for one, _ in own:
            for two, _ in own:
                moved = [float(np.linalg.norm(a - b)) for a, b in zip(one, two, strict=True)]
                assert all(a <= b for a, b in zip(moved, paid, strict=True))
                most = np.maximum(most, np.array(moved) / paid)
    assert most[0] > 0.99 and most[1] >= 0.9 * moments and most[2] > 0.7  # no room for a factor
    assert most[3] > 0.65 or not at.scale
    assert (at.scale is None) == (moments or name == "huber")


class Unclipped(StepsFit):
    """A mutant: slopes are divided by their clip, and none is clipped."""

    def _slopes(self, scores: Any, targets: Any) -> Any:
        return super()._slopes(scores, targets) / self.level.slope_clip

    def gradient(self, w: Any, clip: float) -> Any:
        bare = replace(self, level=replace(self.level, slope_clip=1.0))
        return StepsFit.gradient(bare, w, clip) / self.level.slope_clip


def test_the_audit_of_slopes_would_see_one_that_is_not_clipped() -> None:
    at = level("logistic", 5, moments=False)
    x, y = np.ones((1, 2)), np.ones(1)
    w = np.array([-30.0, -30.0, -30.0])
    lengths = [
        float(np.linalg.norm(kind(**vars(fit(at, x, y))).gradient(w, 0.9))) * 5
        for kind in (StepsFit, Unclipped)
    ]
    assert 0.999 < lengths[0] <= 1 and lengths[1] > 1.9


class Unbounded(StepsFit):
    """A mutant: slopes along scores are as large as they are."""

    def along(self, w: Any, factor: float) -> Any:
        scores = self.points @ w[:, None]
        return np.array([float((self._slopes(scores * factor, self.targets) * scores).sum())])


def test_the_audit_of_scales_would_see_one_that_is_not_bounded() -> None:
    at = level("logistic", 5, moments=False)
    run = fit(at, np.ones((1, 2)), np.ones(1))
    w = np.array([-30.0, -30.0, -30.0])
    held, free = (kind(**vars(run)).along(w, 1.0)[0] for kind in (StepsFit, Unbounded))
    assert 0.999 < held * 5 <= 1 and free > 80


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_scores_are_made_smaller_where_that_makes_the_loss_less(name: str) -> None:
    """By a factor near the best one, if noise is nothing; never larger."""
    n = 4000
    at = level(name, n, moments=False)
    rng = np.random.default_rng(5)
    x = np.rint(rng.uniform(-1, 1, (n, 2)) * 2**20) / 2**20
    scores = np.column_stack([x, np.ones(n)]) @ (rng.standard_normal((3, 3)))
    share = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (rng.random(n)[:, None] > share.cumsum(axis=1)).sum(axis=1)
    y = y - 1.0 if name == "softmax" else np.sign(y - 0.5)
    at = replace(at, scale=replace(at.scale, scale=at.scale.scale * 1e-6))  # type: ignore[arg-type, type-var]
    run = fit(at, x, y)
    aim = at.objective

    def loss(w: Any) -> float:
        scores = run.points @ w.reshape(aim.outputs, 3).T
        if name == "logistic":
            return float(aim.loss.value(scores[:, 0], run.targets).mean())  # type: ignore[union-attr]
        at_own = scores[np.arange(n), run.targets.astype(int)]
        return float((np.log(np.exp(scores).sum(axis=1)) - at_own).mean())

    best = np.zeros(aim.dimension)
    for _ in range(2000):
        best -= 2 * aim.gradient(best, best, run.points, run.targets, float(n))
    for larger, fewest, most in ((1.0, 1.0, 1.0), (2.2, 1.5, 3.2), (4.0, 2.8, 6.0)):
        w = run._rounded(best * larger)
        end, _ = run.advance(w, np.array([1.0, 0.0, 0.0]), 257, 3)
        shrunk = np.linalg.norm(w) / np.linalg.norm(end)
        assert fewest <= shrunk <= most and loss(end) <= loss(w)


@pytest.mark.parametrize("moments", [True, False])
def test_a_user_moves_a_query_as_much_as_one_record(moments: bool) -> None:
    at, rng = level("logistic", 6, moments=moments), np.random.default_rng(3)
    x, y = block("logistic", 9, 4)
    shared = np.array([1.0] * 3 + [1 / 6] * 6)
    w = rng.standard_normal(3)
    for reach in (0.7, 1.5):
        whole = queries(fit(at, x, y, weights=shared), w, reach)
        for _ in range(20):
            p, t = x.copy(), y.copy()
            p[3:], t[3:] = rng.choice([-1.0, 1.0], (6, 2)), rng.choice([-1.0, 1.0])
            other = queries(fit(at, p, t, weights=shared), w, reach)
            alone = queries(fit(at, x[:3], y[:3], weights=shared[:3]), w, reach)
            for without in (other, alone):
                moved = [float(np.linalg.norm(a - b)) for a, b in zip(whole, without, strict=True)]
                assert all(a <= b for a, b in zip(moved, paid_for(at), strict=True))
    heavy = queries(fit(at, x, y, weights=np.ones(9)), w, 1.5)[2]  # unshared: more than is paid
    light = queries(fit(at, -x[:3], y[:3], weights=np.ones(3)), w, 1.5)[2]
    assert np.linalg.norm(heavy - light) > 0


@pytest.mark.parametrize("kind", BUDGETS)
def test_a_fit_costs_its_share_in_three_parts_whatever_number_of_steps_follows(kind: str) -> None:
    at = level("logistic", 100, kind=kind)
    square = kind == "gaussian"
    whole = Fraction(BUDGETS[kind].value) ** (2 if square else 1) / 2

    def cost(noise: Any) -> Fraction:
        return Fraction(noise.loss.value) ** (2 if square else 1)

    assert LENGTH + MOMENTS + GRADIENTS == 1
    assert whole * LENGTH * Fraction(99_999, 100_000) < cost(at.length) <= whole * LENGTH
    assert whole * MOMENTS * Fraction(99_999, 100_000) < cost(at.moments) <= whole * MOMENTS
    for steps, noise in zip(TIMES, at.gradients, strict=True):
        assert whole * GRADIENTS * Fraction(999, 1000) < steps * cost(noise) <= whole * GRADIENTS
    assert whole * Fraction(999, 1000) < at.cost <= whole
    two = level("logistic", 100, kind=kind, changes=2)
    assert two.gradients[3].moved == pytest.approx(2 * at.gradients[3].moved, rel=1e-2)
    assert two.cost <= whole


def noises(at: StepsLevel, count: int) -> tuple[Any, Any, Any]:
    """Noise of the three queries of fits over no rows, one a key."""
    own = [], [], []
    for i in range(count):
        run = fit(at, np.zeros((0, 2)), np.zeros(0), draws(f"{i}".encode()))
        zero = np.zeros
        own[0].append(run._released(at.length, zero(1), 1, zero(1)))
        own[1].append(run._released(at.moments, zero(6), 2, zero(1)))
        own[2].append(run._released(at.gradients[4], zero(3), 3, zero(1)))
    return tuple(np.concatenate(some) for some in own)  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "discrete_gaussian"])
def test_each_query_gets_noise_of_the_scale_that_is_paid_for_and_of_no_other(kind: str) -> None:
    at = level("logistic", 100, kind=kind)
    part = BUDGETS[kind].value if kind == "gaussian" else math.sqrt(2 * BUDGETS[kind].value)
    moved = (2.0, math.sqrt(2.0), 2.0)
    shares = (LENGTH, MOMENTS, GRADIENTS / TIMES[4])
    for some, size, share in zip(noises(at, 300), moved, shares, strict=True):
        scale = size / 100 / (part * math.sqrt(share / 2))

        def fits(sample: Any) -> float:
            return float(stats.kstest(sample, stats.norm.cdf).pvalue)

        if len(some) < 500:
            some = np.concatenate([some, *(noises_of_length(at, i) for i in range(1, 5))])
        assert fits(some / scale) > 1e-3
        assert fits(some / scale * 1.2) < 0.02 or len(some) < 1000
        square = float(np.mean((some / scale) ** 2))
        spread = 5 * math.sqrt(2 / len(some))
        assert abs(square - 1) < spread < abs(1.3**2 - 1) and abs(square * 1.69 - 1) > spread


@pytest.mark.slow
def test_each_query_gets_pure_noise_of_the_scale_that_is_paid_for_and_of_no_other() -> None:
    """K-norm noise in d coordinates: its length is a gamma variable of shape d."""
    at = level("logistic", 100, kind="k_norm")
    moved = (2.0, math.sqrt(2.0), 2.0)
    shares = (LENGTH, MOMENTS, GRADIENTS / TIMES[4])
    for some, d, size, share in zip(noises(at, 900), (1, 6, 3), moved, shares, strict=True):
        scale = size / 100 / (BUDGETS["k_norm"].value * float(share) / 2)
        length = np.linalg.norm(some.reshape(-1, d), axis=1) / scale
        assert stats.kstest(length, stats.gamma(d).cdf).pvalue > 1e-3
        assert stats.kstest(length * 1.35, stats.gamma(d).cdf).pvalue < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUDGETS)
def test_a_look_at_the_scale_gets_noise_of_what_is_paid_for_and_of_no_other(kind: str) -> None:
    at = level("logistic", 100, kind=kind, moments=False)
    assert at.scale is not None and at.scale.moved == pytest.approx(1.5 / 100, rel=0.02)
    nobody = np.zeros((0, 2)), np.zeros(0)
    drawn = [
        fit(at, *nobody, draws(f"{i}".encode()))._released(at.scale, np.zeros(1), 259, np.zeros(1))
        for i in range(1500)
    ]
    share, value = float(SCALES / len(HALVINGS)) / 2, BUDGETS[kind].value
    scale, law = 1.5 / 100 / (value * math.sqrt(share)), stats.norm
    if kind == "discrete_gaussian":
        scale = 1.5 / 100 / math.sqrt(2 * value * share)
    if kind == "k_norm":
        scale, law = 1.5 / 100 / (value * share), stats.laplace
    some = np.concatenate(drawn) / scale
    assert stats.kstest(some, law.cdf).pvalue > 1e-3
    assert stats.kstest(some * 1.25, law.cdf).pvalue < 1e-3


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("name", ["softmax", "huber"])
def test_plain_descent_pays_for_what_it_asks(
    name: str, kind: str, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without second moments: two or three kinds of queries, the whole share, noise on each."""
    if wide:
        monkeypatch.setattr("weir.dpcore.models.blocks.steps.MOST_WIDTH", 2)
    at = level(name, 300, kind=kind, moments=wide)
    assert at.slope_clip == SLOPE_CLIPS[CLASSES[name]]
    square = kind == "gaussian"
    scales = SCALES if name == "softmax" else 0
    rest = 1 - LENGTH - scales

    def cost(noise: Any) -> Fraction:
        return Fraction(noise.loss.value) ** (2 if square else 1)

    part = Fraction(BUDGETS[kind].value) ** (2 if square else 1) / 2
    assert part * LENGTH * Fraction(99_999, 100_000) < cost(at.length) <= part * LENGTH
    for steps, noise in zip(TIMES, at.gradients, strict=True):
        assert part * rest * Fraction(999, 1000) < steps * cost(noise) <= part * rest
    if scales:
        paid = len(HALVINGS) * cost(at.scale)
        assert part * SCALES * Fraction(99_999, 100_000) < paid <= part * SCALES
    whole = Fraction(BUDGETS[kind].value) ** (2 if kind == "gaussian" else 1) / 2
    assert at.moments is None and "plain descent" in at.way
    assert whole * Fraction(999, 1000) < at.cost <= whole

    class Watched(WatchedFit):
        seen: list[tuple[int, Any]] = []  # noqa: RUF012

    run = Watched(**vars(fit(at, *block(name, 300, 6))))
    x, y = run.start()
    assert len(y) == StepsFitter(at).sizes[1] == 3
    every = StepsFitter(at).steps
    assert every == 257 + (3 if scales else 0)
    end, kept = run.advance(x, y, 0, every)
    last = range(259, 262) if scales else ()
    assert [number for number, _ in run.seen] == [1, *range(3, 3 + int(kept[1])), *last]
    assert all((noise != 0).all() for _, noise in run.seen)
    half = run.advance(*run.advance(x, y, 0, 1), 1, every - 1)
    assert half[0].tobytes() == end.tobytes()


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("name", ["huber", "logistic", "softmax"])
def test_a_path_of_plain_descent_is_as_long_as_its_noise_allows(name: str, kind: str) -> None:
    clip, least = SLOPE_CLIPS[CLASSES[name]], 1
    stride, most = 1.0, PATHS[CLASSES[name]] / clip
    if name != "huber":
        loss = LOSSES[name]
        stride = STRIDE * loss.smoothness / (0.9 * clip * loss.slope(math.inf))
        least = 1 if kind == "k_norm" else LEAST_STEPS
    for n in (20, 300, 5000, 10**8 // 16):
        at = level(name, n, kind=kind, moments=False)
        steps, length = at.path(False)
        assert steps in TIMES and steps >= least and 0 < length <= stride
        own = at.gradients[TIMES.index(steps)].stddev
        assert math.sqrt(steps) * length * own <= most * (1 + 1e-9)
        longest = max(
            times * min(stride, most / (math.sqrt(times) * noise.stddev))
            for times, noise in zip(TIMES, at.gradients, strict=True)
            if times >= least
        )
        assert longest / 1.2 < steps * length <= longest
        later, short = at.path(True)
        noise = at.gradients[TIMES.index(later)].stddev
        linked = LINKED_BY_CLASSES if name == "softmax" else LINKED
        assert math.sqrt(later) * short * noise <= linked * most * (1 + 1e-9)
        assert later * short <= longest
        assert at.expected.steps == steps and at.expected.lengths.tolist() == [length]
    assert (steps, length) == (256, stride)


def test_second_moments_are_left_out_where_noise_hides_them_by_public_numbers_alone() -> None:
    for n, d, hidden in ((300, 2, False), (150, 2, True), (1500, 8, False), (800, 8, True)):
        at = level("logistic", n, d, moments=None)
        assert (at.moments is None) == hidden == level("logistic", n, d).hides
        assert at.slope_clip == (SLOPE_CLIPS[1] if hidden else 1)
    one = level("logistic", 100, 8)
    assert one.moments is not None
    half = np.random.default_rng(1).standard_normal((9, 9)) * one.moments.stddev / 2
    noise, mean = np.abs(np.linalg.eigvalsh(half + half.T)).max(), 1 / 9
    assert one.hidden / 2 < noise / mean < 2 * one.hidden
    assert level("logistic", 60, 8, kind="k_norm", moments=None).moments is not None
    assert level("logistic", 60, 8, kind="discrete_gaussian", moments=None).moments is None
    many, few = level("softmax", 750, 5), level("logistic", 750, 5)
    assert many.hides and not few.hides and many.hidden == few.hidden


@pytest.mark.parametrize(("steps", "a"), [(1, 0.3), (12, 1.0), (256, 0.05), (64, 5.0)])
def test_the_excess_of_plain_descent_is_that_of_its_steps(steps: int, a: float) -> None:
    rule = FilterRule.of(True, 1, 0.25)
    parts = np.array([1, 1 / 2, 1 / 3]) / (1 + 1 / 2 + 1 / 3)

    w, noise = np.ones(3), np.zeros(3)
    for _ in range(steps):
        shrink = np.maximum(0, 1 - 0.2 * a * parts)
        w *= shrink
        noise = noise * shrink**2 + (a / (0.25 * 2.0)) ** 2 * 1e-3
    excess = float((parts * (3.2 * w * w + 0.2 * 0.25 * 2.0 / 2 * noise)).sum())
    chosen = rule.descent(2.0, 3, steps, a, 1e-3)
    assert chosen.steps == steps and chosen.lengths.tolist() == [a]
    assert chosen.excess == pytest.approx(excess, rel=1e-9)


def noises_of_length(at: StepsLevel, seed: int) -> Any:
    run = [
        fit(at, np.zeros((0, 2)), np.zeros(0), draws(f"{seed}.{i}".encode())) for i in range(300)
    ]
    return np.concatenate([one._released(at.length, np.zeros(1), 1, np.zeros(1)) for one in run])


class WatchedFit(StepsFit):
    """Writes down the noise of each query, in standard deviations."""

    seen: list[tuple[int, Any]]

    def _released(self, noise: Any, point: Any, number: int, after: Any) -> Any:
        out = super()._released(noise, point, number, after)
        self.seen.append((number, (out - point) / noise.stddev))
        return out


class BareMoments(StepsFit):
    """A mutant: second moments without noise."""

    def _released(self, noise: Any, point: Any, number: int, after: Any) -> Any:
        return point if number == 2 else super()._released(noise, point, number, after)


class ReusedNoise(StepsFit):
    """A mutant: noise is keyed by the data and the number of the query alone."""

    def _released(self, noise: Any, point: Any, number: int, after: Any) -> Any:
        return super()._released(noise, point, number, np.zeros(1))


def all_noisy(kind: type[StepsFit]) -> bool:
    at = level("logistic", 200)

    class Both(WatchedFit, kind):  # type: ignore[misc, valid-type]
        seen: list[tuple[int, Any]] = []  # noqa: RUF012

    watched = Both(**vars(fit(at, *block("logistic", 200, 1))))
    watched.advance(*watched.start(), 0, 257)
    numbers = [number for number, _ in Both.seen]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 2
    fine = [(noise != 0).all() and np.abs(noise).max() < 6 for _, noise in Both.seen]
    return bool(all(fine)) and bool(np.mean(np.concatenate([n for _, n in Both.seen]) ** 2) > 0.4)


def test_every_query_of_a_fit_has_noise() -> None:
    assert all_noisy(StepsFit) and not all_noisy(BareMoments)


def meets_two(kind: type[StepsFit]) -> bool:
    """Whether noise of a query is that of the same query after a last bit that differs: of the
    filter, of the number of steps, of the point or of the clip, as on another machine."""
    at = level("softmax", 50)
    run = kind(**vars(fit(at, *block("softmax", 50, 2))))
    w, own = run.start()[0], run.filtered()
    first, noise = run.stepped(w, own, 1), at.gradients[TIMES.index(int(own[1]))]

    def drawn(seen: Any, number: int = 3) -> Any:
        return run._released(noise, np.zeros(at.objective.dimension), number, seen)

    seen = np.concatenate([own, first])
    whole = drawn(seen)
    assert (drawn(seen) == whole).all() and (drawn(seen, 4) != whole).all()
    same = []
    for place in range(len(seen)):
        other = seen.copy()
        other[place] = np.nextafter(other[place], 9.0)
        same.append(bool((drawn(other) == whole).all()))
    clips = [run._released(at.moments, np.zeros(6), 2, np.array([a])) for a in (1.0, 1.5)]
    return any([*same, bool((clips[0] == clips[1]).all())])


def test_no_noise_meets_two_filters_two_points_or_two_clips() -> None:
    assert not meets_two(StepsFit) and meets_two(ReusedNoise)


@pytest.mark.parametrize("moments", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_sums_are_exact_in_any_order_of_rows_and_pieces(name: str, moments: bool) -> None:
    n = CHUNK + 300
    at = level(name, n, moments=moments)
    x, y = block(name, n, 5)
    w = np.random.default_rng(1).standard_normal(at.objective.dimension)
    run = fit(at, x, y)
    w = run._rounded(w)
    one = queries(run, w, 1.1)
    order = np.random.default_rng(2).permutation(n)
    two = queries(fit(at, x[order], y[order]), w, 1.1)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))
    if not moments:  # clipped
        return
    mean = at.objective.gradient(w, w, run.points, run.targets, float(n), run_weights(run, 0.99))
    slope = at.objective.loss.slope(math.inf)
    assert np.abs(one[2] * slope * 0.99 - mean).max() < 1e-4


def run_weights(run: StepsFit, clip: float) -> Any:
    return np.minimum(1.0, clip / np.linalg.norm(run.points, axis=1))


def test_slices_and_starts_change_no_bit_and_the_noise_is_the_key_s() -> None:
    at = level("huber", 60)
    x, y = block("huber", 60, 3)
    centre = np.array([0.3, -0.1, 0.2])
    whole = fit(at, x, y, centre=centre)
    ends = whole.advance(*whole.start(), 0, 257)
    x0, y0 = whole.start()
    for at_once, done in ((1, 0), (7, 1), (100, 8), (149, 108)):
        x0, y0 = fit(at, x, y, centre=centre).advance(x0, y0, done, at_once)
    assert x0.tobytes() == ends[0].tobytes() and y0.tobytes() == ends[1].tobytes()
    other = fit(at, x, y, draws(digest=8), centre=centre)
    assert (other.advance(*other.start(), 0, 257)[0] != ends[0]).all()


def test_eigenvectors_are_right_and_of_equal_values_too() -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 8, 25):
        square = rng.standard_normal((n, n))
        cases = [square + square.T, np.eye(n) * 2.5, np.ones((n, n)), np.zeros((n, n))]
        for matrix in cases:
            values, rows = eigen(matrix)
            assert np.abs(rows @ rows.T - np.eye(n)).max() < 1e-13
            assert np.abs((rows.T * values) @ rows - matrix).max() < 1e-12
    assert eigen(cases[0])[1].tobytes() == eigen(cases[0].copy())[1].tobytes()


def test_the_filter_is_the_best_of_all_by_brute_force() -> None:
    rule, values = FilterRule.of(False, 1, 1.0), np.array([0.01, 0.3, 1.0])
    variances = [1e-4 * steps for steps in TIMES]
    chosen = rule.choose(values, variances)

    def excess(steps: int, a: Any) -> float:
        q, left = 0.3 * a, (1 - 0.3 * a) ** (2 * steps)
        gathered = np.where(a > 0, (1 - left) / np.maximum(1 - (1 - q) ** 2, 1e-300), 0)
        noise = 0.3 / (2 * values) * 1e-4 * steps * a**2 * gathered
        return float((left * 0.8 / 3 + noise).sum())

    every = [
        min(excess(steps, np.array([a if i == j else 0.0 for j in range(3)])) for a in LENGTHS)
        for steps in TIMES
        for i in range(3)
    ]
    assert chosen.excess == pytest.approx(excess(chosen.steps, chosen.lengths), rel=1e-9)
    assert chosen.excess <= min(every)
    quiet = rule.choose(values, [v * 1e-9 for v in variances])
    assert quiet.steps >= 64 > chosen.steps and quiet.excess < chosen.excess
    assert rule.choose(values, variances, linked=True).excess < chosen.excess


CONFIG = """
name: steps
schema: {time: t, id: i}
clock: {start: 2024-01-01T00:00:00Z, period: 1h}
privacy: {epsilon: 1, delta: DELTA, protect_for: all}
model:
  algorithm: NAME
  features: [u, v]
  target: y
  classes: [no, yes]
  ranges: {u: [-1, 1], v: [0, 10]}
  block: 1000
"""


def plan(more: str = "  solver: steps\n", name: str = "erm.sliding_window", delta: str = "1e-6"):
    return Plan.from_yaml(CONFIG.replace("NAME", name).replace("DELTA", delta) + more)


def test_the_plan_says_how_a_model_is_found_and_what_else_was_priced() -> None:
    built = plan()
    assert any("noisy preconditioned steps" in words for _, words in built.facts)
    assert {a.mechanism for a in built.alternatives} >= {"best", "output", "sgd"}
    levels = built.program.levels  # type: ignore[attr-defined]
    assert all(isinstance(item, StepsLevel) for item in levels)
    assert built.program.loss(None).kind == "gdp"
    exact = plan("  solver: steps\nmechanism: {noise: discrete_gaussian}\n")
    assert exact.program.loss(None).kind == "zcdp"
    assert replace(levels[0], divisor=9.0).canonical() != levels[0].canonical()


def test_the_plan_says_where_noise_would_hide_second_moments_and_a_named_value_wins() -> None:
    few = CONFIG.replace("block: 1000", "block: 60")

    def made(more: str) -> Any:
        text = few.replace("NAME", "erm.output_perturbation").replace("DELTA", "1e-6")
        return Plan.from_yaml(text + more)

    (words,) = (words for name, words in made("").facts if name.startswith("a fit"))
    assert "plain descent, about" in words and "no second moments" in words
    assert made("").digest == made("  moments: false\n").digest
    (level,) = made("  moments: true\n").program.levels
    assert level.moments is not None and level.slope_clip == 1
    (words,) = (x for name, x in plan("  moments: false\n").facts if name == "a fit of 1 block")
    assert "plain descent" in words
    (words,) = (x for name, x in plan("").facts if name == "a fit of 1 block")
    assert "noisy preconditioned steps" in words


@pytest.mark.parametrize(
    ("more", "name", "delta", "field"),
    [
        ("  solver: steps\n  regularise: 0.1\n", "erm.continual", "1e-6", "model.regularise"),
        ("  solver: steps\n  passes: 2\n", "erm.continual", "1e-6", "model.passes"),
        ("  solver: steps\n", "erm.sampled", "0", "model.solver"),
        ("  solver: output\n  moments: true\n", "erm.continual", "1e-6", "model.moments"),
        ("  solver: sgd\n  moments: false\n", "erm.continual", "1e-6", "model.moments"),
        ("  solver: best\n", "erm.continual", "1e-6", "model.solver"),
    ],
)
def test_what_steps_cannot_serve_is_refused(more: str, name: str, delta: str, field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(more, name, delta)
    assert refused.value.field == field


SINGLE = "erm.output_perturbation"


def test_a_plan_says_what_noise_is_predicted_to_cost_and_warns_where_it_is_much() -> None:
    quiet = plan("  solver: steps\nexpect: {events: 9}\n".replace("1000", "50000"), SINGLE)
    facts = dict(quiet.facts)
    assert "that a constant loses" in facts["predicted excess"] and quiet.doubts == ()
    text = CONFIG.replace("NAME", SINGLE).replace("DELTA", "1e-6").replace("1000", "20")
    loud = Plan.from_yaml(text)
    assert [doubt for doubt in loud.doubts if "Noise may hide most of this model" in doubt]
    assert set(loud.doubts) <= set(loud.warnings)


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_lambda_of_a_single_fit_follows_from_public_numbers(delta: str) -> None:
    def strength(block: int, more: str = "  solver: output\n", epsilon: str = "1") -> float:
        text = CONFIG.replace("NAME", SINGLE).replace("DELTA", delta) + more
        text = text.replace("block: 1000", f"block: {block}").replace(
            "epsilon: 1", f"epsilon: {epsilon}"
        )
        return float(Plan.from_yaml(text).program.objective.strength)  # type: ignore[attr-defined]

    some, more = strength(1000), strength(32_000)
    assert some / more == pytest.approx(32**0.8, rel=1e-3)
    assert strength(1000, "  solver: output\n  regularise: 0.1\n") == 0.1
    assert strength(1000, "") == 0.0  # of steps, the default
    if delta != "0":
        assert strength(1000, "  solver: output\nmechanism: {noise: gaussian}\n") == pytest.approx(
            2.1 * 2 * 0.25 ** (1 / 3) * (1000 * 0.2367) ** -0.8, rel=1e-2
        )
    assert 0 < strength(60_000, epsilon="10000") < 0.01  # where doubles have digits for it
    chain = plan("  solver: output\n", "erm.sliding_window", delta).program
    assert chain.objective.strength == 0.1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("solver", "small"), [("output", "1e-6"), ("sgd", "1e-8")])
def test_a_regulariser_that_doubles_cannot_serve_is_refused_by_its_own_name(
    solver: str, small: str
) -> None:
    with pytest.raises(ConfigError, match="take a smaller one") as strong:
        plan(f"  solver: {solver}\n  regularise: 1e9\n")
    assert strong.value.field == "model.regularise"
    with pytest.raises(ConfigError, match="take smaller blocks") as weak:
        plan(f"  solver: {solver}\n  regularise: {small}\n")
    assert weak.value.field == "model.block"

"""Select and refit: what one row moves, which columns are chosen, noise, bits, what is learned."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

from tests.constant_noise import NoNoise
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.models.blocks.fitter import Draws
from weir.dpcore.models.kit.loss import Huber, Squared
from weir.dpcore.models.optimize.fit import BatchPlan, fit
from weir.dpcore.models.optimize.least_squares import solved
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.refit import QUIET, WEIGHTS, Refit, Refitting, moved_of, refit_for
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan

ROOT = RootKey.derive(bytes(range(32)), "refit", bytes(32))
RHO = PrivacyLoss("zcdp", 0.05)
CONFIG = """
name: lasso
schema: {time: t, id: i}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T03:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
model:
  algorithm: optimize.frank_wolfe
  features: {column: x, size: 50}
  target: y
  ranges: {x: [-1, 1], y: [-1, 1]}
  set: {l1_ball: 1}
  block: 2000
"""


@cache
def plan(more: str = "  form: refit\n", text: str = CONFIG) -> Plan:
    return Plan.from_yaml(text + more)


def draws(complete: int = 1, noise: Any = None, digest: int = 7) -> Draws:
    keyed = KeyedNoise(ROOT, 0, (b"k",), 0) if noise is None else noise
    return Draws(keyed, 0, complete, np.full(2, digest, dtype=np.uint64))


def made(d: int, terms: int | None, n: int = 6, norm: float = math.inf, changes: int = 1) -> Refit:
    linear = Linear(Squared(), L1Ball(1.5, d), d, False, norm)
    return refit_for(linear, 1, float(n), n, changes, RHO, Fraction(1), terms)


def run_of(way: Refit, x: Any, y: Any, weights: Any = None, **more: Any) -> Refitting:
    run = way.fit(np.asarray(x, dtype=float), np.asarray(y, dtype=float), np.zeros(0),
                  draws(**more), weights)  # fmt: skip
    assert isinstance(run, Refitting)
    return run


class Halved(Refit):
    """A mutant whose scores are taken to move one way alone."""

    @property
    def sensitivity(self) -> float:
        return super().sensitivity / 2


def test_the_range_of_the_changes_of_scores_is_what_is_paid_for() -> None:
    """By brute force: every corner of a row's bounds, in place of every other, and of none."""
    rng, worst, way = np.random.default_rng(1), 0.0, made(3, 2)
    corners = [2.0 * np.array(one) - 1 for one in np.ndindex(*(2,) * 4)]
    for _ in range(6):
        rest, others = rng.uniform(-1, 1, (5, 3)), rng.uniform(-1, 1, 5)
        found = [run_of(way, rest, others).scores()]
        for corner in corners:
            x, y = np.vstack([rest, corner[:3]]), np.append(others, corner[3])
            found.append(run_of(way, x, y).scores())
        each = np.array(found)
        change = (each[:, None] - each[None]).reshape(-1, 3)
        worst = max(worst, float(np.max(np.ptp(change, axis=1))))
    assert 0.9 * way.sensitivity < worst <= way.sensitivity
    assert worst > Halved(**vars(way)).sensitivity


class Long(Refitting):
    """A mutant that leaves rows as long as they are."""

    def moments(self, columns: Any) -> Any:
        half = replace(self.made.linear, norm=math.inf)
        long = replace(self.made, linear=half)
        return Refitting(**{**vars(self), "made": long}).moments(columns) * (
            long.squares / self.made.squares
        )


def pairs(rng: Any, k: int) -> Any:
    """Rows and targets whose angles are what a pair's change depends on."""
    x = rng.choice([-1.0, 1.0], (60, k))
    x[1::3] = x[::3]
    flip = rng.random((20, k)) < np.linspace(0, 1, 20)[:, None]
    x[1::3] = np.where(flip, -x[1::3], x[1::3])
    return x, rng.choice([-1.0, 1.0, 0.3], 60)


@pytest.mark.parametrize("weight", [2.0, 0.75, 0.125])
@pytest.mark.parametrize("norm", [math.inf, 1.5])
def test_a_swapped_row_moves_the_moments_by_no_more_than_is_paid_for(
    norm: float, weight: float
) -> None:
    rng, k, worst, long = np.random.default_rng(2), 8, 0.0, 0.0
    way = replace(made(k, k, n=1, norm=norm), weight=weight)
    most = moved_of(weight)
    x, y = pairs(rng, k)
    columns = np.arange(k)
    one = [run_of(way, x[i : i + 1], y[i : i + 1]) for i in range(60)]
    points = np.array([run.moments(columns) for run in one])
    others = np.array([Long(**vars(run)).moments(columns) for run in one])
    for i in range(60):
        for point in (points[i], points[i] - points, 0 * points[i]):
            worst = max(worst, float(np.max(np.linalg.norm(np.atleast_2d(point), axis=1))))
        long = max(long, float(np.max(np.linalg.norm(others[i] - others, axis=1))))
    assert 0.97 * most < worst <= most
    assert norm > 9 or long > 2 * most
    fixed = made(k, k, n=1, norm=norm)
    assert fixed.moments.moved >= moved_of(fixed.weight)
    assert fixed.weight in WEIGHTS and max(WEIGHTS) <= 2


class Unshared(Refitting):
    """A mutant whose targets are not shared by weight as rows are."""

    def moments(self, columns: Any) -> Any:
        part = Refitting(**{**vars(self), "weights": None})
        mine = Refitting(**vars(self)).moments(columns)
        k = len(columns)
        return np.concatenate([mine[: k * (k + 1) // 2], part.moments(columns)[k * (k + 1) // 2 :]])


@pytest.mark.slow
def test_rows_of_a_user_move_the_moments_and_scores_as_one_row_does() -> None:
    rng, k = np.random.default_rng(3), 4
    way = replace(made(6, k, n=1), weight=1.0)
    worst, scored, unshared = 0.0, 0.0, 0.0
    for count in (1, 2, 3, 7):
        for _ in range(20):
            x = np.repeat(rng.choice([-1.0, 1.0], (1, 6)), count, axis=0)
            x *= rng.choice([1.0, 1.0, 0.5], (count, 1))
            run = run_of(way, x, np.ones(count), np.full(count, 1.0 / count))
            other = run_of(way, -x, np.ones(count), np.full(count, 1.0 / count))
            columns = np.arange(k)
            moved = run.moments(columns) - other.moments(columns)
            worst = max(worst, float(np.linalg.norm(moved)))
            scored = max(scored, float(np.abs(run.scores()).max()))
            moved = Unshared(**vars(run)).moments(columns) - Unshared(**vars(other)).moments(
                columns
            )
            unshared = max(unshared, float(np.linalg.norm(moved)))
    assert 0.9 * 2 < worst <= moved_of(1.0) and 0.9 < scored <= 1
    assert unshared > moved_of(1.0)


def test_a_fit_costs_the_budget_and_no_more() -> None:
    for d, terms in ((40, None), (40, 5), (40, 40), (3, None)):
        for changes, share in ((1, Fraction(1)), (2, Fraction(1, 3))):
            linear = Linear(Squared(), L1Ball(1.5, d), d, False, math.inf)
            way = refit_for(linear, 1, 500.0, 900, changes, RHO, share, terms)
            assert 0.999 * RHO.value * share < way.cost <= Fraction(RHO.value) * share
            assert way.moments.moved >= changes * moved_of(way.weight) / 500
            assert way.sensitivity >= 4 * changes / 500
            if way.chooses:
                picks = way.terms * (way.sensitivity / way.scale) ** 2 / 8
                assert picks == pytest.approx(0.3 * RHO.value * float(share), rel=1e-6)


def test_terms_follow_public_numbers() -> None:
    with pytest.raises(ConfigError, match="more than 8,388,608"):
        made(3, None, n=2**23 + 1)
    found = [made(100, None, n=n).terms for n in (1000, 10_000, 100_000, 8_000_000)]
    assert found == sorted(found) and found[0] < 20 and found[-1] == 100
    assert made(5000, None, n=2**23).terms <= 256
    assert made(100, 5, n=1000).noisy < made(100, 20, n=1000).noisy


@pytest.mark.slow
def test_columns_are_chosen_as_often_as_they_should_be() -> None:
    """One draw for all gives the law of k choices, one after the other; a scale that is 30 % off is
    seen."""
    rng = np.random.default_rng(4)
    x, y = rng.choice([-1.0, 1.0], (6, 4)), rng.uniform(-1, 1, 6)
    way = replace(made(4, 2), scale=0.25)
    run, many = run_of(way, x, y), 3000
    scores, counts = run.scores(), dict[tuple[float, ...], int]()
    for i in range(many):
        chosen = tuple(replace(run, draws=draws(i + 1)).chosen().tolist())
        counts[chosen] = counts.get(chosen, 0) + 1

    def p_value(scale: float) -> float:
        weights, likely = np.exp(-scores / scale), dict[tuple[float, ...], float]()
        for a, b in permutations(range(4), 2):
            part = weights[a] / weights.sum() * weights[b] / (weights.sum() - weights[a])
            at = tuple(sorted((float(a), float(b))))
            likely[at] = likely.get(at, 0.0) + float(part)
        keys = sorted(likely)
        wanted = [many * likely[key] for key in keys]
        return float(stats.chisquare([counts.get(key, 0) for key in keys], wanted).pvalue)

    assert p_value(0.25) > 1e-3
    assert p_value(0.25 * 1.3) < 1e-3 and p_value(0.25 / 1.3) < 1e-3


def test_moments_have_the_noise_that_they_cost() -> None:
    way = made(4, 3, n=50)
    run = run_of(way, np.zeros((1, 4)), [0.0])
    drawn: list[float] = []
    for i in range(250):
        point, more = np.zeros(9), draws(i + 1)
        labels = replace(run, draws=more)._label(2)
        drawn += way.moments.released(point, more.noise, labels, more.digest).tolist()
    units = np.array(drawn) / (way.moments.sensitivity * way.moments.resolution)
    sigma = 1 / math.sqrt(2 * 0.7 * RHO.value)
    assert stats.kstest(units / sigma, "norm").pvalue > 1e-3
    for wrong in (1.2, 1 / 1.2):
        assert stats.kstest(units / sigma * wrong, "norm").pvalue < 1e-3


def test_no_noise_meets_the_moments_of_two_choices() -> None:
    """Columns 0 and 1 are equal: what was released of both would differ by nothing."""
    rng = np.random.default_rng(5)
    x, y = rng.uniform(-1, 1, (40, 4)), rng.uniform(-1, 1, 40)
    x[:, 1] = x[:, 0]
    run = run_of(made(4, 2, n=40), x, y)
    first, second = (run.refitted(np.array([a, 3.0]))[[a, 3]] for a in (0, 1))
    assert (first != second).all()
    assert (run.refitted(np.array([0.0, 3.0]))[[0, 3]] == first).all()


def test_the_same_bits_however_it_is_cut_and_stored() -> None:
    rng = np.random.default_rng(6)
    x, y = np.rint(rng.uniform(-1, 1, (9000, 7)) * 2**20) / 2**20, rng.uniform(-1, 1, 9000)
    x[rng.random(x.shape) < 0.5] = 0.0
    way = made(7, 3, n=9000)

    def fitted(features: Any, cut: bool) -> bytes:
        run = way.fit(features, y, np.zeros(0), draws())
        a, b = run.advance(*run.start(), 0, 1 if cut else 2)
        if cut:
            run = way.fit(features, y, np.zeros(0), draws())
            a, b = run.advance(a, b, 1, 1)
        return run.finish(a, b).model.tobytes()

    whole = fitted(x, False)
    assert fitted(x, True) == whole == fitted(sparse.csr_array(x), True)
    order = rng.permutation(9000)
    mixed = way.fit(x[order], y[order], np.zeros(0), draws())
    assert mixed.advance(*mixed.start(), 0, 2)[0].tobytes() == whole


def test_without_noise_it_is_least_squares_over_the_ball() -> None:
    rng, n = np.random.default_rng(7), 4000
    x = rng.choice([-1.0, 1.0], (n, 6))
    truth = np.array([0.0, 0.5, 0.0, -0.3, 0.0, 0.1])
    y = np.clip(x @ truth + 0.05 * rng.standard_normal(n), -1, 1)
    run = run_of(made(6, 3, n=n), x, y, noise=NoNoise(0))
    theta = run.finish(*run.advance(*run.start(), 0, 2)).model
    assert np.flatnonzero(theta).tolist() == [1, 3, 5]
    np.testing.assert_allclose(theta, truth, atol=0.01)
    hessian, right = np.diag([1.0, 4.0]), np.array([3.0, 4.0])
    np.testing.assert_allclose(solved(hessian, right, 0.0, 9.0), [3.0, 1.0], atol=1e-9)
    # On the edge: 3 - x = 4 - 4 (2 - x), x = 7 / 5.
    np.testing.assert_allclose(solved(hessian, right, 0.0, 2.0), [7 / 5, 3 / 5], atol=1e-9)
    damaged = np.diag([1.0, -5.0])
    assert np.abs(solved(damaged, right, 0.5, 2.0)).sum() <= 2 * (1 + 1e-12)


@pytest.mark.slow
def test_it_learns_where_frank_wolfe_does_not() -> None:
    rng, n = np.random.default_rng(8), 4000
    x = rng.choice([-1.0, 1.0], (n, 60))
    truth = np.zeros(60)
    truth[:5] = [0.3, -0.25, 0.18, -0.13, 0.13]
    y = np.clip(x @ truth + 0.1 * rng.standard_normal(n), -1, 1)

    def excess(**more: Any) -> float:
        found = BatchPlan.of(
            n=n, features=60, set={"l1_ball": 1.0}, feature_range=(-1, 1), target_range=(-1, 1),
            epsilon=1.0, delta=1e-6, **more,
        )  # fmt: skip
        assert found.guarantee.epsilon <= 1.0
        thetas = [fit(x, y, found, bytes([seed]) * 32).theta for seed in range(3)]
        return float(np.median([np.sum((theta - truth) ** 2) / 2 for theta in thetas]))

    assert excess(form="refit") < 0.2 * excess()
    assert excess(terms=5) < 0.5 * excess(form="refit")


@pytest.mark.slow
def test_a_plan_says_what_is_chosen_and_what_noise_hides() -> None:
    facts = dict(plan().facts)
    assert "of 51 columns, gumbel noise" in facts["a step"]
    assert facts["a fit"].startswith("one selection and one refit; costs")
    assert "by noise" in facts["predicted excess"] and "left out" in facts["predicted excess"]
    assert any("released first" in text for text in plan().notes)
    assert not any("Noise may hide" in text for text in plan().warnings)
    few = plan(text=CONFIG.replace("block: 2000", "block: 200"))
    assert any("Noise may hide most of this model" in text for text in few.warnings)
    assert plan("  terms: 4\n").program.way.terms == 4  # type: ignore[attr-defined]


BY_DEFAULT: list[tuple[str, tuple[str, str], str, str]] = [
    ("", ("block: 2000", "block: 4000"), "refit", "refit: its predicted noise"),
    ("", ("block: 2000", "block: 200"), "frank_wolfe", "predicted noise of a refit"),
    ("", ("epsilon: 1,", "epsilon: 0.1,"), "frank_wolfe", "predicted noise of a refit"),
    ("  window: 3\n", ("", ""), "refit", "refit: its predicted noise"),
    ("  window: 3\n", ("block: 2000", "block: 300"), "frank_wolfe", "predicted noise of a refit"),
    ("  form: frank_wolfe\n", ("", ""), "frank_wolfe", ""),
    ("  form: refit\n", ("block: 2000", "block: 200"), "refit", ""),
    ("  terms: 3\n", ("block: 2000", "block: 200"), "refit", ""),
    ("  iterations: 4\n", ("", ""), "frank_wolfe", ""),
    ("mechanism: {noise: gumbel}\n", ("", ""), "frank_wolfe", ""),
    ("mechanism: {noise: discrete_gaussian}\n", ("", ""), "frank_wolfe", ""),
    ("  loss: {huber: 0.5}\n", ("", ""), "frank_wolfe", ""),
    ("  classes: [0, 1]\n", (", y: [-1, 1]", ""), "frank_wolfe", ""),
    ("", ("l1_ball", "l2_ball"), "frank_wolfe", ""),
    ("", ("delta: 1e-6", "delta: 0"), "frank_wolfe", ""),
    ("", ("delta: 1e-6", "delta: 1e-11"), "frank_wolfe", ""),
    ("", ("size: 50", "size: 5000"), "frank_wolfe", ""),
]


@pytest.mark.parametrize(("more", "swap", "form", "why"), BY_DEFAULT)
def test_a_refit_is_the_default_where_its_noise_is_small_and_a_named_form_wins(
    more: str, swap: tuple[str, str], form: str, why: str
) -> None:
    built = Plan.from_yaml(CONFIG.replace(*swap) + more)
    assert isinstance(built.program.way, Refit) == (form == "refit")  # type: ignore[attr-defined]
    words = dict(built.facts).get("form", "")
    assert words.startswith(f"{form}: ") and why in words if why else not words


def test_the_default_follows_from_noise_over_the_squared_radius_alone() -> None:
    noisy, quiet = made(50, None, n=300), made(50, None, n=3000)
    assert quiet.quiet and not noisy.quiet
    assert quiet.noisy <= QUIET * 1.5**2 < noisy.noisy
    many = CONFIG.replace("2000", "4000")
    assert Plan.from_yaml(many).digest == plan(text=many).digest
    steps = Plan.from_yaml(CONFIG.replace("block: 2000", "block: 200"))
    assert steps.digest == plan("  form: frank_wolfe\n", CONFIG.replace("2000", "200")).digest


@pytest.mark.parametrize(
    ("more", "swap", "field"),
    [
        ("  terms: 52\n", ("", ""), "model.terms"),
        ("  form: refit\n  terms: 0\n", ("", ""), "model.terms"),
        ("  form: frank_wolfe\n  terms: 4\n", ("", ""), "model.terms"),
        ("  form: refit\n  iterations: 4\n", ("", ""), "model.iterations"),
        ("  form: lars\n", ("", ""), "model.form"),
        ("  form: refit\n  loss: {huber: 0.5}\n", ("", ""), "model.loss"),
        ("  form: refit\n  classes: [0, 1]\n", (", y: [-1, 1]", ""), "model.loss"),
        ("  form: refit\n", ("l1_ball", "l2_ball"), "model.set"),
        ("  form: refit\n", ("delta: 1e-6", "delta: 0"), "privacy.delta"),
        ("  form: refit\n", ("delta: 1e-6", "delta: 1e-11"), "privacy.delta"),
        ("  form: refit\nmechanism: {noise: gumbel}\n", ("", ""), "mechanism.noise"),
    ],
)
def test_what_it_does_not_serve_is_refused(more: str, swap: tuple[str, str], field: str) -> None:
    with pytest.raises(ConfigError, match=field.replace(".", r"\.")):
        Plan.from_yaml(CONFIG.replace(*swap) + more)


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("terms", {"terms": 3, "form": "frank_wolfe"}),
        ("form", {"form": "lars"}),
        ("iterations", {"terms": 3, "iterations": 4}),
        ("noise", {"terms": 3, "noise": "gumbel"}),
        ("delta", {"terms": 3, "delta": 0.0}),
        ("model.terms", {"terms": 9}),
        ("model.loss", {"terms": 3, "loss": Huber(0.5)}),
        ("model.set", {"terms": 3, "set": L2Ball(1.0, 5)}),
    ],
)
def test_what_a_fit_of_arrays_does_not_serve_is_refused(field: str, more: dict[str, Any]) -> None:
    given = {
        "n": 50, "features": 5, "set": {"l1_ball": 1.0}, "feature_range": (-1, 1),
        "target_range": (-1, 1), "epsilon": 1.0, "delta": 1e-6, **more,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=f"^{field.replace('.', chr(92) + '.')} "):
        BatchPlan.of(**given)  # type: ignore[arg-type]

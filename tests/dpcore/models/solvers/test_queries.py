"""Queries: sensitivity by replay, the noise that is said, the budget, what noise is keyed by."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.solvers.design import Design
from weir.dpcore.models.solvers.queries import Paid, Problem, Queries, deal
from weir.dpcore.noise.noise import k_norm_variance
from weir.dpcore.noise.prf import KeyedNoise, RootKey

P, D = 3, 4
ROOT = RootKey.derive(bytes(range(32)), "test", bytes(32))
LOSSES = ["squared", "absolute", {"huber": 1.0}, "logistic", "hinge"]
BUDGETS = [PrivacyLoss("gdp", 0.5), PrivacyLoss("zcdp", 0.2), PrivacyLoss("pure", 1.0)]
HALF = Fraction(1, 2)


def problem(loss: Any = "squared", changes: int = 1, clip: float = 0.7) -> Problem:
    gradients = Gradients(parse_loss(loss), clip, None, P, True)
    return Problem(L2Ball(2.0, D), gradients, 0.0, (0.0,) * D, changes, 10_000)


def design(rows: Any, keys: Any = None, hashes: Any = None, loss: Any = "squared") -> Design:
    rows = np.asarray(rows, dtype=np.float64).reshape(-1, P + 1)
    n = len(rows)
    keys = np.zeros(n, dtype=np.int64) if keys is None else np.asarray(keys, dtype=np.int64)
    if hashes is None:
        hashes = np.random.default_rng(n).integers(0, 1 << 62, (n, 2)).astype(np.uint64)
    return Design.of(keys, rows, hashes, problem(loss).gradients)


def random_rows(rng: Any, n: int) -> Any:
    rows = rng.uniform(-1, 1, (n, P + 1))
    return np.rint(np.where(rng.random((n, 1)) < 0.3, np.sign(rows), rows) * 2**20) * 2.0**-20


def queries(
    rows: Design, noise: Any = None, budget: PrivacyLoss = BUDGETS[0], k: int = 1, **changed: Any
) -> Queries:
    digests = changed.pop("digests", np.ones((k, 2), dtype=np.uint64))
    return Queries(
        changed.pop("problem", problem()), rows, noise or NoNoise(3), digests, budget, HALF
    )


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_swapped_row_changes_a_sum_by_no_more_than_the_sensitivity(loss: Any) -> None:
    rng, one, worst = np.random.default_rng(1), problem(loss), 0.0
    for trial in range(300):
        x = rng.normal(size=(1, D)) * rng.choice([0.1, 1, 10])
        rows = random_rows(rng, int(rng.integers(2, 9)))
        if trial % 3 == 0:
            rows[-1] = rows[-2] * np.array([1, 1, 1, -1])  # as far apart as can be
        base = design(rows[:-1], loss=loss).sums(x, one.gradients)
        others = [rows, rows[:-2], np.concatenate([rows[:-2], rows[-1:]])]
        for other in others:
            change = design(other, loss=loss).sums(x, one.gradients) - base
            size = math.sqrt(sum(int(v) ** 2 for v in change.ravel()))
            assert size <= one.sensitivity
            worst = max(worst, size)
    assert worst > 0.9 * one.sensitivity


def test_sums_are_clipped_gradients_in_any_order_and_company() -> None:
    rng, gradients = np.random.default_rng(2), problem().gradients
    keys = np.sort(rng.integers(0, 5, 3_000))
    rows, x = random_rows(rng, 3_000), rng.normal(size=(5, D))
    sums = design(rows, keys).sums(x, gradients)
    for key in range(5):
        mine = rows[keys == key]
        point = np.concatenate([mine[:, :P], np.ones((len(mine), 1))], axis=1)
        gradient = point * (point @ x[key] - mine[:, P])[:, None]
        norm = np.linalg.norm(gradient, axis=1, keepdims=True)
        gradient *= np.minimum(1, 0.7 / np.maximum(norm, 1e-9))
        found = sums[key] * gradients.lattice.resolution
        assert found == pytest.approx(gradient.sum(axis=0), abs=len(mine) * 1e-6)
        alone = design(mine[::-1]).sums(x[key : key + 1], gradients)
        assert (alone[0] == sums[key]).all()


def test_rows_without_a_direction_and_slopes_without_a_value_add_nothing() -> None:
    class Broken:
        name, labels = "broken", False

        def value(self, prediction: Any, target: Any) -> Any:
            return prediction

        def derivative(self, prediction: Any, target: Any) -> Any:
            return np.where(target > 0, np.nan, np.where(target < 0, np.inf, 1.0))

    gradients = Gradients(Broken(), 0.7, None, P, False)
    rows = np.array([[0, 0, 0, 0.0], [1, 1, 1, 0.5], [1, 1, 1, -0.5]])
    ready = Design.of(np.zeros(3, dtype=np.int64), rows, np.zeros((3, 2), np.uint64), gradients)
    assert (ready.sums(np.zeros((1, P)), gradients) == 0).all()


@pytest.mark.parametrize("changes", [1, 2])
def test_a_pass_costs_no_more_than_one_sum(changes: int) -> None:
    rng, one = np.random.default_rng(3), problem(changes=changes)
    worst = 0.0
    for trial in range(100):
        rows, x = random_rows(rng, 12), rng.normal(size=(1, D))
        hashes = rng.integers(0, 1 << 62, (12, 2)).astype(np.uint64)
        swapped, moved = rows.copy(), hashes.copy()
        swapped[:changes] = -np.sign(rows[:changes])
        swapped[:changes, :P] *= -1
        if trial % 2:
            moved[:changes] = rng.integers(0, 1 << 62, (changes, 2))  # they change batch too
        counts = np.array([1 + trial % 5])
        square = 0.0
        here, there = (
            [
                batch.gradients(x) / one.gradients.lattice.resolution
                for batch in queries(design(r, hashes=h), problem=one).batches(counts, trial, HALF)
            ]
            for r, h in ((rows, hashes), (swapped, moved))
        )
        square = sum(float(((a - b) ** 2).sum()) for a, b in zip(here, there, strict=True))
        assert math.sqrt(square) <= one.sensitivity
        worst = max(worst, math.sqrt(square))
        assert sum(here).sum() == pytest.approx(sum(queries(
            design(rows, hashes=hashes), problem=one
        ).gradients(x, HALF) / one.gradients.lattice.resolution).sum())  # fmt: skip
    assert worst > 0.5 * one.sensitivity


def test_every_row_is_dealt_once_and_evenly_and_anew_each_pass() -> None:
    hashes = np.random.default_rng(4).integers(0, 1 << 62, (20_000, 2)).astype(np.uint64)
    first, second = (deal(hashes, salt, np.full(20_000, 8)) for salt in (1, 2))
    for dealt in (first, second):
        counts = np.bincount(dealt, minlength=8)
        assert len(counts) == 8 and abs(counts - 2_500).max() < 5 * math.sqrt(2_500)
    together = np.bincount(first * 8 + second, minlength=64)
    assert abs(together - 312.5).max() < 5 * math.sqrt(312.5)
    assert (deal(hashes[:5], 1, np.full(5, 8)) == first[:5]).all()


def accepts(standard: Any) -> bool:
    """Mean square within 5 of its standard errors of 1 (those of the sample itself)."""
    square = np.asarray(standard) ** 2
    return bool(abs(square.mean() - 1) < 5 * square.std() / np.sqrt(square.size))


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda b: b.kind)
def test_the_noise_is_that_of_the_budget_and_another_scale_is_rejected(budget: PrivacyLoss) -> None:
    k, share, one = 3_000, Fraction(1, 5), problem()
    keyed = KeyedNoise(ROOT, 0, tuple(b"%d" % i for i in range(k)), 7)
    digests = np.random.default_rng(5).integers(0, 1 << 62, (k, 2)).astype(np.uint64)
    asked = queries(design(np.zeros((0, P + 1))), keyed, budget, k, digests=digests)
    counts = asked.counts(share)
    gradients = asked.gradients(np.zeros((k, D)), share)
    batch = next(asked.batches(np.ones(k, dtype=np.int64), 0, share)).gradients(np.zeros((k, D)))
    part = float(HALF * share)  # of the budget
    if budget.kind == "gdp":
        ratio = 1 / (budget.value * math.sqrt(part))
    elif budget.kind == "zcdp":
        ratio = 1 / math.sqrt(2 * budget.value * part)
    else:
        ratio = math.sqrt(k_norm_variance(D)) / (budget.value * part)
    sigma = 2 * 0.7 * ratio
    assert asked.stddev(share) == pytest.approx(sigma, rel=1e-5)
    for answer in (gradients, batch):
        assert accepts(answer / sigma)
        assert not accepts(answer / (1.1 * sigma)) and not accepts(answer / (sigma / 1.1))
    if budget.kind == "pure":
        ratio *= math.sqrt(k_norm_variance(1) / k_norm_variance(D))
    assert accepts(counts / ratio) and not accepts(counts / (1.2 * ratio))
    values = np.concatenate([counts[:, None], gradients, batch], axis=1)
    correlation = np.corrcoef(values.T) - np.eye(2 * D + 1)
    assert abs(correlation).max() < 5 / math.sqrt(k)  # every query has noise of its own
    assert one.sensitivity * one.gradients.lattice.resolution == pytest.approx(1.4, rel=1e-6)


def test_noise_is_a_function_of_tick_query_key_and_digest() -> None:
    k = 40
    names = tuple(b"%d" % i for i in range(k))
    base = np.random.default_rng(6).integers(0, 1 << 62, (k, 2)).astype(np.uint64)

    def answers(digests: Any = base, tick: int = 7, keys: Any = names) -> Any:
        noise = KeyedNoise(ROOT, 0, keys, tick)
        asked = queries(design(np.zeros((0, 4))), noise, k=len(keys), digests=digests)
        x = np.zeros((len(keys), D))
        return np.stack([asked.gradients(x, HALF / 2), asked.gradients(x, HALF / 2)])

    first = answers()
    assert (answers() == first).all() and (first[0] != first[1]).all()
    assert (answers(tick=8) != first).all()
    changed = base.copy()
    changed[3, 1] ^= np.uint64(1)
    again = answers(changed)
    assert (again[:, 3] != first[:, 3]).all()
    assert (np.delete(again, 3, axis=1) == np.delete(first, 3, axis=1)).all()
    assert (answers(base[4:9], keys=names[4:9]) == first[:, 4:9]).all()


def test_other_keys_batches_draw_no_noise_of_this_key_anew() -> None:
    rng = np.random.default_rng(7)
    rows, keys = random_rows(rng, 60), np.repeat([0, 1], 30)
    x, digests = np.zeros((2, D)), np.ones((2, 2), dtype=np.uint64)

    def answers(other: int) -> Any:
        noise = KeyedNoise(ROOT, 0, (b"a", b"b"), 7)
        asked = queries(design(rows, keys), noise, k=2, digests=digests)
        found = []
        for number in range(2):
            counts = np.array([3, other])
            batches = list(asked.batches(counts, number, HALF / 2))
            found.extend(batch.gradients(x)[0] for batch in batches[:3])
        return np.stack(found)

    assert (answers(3) == answers(9)).all()


def test_no_more_is_answered_than_is_paid_for() -> None:
    asked = queries(design(np.zeros((0, 4))))
    x = np.zeros((1, D))
    asked.counts(Fraction(1, 32))
    asked.gradients(x, Fraction(1, 2))
    with pytest.raises(WeirError, match="more than its run's budget"):
        asked.gradients(x, Fraction(1, 2))
    with pytest.raises(WeirError):
        asked.gradients(x, Fraction(0))
    for batch in asked.batches(np.array([2]), 0, Fraction(1, 32)):
        batch.gradients(x)
        with pytest.raises(WeirError, match="twice"):
            batch.gradients(x)
    asked.gradients(x, 1 - Fraction(1, 2) - Fraction(2, 32))
    with pytest.raises(WeirError):
        asked.counts(Fraction(1, 10**9))


def test_noise_that_fits_no_integer_is_refused() -> None:
    asked = queries(design(np.zeros((0, 4))), budget=PrivacyLoss("pure", 1e-9))
    with pytest.raises(ConfigError, match="iterations"):
        asked.gradients(np.zeros((1, D)), Fraction(1, 10**9))


def test_without_noise_answers_are_exact() -> None:
    rng = np.random.default_rng(8)
    rows, keys = random_rows(rng, 50), np.sort(rng.integers(0, 3, 50))
    asked = queries(design(rows, keys), k=4)
    assert (asked.counts(HALF / 2) == np.bincount(keys, minlength=4)).all()
    asked.only(np.array([True, False, True, True]))
    found = asked.gradients(np.zeros((4, D)), HALF / 2)
    assert (found[1] == 0).all() and (found[0] != 0).any() and (found[3] == 0).all()


def test_a_set_that_does_not_project_is_refused() -> None:
    from weir.dpcore.geometry.combinatorial import Permutations

    gradients = Gradients(parse_loss("squared"), 0.7, None, P, True)
    with pytest.raises(ConfigError, match="projection"):
        Problem(Permutations(2), gradients, 0.0, (0.0,) * D, 1, 10)


def test_what_earlier_slices_paid_counts() -> None:
    """A run that is cut in two has the noise and the budget of one that is not."""
    rows, x = design(random_rows(np.random.default_rng(5), 30)), np.zeros((1, D))
    keyed = KeyedNoise(ROOT, 0, (b"k",), 3)
    whole = queries(rows, keyed)
    first, second = whole.gradients(x, HALF / 2), whole.gradients(x, HALF)
    assert whole.paid == Paid(2, 3 * HALF / 2)
    cut = Queries(problem(), rows, keyed, np.ones((1, 2), np.uint64), BUDGETS[0], HALF)
    assert (cut.gradients(x, HALF / 2) == first).all()
    paid = Paid.of(cut.paid.stored)
    later = Queries(problem(), rows, keyed, np.ones((1, 2), np.uint64), BUDGETS[0], HALF, paid)
    assert (later.gradients(x, HALF) == second).all() and later.paid == whole.paid
    with pytest.raises(WeirError, match="more than its run's budget"):
        later.gradients(x, HALF)


def test_a_pass_goes_on_where_it_was_cut() -> None:
    rows, x = design(random_rows(np.random.default_rng(6), 60)), np.zeros((1, D))
    keyed, counts = KeyedNoise(ROOT, 0, (b"k",), 3), np.array([5])
    whole = [batch.gradients(x) for batch in queries(rows, keyed).batches(counts, 0, HALF)]
    first = queries(rows, keyed)
    answers = [batch.gradients(x) for _, batch in zip(range(2), first.batches(counts, 0, HALF))]  # noqa: B905
    digests = np.ones((1, 2), np.uint64)
    later = Queries(problem(), rows, keyed, digests, BUDGETS[0], HALF, first.paid)
    answers += [batch.gradients(x) for batch in later.batches(counts, 0, HALF, 2)]
    assert all((a == b).all() for a, b in zip(answers, whole, strict=True))
    assert later.paid == first.paid == Paid(1, HALF)

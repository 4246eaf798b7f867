"""Sensitivities of a user against every set of cells that the caps allow."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.contracts.patterns import most_moved, pattern, spaced
from weir.dpcore.accounting import contributions
from weir.dpcore.accounting.contributions import (
    Pattern,
    apart,
    of_distances,
    over_keys,
    shared,
    toeplitz_participation,
    tree_squares,
)


def toeplitz(c: np.ndarray) -> np.ndarray:
    size = len(c)
    return np.array([[c[i - j] if i >= j else 0.0 for j in range(size)] for i in range(size)])


def falling(rng: np.random.Generator, size: int) -> np.ndarray:
    """Coefficients c: those of a root, or any that fall."""
    if rng.random() < 0.3:
        k = np.arange(1, size, dtype=float)
        return np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))
    c = np.sort(rng.random(size))[::-1] ** float(rng.integers(1, 4))
    return np.asarray(c / c[0])


def some_pattern(rng: np.random.Generator, span: int) -> Pattern:
    spacing = int(rng.integers(1, 3))
    ticks = min(int(rng.integers(1, span + 1)), 1 + (span - 1) // spacing)
    caps = [[None, 1, 2], [None, 1, 2], [None, 2, 3]]
    per_key, keys, total = (choices[int(rng.integers(3))] for choices in caps)
    return pattern(span, ticks, int(rng.integers(1, 3)), spacing, per_key, keys, total)


def charged(c: np.ndarray, one: Pattern) -> float:
    def of_key(count: int) -> float:
        return toeplitz_participation(c, count, one.spacing, len(c)) ** 2

    return over_keys(of_key, one)


def test_over_keys_bounds_what_any_cells_move() -> None:
    rng = np.random.default_rng(1)
    tight = 0
    for case in range(400):
        span = int(rng.integers(2, 6))
        c = falling(rng, span + int(rng.integers(0, 5)))
        one = some_pattern(rng, span)
        gram = toeplitz(c).T @ toeplitz(c)
        inside = tuple(range(span))
        moved = {
            some: float(gram[np.ix_(some, some)].sum())
            for some in spaced(inside, one.key_ticks, one.spacing)
        }
        found, bound = most_moved(moved, one, inside), charged(c, one)
        assert bound >= found * (1 - 1e-12), (case, one)
        assert bound <= found * 1.24**2, (case, one)
        tight += bound <= found * (1 + 1e-9)
        if one.key_ticks == one.ticks and one.cells == one.ticks * one.keys:
            assert bound == pytest.approx(found, rel=1e-9), one
    assert tight > 300


def test_vectors_of_any_signs_never_beat_equal_ones_where_columns_agree() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        gram = toeplitz(falling(rng, 6)).T @ toeplitz(falling(rng, 6))
        gram = np.maximum(gram, gram.T)
        some = np.ix_(*[rng.choice(6, 3, replace=False)] * 2)
        best = max(
            float(np.asarray(signs) @ gram[some] @ np.asarray(signs))
            for signs in itertools.product((-1, 1), repeat=3)
        )
        assert best <= gram[some].sum() + 1e-12


@pytest.mark.parametrize(("cells", "most", "keys"), [(9, 4, None), (9, 4, 3), (200, 40, 7)])
def test_what_is_shared_out_is_bounded_where_it_is_too_much_to_look_at(
    cells: int, most: int, keys: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_key(count: int) -> float:
        return count**1.5 + (count > 2)

    exact = shared(of_key, most, cells, keys)
    monkeypatch.setattr(contributions, "MOST_WORK", 0)
    bound = shared(of_key, most, cells, keys)
    assert exact <= bound <= exact * 1.2


def test_ticks_of_a_key_that_are_not_looked_at_count_as_more() -> None:
    values = contributions._values(lambda count: float(count**2), 1000)
    true = np.arange(1001.0) ** 2
    assert (values >= true).all()
    assert (values[: contributions.FINE] == true[: contributions.FINE]).all()
    assert (values[1:] <= true[1:] * 1.05).all()
    assert values[1000] == true[1000]


@pytest.mark.slow
@pytest.mark.parametrize("span", [2, 3, 4])
@pytest.mark.parametrize("ticks", [1, 2, 3])
@pytest.mark.parametrize("spacing", [1, 2])
def test_no_contributions_are_nearer_than_said(span: int, ticks: int, spacing: int) -> None:
    ticks = min(ticks, 1 + (span - 1) // spacing)
    one = pattern(span, ticks, 1, spacing)
    nearest = np.full(4 * ticks, np.iinfo(np.int64).max)
    periods = [
        [(), *spaced(tuple(range(p * span, (p + 1) * span)), ticks, spacing)] for p in range(4)
    ]
    for sets in itertools.product(*periods):
        together = sum(sets, ())
        for first, last in itertools.combinations(range(len(together)), 2):
            distance = together[last] - together[first]
            nearest[last - first] = min(nearest[last - first], distance)
    numbers = np.flatnonzero(nearest < np.iinfo(np.int64).max)
    assert (apart(numbers, one) <= nearest[numbers]).all()
    within = numbers[numbers < ticks]
    assert (apart(within, one) == nearest[within]).all()


def test_spacing_does_not_hold_across_the_end_of_a_period() -> None:
    """Columns that meet their neighbours alone: ticks 0, 2 | 3, 5 of two periods of three."""
    c = np.asarray([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    gram = toeplitz(c).T @ toeplitz(c)
    together = np.ix_([0, 2, 3, 5], [0, 2, 3, 5])
    found = float(gram[together].sum())
    one = pattern(3, 2, 1, 2)

    def bound(lags: np.ndarray) -> float:
        return of_distances(np.asarray([2.0, *((lags == 1) * 1.0)]))

    assert bound(apart(np.arange(1, 4), one)) >= found
    assert bound(np.asarray([2, 2, 3])) < found


def test_several_periods_are_bounded_by_distances() -> None:
    rng = np.random.default_rng(3)
    worst = 1.0
    for _ in range(400):
        span, periods = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        c = falling(rng, periods * span + int(rng.integers(0, 5)))
        ticks, spacing = int(rng.integers(1, 3)), int(rng.integers(1, span + 1))
        one = pattern(span, min(ticks, 1 + (span - 1) // spacing), 1, spacing)
        gram = toeplitz(c).T @ toeplitz(c)
        sets = [
            list(spaced(tuple(range(p * span, (p + 1) * span)), one.ticks, one.spacing))
            for p in range(periods)
        ]
        found = max(
            float(gram[np.ix_(together, together)].sum())
            for chosen in itertools.product(*sets)
            for together in [sum(chosen, ())]
        )
        lags = apart(np.arange(1, periods * one.ticks), one)
        products = [
            float((c[: len(c) - d] * c[d:]).sum()) for d in [0, *lags.tolist()] if d < len(c)
        ]
        products += [0.0] * (periods * one.ticks - len(products))
        bound = of_distances(np.asarray(products))
        assert bound >= found * (1 - 1e-9)
        worst = max(worst, bound / found)
    assert 1 < worst <= 1.27**2


@pytest.mark.parametrize("even", [False, True])
def test_nodes_of_a_tree_against_brute_force(even: bool) -> None:
    """even: only nodes of even number are drawn, as in the plain tree."""
    worst = 1.0
    for height, count, spacing in itertools.product(range(1, 4), range(1, 5), (1, 2, 3)):
        if count > 1 + (2 ** (height + 1) - 1) // spacing:
            continue
        best = 0
        for ticks in spaced(tuple(range(2 ** (height + 1))), count, spacing):
            met = 0
            for level in range(height + 1):
                nodes = [t >> level for t in ticks if not (even and t >> level & 1)]
                met += sum(nodes.count(node) ** 2 for node in set(nodes))
            best = max(best, met)
        bound = sum(tree_squares(height + 1, count, spacing))
        assert bound >= best
        worst = max(worst, math.sqrt(bound / best))
    assert worst < (1.45 if even else 1.06)


def test_more_than_one_tick_a_key_is_not_one_a_period() -> None:
    one = pattern(6, 4, 3, period_keys=5)
    assert one.once() == pattern(6, 4, 3, per_key=1, period_keys=5)
    assert one.single() == pattern(6, 1, 1, period_keys=1)
    assert (one.rows(3), one.rows(3, 2), one.rows(None)) == (8, 14, None)

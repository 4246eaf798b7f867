"""Figures that add up: against dense least squares, and what it gains without bias."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates import reconcile
from weir.dpcore.estimates.reconcile import Key, KeySums, non_negative, reconciled

TREE = ((True, True), (True, False), (False, False))
CROSSED = ((True, True), (True, False), (False, True), (False, False))


def keys_of(cells: list[tuple[str, str]], groups: Any) -> list[Key]:
    keys: dict[Key, None] = {}
    for a, b in groups:
        for first, second in cells:
            keys[first if a else None, second if b else None] = None
    return list(keys)


def table(i: int, j: int) -> list[tuple[str, str]]:
    return [(f"a{x}", f"b{y}") for x, y in itertools.product(range(i), range(j))]


def matrix_of(keys: list[Key]) -> Any:
    """(M, L): which finest cells add up to each key."""
    cells = [key for key in keys if None not in key]
    rows = [[all(v in (None, w) for v, w in zip(k, c, strict=True)) for c in cells] for k in keys]
    return np.array(rows, dtype=float)


def dense(keys: list[Key], values: Any, stddev: Any) -> tuple[Any, Any]:
    """Generalised least squares of the finest cells, and the root of its variances."""
    a = matrix_of(keys)
    weight = a / stddev[:, None] ** 2
    inverse = np.linalg.inv(a.T @ weight)
    made = values @ weight @ inverse.T @ a.T
    return made, np.sqrt(np.einsum("kc,cd,kd->k", a, inverse, a))


CASES = {
    "tree": (keys_of(table(3, 4)[:-2] + [("a7", "b9")], TREE), False),
    "two": (keys_of([("a", "x"), ("a", "y"), ("a", "z")], ((True, True), (False, False))), False),
    "crossed": (keys_of(table(4, 3), CROSSED), True),
    "crossed, unequal": (keys_of(table(4, 3), CROSSED), False),
    "crossed, some": (keys_of(table(4, 3)[1:], CROSSED), False),
}


@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_generalised_least_squares(case: str, seed: int) -> None:
    keys, equal = CASES[case]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(keys)).tolist()
    keys = [keys[i] for i in order]
    stddev = np.full(len(keys), 3.0) if equal else np.exp(rng.normal(size=len(keys)))
    values = rng.normal(size=(5, len(keys))) * 10
    sums = KeySums.of(keys)
    assert (sums.parent is not None) == (case in ("tree", "two"))
    got = reconciled(sums, values, stddev)
    want, spread = dense(keys, values, stddev)
    np.testing.assert_allclose(got.values, want, atol=1e-9)
    np.testing.assert_allclose(got.stddev, spread, rtol=1e-9)
    _, equations = sums.matrix()
    np.testing.assert_allclose(got.values @ equations.T, 0, atol=1e-9)
    again = reconciled(sums, got.values, stddev).values
    np.testing.assert_allclose(again, got.values, atol=1e-9)


def test_margins_without_their_cells_add_up_too() -> None:
    keys = keys_of(table(3, 2), ((True, False), (False, True), (False, False)))
    sums = KeySums.of(keys)
    rng = np.random.default_rng(3)
    got = reconciled(sums, rng.normal(size=(4, len(keys))), np.ones(len(keys))).values
    first = [i for i, key in enumerate(keys) if key[0] is not None]
    total = keys.index((None, None))
    np.testing.assert_allclose(got[:, first].sum(axis=1), got[:, total], atol=1e-9)


def test_all_ticks_together_are_each_tick_alone() -> None:
    """With noise of one law in time: the published claim that no state is needed."""
    keys = CASES["crossed, some"][0]
    rng = np.random.default_rng(4)
    n, stddev = 4, np.exp(rng.normal(size=len(keys)))
    root = rng.normal(size=(n, n))
    a = matrix_of(keys)
    values = rng.normal(size=(n, len(keys)))
    inverse = np.linalg.inv(np.kron(np.diag(stddev**2), root @ root.T))
    both = np.kron(a, np.eye(n))
    whole = np.linalg.solve(both.T @ inverse @ both, both.T @ inverse @ values.T.ravel())
    want = (a @ whole.reshape(-1, n)).T
    np.testing.assert_allclose(reconciled(KeySums.of(keys), values, stddev).values, want, atol=1e-8)


def test_the_gain_is_small_and_known() -> None:
    """Exact: 2 keys and a total .82, a tree of 10 x 3 .86, .83 and .94, a table of 10 x 3 .83."""
    for keys, wanted in (
        (keys_of([("a", "x"), ("b", "x")], ((True, True), (False, False))), {2: 0.82, 0: 0.82}),
        (keys_of(table(10, 3), TREE), {2: 0.86, 1: 0.83, 0: 0.94}),
    ):
        got = reconciled(KeySums.of(keys), np.zeros((1, len(keys))), np.ones(len(keys))).stddev
        for named, gain in wanted.items():
            of = [i for i, key in enumerate(keys) if sum(v is not None for v in key) == named]
            np.testing.assert_allclose(got[of], gain, atol=0.006)
    keys = keys_of(table(10, 3), CROSSED)
    got = reconciled(KeySums.of(keys), np.zeros((1, len(keys))), np.ones(len(keys))).stddev
    cells = [i for i, key in enumerate(keys) if None not in key]
    np.testing.assert_allclose(got[cells], 0.83, atol=0.006)


def test_holding_the_top_total_leaves_no_bias() -> None:
    """90 keys, 80 % of them empty, noise 40: clipped one by one they add up 996 too high."""
    keys = keys_of(table(30, 3), TREE)
    rng = np.random.default_rng(2)
    truth = np.where(rng.random(90) < 0.2, rng.uniform(0, 200, 90), 0)
    a = matrix_of(keys)
    sums, exact = KeySums.of(keys), a @ truth
    values = exact + 40 * rng.normal(size=(400, len(keys)))
    got = reconciled(sums, values, np.full(len(keys), 40.0))
    held = non_negative(sums, got.values, got.stddev)
    assert (held >= 0).all()
    _, equations = sums.matrix()
    np.testing.assert_allclose(held @ equations.T, 0, atol=1e-6)
    leaves = [i for i, key in enumerate(keys) if None not in key]
    top = keys.index((None, None))
    clipped = np.maximum(got.values[:, leaves], 0).sum(axis=1) - exact[top]
    assert clipped.mean() > 800
    assert abs(held[:, top] - exact[top]).mean() < 40
    assert abs((held[:, top] - exact[top]).mean()) < 4 * 40 / 20
    error = np.sqrt(((held - exact)[:, leaves] ** 2).mean())
    assert error < 0.65 * np.sqrt(((got.values - exact)[:, leaves] ** 2).mean())
    crossed = KeySums.of(keys_of(table(4, 3), CROSSED))
    odd = reconciled(crossed, rng.normal(size=(50, 20)), np.ones(20))
    flat = non_negative(crossed, odd.values, odd.stddev)
    assert (flat >= 0).all()
    np.testing.assert_allclose(flat @ crossed.matrix()[1].T, 0, atol=1e-9)


def test_a_million_keys_of_a_tree_are_quick_and_crossed_ones_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = keys_of(table(300, 100), TREE)
    values = np.random.default_rng(5).normal(size=(2, len(keys)))
    got = reconciled(KeySums.of(keys), values, np.ones(len(keys))).values
    assert abs(got[:, [k for k in range(len(keys)) if None not in keys[k]]].sum(axis=1)
               - got[:, keys.index((None, None))]).max() < 1e-6  # fmt: skip
    monkeypatch.setattr(reconcile, "MOST_EQUATIONS", 5)
    some = keys_of(table(4, 3)[1:], CROSSED)
    with pytest.raises(ConfigError, match="each is finer than the next"):
        reconciled(KeySums.of(some), np.zeros((1, len(some))), np.ones(len(some)))
    with pytest.raises(ConfigError, match="sum of others"):
        KeySums.of([("a", "b"), ("a", "c")])

"""The stated loss holds, by replay: neighbouring streams against everything that is released.

Outputs are M v + B xi. A change of one leaf by a vector of norm Delta moves the outputs by dS (in
its direction), as does moving the units by any x with B x = dS. Against the outputs up to a tick
the smallest such x costs exactly mu = Delta / sigma * ||x||_2 for Gaussian noise, and at most
Delta / b * ||x||_1 for pure noise. Nothing here knows about nodes, levels or coefficients.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from tests.contracts.cases import BUDGET, SENSITIVITY, WHOLE, Case, cases, response
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.registry import CONTINUAL_SUMS

TICKS = 32
FEW = (0, 1, 3, 7, 8, 15, 16)


def cost(matrix, moved, norm):
    """Smallest ||x||_norm with matrix x = moved; inf if there is none."""
    matrix = matrix[:, np.abs(matrix).sum(axis=0) > 0]
    if norm == 1:
        both = np.hstack([matrix, -matrix])
        found = linprog(np.ones(both.shape[1]), A_eq=both, b_eq=moved, method="highs")
        return float(found.fun) if found.status == 0 else math.inf
    x = np.linalg.lstsq(matrix, moved, rcond=1e-12)[0]
    return float(np.sqrt((x**2).sum())) if abs(matrix @ x - moved).max() < 1e-7 else math.inf


def replayed(case: Case, mechanism, ticks: int) -> float:
    """The worst loss over records, against everything released within so many ticks."""
    dense, clean = mechanism.materialize(TICKS), response(mechanism, TICKS)
    if None not in case.overs and not hasattr(mechanism, "response"):
        before = np.eye(TICKS) - np.eye(TICKS, k=-case.overs[0])
        dense, clean = before @ dense, before @ clean
    pure = is_pure(case.kind)
    records = FEW if pure else range(TICKS)
    worst = max(
        cost(dense[: i + ticks], clean[: i + ticks, i], 1 if pure else 2)
        for i in records
        if i + ticks <= TICKS
    )
    return SENSITIVITY / mechanism.noise_scale * worst


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_stated_loss_is_never_exceeded_and_is_attained(case):
    mechanism = case.build() if case.window else case.make(TICKS)
    at = case.window or TICKS
    rounded = getattr(mechanism, "exact", None) is not None  # whose roundings are charged
    near = 1e-6 if case.name in WHOLE or rounded else 1e-9  # scales have 24 bits
    assert mechanism.loss(case.window).value <= BUDGET[mechanism.loss(at).kind]
    for ticks in {1, at, min(2 * at, TICKS)}:
        assert replayed(case, mechanism, ticks) <= mechanism.loss(ticks).value * (1 + 1e-9)
    # window_tree rounds its window up to a power of two.
    tight = getattr(CONTINUAL_SUMS[case.name], "tight", True)
    if tight and at & (at - 1) == 0 and None in case.overs:
        assert replayed(case, mechanism, at) == pytest.approx(mechanism.loss(at).value, rel=near)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_budget_is_spent_not_saved(case):
    mechanism = case.build() if case.window else case.make(TICKS)
    # sliding guarantees for ever, whatever the window.
    permanent = getattr(CONTINUAL_SUMS[case.name], "permanent", False)
    loss = mechanism.loss(None if permanent else case.window)
    assert loss.value == pytest.approx(BUDGET[loss.kind], rel=1e-6)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_the_loss_grows_with_what_is_seen(case):
    mechanism = case.build()
    values = [mechanism.loss(n).value for n in (0, 1, 2, 3, 7, 8, 9, 64, 500, None)]
    assert values[0] == 0
    assert all(a <= b for a, b in zip(values, values[1:], strict=False))


def inner_products(case: Case, mechanism, ticks: int) -> np.ndarray:
    """(n, n): inner products of what records of different ticks move, against the first outputs.

    The least expensive units x with B x = M e_i move the outputs as the leaf of tick i does.
    """
    dense, clean = mechanism.materialize(ticks), response(mechanism, ticks)
    if None not in case.overs and not hasattr(mechanism, "response"):
        before = np.eye(ticks) - np.eye(ticks, k=-case.overs[0])
        dense, clean = before @ dense, before @ clean
    moved = np.linalg.pinv(dense, rcond=1e-12) @ clean
    return moved.T @ moved


@pytest.mark.slow
@pytest.mark.parametrize("case", [c for c in cases() if not is_pure(c.kind)], ids=str)
def test_a_mechanism_says_whether_two_of_its_columns_can_point_against_each_other(case):
    """The joint sensitivity of replace_anywhere rests on it: two cells of one event change."""
    mechanism = case.build() if case.window else case.make(TICKS)
    least = min(
        float(gram.min() / gram.max())
        for ticks in (2, 5, 8, 9, 17, TICKS)
        for gram in [inner_products(case, mechanism, ticks)]
    )
    assert CONTINUAL_SUMS[case.name].signed == (least < -1e-9)

"""Running totals on a clock that ends: the factorisation, its norms, users, and measured errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.dpcore.accounting.contributions import Pattern, apart
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.continual import curves
from weir.dpcore.continual.blt import Blt
from weir.dpcore.continual.columns import (
    Products,
    between,
    contributions,
    filtered,
    knots_of,
)
from weir.dpcore.continual.ended import LONGEST, EndedSum
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.tables import ENDED, WINDOWS, EndedRow
from weir.dpcore.errors import ConfigError


def pattern_of(n: int, count: int, spacing: int) -> Pattern:
    """Contributions of a user to one key, in one period that is the whole clock."""
    return Pattern(n, n, count, spacing, 1, count, None, count)


def make(cls: Any, n: int | None, **more: Any) -> Any:
    request: dict[str, Any] = {"overs": (None,), "window": None, "pattern": None, **more}
    budget = PrivacyLoss("gdp", 1.0)
    return cls.calibrated(
        dimension=1, scales=(1.0,), sensitivity=1.0, horizon=n, budget=budget, **request
    )


def errors(mechanism: Any, n: int, over: int | None = None) -> Floats:
    """Standard deviations per Delta / mu at the ticks that have one."""
    ticks = np.arange(over or 0, n)
    return np.sqrt(mechanism.noise_scale**2 * mechanism.factor(ticks, over))


def columns(mechanism: EndedSum) -> Floats:
    """C = B^-1 M."""
    n = mechanism.horizon
    return np.linalg.solve(mechanism.materialize(n), np.tril(np.ones((n, n))))


@pytest.mark.parametrize("n", [1, 2, 5, 24, 64, 90, 300])
def test_all_columns_have_norm_one_and_no_product_is_negative(n: int) -> None:
    mechanism = make(EndedSum, n)
    c = columns(mechanism)
    assert np.abs(np.triu(c, 1)).max() < 1e-12 and (np.diag(mechanism.materialize(n)) > 0).all()
    norms = (c**2).sum(axis=0)
    assert norms.max() <= 1 + 1e-12 or norms.max() == pytest.approx(1, abs=5e-4)
    assert norms.min() > 0.999 and (c.T @ c >= 0).all()
    assert mechanism.loss(None).value <= 1 and mechanism.loss(0).value == 0
    assert np.sqrt(norms.max()) / mechanism.noise_scale <= mechanism.loss(None).value


@pytest.mark.parametrize("n", [7, 90])
@pytest.mark.parametrize("over", [None, 1, 3, 6])
def test_errors_are_those_of_the_matrix(n: int, over: int | None) -> None:
    mechanism = make(EndedSum, n, overs=(over,))
    b = mechanism.materialize(n)
    rows = b if over is None else b[over:] - b[:-over]
    ticks = np.arange(over or 0, n)
    assert mechanism.factor(ticks, over) == pytest.approx((rows**2).sum(axis=1), rel=1e-9)


@pytest.mark.parametrize(
    ("n", "worst", "mean"),
    [(64, 2.128, 2.122), (256, 2.549, 2.539), (1000, 2.978, 2.960), (4096, 3.428, 3.400),
     (1 << 14, 3.885, 3.835)],
)  # fmt: skip
def test_the_error_is_within_a_percent_of_the_least_of_any_mechanism(
    n: int, worst: float, mean: float
) -> None:
    """The table of the specification; 2.111 (64), 2.533 (256) and 2.954 (1000) bound any."""
    found = errors(make(EndedSum, n), n)
    assert found.max() == pytest.approx(worst, rel=1e-3)
    assert np.sqrt((found**2).mean()) == pytest.approx(mean, rel=1e-3)
    least = {64: 2.111, 256: 2.533, 1000: 2.954}.get(n)
    assert least is None or least <= found.max() <= 1.01 * least
    assert found.max() < 0.945 * errors(make(Blt, n), n).max()


@pytest.mark.parametrize(("over", "worst", "mean"), [(7, 3.50, 2.70), (28, 3.80, 3.15)])
def test_sliding_differences_are_worse_at_worst_and_better_on_average(
    over: int, worst: float, mean: float
) -> None:
    found = errors(make(EndedSum, 1000, overs=(over,)), 1000, over)
    assert found.max() == pytest.approx(worst, abs=0.01)
    assert np.sqrt((found**2).mean()) == pytest.approx(mean, abs=0.01)


@pytest.mark.parametrize("window", [800, 600, 500])
def test_a_window_of_half_the_clock_or_more_is_served(window: int) -> None:
    mechanism, other = (make(cls, 1000, window=window) for cls in (EndedSum, Blt))
    assert mechanism.loss(window).value == pytest.approx(1, rel=1e-6)
    assert 1 < mechanism.loss(None).value < 1.1
    assert errors(mechanism, 1000).max() < 0.97 * errors(other, 1000).max()
    c = columns(make(EndedSum, 100, window=60))
    within = max((c[i : i + 60, i] ** 2).sum() for i in range(100))
    assert within <= make(EndedSum, 100, window=60).noise_scale ** 2


# ---- users ---------------------------------------------------------------------------------------


def small_clock(case: int, rng: np.random.Generator) -> tuple[Products, Floats, Floats, int, int]:
    """Products, scales and columns of a random clock of 2 to 10 ticks, count and spacing."""
    n, count, spacing = (int(rng.integers(*ends)) for ends in ((2, 11), (1, 5), (1, 4)))
    form: Rational = WINDOWS[int(rng.integers(0, 14))]
    gains = np.exp(rng.normal(0, 0.3, n))
    products = Products(form, gains)
    r = np.sqrt(curves.scale_squares(products, None, pattern_of(n, count, spacing)))
    if case % 4 == 3:
        r = r * np.exp(rng.normal(0, 0.2, n))
    c = form.record_coefficients(n)
    lag = np.arange(n)[:, None] - np.arange(n)
    dense = np.where(lag >= 0, c[np.maximum(lag, 0)], 0) * gains[:, None] / r
    return products, r, dense, count, spacing


def sets(n: int, count: int, spacing: int) -> list[tuple[int, ...]]:
    """All ticks of up to so many contributions, with their least spacing."""
    return [
        some
        for k in range(1, count + 1)
        for some in itertools.combinations(range(n), k)
        if all(b - a >= spacing for a, b in itertools.pairwise(some))
    ]


def test_no_set_of_ticks_moves_more_than_is_charged_and_the_mutant_is_caught() -> None:
    """Brute force over every set; the mutant looks at sets of exactly the count alone."""
    rng = np.random.default_rng(1)
    mutants = 0
    for case in range(300):
        products, r, dense, count, spacing = small_clock(case, rng)
        n = products.n
        charged = contributions(products, r, spacing * np.arange(1, count), spacing)
        moved = {some: float((dense[:, list(some)].sum(1) ** 2).sum())
                 for some in sets(n, count, spacing)}  # fmt: skip
        for k in range(1, count + 1):
            worst = max(value for some, value in moved.items() if len(some) <= k)
            bound = charged[min(k, len(charged)) - 1]
            assert worst <= bound * (1 + 1e-12)
            assert bound <= 1.3 * worst
        whole = [value for some, value in moved.items() if len(some) == count]
        mutants += bool(whole) and max(whole) < max(moved.values())
    assert mutants >= 1, "some clock has less room for the whole count"


def test_several_periods_move_no_more_than_is_charged() -> None:
    rng = np.random.default_rng(2)
    for _ in range(60):
        span, periods = int(rng.integers(2, 5)), int(rng.integers(2, 4))
        n, spacing = span * periods, int(rng.integers(1, 3))
        count = min(int(rng.integers(1, 3)), 1 + (span - 1) // spacing)
        form, gains = WINDOWS[int(rng.integers(0, 12))], np.exp(rng.normal(0, 0.2, n))
        products = Products(form, gains)
        one = Pattern(span, span, count, spacing, 1, count, None, count)
        r = np.sqrt(curves.scale_squares(products, None, one))
        c, lag = form.record_coefficients(n), np.arange(n)[:, None] - np.arange(n)
        dense = np.where(lag >= 0, c[np.maximum(lag, 0)], 0) * gains[:, None] / r
        lags = apart(np.arange(1, count * periods), one)
        charged = float(contributions(products, r, lags, 1)[-1])
        each = [[(), *sets(span, count, spacing)] for _ in range(periods)]
        for some in itertools.product(*each):
            ticks = [p * span + tick for p, own in enumerate(some) for tick in own]
            assert (dense[:, ticks].sum(1) ** 2).sum() <= charged * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "count", "spacing", "worst"),
    [(90, 4, 1, 7.84), (90, 30, 1, 43.9), (90, 4, 7, 6.50), (365, 12, 1, 26.0),
     (1000, 4, 1, 10.87), (1000, 30, 1, 69.9), (1000, 30, 30, 40.4), (4096, 30, 1, 84.7)],
)  # fmt: skip
def test_the_errors_of_users_are_those_of_the_specification(
    n: int, count: int, spacing: int, worst: float
) -> None:
    one = pattern_of(n, count, spacing)
    mechanism, other = (make(cls, n, pattern=one) for cls in (EndedSum, Blt))
    found = errors(mechanism, n).max()
    assert mechanism.loss(None).value == pytest.approx(1, rel=1e-6)
    assert 0.95 * worst < found <= 1.01 * worst
    assert found < errors(other, n).max()


USERS = tuple(row for row in ENDED if row.contributions > 1)


@pytest.mark.parametrize("row", USERS, ids=str)
def test_no_set_of_ticks_moves_more_than_is_charged_under_any_row_of_the_table(
    row: EndedRow,
) -> None:
    """Brute force over every set, on clocks that are short enough for it."""
    for n, count, spacing in ((9, 3, 1), (10, 3, 3), (10, 2, 7)):
        parts = curves.fitted(row.form, row.gains, n, None, pattern_of(n, count, spacing))
        form, knots, gains, scales = parts
        c, lag = form.record_coefficients(n), np.arange(n)[:, None] - np.arange(n)
        e, r = (between(knots, values, np.arange(n)) for values in (gains, scales))
        dense = np.where(lag >= 0, c[np.maximum(lag, 0)], 0) * e[:, None] / r
        charged = curves.units_of(
            form, n, knots, gains, scales, None, pattern_of(n, count, spacing)
        )
        moved = max((dense[:, list(some)].sum(1) ** 2).sum() for some in sets(n, count, spacing))
        assert moved <= charged <= 1.3 * moved


# ---- what it refuses, and helpers ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "more", "named"),
    [
        (None, {}, "clock.end"),
        (LONGEST + 1, {}, "clock.end"),
        (100, {"window": 49}, "privacy.protect_for"),
        (100, {"window": 60, "pattern": Pattern(7, 7, 2, 1, 1, 2, None, 2)}, "privacy.protect_for"),
        (1 << 20, {"pattern": pattern_of(1 << 20, 400, 1)}, "privacy.contributions.ticks"),
    ],
)
def test_what_it_cannot_serve_is_refused(n: int | None, more: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make(EndedSum, n, **more)
    assert refused.value.field == named


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), st.floats(0, 1))
def test_a_filter_is_its_recursion(values: list[float], ratio: float) -> None:
    expected, before = [], 0.0
    for value in values:
        before = value + ratio * before
        expected.append(before)
    assert filtered(ratio, np.asarray(values)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000, 1 << 20])
def test_knots_hold_both_ends(n: int) -> None:
    knots = knots_of(n)
    assert knots[0] == 0 and knots[-1] == n - 1 and len(knots) <= 450
    values = tuple(float(knot) for knot in knots)
    ticks = np.arange(min(n, 5000))
    assert between(knots, values, ticks) == pytest.approx(ticks)
    assert between(knots, values, np.array([n + 5])) == n - 1

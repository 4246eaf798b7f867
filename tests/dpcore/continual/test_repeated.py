"""Closed forms of what several contributions move, against sums that are written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.contracts.patterns import pattern, spaced
from weir.dpcore.accounting.calibrate import gdp_epsilon, gdp_mu
from weir.dpcore.accounting.contributions import of_distances, toeplitz_participation
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual import blt, sliding
from weir.dpcore.continual.blt import FOREVER, Blt
from weir.dpcore.continual.independent import Independent
from weir.dpcore.continual.rational import Rational, repeated_squares
from weir.dpcore.continual.sliding import SlidingSum, envelope, products


def test_the_closed_form_is_the_sum_over_rows() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        form, _, _ = blt.chosen(int(rng.integers(1, 400)), None)
        count, spacing, rows = (int(rng.integers(1, most)) for most in (40, 30, 800))
        c = form.record_coefficients(rows)
        dense = toeplitz_participation(c, count, spacing, rows) ** 2
        assert float(repeated_squares(form, count, spacing, rows)) == pytest.approx(dense, rel=1e-9)


@pytest.mark.slow
def test_the_closed_form_holds_without_end() -> None:
    form, count, _ = blt.chosen(None, None)
    assert count == FOREVER
    one = repeated_squares(form, 1, 1, FOREVER)
    assert one == pytest.approx(form.record_squares(FOREVER))
    rows = 1 << 21
    c = form.record_coefficients(rows)
    dense = toeplitz_participation(c, 300, 5, rows) ** 2
    assert float(repeated_squares(form, 300, 5, rows)) == pytest.approx(dense, rel=1e-9)
    # What contributions of 65,535 ticks move lies between as many apart and as many at once.
    many = repeated_squares(form, 65_535, 7, FOREVER) / one
    assert 65_535 < many < 65_535**2


@pytest.mark.parametrize("over", [2, 3, 7, 24, 168])
def test_products_of_signed_columns_are_sums_over_rows(over: int) -> None:
    form = sliding.chosen(over, None)
    rows = max(60 * over, 4000)
    c = form.record_coefficients(rows)
    e = c.copy()
    e[over:] -= c[: rows - over]
    lags = np.arange(4 * over)
    dense = np.array([(e[: rows - d] * e[d:]).sum() for d in lags])
    assert np.abs(products(form, over, lags) - dense).max() <= 1e-12 * dense[0]
    most = np.maximum.accumulate(np.abs(dense)[::-1])[::-1]
    bound = envelope(form, over, lags)
    assert (bound >= most).all()
    assert (bound[:over] <= most[:over] + 1e-9 * dense[0]).all()


def test_a_window_longer_than_what_is_looked_at_counts_as_all_alike() -> None:
    form = Rational((), ())
    assert envelope(form, 1 << 20, np.arange(4)).tolist() == pytest.approx([1 << 20] * 4)


def test_contributions_of_any_signs_to_sliding_sums_are_bounded() -> None:
    rng = np.random.default_rng(4)
    worst = 1.0
    for _ in range(100):
        over, span = int(rng.integers(2, 7)), int(rng.integers(2, 7))
        form = sliding.chosen(over, None)
        rows = 400
        c = form.record_coefficients(rows)
        e = c.copy()
        e[over:] -= c[: rows - over]
        gram = np.array(
            [
                [float((e[: rows - abs(a - b)] * e[abs(a - b) :]).sum()) for a in range(span)]
                for b in range(span)
            ]
        )
        spacing = int(rng.integers(1, 3))
        count = min(int(rng.integers(1, 4)), 1 + (span - 1) // spacing)
        best = max(
            float(np.asarray(signs) @ gram[np.ix_(some, some)] @ np.asarray(signs))
            for some in spaced(tuple(range(span)), count, spacing)
            for signs in itertools.product((-1, 1), repeat=len(some))
        )
        bound = of_distances(envelope(form, over, np.arange(count) * spacing))
        assert bound >= best * (1 - 1e-9)
        worst = max(worst, bound / best)
    assert worst <= 1.22**2


DAY = {"dimension": 1, "scales": (1.0,), "sensitivity": 1.0, "horizon": None}
BUDGET = PrivacyLoss("gdp", gdp_mu(1.0, 1e-6))
FOUR = pattern(24, 4, 1)


@pytest.mark.parametrize(
    ("mechanism", "epsilons"),
    [
        (
            Blt.calibrated(**DAY, overs=(None,), window=720, budget=BUDGET, pattern=FOUR),
            (2.0, 7.1, 38),
        ),
        (
            Blt.calibrated(**DAY, overs=(None,), window=24, budget=BUDGET, pattern=FOUR),
            (2.1, 10, 132),
        ),
        (
            SlidingSum.calibrated(**DAY, overs=(24,), window=24, budget=BUDGET, pattern=FOUR),
            (1.9, 4.7, 12),
        ),
        (
            Independent.calibrated(**DAY, overs=(1,), window=24, budget=BUDGET, pattern=FOUR),
            (1.45, 2.9, 6.6),
        ),
    ],
    ids=["30-days", "1-day", "sliding", "independent"],
)
def test_what_days_of_a_user_cost_together(mechanism, epsilons) -> None:
    """Epsilon of 2, 7 and 30 days in a row where that of one is 1."""
    window = {"blt": 720 if epsilons[2] == 38 else 24}.get(mechanism.name)
    assert mechanism.loss(window).epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    for days, epsilon in zip((2, 7, 30), epsilons, strict=True):
        mu = mechanism.loss_of_periods(days, window, days).value
        assert gdp_epsilon(mu, 1e-6) == pytest.approx(epsilon, rel=0.04), days


def test_days_far_apart_can_cost_more() -> None:
    """Days 0 and 29: at least 2.92, where two in a row cost 2.1."""
    mechanism = Blt.calibrated(**DAY, overs=(None,), window=24, budget=BUDGET, pattern=FOUR)
    near = gdp_epsilon(mechanism.loss_of_periods(2, 24, 2).value, 1e-6)
    far = gdp_epsilon(mechanism.loss_of_periods(2, 24, 30).value, 1e-6)
    assert near == pytest.approx(2.1, abs=0.05)
    assert far >= 2.92

"""Lower bounds are below the truth as often as they say, and find what is there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from weir.dpcore.accounting.calibrate import gdp_epsilon
from weir.dpcore.audit.distinguish import (
    Counts,
    best_cut,
    curve,
    epsilon_bound,
    epsilon_of_mu,
    mu_bound,
    separation,
)
from weir.dpcore.errors import WeirError
from weir.dpcore.neighbours import Family, family_of, merged

MU, TRIALS, TIMES = 1.0, 2000, 400


def worlds(seed: int, mu: float = MU) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(mu, 1, TRIALS), rng.normal(0, 1, TRIALS)


def test_bounds_of_mu_hold_in_nineteen_of_twenty_and_are_near() -> None:
    by_counts, by_means = [], []
    for seed in range(TIMES):
        ones, others = worlds(seed)
        by_counts.append(mu_bound(Counts.of(ones, others, MU / 2)))
        by_means.append(separation(ones, others)[1])
    assert np.mean(np.array(by_counts) > MU) <= 0.05
    assert 0.02 < np.mean(np.array(by_means) > MU) <= 0.085  # exact: neither vain nor loose
    assert np.mean(by_counts) > 0.85 * MU and np.mean(by_means) > 0.92 * MU


def test_a_bound_of_a_larger_mu_would_be_broken() -> None:
    ones, others = worlds(1, 1.4 * MU)
    assert mu_bound(Counts.of(ones, others, 0.7), 1e-6) > MU
    assert separation(ones, others, 1e-6)[1] > MU


def test_bounds_of_epsilon_hold_and_read_a_test_both_ways() -> None:
    """Randomised response of epsilon 1: no test proves more."""
    share, over = math.e / (1 + math.e), 0
    for seed in range(TIMES):
        rng = np.random.default_rng(seed)
        hits, alarms = rng.binomial(TRIALS, share), rng.binomial(TRIALS, 1 - share)
        found = epsilon_bound(Counts(hits, TRIALS, alarms, TRIALS), 0.0)
        over += found > 1
        assert found > 0.7
    assert over <= 0.05 * TIMES
    rare = Counts(TRIALS, TRIALS, TRIALS - 300, TRIALS)  # says little of hits, much of the others
    assert epsilon_bound(rare, 0.01) > 2


def test_epsilon_of_mu_is_that_of_the_gaussian_law_from_below() -> None:
    for mu in (0.1, 0.24, 1.0, 3.0):
        for delta in (1e-6, 1e-3):
            found = epsilon_of_mu(mu, delta)
            assert found <= gdp_epsilon(mu, delta)
            assert found == pytest.approx(gdp_epsilon(mu, delta), rel=1e-6)
    assert epsilon_of_mu(1e-9, 0.5) == 0.0
    assert 1e11 < epsilon_of_mu(1e6, 1e-6) == epsilon_of_mu(math.inf, 1e-6) < math.inf


def test_a_cut_and_a_curve_are_those_of_normals() -> None:
    assert best_cut(2.0, 1e-3, 5000) > 1.5
    alarms, hits = curve(*worlds(3))
    assert np.abs(hits - norm.sf(norm.isf(alarms) - MU))[10:-10].max() < 0.05


def test_nothing_is_proven_of_equal_worlds() -> None:
    ones, others = worlds(5, 0.0)
    assert mu_bound(Counts.of(ones, others, 0.0), 1e-4) == 0.0
    assert separation(np.ones(5), np.ones(5)) == (0.0, 0.0)
    assert separation(np.ones(5), np.zeros(5))[1] == math.inf


def test_a_family_names_ticks_on_both_sides_of_boundaries() -> None:
    both = Family(("first", "last", "window"), "corners", "because")
    assert both.ticks(10, 4) == (0, 3, 4, 7, 8, 9)
    assert both.ticks(3, None) == (0, 2)
    assert {7, 8, 15, 16} <= set(Family(("powers",), "corners", "because").ticks(20, None))
    assert merged([both, Family(("powers",), "canary", "too")]).values == "canary"


def test_what_states_no_family_is_refused() -> None:
    with pytest.raises(WeirError, match="int does not state neighbours"):
        family_of(int)
    with pytest.raises(WeirError, match="needs places"):
        Family((), "corners", "because")

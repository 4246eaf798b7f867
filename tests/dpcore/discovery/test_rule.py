"""Thresholds: their formulas, and that noise exceeds them as seldom as guaranteed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.dpcore.discovery.world import DAY, program_of, rule_of
from weir.dpcore.discovery.rule import reach, rounded_up
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.users.unit import Periods

TICKS = 24


def test_thresholds_of_gaussian_noise() -> None:
    """n0 + sd_t Q^-1(delta / (N S)), half a step more, up to the next whole step."""
    program = program_of("blt")
    rule = rule_of(program, TICKS, per=8, min_users=3, delta=1e-7, touched=5)
    mechanism = rule.mechanism
    b = mechanism.form.noise_coefficients(8)
    sd = mechanism.noise_scale * mechanism.scales[0] * np.sqrt(np.cumsum(b * b))
    exact = 3 * rule.step + sd * stats.norm.isf(1e-7 / (5 * 8)) + 0.5
    for start in (0, 8, 16):
        found = rule.thresholds(start, start + 8)
        assert (found >= exact).all() and (found <= 1 + exact * (1 + 2.0**-15)).all()
        np.testing.assert_array_equal(found[3:6], rule.thresholds(start + 3, start + 6))


def test_thresholds_without_an_end_of_the_period() -> None:
    """Shares 1 / ((t + 1) (t + 2)) of delta: their sum is one, and they reach any tick."""
    program = program_of("blt")
    rule = replace(
        rule_of(program), periods=Periods(replace(rule_of(program).periods.clock, end=None), None)
    )
    ages = np.arange(100_000)
    shares = rule.chances(ages) * rule.touched / rule.delta
    assert shares[0] == 0.5 and math.isclose(shares.sum(), 1 - 1 / (len(ages) + 1))
    factors = {10**3: 8.4, 10**6: 9.9, 10**9: 11.2}
    few = replace(rule, touched=32, delta=5e-10)
    for age, factor in factors.items():
        assert abs(stats.norm.isf(few.chances(np.array([age]))[0]) - factor) < 0.06


def test_the_period_of_a_tick_and_its_edges() -> None:
    rule = rule_of(program_of("blt"), per=8)
    assert rule.edges(0, 24) == (8, 16) and rule.edges(8, 16) == () and rule.edges(7, 9) == (8,)
    assert [rule.start(tick) for tick in (0, 7, 8, 23)] == [0, 0, 8, 16]
    assert rule_of(program_of("blt"), per=None).edges(0, 24) == ()


KINDS = [
    ("blt", "gaussian"),
    ("toeplitz", "gaussian"),
    ("independent", "gaussian"),
    ("tree", "gaussian"),
    ("tree", "discrete_gaussian"),
    ("hybrid", "discrete_gaussian"),
    ("blt", "discrete_gaussian"),
    ("ended", "discrete_gaussian"),
    ("window_tree", "gaussian"),
    ("merging_tree", "gaussian"),
    ("merging_tree", "k_norm"),
    ("hybrid", "k_norm"),
    ("hybrid", "laplace"),
]
KEYS, BIRTH = 40_000, 5


def drawn(mechanism, birth: int):
    """(T, KEYS) noise of running totals of keys whose noise begins at a tick."""
    root = RootKey.derive(bytes(range(32)), "tail", bytes(32))
    noise = KeyedNoise(root, 0, [b"%d" % i for i in range(KEYS)], birth)
    leaves = np.zeros((TICKS - birth, KEYS, mechanism.dimension), dtype=np.int64)
    _, out = mechanism.step(mechanism.init(KEYS), leaves, noise)
    return out[mechanism.overs.index(None)][:, :, 0]


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.05, 0.004])
@pytest.mark.parametrize(("mechanism", "noise"), KINDS)
def test_noise_exceeds_its_reach_as_seldom_as_promised(mechanism, noise, chance) -> None:
    """Whenever it begins; and Gaussian noise that ages nearly as often, so the bound is no idle
    one."""
    sums = program_of(mechanism, noise, TICKS).parts[0].mechanism
    for birth in (0, BIRTH):
        ages = np.arange(TICKS - birth)
        where = ages if sums.ages else ages + birth
        bars = reach(sums, 0, where, np.full(len(ages), chance))
        share = (drawn(sums, birth) >= bars[:, None]).mean(axis=1)
        error = 4.5 * math.sqrt(chance / KEYS)
        assert (share <= chance + error).all()
        if sums.ages and noise == "gaussian":
            assert (share >= chance - error).all()
    less = replace(sums, noise_scale=sums.noise_scale * 0.4)
    low = reach(less, 0, where, np.full(len(ages), chance))
    assert (drawn(sums, BIRTH) >= low[:, None]).mean() > chance + error, "less noise is seen"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["blt", "ended"])
def test_the_rounding_of_exact_noise_that_is_small_is_within_reach(mechanism: str) -> None:
    """A quarter of a step: most of what exceeds half a step is rounded up to a whole one."""
    usual = program_of(mechanism, "discrete_gaussian", TICKS).parts[0].mechanism
    small = float(usual.stddev(np.arange(1), None)[0, 0])
    sums = replace(usual, noise_scale=usual.noise_scale / small / 4)
    ticks, chance = np.arange(1), np.full(1, 1e-3)
    noise = drawn(sums, 0)[:1]
    assert (noise >= reach(sums, 0, ticks, chance)).mean() < 1e-3 + 4.5 * math.sqrt(1e-3 / KEYS)
    assert (noise >= 1).mean() > 0.01, "a rounding that is left out would be seen"


@pytest.mark.slow
def test_early_rows_have_delta_together() -> None:
    """All ticks of all keys that a user is alone at: brute force, per period and without end."""
    program = program_of("blt")
    for per in (8, None):
        rule = rule_of(program, TICKS, per, delta=0.05, touched=3)
        ends = 8 if per else TICKS
        share = drawn(rule.mechanism, 0)[:ends] >= rule.thresholds(0, ends)[:, None] - rule.users
        total = 3 * share.mean(axis=1).sum()
        assert 0.04 < total < 0.05 + 4.5 * 3 * math.sqrt(0.05 / KEYS)


def test_rounding_up_keeps_few_bits() -> None:
    values = np.array([1e-30, 0.1, 1.0, math.pi * 1e9])
    found = rounded_up(values)
    assert (found >= values).all() and (found <= values * (1 + 2.0**-22)).all()
    for value in found.tolist():
        mantissa, _ = math.frexp(value)
        assert (mantissa * 2**24).is_integer()


assert DAY == 24 * 3600 * 10**6

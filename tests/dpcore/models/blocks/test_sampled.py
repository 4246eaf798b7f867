"""Fits on secret samples: what the printed form gives away, and what the corrected one costs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.level import Level, amplified, sampled_level
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.kit.loss import Logistic
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig

ROOT = RootKey.derive(bytes(range(32)), "samples", bytes(32))
OBJECTIVE = Objective(Logistic(), 1, False, 1.0, 0.1)


def laplace(x: Any, centre: Any, scale: float) -> Any:
    return np.exp(-np.abs(x - centre) / scale) / (2 * scale)


def worst(one: Any, two: Any, weights: Any, scale: float) -> float:
    """Largest log ratio of two mixtures of Laplace laws: weights[i] at one[i], and at two[i]."""
    points = np.linspace(-4, 4, 4001)[:, None]
    first = (laplace(points, one, scale) * weights).sum(axis=1)
    second = (laplace(points, two, scale) * weights).sum(axis=1)
    return float(np.abs(np.log(first / second)).max())


def test_the_printed_form_is_not_private_and_the_corrected_one_is() -> None:
    """A loss -z w of one number, |z| <= 1: L = 1, and a fit of n rows is mean(z) / (2 lambda).

    All of 256 rows are -1, or one is +1. As printed (B = 1, scale 2^k = 256): each row is
    drawn with probability 1/256, and noise has scale 4 L / (lambda 2^k B eps), for eps / 2.
    """
    strength, n, epsilon = 0.5, 256, 1.0
    sizes = np.arange(n)  # others that are drawn
    chance = stats.binom(n - 1, 1 / n).pmf(sizes)
    others = np.where(sizes > 0, -1.0, 0.0)  # their mean
    inside = (-sizes + 1.0) / (sizes + 1)  # with the row, where it is +1
    weights = np.concatenate([chance / n, chance * (1 - 1 / n)])
    one = np.concatenate([np.full(n, -1.0), others]) / (2 * strength)
    two = np.concatenate([inside, others]) / (2 * strength)
    printed = 4 / (strength * n * epsilon)
    assert worst(one, two, weights, printed) > 5 * epsilon

    for m, share in ((1, 1.0), (64, 1.0), (128, 0.1), (256, 1.0)):
        inner = math.log1p(n / m * math.expm1(share))
        scale = 1 / (strength * m) / inner
        mean = np.array([-1.0, (2 - m) / m])
        found = worst(
            np.array([-1.0, -1.0]) / (2 * strength),
            np.array([mean[0], mean[1]]) / (2 * strength),
            np.array([1 - m / n, m / n]),
            scale,
        )
        assert 0.9 * share < found <= share * (1 + 1e-9)  # and no more noise than it takes
        assert amplified(inner, m / n) == pytest.approx(share)


def level(rows: int = 40, sample: int = 10) -> Level:
    return sampled_level(OBJECTIVE, 1, rows, sample, PrivacyLoss("pure", 2.0), Fraction(1, 4))


def test_a_fit_costs_its_share_amplified() -> None:
    made = level()
    assert 0.499 < made.loss.value <= 0.5 and made.loss.kind == "pure"
    run = made.noise.sensitivity / made.noise.scale
    assert run > 1.2 and made.loss.value == pytest.approx(math.log1p(math.expm1(run) / 4))
    assert made.divisor == 10 and made.of == 40
    assert made.noise.moved >= OBJECTIVE.moves(10.0)
    assert float(made.cost) == made.loss.value
    assert made.canonical()["of"] == 40


def test_a_sample_has_exactly_m_rows_each_as_likely_and_is_fresh_for_each_fit() -> None:
    made, n = level(), 3000
    keys = tuple(f"{i}".encode() for i in range(n))
    noise = KeyedNoise(ROOT, 0, keys, 0)
    digest = np.array([3, 4], dtype=np.uint64)
    drawn = np.array(
        [made.sample(noise.at(0, slice(i, i + 1)), label(0, 5), digest) for i in range(n)]
    )
    assert (drawn.sum(axis=1) == 10).all()
    expected = n * 10 / 40
    spread = stats.chi2(39)
    statistic = ((drawn.sum(axis=0) - expected) ** 2).sum() / (expected * 0.75) * 39 / 40
    assert spread.sf(statistic) > 1e-3
    biased = drawn.copy()
    biased[:300, 0] = True
    found = ((biased.sum(axis=0) - expected) ** 2).sum() / (expected * 0.75) * 39 / 40
    assert spread.sf(found) < 1e-6
    pairs = drawn[:, :2].all(axis=1).mean()
    assert abs(pairs - 10 * 9 / (40 * 39)) < 0.02
    one = noise.at(0, slice(0, 1))
    again = made.sample(one, label(0, 5), digest)
    assert (again == drawn[0]).all()
    for labels, other in ((label(1, 5), digest), (label(0, 6), digest),
                          (label(0, 5), digest + np.uint64(1))):  # fmt: skip
        assert (made.sample(one, labels, other) != drawn[0]).any()


CONFIG = """
name: sampled
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h}}
privacy: {{epsilon: 2.0, delta: {delta}, protect_for: all}}
expect: {{events: 5}}
model: {{algorithm: erm.sampled, features: [u], target: y, ranges: {{u: [0, 1], y: [0, 1]}},
  block: {block}, sample: 0.1}}
{more}
"""


def test_the_plan_keeps_its_budget_and_says_no_to_what_cannot_be_sampled() -> None:
    made = Plan.from_yaml(CONFIG.format(delta="1e-6", block=25, more=""))
    loss = made.program.loss(None)
    assert loss.kind == "pure" and 1.999 < loss.value <= 2
    levels: Any = made.program.levels  # type: ignore[attr-defined]
    assert [(one.of, one.divisor) for one in levels[:3]] == [(25, 3), (50, 5), (100, 10)]
    for text in (
        CONFIG.format(delta="0.0", block="7h", more=""),
        CONFIG.format(delta="1e-6", block=25, more="mechanism: {noise: gaussian}"),
    ):
        with pytest.raises(ConfigError, match=r"model\.block|mechanism\.noise"):
            Plan.from_config(PlanConfig.from_yaml(text))

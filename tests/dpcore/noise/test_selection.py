from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.selection import select


@pytest.mark.slow
def test_gumbel(draw):
    sample = draw("gumbel", 4).reshape(-1)
    assert stats.kstest(sample, "gumbel_r").pvalue > 1e-3
    for wrong in (1.05, 0.95):
        assert stats.kstest(sample * wrong, "gumbel_r").pvalue < 1e-9


@pytest.mark.slow
def test_laplace(draw):
    sample = draw("laplace", 4).reshape(-1)
    assert stats.kstest(sample, "laplace").pvalue > 1e-3
    for wrong in (1.05, 0.95):
        assert stats.kstest(sample * wrong, "laplace").pvalue < 1e-6
    assert abs(np.mean(sample > 0) - 0.5) < 4 * 0.5 / np.sqrt(sample.size)


def test_laplace_selection_keeps_what_is_said_of_it(draw):
    """Every score moves by D / 2 against every other: no choice is e^(D / b) times likelier."""
    scale, moved = 1.0, 1.0
    noise = draw("laplace", 4, rows=40).reshape(-1, 4)
    scores = np.array([0.0, 0.2, 0.4, 0.9])
    for which in range(4):
        change = np.full(4, moved / 2)
        change[which] = -moved / 2
        counts = [
            np.bincount(select(one, scale, noise), minlength=4)[which]
            for one in (scores, scores + change)
        ]
        ratio = np.log(counts[1] / counts[0])
        assert 0.4 < ratio < moved / scale + 4 * np.sqrt(1 / counts[0] + 1 / counts[1])


def test_choices_follow_the_exponential_mechanism(draw):
    scores, scale = np.array([0.0, 1.0, 2.5, 0.3]), 0.8
    chosen = select(scores, scale, draw("gumbel", 4, rows=40)).reshape(-1)
    counts = np.bincount(chosen, minlength=4)

    def p_value(b: float) -> float:
        weights = np.exp(-scores / b)
        return float(stats.chisquare(counts, counts.sum() * weights / weights.sum()).pvalue)

    assert p_value(scale) > 1e-3
    assert p_value(scale * 1.05) < 1e-4
    assert p_value(scale * 0.95) < 1e-4


def test_without_noise_the_best_wins():
    assert select(np.array([[3.0, 1.0], [0.0, 0.0]]), 1.0, np.zeros((2, 2))).tolist() == [1, 0]


def test_utility_bound(draw):
    scores = np.linspace(0, 3, 16)
    chosen = select(scores, 0.5, draw("gumbel", 16, rows=10))
    assert scores[chosen].mean() <= 0.5 * np.log(16)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_scale_must_be_positive(scale):
    with pytest.raises(ConfigError, match="scale"):
        select(np.zeros(2), scale, np.zeros(2))

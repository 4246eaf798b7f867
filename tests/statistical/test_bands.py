"""Margins of means and variances hold the truth about 95 times in 100."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audit.verdict import tampered
from tests.audit.world import make
from tests.statistical.samples import background, released, truth

RATIOS = """
  m: {mean: b, clip: [2, 6], over: %(over)s}
  v: {variance: c, clip: [0, 4], over: %(over)s}
  n: {count: events, over: %(over)s}
"""
KEYS, EVENTS, TICKS = 700, 400, 10


def scores(
    mechanism: str, noise: str, over: str, wrong: float = 1.0
) -> dict[tuple[str, int | None], np.ndarray]:
    """Output and over -> errors over stated stddev at the last tick: (K,)."""
    delta = 0.0 if noise == "k_norm" else 1e-4
    plan = make(mechanism, noise, over=over, keys=KEYS, ticks=TICKS, epsilon=20.0, delta=delta,
                aggregates=RATIOS)  # fmt: skip
    events = background(plan, EVENTS)
    program = tampered(plan.program, noise_scale=lambda scale: wrong * scale)
    runs, exact = released(plan, events, program=program), truth(plan, events)
    found = {}
    for i, release in enumerate(exact.released):
        drawn = np.stack([run.released[i].value[-1, 0, 0] for run in runs])
        stated = np.stack([run.released[i].stddev[-1, 0, 0] for run in runs])  # type: ignore[index]
        found[release.name, release.over] = (drawn - release.value[-1, 0, 0]) / stated * wrong
    return found


@pytest.mark.parametrize(
    ("mechanism", "noise", "over"),
    [
        ("blt", "gaussian", "[all, 6]"),
        ("separate", "gaussian", "[all, 6]"),
        ("sliding", "gaussian", "6"),
        ("tree", "discrete_gaussian", "[all, 6]"),
        ("tree", "k_norm", "[all, 6]"),
    ],
)
def test_bands_cover(mechanism: str, noise: str, over: str) -> None:
    for name, score in scores(mechanism, noise, over).items():
        covered = (abs(score) < 1.96).mean()
        # 700 keys: one standard error is 0.8 %; counts of discrete noise are a few whole numbers,
        # and of single K-norm numbers 93.75 % lie within 1.96 standard deviations.
        least = {"discrete_gaussian": 0.9, "k_norm": 0.9125}.get(noise, 0.925)
        assert least < covered < 0.975, (name, covered)
        assert 0.9 < score.std() < 1.1, (name, score.std())
        assert abs(score.mean()) < 0.2, (name, score.mean())


def test_a_wrong_scale_shows_in_the_bands() -> None:
    """Twice the noise that is stated: a third of the truths fall outside."""
    for name, score in scores("blt", "gaussian", "all", wrong=2.0).items():
        assert (abs(score) < 1.96).mean() < 0.8, name


def test_few_events_make_wide_bands_never_wild_values() -> None:
    """A mean of nothing: the divisor's floor keeps values in the clip, margins in its width."""
    plan = make("blt", keys=500, ticks=TICKS, epsilon=0.1, aggregates=RATIOS, over="all")
    runs = released(plan, background(plan, 1))
    for i, (low, high, widest) in enumerate(((2.0, 6.0, 4.0), (0.0, 4.0, 4.0))):
        values = np.stack([run.released[i].value for run in runs])
        widths = np.stack([run.released[i].stddev for run in runs])  # type: ignore[misc]
        assert values.min() >= low and values.max() <= high
        assert (widths > 0).all() and widths.max() <= widest

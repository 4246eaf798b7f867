"""From trials to numbers: empirical mu, and a lower confidence bound on epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, norm

from dpcore.noise.silent import NoNoise
from tests.audit.world import Neighbours, World

MAY_ERR = 1e-4
"""Probability with which one Clopper-Pearson bound may be wrong."""


@dataclass(frozen=True)
class Verdict:
    """What an attack measured.

    Attributes:
      claimed: mu that the plan's loss allows (sqrt(2 rho) where it counts in rho).
      exact: mu of the attack from the public numbers alone.
      measured: separation of the means over the pooled standard deviation. error: its standard
        error.
      epsilon: Clopper-Pearson lower bound at the plan's delta.
    """

    claimed: float
    exact: float
    measured: float
    error: float
    epsilon: float

    def violated(self) -> bool:
        """More than the claim, beyond chance (4 standard errors)."""
        return self.measured > self.claimed + 4 * self.error


def claimed_mu(world: World, span: int | None) -> float:
    """mu of the plan's loss against what is released within ``span`` ticks."""
    loss = world.plan.program.loss(span)
    assert loss.kind != "pure"
    return loss.value if loss.kind == "gdp" else math.sqrt(2 * loss.value)


def audit(world: World, pair: Neighbours, span: int, seed: int = 1) -> Verdict:
    """Runs the attack on both neighbours, with secrets of their own."""
    weights, exact = world.attack(pair, span)
    runs = []
    for side, placed in enumerate((pair.here, pair.there)):
        events = world.events(placed, pair.slots)
        runs.append(world.statistic(world.sums(events, 2 * seed + side), weights))
    measured, error = separation(*runs)
    clean = world.statistic(
        world.sums(world.events(pair.there, pair.slots), 0, NoNoise(0)), weights
    )[0]
    # In standard deviations the means are exact and 0: the best threshold is public.
    delta = world.plan.guarantee.delta
    one, other = ((run - clean) / exact for run in runs)
    cut = threshold(exact, delta, one.size)
    low = max(
        epsilon_bound((one > cut), (other > cut), delta),
        epsilon_bound((other < exact - cut), (one < exact - cut), delta),
    )
    return Verdict(claimed_mu(world, span), exact, measured, error, low)


def separation(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Difference of the means in pooled standard deviations, and its standard error."""
    spread = math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / 2)
    size = float(abs(one.mean() - other.mean()) / spread)
    return size, math.sqrt(2 / one.size + size**2 / (4 * one.size))


def threshold(mu: float, delta: float, trials: int) -> float:
    """Where the bound is expected to be best, normals of means mu and 0; decided before any run."""
    cuts = np.linspace(0, mu + 3, 301)
    hits = np.rint(trials * norm.sf(cuts - mu)).astype(int)
    misses = np.rint(trials * norm.sf(cuts)).astype(int)
    bounds = [bound_of(h, m, trials, delta) for h, m in zip(hits, misses, strict=True)]
    return float(cuts[int(np.argmax(bounds))])


def epsilon_bound(likely: np.ndarray, unlikely: np.ndarray, delta: float) -> float:
    """Lower bound of epsilon from how often an observer's finding occurs in either world."""
    assert likely.size == unlikely.size
    return bound_of(int(likely.sum()), int(unlikely.sum()), likely.size, delta)


def bound_of(hits: int, misses: int, trials: int, delta: float) -> float:
    """The bound from counts: log((lower bound of one probability - delta) / upper of the other)."""
    lower = float(beta.ppf(MAY_ERR, hits, trials - hits + 1)) if hits else 0.0
    upper = float(beta.ppf(1 - MAY_ERR, misses + 1, trials - misses)) if misses < trials else 1.0
    return math.log(max(lower - delta, 1e-300) / upper)


def tampered(program: Any, **change: Any) -> Any:
    """The program with its mechanisms changed behind the plan's back."""
    from dataclasses import replace

    def changed(mechanism: Any) -> Any:
        values = {k: v(getattr(mechanism, k)) if callable(v) else v for k, v in change.items()}
        return replace(mechanism, **values)

    parts = tuple(replace(p, mechanism=changed(p.mechanism)) for p in program.parts)
    return replace(program, parts=parts)

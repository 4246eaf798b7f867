"""From trials to numbers: empirical mu, and a lower confidence bound on epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, norm

from tests.audit.world import Neighbours, World
from tests.constant_noise import NoNoise

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
    cuts = np.linspace(0, mu + 3, 151)
    hits, misses = (np.rint(trials * norm.sf(cuts - mean)) for mean in (mu, 0.0))
    return float(cuts[int(np.argmax(bounds_of(hits, misses, trials, delta)))])


def epsilon_bound(likely: np.ndarray, unlikely: np.ndarray, delta: float) -> float:
    """Lower bound of epsilon from how often an observer's finding occurs in either world."""
    assert likely.size == unlikely.size
    hits, misses = np.atleast_1d(likely.sum()), np.atleast_1d(unlikely.sum())
    return float(bounds_of(hits, misses, likely.size, delta)[0])


def bounds_of(hits: np.ndarray, misses: np.ndarray, trials: int, delta: float) -> np.ndarray:
    """Bounds from counts (m,): log((lower bound of a probability - delta) / upper of the other)."""
    lower = np.where(hits > 0, beta.ppf(MAY_ERR, np.maximum(hits, 1), trials - hits + 1), 0.0)
    upper = beta.ppf(1 - MAY_ERR, misses + 1, np.maximum(trials - misses, 1))
    upper = np.where(misses < trials, upper, 1.0)
    return np.asarray(np.log(np.maximum(lower - delta, 1e-300) / upper))


def tampered(program: Any, **change: Any) -> Any:
    """The program with its mechanisms changed behind the plan's back."""
    from dataclasses import replace

    def changed(mechanism: Any) -> Any:
        values = {k: v(getattr(mechanism, k)) if callable(v) else v for k, v in change.items()}
        return replace(mechanism, **values)

    parts = tuple(replace(p, mechanism=changed(p.mechanism)) for p in program.parts)
    return replace(program, parts=parts)

"""Lower bounds of a privacy loss, from how often an observer's test says yes in two worlds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm

from weir.dpcore.accounting.calibrate import gdp_delta
from weir.dpcore.arrays import Floats

ERROR = 0.05
"""How often a bound that is printed may be above the truth."""
MOST = 1e6
"""Of mu, what is told apart: beyond it nothing is hidden."""
STRICT = 1e-6
"""The same of the bound by which a claim is called broken: many audits are made, and each is
believed."""


class Counts(NamedTuple):
    """How often a test said "with the change".

    Attributes:
      hits: among ``ones`` trials with the change. alarms: among ``others`` without.
    """

    hits: int
    ones: int
    alarms: int
    others: int

    @classmethod
    def of(cls, ones: Floats, others: Floats, cut: float) -> Counts:
        """Of scores (n,) and (m,), above ``cut``."""
        return cls(int((ones > cut).sum()), ones.size, int((others > cut).sum()), others.size)

    def turned(self) -> Counts:
        """The same test, read the other way: a hit is a trial without, found to be one."""
        return Counts(self.others - self.alarms, self.others, self.ones - self.hits, self.ones)


def shares(counts: Counts, error: float) -> tuple[float, float]:
    """A lower bound of the share of hits, and an upper one of alarms (Clopper, Pearson 1934).

    Both hold together with probability at least 1 - ``error``.
    """
    hits, ones, alarms, others = counts
    low = float(beta.ppf(error / 2, hits, ones - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - error / 2, alarms + 1, others - alarms)) if alarms < others else 1.0
    return low, high


def epsilon_bound(counts: Counts, delta: float, error: float = ERROR) -> float:
    """Lower bound of epsilon at ``delta``: (epsilon, delta)-DP means
    P[hit] <= e^epsilon P[alarm] + delta, and the same of the test turned round. At least 0."""
    best = 0.0
    for one in (counts, counts.turned()):
        low, high = shares(one, error / 2)
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


def mu_bound(counts: Counts, error: float = ERROR) -> float:
    """Lower bound of mu of Gaussian differential privacy: no test of a mu-GDP mechanism has
    probit(hits) - probit(alarms) above mu (Dong, Roth, Su 2022; Nasr et al. 2023). At least 0."""
    low, high = shares(counts, error)
    if low <= high:
        return 0.0
    return float(norm.ppf(low) - norm.ppf(high))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Largest epsilon, rounded down, that a mu-GDP law exceeds at ``delta``: where the law is known
    to be Gaussian, what mu proves of epsilon."""
    mu = min(mu, MOST)  # scores without any spread: a lower bound stays one
    if mu <= 0 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, mu * mu / 2 + 40 * mu
    for _ in range(80):
        middle = (low + high) / 2
        if gdp_delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return low


def best_cut(mu: float, delta: float, trials: int) -> float:
    """Where the bound of epsilon is expected to be best, scores being normal of means mu and 0 and
    variance 1; a function of public numbers, decided before any run."""
    cuts = np.linspace(0, mu + 3, 121)
    hits = np.rint(trials * norm.sf(cuts - mu)).astype(int)
    alarms = np.rint(trials * norm.sf(cuts)).astype(int)
    bounds = [
        epsilon_bound(Counts(int(h), trials, int(a), trials), delta)
        for h, a in zip(hits, alarms, strict=True)
    ]
    return float(cuts[int(np.argmax(bounds))])


def separation(ones: Floats, others: Floats, error: float = ERROR) -> tuple[float, float]:
    """Difference of the means in pooled standard deviations, and a lower bound of it.

    For scores that are normal with one variance in both worlds, as a linear statistic of a Gaussian
    transcript is: then it is a lower bound of mu, tighter than that from counts. Its error follows
    the noncentral t, by its normal approximation.
    """
    spread = math.sqrt((ones.var(ddof=1) + others.var(ddof=1)) / 2)
    moved = float(ones.mean() - others.mean())
    if spread == 0:
        return (math.inf, math.inf) if moved else (0.0, 0.0)
    size = moved / spread
    total = ones.size + others.size
    sigma = math.sqrt(1 / ones.size + 1 / others.size + size**2 / (2 * total))
    return size, max(0.0, size - float(norm.isf(error)) * sigma)


def curve(ones: Floats, others: Floats, points: int = 200) -> tuple[Floats, Floats]:
    """ROC of scores: (points,) shares of alarms, and of hits, from the strictest cut on."""
    cuts = np.quantile(np.concatenate([ones, others]), np.linspace(1, 0, points))
    hits: NDArray[np.float64] = (ones[None, :] >= cuts[:, None]).mean(axis=1)
    alarms: NDArray[np.float64] = (others[None, :] >= cuts[:, None]).mean(axis=1)
    return alarms, hits

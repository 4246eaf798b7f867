"""Distinguishers learned from transcripts, and lower bounds on epsilon from their errors.

A distinguisher that is learned: on one half of the trials, to be judged on the other.

Transcripts are given as numbers with NaN where nothing was released. What was released at all is
part of what is learned from.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from weir.dpcore.accounting.calibrate import gdp_delta
from weir.dpcore.arrays import Floats
from weir.dpcore.errors import WeirError

ERROR = 0.05
"""How often a bound that is printed may be above the truth."""
MOST = 1e6
"""Of mu, what is distinguished: beyond it nothing is hidden."""
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
    low, high = 0.0, 1.0
    if hits:
        low = float(betaincinv(hits, ones - hits + 1, error / 2))
    if alarms < others:
        high = float(betaincinv(alarms + 1, others - alarms, 1 - error / 2))
    return low, high


def epsilon_bound(counts: Counts, delta: float, error: float = ERROR) -> float:
    """Lower bound of epsilon at ``delta``: (epsilon, delta)-DP means
    P[hit] <= e^epsilon P[alarm] + delta, and the same of the test turned round. At least 0."""
    best = 0.0
    for item in (counts, counts.turned()):
        low, high = shares(item, error / 2)
        if low > delta:
            best = max(best, math.log((low - delta) / high))
    return best


def mu_bound(counts: Counts, error: float = ERROR) -> float:
    """Lower bound of mu of Gaussian differential privacy: no test of a mu-GDP mechanism has
    probit(hits) - probit(alarms) above mu (Dong, Roth, Su 2022; Nasr et al. 2023). At least 0."""
    low, high = shares(counts, error)
    if low <= high:
        return 0.0
    return float(ndtri(low) - ndtri(high))


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
    hits = np.rint(trials * ndtr(mu - cuts)).astype(int)
    alarms = np.rint(trials * ndtr(-cuts)).astype(int)
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
    return size, max(0.0, size + float(ndtri(error)) * sigma)


def curve(ones: Floats, others: Floats, points: int = 200) -> tuple[Floats, Floats]:
    """ROC of scores: (points,) shares of alarms, and of hits, from the strictest cut on."""
    cuts = np.quantile(np.concatenate([ones, others]), np.linspace(1, 0, points))
    hits: NDArray[np.float64] = (ones[None, :] >= cuts[:, None]).mean(axis=1)
    alarms: NDArray[np.float64] = (others[None, :] >= cuts[:, None]).mean(axis=1)
    return alarms, hits


MOST_FEATURES = 400
"""Numbers of a transcript that are learned from; of more, those that differ most between worlds."""
TREES_FROM, TREES_TO = 400, 48
"""Trials from which on, and features up to which, trees are tried next to a linear model."""


RIDGE, MOST_APART = 0.02, 100.0
"""Of ``apart``: what is added to variances, of the largest; and the most that it says."""


def needs_sklearn() -> Any:
    """scikit-learn, which is imported when it is needed.

    Raises:
      WeirError: it is not installed; says how to install it.
    """
    try:
        import sklearn
    except ImportError:
        raise WeirError(
            "weir audit learns its attack on this plan with scikit-learn, which is not installed: "
            "pip install 'weir-dp[audit]'."
        ) from None
    return sklearn


class Features:
    """Transcripts as features: values in standard deviations, and which of them are there."""

    def __init__(self, ones: Floats, others: Floats) -> None:
        both = np.concatenate([ones, others])
        there = np.isfinite(both)
        self._centre = np.zeros(both.shape[1])
        some = there.any(axis=0)
        self._centre[some] = np.nanmedian(np.where(there, both, np.nan)[:, some], axis=0)
        spread = np.where(there, both - self._centre, 0.0).std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._gaps = np.flatnonzero(there.any(axis=0) & ~there.all(axis=0))
        full = self._all(both)
        size = np.sqrt(len(ones))
        moved = np.abs(full[: len(ones)].mean(axis=0) - full[len(ones) :].mean(axis=0)) * size
        moved += np.abs(full[: len(ones)].std(axis=0) - full[len(ones) :].std(axis=0)) * size
        self._kept = np.sort(np.argsort(-moved, kind="stable")[:MOST_FEATURES])

    def _all(self, transcripts: Floats) -> Floats:
        there = np.isfinite(transcripts)
        values = np.where(there, (np.nan_to_num(transcripts) - self._centre) / self._spread, 0.0)
        return np.concatenate([np.clip(values, -1e6, 1e6), there[:, self._gaps]], axis=1)

    def __call__(self, transcripts: Floats) -> Floats:
        return np.asarray(self._all(transcripts)[:, self._kept])


class Learned:
    """A classifier of scikit-learn over ``Features``."""

    def __init__(self, name: str, features: Features, model: Any) -> None:
        self.name = name
        self._features = features
        self._model = model

    def scores(self, transcripts: Floats) -> Floats:
        """Log odds."""
        value = self._features(transcripts)
        result = self._model.decision_function(value)
        return np.asarray(result, dtype=np.float64)


def apart(ones: Floats, others: Floats) -> float:
    """About how far transcripts of two worlds are apart, in standard deviations of a linear score.

    Either half is scored by directions that the other one gave, so that 0 is expected of two worlds
    that are alike. To choose among attacks, on trials that judge nothing.

    Args:
      ones, others: (n, features) and (m, features), with and without the change; n, m at least 4.
    """
    results = []
    for mine in (0, 1):
        features = Features(ones[mine::2], others[mine::2])
        here, there = features(ones[mine::2]), features(others[mine::2])
        both = np.concatenate([here - here.mean(axis=0), there - there.mean(axis=0)])
        spread = both.T @ both / len(both)
        spread += (RIDGE * max(1.0, float(np.diag(spread).max()))) * np.eye(len(spread))
        weights = np.linalg.solve(spread, here.mean(axis=0) - there.mean(axis=0))
        scores = [features(part[1 - mine :: 2]) @ weights for part in (ones, others)]
        size = float(np.sqrt((scores[0].var() + scores[1].var()) / 2))
        moved = float(scores[0].mean() - scores[1].mean())
        results.append(moved / size if size > 0 else MOST_APART * float(np.sign(moved)))
    return float(np.clip(np.mean(results), -MOST_APART, MOST_APART))


def learn(ones: Floats, others: Floats, seed: int = 0) -> Learned:
    """The better of logistic regression and boosted trees, by a third that neither was fitted to.

    Args:
      ones, others: (n, features) and (m, features), with and without the change.

    Raises:
      WeirError: scikit-learn is missing.
    """
    needs_sklearn()
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    features = Features(ones, others)
    x = np.concatenate([features(ones), features(others)])
    y = np.concatenate([np.ones(len(ones)), np.zeros(len(others))])
    held = np.arange(len(y)) % 3 == 2
    tried: list[tuple[str, Any]] = [
        ("logistic", LogisticRegression(C=0.05, max_iter=300)),
    ]
    if len(y) >= TREES_FROM and x.shape[1] <= TREES_TO:
        trees = HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=12, learning_rate=0.1, l2_regularization=1.0,
            random_state=seed,
        )  # fmt: skip
        tried.append(("trees", trees))
    scored = []
    for name, model in tried:
        model.fit(x[~held], y[~held])
        scored.append((roc_auc_score(y[held], model.decision_function(x[held])), name, model))
    _, name, best = max(scored, key=lambda item: item[0])
    best.fit(x, y)
    return Learned(name, features, best)

"""A distinguisher that is learned: on one half of the trials, to be judged on the other.

Transcripts are given as numbers with NaN where nothing was released. What was released at all is
part of what is learned from.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import WeirError

MOST_FEATURES = 400
"""Numbers of a transcript that are learned from; of more, those that differ most between worlds."""
TREES_FROM, TREES_TO = 400, 48
"""Trials from which on, and features up to which, trees are tried beside a linear model."""


RIDGE, MOST_APART = 0.02, 100.0
"""Of ``apart``: what is added to variances, of the largest; and the most that it says."""


class Distinguisher(Protocol):
    """Scores transcripts: the larger, the likelier the change is in them."""

    @property
    def name(self) -> str:
        """In a word or two."""

    def scores(self, transcripts: Floats) -> Floats:
        """(n, features) -> (n,)."""


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
        given = self._features(transcripts)
        found = self._model.decision_function(given)
        return np.asarray(found, dtype=np.float64)


def apart(ones: Floats, others: Floats) -> float:
    """About how far transcripts of two worlds are apart, in standard deviations of a linear score.

    Either half is scored by directions that the other one gave, so that 0 is expected of two worlds
    that are alike. To choose among attacks, on trials that judge nothing.

    Args:
      ones, others: (n, features) and (m, features), with and without the change; n, m at least 4.
    """
    found = []
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
        found.append(moved / size if size > 0 else MOST_APART * float(np.sign(moved)))
    return float(np.clip(np.mean(found), -MOST_APART, MOST_APART))


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
    _, name, best = max(scored, key=lambda one: one[0])
    best.fit(x, y)
    return Learned(name, features, best)

"""Gaussian conditioning with whole covariance matrices, to check the filters against."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.estimates.bank import SEASONAL_DRIFT, SignalModel
from weir.dpcore.estimates.laws import NoiseLaw


def noise_matrix(law: NoiseLaw, n: int, first: int = 0) -> Floats:
    """B with z = B xi: (n, n)."""
    return law.walk(np.eye(n), first).T


@dataclass
class DenseModel:
    """One member over n ticks.

    Attributes:
      signal: (n, n) covariance of what ticks add. totals: of the released totals.
    """

    signal: Floats
    totals: Floats

    @classmethod
    def of(
        cls, model: SignalModel, member: Floats, n: int, flat: float, first: int = 0
    ) -> DenseModel:
        drift, scatter, season = member
        cov = np.minimum.outer(np.arange(n), np.arange(n)) * drift + flat
        lag = np.subtract.outer(np.arange(n), np.arange(n))
        for k in range(model.pairs):
            angle = 2 * math.pi * (k + 1) / (model.period or 1)
            since = np.minimum.outer(np.arange(n), np.arange(n))
            cov = cov + season * (1 + SEASONAL_DRIFT * since) * np.cos(angle * lag)
        signal = cov + scatter * np.eye(n)
        add_up = np.tril(np.ones((n, n)))
        matrix = noise_matrix(model.law, n, first)
        return cls(signal, add_up @ signal @ add_up.T + matrix @ matrix.T)

    def given(self, released: Floats, row: Floats, count: int) -> tuple[float, float]:
        """Mean and standard deviation of row . (what ticks add), given ``count`` totals."""
        add_up = np.tril(np.ones((len(row), len(row))))
        with_totals = (row @ self.signal @ add_up.T)[:count]
        weights = np.linalg.solve(self.totals[:count, :count], with_totals)
        mean = float(weights @ released[:count])
        return mean, math.sqrt(float(row @ self.signal @ row - weights @ with_totals))

    def log_likelihood(self, released: Floats) -> float:
        """Without its constant."""
        _, size = np.linalg.slogdet(self.totals)
        return -0.5 * float(size + released @ np.linalg.solve(self.totals, released))

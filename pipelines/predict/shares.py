"""How good predicted shares of classes are: log loss and calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weir.dpcore.arrays import Floats, Ints

BINS = 10
"""Bins of equal width of the share of the predicted class."""
LEAST = 2.0**-50
"""Least share of a class that happened: its log loss stays finite."""


@dataclass
class ShareTally:
    """Sums over events whose class is known.

    Attributes:
      options: classes. losses: sum of -ln of the share of the class that happened.
      bins: (BINS, 3): events, sum of the share of the predicted class, and how often it was right.
    """

    options: int = 0
    losses: float = 0.0
    bins: Floats = field(default_factory=lambda: np.zeros((BINS, 3)))

    @property
    def events(self) -> int:
        """Events so far."""
        return int(self.bins[:, 0].sum())

    def add(self, shares: Floats, actual: Ints) -> None:
        """Shares (n, m), and places of what happened (n,): -1 where it is not known."""
        fine = np.isfinite(shares).all(axis=1) & (actual >= 0)
        shares, actual = shares[fine], actual[fine]
        if not len(actual):
            return
        self.options = shares.shape[1]
        happened = shares[np.arange(len(actual)), actual]
        self.losses += math.fsum((-np.log(np.maximum(happened, LEAST))).tolist())
        best = shares.argmax(axis=1)
        top = shares[np.arange(len(actual)), best]
        at = np.minimum((top * BINS).astype(np.int64), BINS - 1)
        numbers = np.stack([np.ones(len(at)), top, best == actual], axis=1)
        np.add.at(self.bins, at, numbers)

    @property
    def log_loss(self) -> float | None:
        """Mean log loss."""
        return self.losses / self.events if self.events else None

    @property
    def guess(self) -> float | None:
        """That of equal shares."""
        return math.log(self.options) if self.events else None

    @property
    def calibration_error(self) -> float | None:
        """Mean distance of share and frequency of the predicted class, bin by bin.

        Source: Guo, Pleiss, Sun, Weinberger (2017), expected calibration error.
        """
        if not self.events:
            return None
        return float(np.abs(self.bins[:, 1] - self.bins[:, 2]).sum()) / self.events

    def table(self) -> list[dict[str, Any]]:
        """Bins that hold events."""
        return [
            {
                "from": place / BINS,
                "to": (place + 1) / BINS,
                "events": int(n),
                "mean_share": total / n,
                "right": right / n,
            }
            for place, (n, total, right) in enumerate(self.bins.tolist())
            if n
        ]

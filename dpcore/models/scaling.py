"""Public ranges: the user's columns to [-1, 1] and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import clip_values
from weir.dpcore.program import Bounded

STEP = 2.0**-20
"""Scaled values are whole multiples of this."""


def is_void(rows: Floats) -> NDArray[np.bool_]:
    """Which rows say nothing: their event lacks a feature or the target. (N, p + 1) -> (N,).

    Such a row counts as a row, where rows are capped or kept, and has no gradient and no loss.
    """
    return np.asarray(np.isnan(rows[:, -1]))


@dataclass(frozen=True)
class Scaling:
    """Features and a target, each mapped from its public range onto [-1, 1].

    Attributes:
      columns: names of the features, then the target.
      low, high: their ranges, low < high.
    """

    columns: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, low, high in zip(self.columns, self.low, self.high, strict=True):
            if not (np.isfinite(high - low) and low < high):
                raise ConfigError(
                    f"model.ranges.{name}", [low, high], "must be two finite numbers, low < high."
                )

    @classmethod
    def of(
        cls, features: tuple[str, ...], target: str, ranges: Mapping[str, tuple[float, float]]
    ) -> Scaling:
        """From the config.

        Raises:
          ConfigError: a column without a range, or an empty one.
        """
        columns = (*features, target)
        for name in columns:
            if name not in ranges:
                raise ConfigError(
                    f"model.ranges.{name}", None, "is missing: a public range, like [0, 100]."
                )
        low = tuple(float(ranges[name][0]) for name in columns)
        return cls(columns, low, tuple(float(ranges[name][1]) for name in columns))

    @property
    def half(self) -> Floats:
        """(p + 1,) half of each range."""
        return np.asarray((np.asarray(self.high) - np.asarray(self.low)) / 2)

    @property
    def middle(self) -> Floats:
        """(p + 1,) what becomes 0."""
        return np.asarray(np.asarray(self.low) + self.half)

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Clips to the ranges and scales. A number that is missing or not finite makes a void row.

        Returns:
          rows (n_events, p + 1) float64 in [-1, 1], whole multiples of ``STEP``; void ones are 0
          with the canonical NaN for a target (``is_void``), all of the same bits. And counts.
        """
        rows = np.empty((n_events, len(self.columns)))
        void = np.zeros(n_events, dtype=bool)
        clipped = non_finite = 0
        for j, (name, low, high) in enumerate(zip(self.columns, self.low, self.high, strict=True)):
            middle, half = float(self.middle[j]), float(self.half[j])
            raw = np.asarray(columns[name], dtype=np.float64)
            values, over, bad = clip_values(raw, low, high, fill=middle)
            clipped += over
            if bad:
                non_finite += bad
                void |= ~np.isfinite(raw)
            scaled = np.clip((values - middle) * (1.0 / half), -1.0, 1.0)
            rows[:, j] = np.rint(scaled * (1.0 / STEP)) * STEP + 0.0
        rows[void] = 0.0
        rows[void, -1] = np.nan
        return Bounded(rows, clipped, non_finite)

    def coefficients(self, theta: Floats, intercept: bool, labels: bool) -> Floats:
        """The same model in the user's units.

        Args:
          theta: (..., d), of the scaled features, the intercept's last if there is one.
          intercept: whether there is one. labels: whether the prediction is a score, not a target.

        Returns:
          (..., p + 1): prediction = sum_j w_j feature_j + w_p.
        """
        p = len(self.columns) - 1
        half, middle = self.half, self.middle
        unit = 1.0 if labels else half[p]
        out = np.empty((*theta.shape[:-1], p + 1))
        out[..., :p] = theta[..., :p] * (unit / half[:p])
        out[..., p] = 0.0 if labels else middle[p]
        if intercept:
            out[..., p] += unit * theta[..., p]
        for j in range(p):
            out[..., p] -= out[..., j] * middle[j]
        return out

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "columns": list(self.columns),
            "low": [value.hex() for value in self.low],
            "high": [value.hex() for value in self.high],
            "step": STEP.hex(),
        }

"""How many noisy preconditioned steps, and how long along each direction: the least excess that is
predicted.

Steps w <- w - U diag(a / (c e)) U^T (g + noise) from w_0 shrink what is left along direction i by
1 - v a_i each, v c e_i the curvature that a loss has there on average, and gather noise. Over T
steps at noise of variance s^2 a coordinate the excess is about

  sum_i V / D (1 - q)^(2T) + k v / (2 c e_i) s^2 a_i^2 (1 - (1 - q)^(2T)) / (1 - (1 - q)^2)

with q = v a_i and V the excess of the start. All numbers are public or released, and the same on
every CPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.models.kit.eigen import eigen

TIMES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of steps that are tried."""
MOST_TIMES = TIMES[-1]
LENGTHS = (0.0, *(np.rint(np.geomspace(0.02, 1.0, 24) * 2**20) / 2**20).tolist())
"""a that are tried along each direction."""


MOST_DIRECTIONS = 1 << 10
"""Of plain descent, that are looked at."""


class StepFilter(NamedTuple):
    """What was chosen.

    Attributes:
      steps: T. lengths: (D,), a_i; (1,) of plain descent. excess: predicted, over the best model
        without noise.
    """

    steps: int
    lengths: Floats
    excess: float


class Spectrum(NamedTuple):
    """A filter of noisy second moments U^T diag(e) U.

    Attributes:
      chosen: the filter. values: (D,) e_i, raised above what noise does to them. rows: (D, D), U.
      inverse: (D,), a_i / (c e_i).
    """

    chosen: StepFilter
    values: Floats
    rows: Floats
    inverse: Floats


@dataclass(frozen=True)
class FilterRule:
    """What is known of a loss before any data.

    Attributes:
      outputs: k, scores of a row. smoothness: c. slack: v. start: V, from a model of no data.
      times: numbers of steps that are tried.
    """

    outputs: int
    smoothness: float
    slack: float
    start: float
    times: tuple[int, ...] = TIMES

    @classmethod
    def of(
        cls, labels: bool, outputs: int, smoothness: float, times: tuple[int, ...] = TIMES
    ) -> FilterRule:
        """For numbers; labels: two classes; outputs above 1: as many classes."""
        if outputs > 1:
            return cls(outputs, smoothness, 0.1, 8 * math.log(outputs), times)
        slack, start = (0.2, 3.2) if labels else (0.3, 0.8)
        return cls(outputs, smoothness, slack, start, times)

    @cached_property
    def _left(self) -> tuple[Floats, Floats]:
        """(T's, a's): what is left of the start, and noise of all steps over that of one."""
        shrink = 1.0 - self.slack * np.asarray(LENGTHS)
        left = np.empty((len(self.times), len(shrink)))
        gathered = np.empty_like(left)
        for row, steps in enumerate(self.times):
            left[row] = _power(shrink * shrink, steps)
            once = 1.0 - shrink * shrink
            some = np.where(once > 0, once, 1.0)
            gathered[row] = np.where(once > 0, (1.0 - left[row]) / some, float(steps))
        return left, gathered

    def choose(
        self, values: Floats, variances: Sequence[float], linked: bool = False
    ) -> StepFilter:
        """The filter of least predicted excess.

        Args:
          values: (D,) e_i, above 0. variances: s^2 of each T in ``times``.
          linked: whether the start is a released model, whose excess is a sixteenth.
        """
        share = self.start / (16.0 if linked else 1.0) / len(values)
        scale, lengths = self.outputs * self.slack / (2.0 * self.smoothness), np.asarray(LENGTHS)
        best: StepFilter | None = None
        for row, steps in enumerate(self.times):
            left, gathered = (table[row] for table in self._left)
            noise = np.multiply.outer(scale / values, variances[row] * lengths**2 * gathered)
            total = left * share + noise
            at = total.argmin(axis=1)
            excess = math.fsum(total[np.arange(len(values)), at].tolist())
            if best is None or excess < best.excess:
                best = StepFilter(steps, lengths[at], excess)
        assert best is not None
        return best

    def descent(
        self,
        squares: float,
        width: int,
        steps: int,
        length: float,
        variance: float,
        linked: bool = False,
    ) -> StepFilter:
        """Steps w <- w - a / (c A^2) (g + noise), one a for all directions, with their excess where
        second moments along direction i, and the excess of the start, are in proportion to 1 / i,
        as those of a model whose coefficients are alike.

        Args:
          squares: A^2. width: D. steps: T. length: a. variance: of the noise of one step. linked:
            as in ``choose``.
        """
        parts = 1.0 / np.arange(1, min(width, MOST_DIRECTIONS) + 1)
        parts /= math.fsum(parts.tolist())
        start = self.start / (16.0 if linked else 1.0)
        shrink = np.maximum(0.0, 1.0 - self.slack * length * parts)  # clips keep long steps short
        left = _power(shrink * shrink, steps)
        gathered = (1.0 - left) / (1.0 - shrink * shrink)
        noise = self.outputs * self.slack * length**2 * variance
        noise /= 2.0 * self.smoothness * squares
        excess = math.fsum((parts * (start * left + noise * gathered)).tolist())
        return StepFilter(steps, np.array([length]), excess)

    def spectrum(
        self, matrix: Floats, low: float, variances: Sequence[float], linked: bool = False
    ) -> Spectrum:
        """The filter of noisy second moments.

        Args:
          matrix: (D, D). low: what eigenvalues are raised by, above all that noise does to them.
          variances, linked: as in ``choose``.
        """
        values, rows = eigen(matrix)
        values = np.maximum(values, 0.0) + low
        chosen = self.choose(values, variances, linked)
        return Spectrum(chosen, values, rows, chosen.lengths / (self.smoothness * values))


def constant_loss(labels: bool, outputs: int) -> float:
    """What a constant loses, about: ln 2 or ln m of classes; a good part of it for numbers."""
    if outputs > 1:
        return math.log(outputs)
    return math.log(2.0) if labels else 0.06


def _power(base: Floats, exponent: int) -> Floats:
    """By products alone, which no library of powers rounds its own way."""
    result, square = np.ones_like(base), base
    while exponent:
        if exponent & 1:
            result = result * square
        square, exponent = square * square, exponent >> 1
    return result

"""How well a model fits, told by the same moments that it was made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.models.moments import Statistics

SURE = 8.0
"""Deviations of its noise that V must have, so that what is divided by it has a band."""
MEANT = 4.0
"""Deviations of the noise of S that V must have: a band of R^2 half as wide as from 0 to 1."""


class Fit(NamedTuple):
    """Errors in scaled units, each (n, k).

    Attributes:
      mse, r2: mean squared error, and 1 less its ratio to that of the mean target.
      mse_stddev, r2_stddev: what the noise does to them, theta as given.
    """

    mse: Floats
    mse_stddev: Floats
    r2: Floats
    r2_stddev: Floats


def score_of(statistics: Statistics, fitted: Statistics, theta: Floats, stddev: Floats) -> Fit:
    """Errors of models by moments with noise that the models have not seen; NaN while it is large.

    S = y.y - 2 q.theta + theta' Q theta, V = y.y - (q_1)^2 / N, N the sum of the squared constant.
    Given theta their noise is that of linear functions of independent Gaussians, so that S has no
    bias, whatever theta was made of; S / N and S / V move with first derivatives: 1 in y.y (less
    S / V), - 2 theta in q, theta theta' in Q, and so on, whose squared norm times s^2 is the
    variance.

    Whether there is a value follows from theta and the moments that it was fitted to, never from
    the noise that scores it: a row where that noise happens to look small would have a band that it
    does not deserve. Shown are rows where V is ``SURE`` deviations of its noise, and of that of S.

    Args:
      statistics: with squares and noise of its own; the constant is the last feature.
      fitted: what theta (n, k, d) was made of. stddev: (n,) s, of a coordinate of ``statistics``.
    """
    assert statistics.squares is not None and fitted.squares is not None
    spread, middle = _spread(fitted)
    size = np.sum(theta * theta, axis=2)
    square = middle * middle
    whole = np.sqrt(1 + 4 * size + size * size)
    most = np.maximum(SURE * np.sqrt(1 + 4 * square + square * square), MEANT * whole)
    shown = spread > stddev[:, None] * most

    count = np.maximum(statistics.matrix[:, -1, -1], 1.0)[:, None]
    bend = np.sum((theta @ statistics.matrix) * theta, axis=2)
    error = statistics.squares - 2 * np.sum(statistics.right * theta, axis=2) + bend
    other, centre = _spread(statistics)
    spread = np.where(shown, np.maximum(other, 1.0), 1.0)
    last = theta[:, :, -1]
    mse, ratio = error / count, error / spread
    with np.errstate(over="ignore", invalid="ignore"):
        moved = size * size + 1 + 4 * size - 2 * mse * last**2 + mse**2
        # dS - ratio dV: y.y, then q, where V has 2 centre of q_1, then Q, where it has -centre^2.
        right = 4 * (size - 2 * ratio * centre * last + (ratio * centre) ** 2)
        matrix = size * size - 2 * ratio * (centre * last) ** 2 + ratio**2 * centre**4
        shift = (1 - ratio) ** 2 + right + matrix

    def kept(value: Floats) -> Floats:
        return np.where(shown, value, np.nan)

    noise = stddev[:, None]
    return Fit(
        kept(np.maximum(mse, 0.0)),
        kept(noise * np.sqrt(np.maximum(moved, 0.0)) / count),
        kept(np.minimum(1 - ratio, 1.0)),
        kept(noise * np.sqrt(np.maximum(shift, 0.0)) / spread),
    )


def _spread(statistics: Statistics) -> tuple[Floats, Floats]:
    """V and the mean of the targets, each (n, k)."""
    assert statistics.squares is not None
    count = np.maximum(statistics.matrix[:, -1, -1], 1.0)[:, None]
    total = statistics.right[:, :, -1]
    return statistics.squares - total * total / count, np.clip(total / count, -1.0, 1.0)

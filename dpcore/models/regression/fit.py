"""How well a model fits, told by the same moments that it was made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpcore.arrays import Floats
from dpcore.models.moments import Statistics
from dpcore.models.regression.quadratic import PrivateQuadratic


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


def fit_of(statistics: Statistics, theta: Floats, stddev: Floats) -> Fit:
    """Errors of models on the events whose moments these are. Post-processing.

    Sum of squared errors S = y.y - 2 q.theta + theta' Q theta. Its noise has variance
    s^2 (1 + 4 |theta|^2 + |theta|^4), as theta' E theta has s^2 |theta|^4. The number of events N
    is the sum of the squared constant (less where events were scaled down), at least 1 and taken as
    exact in the deviations. S is at least 0; R^2 lies in [-1, 1], and is 0 where no spread of the
    targets is to be seen.

    Args:
      statistics: with squares; the constant is the last feature. theta: (n, k, d).
      stddev: (n,) s, of the noise of a coordinate of (svec(Q), q, y.y).
    """
    assert statistics.squares is not None
    matrix, right = statistics.matrix, statistics.right
    count = np.maximum(matrix[:, -1, -1], 1.0)[:, None]
    bend = np.sum((theta @ matrix) * theta, axis=2)
    error = np.maximum(statistics.squares - 2 * np.sum(right * theta, axis=2) + bend, 0.0)
    spread = statistics.squares - right[:, :, -1] ** 2 / count
    seen = spread > 0
    size = np.sum(theta * theta, axis=2)
    noise = stddev[:, None] * np.sqrt(1 + 4 * size + size * size)
    below = np.where(seen, spread, 1.0)
    ratio = np.minimum(error / below, 2.0)
    return Fit(
        error / count,
        noise / count,
        np.where(seen, 1 - ratio, 0.0),
        np.minimum(np.where(seen, noise / below, 2.0), 2.0),
    )


def typical_band(
    quadratic: PrivateQuadratic,
    theta: Floats,
    count: Floats,
    stddev: Floats,
    prior: float | None = None,
) -> Floats:
    """Root mean square over events of what the noise does to a prediction: (n, k), scaled units.

    sqrt(tr(Q Cov) / N), Cov as in ``bands.stddev_along``; with a prior as in ``bands.error_along``,
    the ridge's pull in it. Infinite where A has no inverse.

    Args:
      quadratic: what was solved. theta: (n, k, d). count: (n,) N, at least 1. stddev: (n,) s.
      prior: of ``ridge.prior_of``; None: the noise alone.
    """
    values, vectors = quadratic.eigen
    if prior is None:
        own = np.maximum(values - quadratic.pull, 0.0)
    else:
        own = np.maximum(quadratic.released.values, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        weight = np.where(own > 0, own / (values * values), np.where(values > 0, 0.0, np.inf))
        turned = theta @ vectors
        size = np.sum(theta * theta, axis=2)
        first = (size / 2 + 1) * np.sum(weight, axis=1)[:, None]
        found = first + np.sum(weight[:, None, :] * turned * turned, axis=2) / 2
        if prior is not None:
            pulled = np.sum(weight * quadratic.added**2, axis=1)[:, None] * (prior * prior)
            found = np.sqrt((found * stddev[:, None] ** 2 + pulled) / count[:, None])
            return np.where(np.isnan(found), np.inf, found)
        found = np.sqrt(found / count[:, None]) * stddev[:, None]
    return np.where(stddev[:, None] == 0, 0.0, np.where(np.isnan(found), np.inf, found))

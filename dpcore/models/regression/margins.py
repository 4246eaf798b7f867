"""Margins of error of a model, its predictions and its scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.models.moments import Statistics
from weir.dpcore.models.regression.quadratic import PrivateQuadratic
from weir.dpcore.pricing.calibration import BAND

_CHUNK = 1 << 17
EDGE = 0.9
"""Deviations of an eigenvalue's noise, next to sqrt 2 for every unknown one, that it must pass: two
above the mean of the largest that noise alone makes."""
BESIDE = 1.8
"""Deviations of noise next to a bias: 1.64 would do for a known one, 1.96 for none."""


class Reached(Protocol):
    """Where models lie, as far as a margin looks at it."""

    @property
    def dimension(self) -> int:
        """Numbers that a linear oracle handles a row."""

    @property
    def diameter(self) -> float:
        """Largest distance of two of its points, or more."""

    def linear_oracle(self, costs: Floats) -> Floats:
        """argmin over the set of <cost, point>, (m, d) -> (m, d)."""


@dataclass(frozen=True, eq=False)
class Debiased:
    """Models, and how far from them the minimiser may be. Post-processing.

    The minimiser m is that of plain least squares over the set on the same events, without noise
    and without a ridge. Where the set does not bind it solves (Q + E) m = q + e + z with z = E m -
    e, whose covariance is s^2 ((1 + |m|^2 / 2) I + m m' / 2) exactly. Eigenvectors of the released
    Q + E are of two kinds:

    - *known*, where the eigenvalue is larger than noise alone makes it next to those that are
      not: there m is (q + e) / eigenvalue up to z / eigenvalue. What the ridge took from it is seen
      and not presumed: ``back`` is the way from the model to where it would be without.
      (The mean of an inverse is not the inverse of the mean: a ridge of s^2 / 2 (tr A^-1 + A^-1)
      belongs there, and is left in.)
    - *unknown*: there m may be anywhere in the set.

    Where the set stops the model, the rest of the gradient (``push``) says how far beyond it the
    moments point. If they do so by no more than noise does, m may lie inside, and the margin
    reaches there; else the set stops m as well, and models of a convex set lie closer together than
    without it.

    Attributes:
      quadratic: what was solved. theta: (n, k, d) its solution in the set.
      stddev: (n,) s, of the noise of a coordinate of (svec(Q), q). set: where models lie.
    """

    quadratic: PrivateQuadratic
    theta: Floats
    stddev: Floats
    set: Reached

    @cached_property
    def known(self) -> Floats:
        """(n, d): 1 for eigenvectors, ascending, that are known, 0 for others.

        Next to u unknown ones noise makes an eigenvalue of about s sqrt(2 (u + 1)) at most.
        """
        values = self.quadratic.released.values
        d = values.shape[1]
        edge = self.stddev[:, None] * (EDGE + np.sqrt(2.0 * (1 + np.arange(d))))
        above = (values >= edge) & (values > 0)
        first = np.where(above.any(axis=1), above.argmax(axis=1), d)
        return np.asarray(np.arange(d) >= first[:, None], dtype=np.float64)

    @cached_property
    def inverse(self) -> Floats:
        """(n, d): of known eigenvalues; 0 for others."""
        values = self.quadratic.released.values
        return self.known / np.where(self.known > 0, values, 1.0)

    @cached_property
    def turned(self) -> Floats:
        """(n, k, d): models along eigenvectors."""
        return np.asarray(self.theta @ self.quadratic.released.vectors)

    @cached_property
    def back(self) -> Floats:
        """(n, k, d): what the ridge took, along eigenvectors."""
        inverse, square = self.inverse, self.stddev[:, None] ** 2
        own = square / 2 * (np.sum(inverse, axis=1, keepdims=True) + inverse)
        taken = (self.quadratic.added - own) * inverse
        return np.asarray(taken[:, None, :] * self.turned)

    @cached_property
    def unit(self) -> Floats:
        """(n, k): 1 + |m|^2 / 2, as known directions show m."""
        free = self.turned + self.back
        return np.asarray(1 + np.sum(free * free, axis=2) / 2)

    @cached_property
    def push(self) -> Floats:
        """(n, k, d): what the set took, along eigenvectors; 0 where that is more than noise."""
        values, vectors = self.quadratic.eigen
        rest = self.quadratic.right @ vectors - values[:, None, :] * self.turned
        inverse = self.inverse[:, None, :]
        built = self.unit * (self.stddev**2 * np.sum(self.inverse, axis=1))[:, None]
        seen = np.sum(rest * rest * inverse, axis=2)
        # Were m inside, seen / made would be a mean of squares of at most as many unit normals.
        spread = np.sqrt(2 / np.maximum(np.sum(self.known, axis=1), 1.0))[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(built > 0, seen / built, np.where(seen > 0, np.inf, 0.0))
        share = np.clip((1 + 3 * spread - ratio) / (2 * spread), 0.0, 1.0)
        return np.asarray(rest * inverse * share[:, :, None])

    def along(self, directions: Floats) -> Floats:
        """Half of a margin, over 1.96, of <a, m> around <a, theta>, for rows a: (n, k, p).

        1.96 of these hold it in 95 of 100 cases, for every coefficient by itself, at any size. No
        margin reaches beyond the set. Where nothing is known, all of it is in the margin.

        Args:
          directions: (p, d).
        """
        n, k, d = self.theta.shape
        out = np.empty((n, k, len(directions)))
        top, bottom = self._ends(directions)
        most = max(1, _CHUNK // (max(d, self.set.dimension) * max(d, len(directions))))
        for first in range(0, n, most):
            at = slice(first, first + most)
            along = directions @ self.quadratic.released.vectors[at]
            noise = self._noise(along, at)
            taken = np.abs(self.back[at] @ along.transpose(0, 2, 1))
            pushed = np.abs(self.push[at] @ along.transpose(0, 2, 1))
            # A set takes at most this of a coordinate for noise alone; beyond twice that it binds.
            limit = math.sqrt(2 * math.log(2 * d)) * noise
            pushed = np.maximum(np.minimum(pushed, 2 * limit - pushed), 0.0)
            bias = taken + pushed + self._unknown(along, at)
            half = np.maximum(BAND * noise, BESIDE * noise + bias)
            point = self.theta[at] @ directions.T
            reach = np.maximum(np.maximum(top - point, point - bottom), 0.0) * (1 + 2.0**-40)
            out[at] = np.minimum(half, reach) / BAND
        return out

    def typical(self, count: Floats) -> Floats:
        """Root mean square over events of the same, of a prediction: (n, k), scaled units.

        Args:
          count: (n,) N, at least 1.
        """
        known, inverse = self.known[:, None, :], self.inverse[:, None, :]
        values = np.maximum(self.quadratic.released.values, 0.0)
        free = self.turned + self.back
        noise = self.unit * np.sum(inverse, axis=2) + np.sum(inverse * free * free, axis=2) / 2
        noise = np.sqrt(noise) * self.stddev[:, None]
        moved = np.sum((self.back + self.push) ** 2 * known * values[:, None, :], axis=2)
        most = np.max((1 - self.known) * values, axis=1, initial=0.0)
        bias = np.sqrt(moved) + (np.sqrt(most) * self.set.diameter)[:, None]
        whole = np.maximum(noise, (BESIDE * noise + bias) / BAND)
        return np.asarray(whole / np.sqrt(count)[:, None])

    def _noise(self, along: Floats, at: slice) -> Floats:
        """(n, k, p) deviation of z / eigenvalue."""
        scaled = along * self.inverse[at][:, None, :]
        length = np.sum(scaled * scaled, axis=2)[:, None, :]
        inner = (self.turned[at] + self.back[at]) @ scaled.transpose(0, 2, 1)
        square = self.unit[at][:, :, None] * length + inner * inner / 2
        return np.asarray(np.sqrt(square) * self.stddev[at, None, None])

    def _unknown(self, along: Floats, at: slice) -> Floats:
        """(n, k, p): how far the minimiser may be along what of a row is unknown."""
        out = np.zeros((along.shape[0], self.theta.shape[1], along.shape[1]))
        some = np.flatnonzero(np.min(self.known[at], axis=1) == 0)
        if not some.size:
            return out
        vectors = self.quadratic.released.vectors[at][some]
        hidden = along[some] * (1 - self.known[at][some])[:, None, :]
        rest = hidden @ vectors.transpose(0, 2, 1)
        ends = self._ends(rest.reshape(-1, rest.shape[2]))
        top, bottom = (end.reshape(rest.shape[:2])[:, None, :] for end in ends)
        point = self.theta[at][some] @ rest.transpose(0, 2, 1)
        out[some] = np.maximum(np.maximum(top - point, point - bottom), 0.0)
        return out

    def _ends(self, rows: Floats) -> tuple[Floats, Floats]:
        """Largest and least <a, point> over the set, for rows a: (p,) each."""
        top = np.sum(self.set.linear_oracle(-rows) * rows, axis=1)
        return top, np.sum(self.set.linear_oracle(rows) * rows, axis=1)


SURE = 8.0
"""Deviations of its noise that V must have, so that what is divided by it has a margin."""
MEANT = 4.0
"""Deviations of the noise of S that V must have: a margin of R^2 half as wide as from 0 to 1."""


class FitScores(NamedTuple):
    """Errors in scaled units, each (n, k).

    Attributes:
      mse, r2: mean squared error, and 1 less its ratio to that of the mean target.
      mse_stddev, r2_stddev: what the noise does to them, theta as given.
    """

    mse: Floats
    mse_stddev: Floats
    r2: Floats
    r2_stddev: Floats


def score_of(
    statistics: Statistics, fitted: Statistics, theta: Floats, stddev: Floats
) -> FitScores:
    """Errors of models by moments with noise that the models have not seen; NaN while it is large.

    S = y.y - 2 q.theta + theta' Q theta, V = y.y - (q_1)^2 / N, N the sum of the squared constant.
    Given theta their noise is that of linear functions of independent Gaussians, so that S has no
    bias, whatever theta was made of; S / N and S / V move with first derivatives: 1 in y.y (less
    S / V), - 2 theta in q, theta theta' in Q, and so on, whose squared norm times s^2 is the
    variance.

    Whether there is a value follows from theta and the moments that it was fitted to, never from
    the noise that scores it: a row where that noise happens to look small would have a margin that
    it
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
    return FitScores(
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

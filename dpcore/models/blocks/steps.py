"""Fits by noisy preconditioned steps: their public numbers, what they cost, and how they run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fitter import Draws, FitResult, Fitter
from weir.dpcore.models.blocks.level import FitLevel
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.kit.eigen import combination, dot, eigen
from weir.dpcore.models.kit.filter import MOST_TIMES, TIMES, FilterRule, StepFilter
from weir.dpcore.models.kit.loss import exact_exp
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.noise.noise import kind_of, label

LENGTH, MOMENTS, GRADIENTS = Fraction(1, 50), Fraction(1, 10), Fraction(22, 25)
"""Shares of what a fit may cost, as mu^2 or rho."""
CLIP = 0.9
"""Clip of gradients over the root of the mean squared length of a row."""
SHORTEST = 0.1
"""Least mean squared length of features that is taken."""
MOST_WIDTH = 1024
"""Numbers of (x, 1), at most: their second moments take as many times as many."""
MOST_STEPPED = 1 << 23
"""Rows of a fit, at most: sums over them are exact."""
MOST_SQUARES = 1 << 12
"""Squared length of (x, 1), at most: sums of squares are exact."""
CHUNK = 1 << 13
"""Rows that are multiplied at once. Sums of their products are whole numbers below 2^53, which
every order of adding gives the same."""
FINE = 2.0**17
"""Steps of a normalised row in 1."""
SLOPES = 2.0**22
"""Steps of a normalised slope in 1."""
SQUARES = 2.0**20
"""Steps of a squared length in 1."""
BELOW = 1 - 2.0**-40
"""Shortens by more than all rounding."""


@dataclass(frozen=True)
class StepsLevel(FitLevel):
    """Fits of one size by noisy steps, preconditioned by noisy second moments.

    With p = (x, 1), N the public divisor, l the slope of the loss and c its smoothness:
    1. r = mean |x|^2 + noise, and 1 of the intercept; A = sqrt(r), C = 0.9 A.
    2. M = A^2 (mean of z z^T + E), z = p / A, shortened to length 1; E symmetric noise.
    3. M = U diag(e) U^T, e raised by what noise does; T and a of least predicted excess.
    4. T times w <- w - U diag(a / (c e)) U^T l C (g + noise), g the mean of slope / l times p / C,
       that shortened to length 1: a longer row has less weight and is not changed.

    **Formal guarantees**
      Unit: one event, or a user in one block, whose rows have weights that add up to 1; in j blocks
        of the fit, j times as much (``Participation``). A neighbour swaps at most ``changes`` rows
        for others, void ones among them, or adds or removes as many.
      Sensitivity: mean |x|^2 moves by at most (norm of features)^2 / N, which clips enforce. z z^T
        has trace and Frobenius norm at most 1, and for positive semidefinite P, Q of trace at most
        1, |P - Q|^2 = |P|^2 + |Q|^2 - 2 tr P Q <= 2: the mean of z z^T, as the vector of its
        diagonal and sqrt(2) times the entries above it, moves by at most sqrt(2) / N in l2. A row
        of g has l2 norm at most 1 over all outputs together, whatever w is: g moves by 2 / N.
        Each times ``changes``. Rows and slopes are truncated toward zero before they are multiplied
        and sums of the products are exact, so that all three hold exactly.
      Guarantee: given what was released before, A, C, T, the filter and w are constants, so the
        noise of each query is that of a constant, public scale: .02, .1 and .88 of the share, the
        last evenly over T sums, compose adaptively, as mu^2 (Gaussian) or rho (discrete Gaussian).
        T <= 256 may follow from M, as the cost of a sum is 1 / T of its part.
      Noise: of a sum of gradients it is keyed by a digest of filter, T and w, next to that of all
        data; of M by one of A. No noise is ever added to two different points: a retry that came to
        another filter would draw all noise of its steps again. On the way to w only exact sums,
        + - * /, square roots and fixed orders occur (``eigen``), so that a retry on another CPU
        comes to the same bits and draws nothing again.
      Rounding: ``PointNoise``.
      Source: derived here; adaptive composition: Dong, Roth, Su (2022), Bun, Steinke (2016); noisy
        second moments: Dwork, Talwar, Thakurta, Zhang (2014).

    Attributes:
      size, divisor, most: see ``FitLevel``. objective: loss, features and their norm.
      length, moments: noise of the first two. gradients: of a sum, for each T in ``TIMES``.
    """

    objective: Objective
    length: PointNoise
    moments: PointNoise
    gradients: tuple[PointNoise, ...]

    @property
    def kind(self) -> LossKind:
        return kind_of(self.moments.kind)

    @property
    def cost(self) -> Fraction:
        sums = zip(TIMES, self.gradients, strict=True)
        most = max(steps * _cost(noise) for steps, noise in sums)
        return _cost(self.length) + _cost(self.moments) + most

    @property
    def moved(self) -> float:
        """Most that a record moves a mean of clipped gradients, over slope and clip."""
        return self.gradients[0].moved

    @property
    def way(self) -> str:
        return f"noisy preconditioned steps, about {self.expected.steps:,}"

    @property
    def rule(self) -> FilterRule:
        """What is known of the loss before any data."""
        loss = self.objective.loss
        labels = bool(getattr(loss, "labels", False))
        return FilterRule.of(labels, loss.outputs, loss.smoothness)

    @property
    def even(self) -> tuple[Floats, float]:
        """e and A^2 of features that are spread evenly over their ranges: before any data."""
        d, squares = self.objective.features, self.objective.norm**2
        values = np.full(self.objective.width, min(squares, d / 3) / d)
        if self.objective.intercept:
            values[-1] = 1.0
        top = max(min(squares, max(1.0, d / 3)), SHORTEST)
        return values, top + self.objective.intercept

    @cached_property
    def expected(self) -> StepFilter:
        """The filter for such features."""
        return self.choose(*self.even)

    @property
    def variance(self) -> float:
        """Of a step that would go all the way."""
        values, squares = self.even
        loss = self.objective.loss
        inverse = loss.slope(math.inf) * CLIP / (loss.smoothness * values)
        return float(np.mean(inverse * inverse)) * squares * self.gradients[0].variance

    @property
    def excess(self) -> float:
        """Predicted excess of the mean loss of a first fit."""
        return self.expected.excess

    @property
    def trivial(self) -> float:
        """What a constant loses, about: ln 2 or ln m of classes; a good part of it for numbers."""
        loss = self.objective.loss
        if loss.outputs > 1:
            return math.log(loss.outputs)
        return math.log(2.0) if getattr(loss, "labels", False) else 0.06

    def choose(self, values: Floats, squares: float, linked: bool = False) -> StepFilter:
        """The filter of least predicted excess. values: (D,) e, before they are raised. squares:
        A^2. linked: see ``FilterRule``."""
        unit = (self.objective.loss.slope(math.inf) * CLIP) ** 2 * squares
        variances = [unit * noise.variance for noise in self.gradients]
        return self.rule.choose(self.raised(values, squares), variances, linked)

    def raised(self, values: Floats, squares: float) -> Floats:
        """Eigenvalues above all that noise does to them."""
        low = squares * self.moments.stddev * math.sqrt(len(values))
        return np.asarray(np.maximum(values, 0.0) + low)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        some = (self.length, self.moments, *self.gradients)
        return {
            "size": self.size,
            "steps": [self.divisor.hex(), self.most],
            "noise": [
                [item.kind, item.scale.hex(), item.sensitivity.hex(), item.resolution.hex()]
                for item in some
            ],
        }


def _cost(noise: PointNoise) -> Fraction:
    value = Fraction(noise.loss.value)
    return value * value if noise.kind == "gaussian" else value


def steps_level(
    objective: Objective,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    budget: PrivacyLoss,
    share: Fraction,
) -> StepsLevel:
    """A level whose fits cost at most a share of a Gaussian budget each.

    Args:
      objective: loss, features and their norm. size, divisor, most: see ``FitLevel``. changes: rows
        that a neighbour swaps.

    Raises:
      ConfigError: noise or numbers that cannot be served.
    """
    if most > MOST_STEPPED:
        raise ConfigError(
            "model.block", most, f"rows in a fit are more than {MOST_STEPPED:,}; take fewer."
        )
    width, norm = objective.width, objective.norm
    if norm * norm + 1 > MOST_SQUARES:
        raise ConfigError(
            "model.clip.features", norm, f"must be at most {math.isqrt(MOST_SQUARES) - 1}."
        )

    def noise(dimension: int, moved: float, part: Fraction, name: str) -> PointNoise:
        units = float(1 / (share * part)) * (1 + 2.0**-50)
        each = changes * moved / divisor * (1 + 2.0**-50)
        return PointNoise.calibrated(dimension, each, budget, units, spare=1.0, name=name)

    return StepsLevel(
        size,
        divisor,
        most,
        objective,
        noise(1, norm * norm, LENGTH, "a mean length"),
        noise(width * (width + 1) // 2, math.sqrt(2.0), MOMENTS, "second moments"),
        tuple(noise(objective.dimension, 2.0, GRADIENTS / steps, "a gradient") for steps in TIMES),
    )


def huber_width(dimension: int, rows: float, budget: PrivacyLoss) -> float:
    """Of a loss of numbers: half of the target's half range where noise matters, else all of it.

    Args:
      rows: of a fit, times the root of its share of the budget.
    """
    mu = budget.value if budget.kind == "gdp" else math.sqrt(2 * budget.value)
    return 0.5 if 2 * math.sqrt(dimension) / (rows * mu) > 1e-3 else 1.0


@dataclass(frozen=True)
class StepsFitter(Fitter):
    """Makes the fits of a level: see ``StepsLevel`` for what they cost.

    The first iteration makes the filter, the others are steps; those beyond T do nothing.
    """

    level: StepsLevel

    @property
    def dimension(self) -> int:
        return self.level.objective.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: w; and A, T and the filter."""
        return self.dimension, 2 + self.level.objective.width**2

    @property
    def steps(self) -> int:  # type: ignore[override]  # a field of other fitters
        return 1 + MOST_TIMES

    @property
    def work(self) -> int:
        width = self.level.objective.width
        return 2 * self.level.most * self.dimension + self.dimension * width

    def fit(
        self,
        features: Any,
        targets: Floats,
        after: Floats,
        draws: Draws,
        weights: Floats | None = None,
        places: Ints | None = None,
    ) -> StepsFit:
        objective = self.level.objective
        points = objective.points(features)
        targets = objective.targets_of(targets)
        weights = np.ones(len(targets)) if weights is None else weights
        return StepsFit(self.level, after, points, targets, weights, draws)


@dataclass(frozen=True)
class StepsFit:
    """One fit: see FitRun.

    Attributes:
      level: its public numbers. centre: (D,), where it starts. points: (n, width). targets: (n,).
      weights: (n,), of rows. draws: of its noise.
    """

    level: StepsLevel
    centre: Floats
    points: Floats
    targets: Floats
    weights: Floats
    draws: Draws

    def start(self) -> tuple[Floats, Floats]:
        return self._rounded(self.centre), np.zeros(2 + self.level.objective.width**2)

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        for at in range(done, done + steps):
            if at == 0:
                y = self.filtered()
            elif at <= y[1]:
                x = self.stepped(x, y, at)
        return x, y

    def finish(self, x: Floats, y: Floats) -> FitResult:
        """See FitRun: where steps end has noise in it."""
        return FitResult(x)

    def filtered(self) -> Floats:
        """A, T and the filter U diag(a / (c e)) U^T, row after row."""
        level, objective = self.level, self.level.objective
        low = SHORTEST + objective.intercept
        high = max(low, objective.norm**2 + objective.intercept)
        mean = float(self._released(level.length, self.mean_length(), 1, np.zeros(1))[0])
        squares = min(max(mean + objective.intercept, low), high)
        reach = math.sqrt(squares)
        own = self._released(level.moments, self.second_moments(reach), 2, np.array([reach]))
        values, rows = eigen(_matrix(own, objective.width) * squares)
        chosen = level.choose(values, squares, bool(self.centre.any()))
        inverse = chosen.lengths / (level.rule.smoothness * level.raised(values, squares))
        matrix = np.zeros_like(rows)
        for weight, row in zip(inverse.tolist(), rows, strict=True):
            if weight:
                matrix += np.multiply.outer(row * weight, row)
        return np.concatenate([[reach, float(chosen.steps)], matrix.reshape(-1)])

    def stepped(self, x: Floats, y: Floats, number: int) -> Floats:
        """One step. x: (D,), w. y: what ``filtered`` gave. number: from 1."""
        level, objective = self.level, self.level.objective
        clip = CLIP * float(y[0])
        noise = level.gradients[TIMES.index(int(y[1]))]
        seen = np.concatenate([y, x])
        gradient = self._released(noise, self.gradient(x, clip), 2 + number, seen)
        gradient *= objective.loss.slope(math.inf) * clip
        matrix = y[2:].reshape(objective.width, objective.width)
        moved = [combination(row, matrix) for row in gradient.reshape(-1, objective.width)]
        return self._rounded(x - np.concatenate(moved))

    def mean_length(self) -> Floats:
        """(1,): the mean of |x|^2 over the public N, without noise."""
        x = self.points[:, : self.level.objective.features]
        square = np.einsum("ij,ij->i", x, x)  # of whole numbers below 2^53: exact
        total = int(np.trunc(square * self.weights * SQUARES).astype(np.int64).sum())
        return np.array([total / SQUARES / self.level.divisor])

    def second_moments(self, reach: float) -> Floats:
        """(D (D + 1) / 2,): the mean of z z^T, without noise; entries off the diagonal times
        sqrt(2)."""
        root, width = np.sqrt(self.weights), self.level.objective.width
        total = np.zeros((width, width), dtype=np.int64)
        for piece in self._pieces():
            z = np.trunc(self._short(piece, reach) * (root[piece] * FINE)[:, None])
            total += (z.T @ z).astype(np.int64)
        mean = total[np.triu_indices(width)] / (FINE * FINE) / self.level.divisor
        return np.asarray(mean * _doubled(width))

    def gradient(self, w: Floats, clip: float) -> Floats:
        """(D,): the mean of clipped gradients over slope and clip, without noise."""
        objective = self.level.objective
        outputs, width = objective.outputs, objective.width
        total = np.zeros((outputs, width), dtype=np.int64)
        matrix = w.reshape(outputs, width).T
        for piece in self._pieces():
            slopes = self._slopes(self.points[piece] @ matrix, self.targets[piece])
            slopes = np.trunc(slopes * (self.weights[piece] * SLOPES)[:, None])
            rows = np.trunc(self._short(piece, clip) * FINE)
            total += (slopes.T @ rows).astype(np.int64)
        return np.asarray(total.reshape(-1) / (SLOPES * FINE) / self.level.divisor)

    def _pieces(self) -> list[slice]:
        return [slice(at, at + CHUNK) for at in range(0, len(self.points), CHUNK)]

    def _short(self, piece: slice, bound: float) -> Floats:
        """Rows over a bound, longer ones shortened: of length below 1."""
        points = self.points[piece]
        size = np.sqrt(np.einsum("ij,ij->i", points, points))
        return np.asarray(points * (BELOW / np.maximum(size, bound))[:, None])

    def _slopes(self, scores: Floats, targets: Floats) -> Floats:
        """(n, outputs), each row of l2 norm below 1; the same bits on every CPU."""
        loss = self.level.objective.loss
        if loss.outputs == 1:
            slopes = loss.derivative(scores[:, 0], targets)[:, None]  # type: ignore[union-attr]
        else:
            raised = exact_exp(scores - scores.max(axis=1, keepdims=True))
            total = np.zeros(len(scores))
            for column in raised.T:
                total += column
            slopes = raised / total[:, None]
            slopes[np.arange(len(slopes)), targets.astype(np.int64)] -= 1.0
        return np.asarray(slopes * (BELOW / loss.slope(math.inf)))

    def _rounded(self, w: Floats) -> Floats:
        """w on a grid on which scores of rows are exact whatever order they are added in."""
        size = self.level.objective.reach * math.sqrt(dot(w, w))
        grid = math.ldexp(1.0, math.frexp(size)[1] - 32)
        return np.asarray(np.rint(w / grid) * grid + 0.0)

    def _released(self, noise: PointNoise, point: Floats, number: int, seen: Floats) -> Floats:
        """A point with noise that is keyed by its number and by all that it follows from."""
        draws = self.draws
        words = np.ascontiguousarray(seen + 0.0).view(np.int64)
        digest: Digests = draws.digest ^ draws.noise.leaf_digests(words[None, None])[0, 0]
        return noise.released(
            point, draws.noise, label(draws.place + (number << 16), draws.complete), digest
        )


def _doubled(width: int) -> Floats:
    """(D (D + 1) / 2,): 1 of the diagonal, sqrt(2) of entries above it."""
    row, column = np.triu_indices(width)
    return np.where(row == column, 1.0, math.sqrt(2.0))


def _matrix(own: Floats, width: int) -> Floats:
    """The symmetric matrix of noisy moments."""
    result = np.empty((width, width))
    row, column = np.triu_indices(width)
    result[row, column] = result[column, row] = own / _doubled(width)
    return result

"""How fits by noisy preconditioned steps run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.models.blocks.fitter import Draws, FitResult, Fitter
from weir.dpcore.models.blocks.steps import (
    CLIP,
    HALVINGS,
    LEAST_SLOPE,
    SCORE_CLIP,
    SHORTEST,
    StepsLevel,
)
from weir.dpcore.models.kit.eigen import combination, dot, spectral
from weir.dpcore.models.kit.filter import MOST_TIMES, TIMES
from weir.dpcore.models.kit.loss import exact_exp
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.models.kit.short_rows import (
    BELOW,
    FINE,
    matrix_of,
    pieces,
    products,
    shortened,
    vector_of,
)
from weir.dpcore.noise.noise import label

SLOPES = 2.0**22
"""Steps of a normalised slope in 1."""
SQUARES = 2.0**20
"""Steps of a squared length in 1."""


@dataclass(frozen=True)
class StepsFitter(Fitter):
    """Makes the fits of a level: see ``StepsLevel`` for what they cost.

    The first iteration makes the filter, the others are steps; those beyond T do nothing. The last
    scale scores.
    """

    level: StepsLevel

    @property
    def dimension(self) -> int:
        return self.level.objective.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: w; and A, T and the filter, of plain descent one number."""
        return self.dimension, 2 + (self.level.objective.width**2 if self.level.moments else 1)

    @property
    def steps(self) -> int:  # type: ignore[override]  # a field of other fitters
        return 1 + MOST_TIMES + (len(HALVINGS) if self.level.scale else 0)

    @property
    def work(self) -> int:
        filtered = self.dimension * self.level.objective.width if self.level.moments else 0
        return 2 * self.level.most * self.dimension + filtered

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
        return self._rounded(self.centre), np.zeros(StepsFitter(self.level).sizes[1])

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        for at in range(done, done + steps):
            if at == 0:
                y = self.filtered()
            elif at <= y[1]:
                x = self.stepped(x, y, at)
            elif at > MOST_TIMES:
                x = self.scaled(x, y, at)
        return x, y

    def finish(self, x: Floats, y: Floats) -> FitResult:
        """See FitRun: where steps end has noise in it."""
        return FitResult(x)

    def filtered(self) -> Floats:
        """A, T and the filter: U diag(a / (c e)) U^T, row after row, or a / (c A^2)."""
        level, objective = self.level, self.level.objective
        low = SHORTEST + objective.intercept
        high = max(low, objective.norm**2 + objective.intercept)
        mean = float(self._released(level.length, self.mean_length(), 1, np.zeros(1))[0])
        squares = min(max(mean + objective.intercept, low), high)
        reach, linked = math.sqrt(squares), bool(self.centre.any())
        if level.moments is None:
            way = level.descent(squares, linked)
            step = float(way.lengths[0]) / (objective.loss.smoothness * squares)
            return np.array([reach, float(way.steps), step])
        moments = self._released(level.moments, self.second_moments(reach), 2, np.array([reach]))
        matrix = matrix_of(moments, objective.width) * squares
        own = level.spectrum(matrix, squares, linked)
        filtered = spectral(own.inverse, own.rows).reshape(-1)
        return np.concatenate([[reach, float(own.chosen.steps)], filtered])

    def stepped(self, x: Floats, y: Floats, number: int) -> Floats:
        """One step. x: (D,), w. y: what ``filtered`` gave. number: from 1."""
        level, objective = self.level, self.level.objective
        clip = CLIP * float(y[0])
        noise = level.gradients[TIMES.index(int(y[1]))]
        seen = np.concatenate([y, x])
        gradient = self._released(noise, self.gradient(x, clip), 2 + number, seen)
        gradient *= objective.loss.slope(math.inf) * clip * level.slope_clip
        if level.moments is None:
            return self._rounded(x - float(y[2]) * gradient)
        matrix = y[2:].reshape(objective.width, objective.width)
        moved = [combination(row, matrix) for row in gradient.reshape(-1, objective.width)]
        return self._rounded(x - np.concatenate(moved))

    def scaled(self, x: Floats, y: Floats, number: int) -> Floats:
        """w, or a multiple of it. x, y, number: as in ``stepped``, beyond all steps."""
        noise = self.level.scale
        assert noise is not None
        looked, factor = HALVINGS[number - 1 - MOST_TIMES]
        slope = self._released(noise, self.along(x, looked), 2 + number, np.concatenate([y, x]))
        return self._rounded(x * factor) if slope[0] > 0 else x

    def mean_length(self) -> Floats:
        """(1,): the mean of |x|^2 over the public N, without noise."""
        x = self.points[:, : self.level.objective.features]
        square = np.einsum("ij,ij->i", x, x)  # of whole numbers below 2^53: exact
        total = int(np.trunc(square * self.weights * SQUARES).astype(np.int64).sum())
        return np.array([total / SQUARES / self.level.divisor])

    def second_moments(self, reach: float) -> Floats:
        """(D (D + 1) / 2,): the mean of z z^T, without noise; entries off the diagonal times
        sqrt(2)."""
        total = products(self.points, reach, self.weights)
        return vector_of(total / (FINE * FINE) / self.level.divisor)

    def gradient(self, w: Floats, clip: float) -> Floats:
        """(D,): the mean of clipped gradients over slope and both clips, without noise."""
        objective, most = self.level.objective, self.level.slope_clip
        outputs, width = objective.outputs, objective.width
        total = np.zeros((outputs, width), dtype=np.int64)
        matrix = w.reshape(outputs, width).T
        for piece in pieces(len(self.points)):
            slopes = self._slopes(self.points[piece] @ matrix, self.targets[piece])
            if most < 1:
                points = self.points[piece]
                size = np.sqrt(np.einsum("ij,ij->i", points, points))  # of whole numbers: exact
                long = _lengths(slopes) * np.minimum(1.0, size / clip)
                slopes /= np.maximum(long * (1 + 2.0**-40), most)[:, None]
            slopes = np.trunc(slopes * (self.weights[piece] * SLOPES)[:, None])
            rows = np.trunc(shortened(self.points[piece], clip) * FINE)
            total += (slopes.T @ rows).astype(np.int64)
        return np.asarray(total.reshape(-1) / (SLOPES * FINE) / self.level.divisor)

    def along(self, w: Floats, factor: float) -> Floats:
        """(1,): the mean of slopes at scores times a factor, along the scores, held within
        [-1/2, 1], without noise."""
        objective, total = self.level.objective, 0
        matrix = w.reshape(objective.outputs, objective.width).T
        for piece in pieces(len(self.points)):
            scores = self.points[piece] @ matrix
            slopes = self._slopes(scores * factor, self.targets[piece])
            own = np.zeros(len(scores))
            for slope, score in zip(slopes.T, scores.T, strict=True):
                own += slope * score
            own = np.clip(own / SCORE_CLIP, LEAST_SLOPE, 1.0) * (self.weights[piece] * SLOPES)
            total += int(np.trunc(own).astype(np.int64).sum())
        return np.array([total / SLOPES / self.level.divisor])

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


def _lengths(rows: Floats) -> Floats:
    """(n,): l2 norms, added in order: the same bits on every CPU."""
    total = np.zeros(len(rows))
    for column in rows.T:
        total += column * column
    return np.sqrt(total)

"""Fits by noisy preconditioned steps: their public numbers, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.level import FitLevel, mu_like
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.kit.filter import TIMES, FilterRule, Spectrum, StepFilter, constant_loss
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.noise.noise import kind_of

LENGTH, MOMENTS, GRADIENTS = Fraction(1, 50), Fraction(1, 10), Fraction(22, 25)
SCALES = Fraction(1, 20)
"""Shares of what a fit may cost, as mu^2 or rho."""
CLIP = 0.9
"""Clip of gradients over the root of the mean squared length of a row."""
SLOPE_CLIPS = (0.5, 0.25, 0.125)
"""Clip of a row's gradient over its largest length, where noise would hide second moments: of
numbers and of fits that may follow a released model, of two classes, of more. With a small one rows
of classes that are nearly right count for more, and scores come out too large where labels are
random: ``HALVINGS`` take that back."""
PATHS = (0.5, 0.75, 1.0)
"""Noise of a whole path of descent, in largest gradients of a row, of the same."""
HIDDEN, HIDDEN_BY_CLASSES, HIDDEN_LINKED = 0.3, 0.1, 0.2
"""Noise in second moments, over their mean eigenvalue, above which they are left out; of several
classes; of these in fits that may follow a released model. On tables that no default is judged on,
descent was nearer from there on."""
STRIDE, LEAST_STEPS = 16.0, 128
"""Of classes: how far a step of such a path may move the score of a row, and how many there are at
least. All these were chosen on tables that no default is judged on."""
HALVINGS = ((0.4453125, 0.396484375), (0.70703125, 0.6298828125), (0.890625, 0.7939453125))
"""Where the loss along the scale of all scores is looked at, and what scores are multiplied by if
it falls toward 0 there: about 2^(-(b - 1/2) / 3) and 2^(-b / 3) for b = 4, 2, 1."""
SCORE_CLIP, LEAST_SLOPE = 4.0, -0.5
"""Clip of a row's score there, and of slope times score over it: no row of a few classes has less,
as slopes vanish where scores are right."""
LINKED, LINKED_BY_CLASSES = 0.25, 0.125
"""Of the noise of a path, what one from a released model may have: a sixteenth of its excess; of
several classes, where a quarter was worse on six of nine tables that no default is judged on, by
0.2 of what can be explained on average, and better by 0.02 on the others."""
GAIN = 1.0625
"""Times longer path that is worth more steps."""
SHORTEST = 0.1
"""Least mean squared length of features that is taken."""
MOST_WIDTH = 1024
"""Numbers of (x, 1) whose second moments are summed, at most: they are as many times as many."""
MOST_STEPPED = 1 << 23
"""Rows of a fit, at most: sums over them are exact."""
MOST_SQUARES = 1 << 12
"""Squared length of (x, 1), at most: sums of squares are exact."""


@dataclass(frozen=True)
class StepsLevel(FitLevel):
    """Fits of one size by noisy steps, preconditioned by noisy second moments.

    With p = (x, 1), N the public divisor, l the slope of the loss and c its smoothness:
    1. r = mean |x|^2 + noise, and 1 of the intercept; A = sqrt(r), C = 0.9 A.
    2. M = A^2 (mean of z z^T + E), z = p / A, shortened to length 1; E symmetric noise.
    3. M = U diag(e) U^T, e raised by what noise does; T and a of least predicted excess.
    4. T times w <- w - U diag(a / (c e)) U^T l C (g + noise), g the mean of slope / l times p / C,
       that shortened to length 1: a longer row has less weight and is not changed.
    Where p has more than ``MOST_WIDTH`` numbers, or noise would hide second moments (``hides``),
    there are none: plain descent, the filter is a / (c A^2), rows of g are clipped to length
    ``slope_clip`` and divided by it, and T and a are public: the longest path T a on which noise
    adds up to a standard deviation of ``PATHS``. Scores of classes are then multiplied by what
    ``HALVINGS`` have where h + noise is above 0, h the mean over rows of the slope along z, the
    row's scores, over l and ``SCORE_CLIP``, held within [-1/2, 1].

    **Formal guarantees**
      Unit: one event, or a user in one block, whose rows have weights that add up to 1; in j blocks
        of the fit, j times as much (``Participation``). A neighbour swaps at most ``changes`` rows
        for others, void ones among them, or adds or removes as many.
      Sensitivity: mean |x|^2 moves by at most (norm of features)^2 / N, which clips enforce. z z^T
        has trace and Frobenius norm at most 1, and for positive semidefinite P, Q of trace at most
        1, |P - Q|^2 = |P|^2 + |Q|^2 - 2 tr P Q <= 2: the mean of z z^T, as the vector of its
        diagonal and sqrt(2) times the entries above it, moves by at most sqrt(2) / N in l2. A row
        of g has l2 norm at most 1 over all outputs together, whatever w and ``slope_clip`` are: g
        moves by 2 / N, and h by 1.5 / N.
        Each times ``changes``. Rows and slopes are truncated toward zero before they are multiplied
        and sums of the products are exact, so that all four hold exactly.
      Guarantee: given what was released before, A, C, T, the filter and w are constants, so the
        noise of each query is that of a constant, public scale: .02, .1 and .88 of the share (.02
        and .98 without second moments, .02, .93 and .05 where scores are scaled), the last evenly
        over T sums (that of scales over three), compose adaptively, as mu^2 (Gaussian), rho
        (discrete Gaussian) or epsilon (K-norm noise of the l2 norm).
        T <= 256 may follow from M, as the cost of a sum is 1 / T of its part.
      Noise: of a sum of gradients, and of h, it is keyed by a digest of filter, T and w, next to
        that of all data; of M by one of A. No noise is ever added to two different points: a retry
        that came to another filter would draw all noise of its steps again. On the way to w only
        exact sums, + - * /, square roots and fixed orders occur (``eigen``), so that a retry on
        another CPU comes to the same bits and draws nothing again.
      Rounding: ``PointNoise``.
      Source: derived here; adaptive composition: Dong, Roth, Su (2022), Bun, Steinke (2016); noisy
        second moments: Dwork, Talwar, Thakurta, Zhang (2014).

    Attributes:
      size, divisor, most: see ``FitLevel``. objective: loss, features and their norm.
      length, moments: noise of the first two; None: there are no second moments.
      gradients: of a sum, for each T in ``TIMES``.
      slope_clip: of a row of g; 1: it is as long as it is.
      scale: of h; None: scores stay as they are.
      linked: whether fits may follow a released model.
    """

    objective: Objective
    length: PointNoise
    moments: PointNoise | None
    gradients: tuple[PointNoise, ...]
    slope_clip: float = 1.0
    scale: PointNoise | None = None
    linked: bool = False

    @property
    def hides(self) -> bool:
        """Whether Gaussian noise hides second moments, of features that are spread evenly: public.

        Many sums of gradients cost too much where losses add straight: pure budgets keep them.
        """
        most = HIDDEN
        if self.objective.loss.outputs > 1:
            most = HIDDEN_LINKED if self.linked else HIDDEN_BY_CLASSES
        return self.moments is not None and self.kind != "pure" and self.hidden > most

    @property
    def hidden(self) -> float:
        """Noise in second moments, in the spectral norm, over their mean eigenvalue."""
        assert self.moments is not None
        width = self.objective.width
        return self.moments.stddev * width * math.sqrt(width)

    @property
    def kind(self) -> LossKind:
        return kind_of(self.length.kind)

    @cached_property
    def cost(self) -> Fraction:
        sums = zip(TIMES, self.gradients, strict=True)
        most = max(steps * _cost(noise) for steps, noise in sums)
        scales = len(HALVINGS) * _cost(self.scale) if self.scale else 0
        return _cost(self.length) + (_cost(self.moments) if self.moments else 0) + most + scales

    @property
    def moved(self) -> float:
        """Most that a record moves a mean of clipped gradients, over slope and clip."""
        return self.gradients[0].moved

    @property
    def way(self) -> str:
        if self.moments:
            return f"noisy preconditioned steps, about {self.expected.steps:,}"
        return f"noisy steps of plain descent, about {self.expected.steps:,}, no second moments"

    @property
    def rule(self) -> FilterRule:
        """What is known of the loss before any data."""
        loss = self.objective.loss
        return FilterRule.of(self.classifies, loss.outputs, loss.smoothness)

    @property
    def classifies(self) -> bool:
        """Whether the loss is of classes."""
        return _classes(self.objective, False) > 0

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
        """Of a step that would go all the way, or of all of plain descent."""
        values, squares = self.even
        loss = self.objective.loss
        if self.moments is None:
            way, (length,) = self.expected, self.expected.lengths
            noise = self._variances(squares)[TIMES.index(way.steps)]
            return float(way.steps * noise * (length / (loss.smoothness * squares)) ** 2)
        inverse = loss.slope(math.inf) * CLIP / (loss.smoothness * values)
        return float(np.mean(inverse * inverse)) * squares * self.gradients[0].variance

    @property
    def excess(self) -> float:
        """Predicted excess of the mean loss of a first fit."""
        return self.expected.excess

    def choose(self, values: Floats, squares: float) -> StepFilter:
        """The filter of least predicted excess. values: (D,) e, before they are raised. squares:
        A^2."""
        if self.moments is None:
            return self.descent(squares, False)
        low = self._low(self.moments, squares)
        return self.rule.choose(np.maximum(values, 0.0) + low, self._variances(squares))

    def descent(self, squares: float, linked: bool) -> StepFilter:
        """That of plain descent. squares: A^2. linked: see ``FilterRule``."""
        steps, length = self.path(linked)
        loss, variance = self.objective.loss, self._variances(squares)[TIMES.index(steps)]
        lost = constant_loss(self.classifies, loss.outputs)
        rule = replace(self.rule, start=lost)  # no more than that is left
        return rule.descent(squares, self.objective.width, steps, length, variance, linked)

    def path(self, linked: bool) -> tuple[int, float]:
        """T and a of plain descent: a path T a as long as noise allows, which adds up to a standard
        deviation of a sqrt(T) times that of one clipped g: ``PATHS``, times ``LINKED`` or
        ``LINKED_BY_CLASSES`` from a released model."""
        loss, clip = self.objective.loss, self.slope_clip
        kind = _classes(self.objective, self.linked)
        most = PATHS[kind] / clip
        if linked:
            most *= LINKED_BY_CLASSES if loss.outputs > 1 else LINKED
        stride, least = 1.0, 1
        if self.classifies:
            stride = STRIDE * loss.smoothness / (CLIP * clip * loss.slope(math.inf))
            least = 1 if self.kind == "pure" else LEAST_STEPS
        best, chosen = 0.0, (least, stride)
        for steps, noise in zip(TIMES, self.gradients, strict=True):
            length = min(stride, most / (math.sqrt(steps) * noise.stddev))
            if steps >= least and steps * length > GAIN * best:
                best, chosen = steps * length, (steps, length)
        return chosen

    def spectrum(self, matrix: Floats, squares: float, linked: bool) -> Spectrum:
        """The filter of noisy second moments. matrix: (D, D) M. squares: A^2. linked: see
        ``FilterRule``."""
        assert self.moments is not None
        low = self._low(self.moments, squares)
        return self.rule.spectrum(matrix, low, self._variances(squares), linked)

    def _low(self, moments: PointNoise, squares: float) -> float:
        """What eigenvalues are raised by, above all that noise does to them."""
        return squares * moments.stddev * math.sqrt(self.objective.width)

    def _variances(self, squares: float) -> list[float]:
        """Of a step's noise for each T."""
        unit = (self.objective.loss.slope(math.inf) * CLIP * self.slope_clip) ** 2 * squares
        return [unit * noise.variance for noise in self.gradients]

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        some = [one for one in (self.length, self.moments, *self.gradients, self.scale) if one]
        return {
            "size": self.size,
            "steps": [self.divisor.hex(), self.most],
            "noise": [
                [item.kind, item.scale.hex(), item.sensitivity.hex(), item.resolution.hex()]
                for item in some
            ],
            **({} if self.slope_clip == 1 else {"slope_clip": self.slope_clip.hex()}),
        }


def _classes(objective: Objective, linked: bool) -> int:
    """The place in ``PATHS`` and ``SLOPE_CLIPS``."""
    loss = objective.loss
    return 0 if linked else 2 if loss.outputs > 1 else int(getattr(loss, "labels", False))


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
    moments: bool | None = None,
    linked: bool = False,
) -> StepsLevel:
    """A level whose fits cost at most a share of a budget each.

    Args:
      objective: loss, features and their norm. size, divisor, most: see ``FitLevel``. changes: rows
        that a neighbour swaps. moments: whether to use second moments; None: unless noise would
        hide them, a rule of public numbers. linked: see ``StepsLevel``.

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

    def level(moments: bool) -> StepsLevel:
        squares = scale = None
        rest = GRADIENTS if moments else 1 - LENGTH
        kind = _classes(objective, linked)
        slope_clip = 1.0 if moments else SLOPE_CLIPS[kind]
        if not moments and kind:
            rest -= SCALES
            scale = noise(1, 1.0 - LEAST_SLOPE, SCALES / len(HALVINGS), "a scale")
        if moments:
            size_of = width * (width + 1) // 2
            squares = noise(size_of, math.sqrt(2.0), MOMENTS, "second moments")
        first = noise(1, norm * norm, LENGTH, "a mean length")
        sums = (noise(objective.dimension, 2.0, rest / steps, "a gradient") for steps in TIMES)
        sizes = (size, divisor, most, objective)
        return StepsLevel(*sizes, first, squares, tuple(sums), slope_clip, scale, linked)

    if moments is not False and width <= MOST_WIDTH:
        preconditioned = level(True)
        if moments or not preconditioned.hides:
            return preconditioned
    return level(False)


def huber_width(dimension: int, rows: float, budget: PrivacyLoss) -> float:
    """Of a loss of numbers: half of the target's half range where noise matters, else all of it.

    Args:
      rows: of a fit, times the root of its share of the budget.
    """
    mu = mu_like(budget, dimension)
    return 0.5 if 2 * math.sqrt(dimension) / (rows * mu) > 1e-3 else 1.0

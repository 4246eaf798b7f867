"""Frank and Wolfe's steps over a polytope, each vertex chosen by the least of noisy scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fitter import Draws, FitResult
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.models.optimize.linear import Linear, best_steps, gap, total
from weir.dpcore.models.optimize.rows import RowMatrix, on_lattice
from weir.dpcore.models.optimize.vertices import VertexCandidates
from weir.dpcore.models.optimize.width import FitStrategy
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.selection import select
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.words import number

AT_ONCE = 1 << 16
"""Numbers of noise that are drawn at once, where steps need fewer."""
MANY = 1 << 12
"""Candidates from which on logarithms are taken of few of them only: the same choices."""
TOGETHER = 1 << 10
"""Columns up to which all moments are made at once: as many would be asked for one by one."""
KEPT = 1 << 23
"""Numbers of moments that are kept of more columns than that."""
STEP_BITS = 20
"""Bits of a noise label's level that tell the steps of a fit apart."""
COST: Mapping[str, Fraction] = {"gumbel": Fraction(1, 8), "laplace": Fraction(1, 2)}
"""zCDP of one selection, over (range sensitivity / scale)^2: see ``dpcore.noise.selection``."""


@dataclass(frozen=True)
class Selection(FitStrategy):
    """Makes fits of T steps: vertex argmin_v <v, grad L(theta_t)> - b noise_v, mu_t = 2 / (t + 2).

    **Formal guarantees**
      Unit: one event. A neighbour swaps at most ``changes`` rows of what is fitted for others (a
        void one among them), or adds or removes as many. L is a sum over rows over the public N.
      Sensitivity: a row moves the score of vertex v by s <v, x> / N, |s| <= ``slope``, so that the
        *range* of the changes of all scores, max_v c_v - min_v c_v, is at most
        2 changes slope diam / N, diam the largest difference of what two vertices predict. The
        slope is enforced: it is clipped (to a lattice), whatever the model and the row are, and one
        that is not finite is 0; of squared losses it follows from bounds that rows are held to, and
        ``slack`` covers what double precision does to their sums. The first step is taken at a
        public point, where slopes are smaller (``first``): at 0 that of a squared loss is |y|, 1
        instead of 3 on a ball of radius 2. Under the same noise it costs as much less.
      Guarantee: a selection costs (D / b)^2 / 8 of zCDP with Gumbel noise (the exponential
        mechanism), (D / b)^2 / 2 with Laplace noise, and D / b of pure epsilon with either; the
        first and T - 1 others add up, adaptively. Only the choices are outputs: the model is a
        function of them and of public numbers, and has at most T vertices.
      Error: E gap <= 2 Gamma / (T + 2) + b ln(vertices) with Gumbel noise, whose largest of J has
        mean ln J above its own; b (ln(vertices) + 1) with Laplace noise (a harmonic number).
      The paper prints Laplace noise of scale L1 ||C||_1 sqrt(8 T ln(1/delta)) / (n eps), which
        costs about twice its epsilon where a record is replaced; ``laplace`` has its noise at the
        scale that is paid for here.
      Users: a row's slope is shared by its weight, cut toward zero to the lattice, so that the rows
        of a user in a block move the scores as one row does at most. In j blocks of the fit, j
        times as much (``Presence``).
      Source: Talwar, Thakurta, Zhang (2015), Algorithm 2.

    Attributes: see ``FitStrategy``;
      noise: gumbel or laplace. kind: zcdp or pure. scale: b, in the units of a mean's scores.
    """

    way: ClassVar[str] = "selection"

    @cached_property
    def candidates(self) -> VertexCandidates:
        """The vertices."""
        return candidates_of(self.linear)

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: weights of vertices, and sums of moments where the loss is squared."""
        columns = self.candidates.columns
        return columns, columns if self.quadratic else 0

    @property
    def quadratic(self) -> bool:
        """Whether gradients follow from moments of the rows, which have no weights."""
        return self.linear.loss.quadratic and not self.users

    @property
    def work(self) -> int:
        return 2 * self.most * self.candidates.columns

    @property
    def begin(self) -> Floats:
        """See FitStrategy: 0, or where that is no point of the set the first vertex."""
        weights = np.zeros(self.candidates.columns)
        if not self.candidates.signed:
            weights[0] = 1.0
        return self.candidates.model(weights)

    @property
    def sensitivity(self) -> float:
        """Range sensitivity of the scores."""
        return self._sensitivity(self.linear.slope if self.quadratic else self.steepest * self.unit)

    @cached_property
    def first_sensitivity(self) -> float:
        """The same of the first step."""
        at = self.first * self.unit
        if self.quadratic:
            at = self.linear.slope_at(self.begin) + self.candidates.rounding
        return min(self.sensitivity, self._sensitivity(at))

    def _sensitivity(self, slope: float) -> float:
        """Of slopes of a size at most; what rounding adds is that of the steepest ones."""
        moved = 2 * self.changes * (self.linear.moved + self.candidates.rounding) / self.divisor
        return round_up(moved * (slope + self.slack * max(slope, self.linear.slope)))

    @property
    def units(self) -> float:
        """Steps of full sensitivity that cost as much as all of a fit."""
        ratio = self.first_sensitivity / self.sensitivity * (1 + 2.0**-50)
        return self.steps - 1 + (ratio if self.kind == "pure" else ratio * ratio)

    @property
    def slack(self) -> float:
        """Of squared losses: each of T sums of at most ``most`` terms is rounded, and so are the
        moments; twice that of what two neighbours differ by, over what one row may move."""
        return 2.0**-40 + (self.steps * self.most * 2.0**-49 if self.quadratic else 0.0)

    @property
    def loss(self) -> PrivacyLoss:
        return loss_of(self.noise, self.kind, self.units, self.sensitivity / self.scale)

    @property
    def error(self) -> float:
        return gap(self.linear.curvature, self.steps, self.scale * largest(self))

    @property
    def step_words(self) -> str:
        chosen = f"of {self.candidates.count:,} vertices, {self.noise} noise {number(self.scale)}"
        return f"chooses one {chosen} on the mean's scores"

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            f"A model has at most {self.steps:,} vertices of the set: those that its steps chose. "
            "Which they are is what is released.",
        )

    def fit(
        self,
        features: Any,
        targets: Floats,
        after: Floats,
        draws: Draws,
        weights: Floats | None = None,
        places: Ints | None = None,
    ) -> Selecting:
        """See Fitter: it starts again, whatever was released before."""
        rows = RowMatrix(self.linear.points(features))
        return Selecting(self, self.candidates.rows(rows), targets, draws, weights)


def largest(selection: Selection) -> float:
    """What noise of scale 1 adds to the expected score of a choice, at most."""
    logs = round_up(math.log(selection.candidates.count))
    return logs if selection.noise == "gumbel" else logs + 1


def candidates_of(linear: Linear) -> VertexCandidates:
    """The vertices to choose among.

    Raises:
      ConfigError: there are none, or too many.
    """
    result = VertexCandidates.of(linear.set)
    if result is None:
        raise ConfigError(
            "mechanism.noise",
            linear.set.name,
            "has no list of vertices to choose among; take l1_ball, simplex or polytope, or "
            "gaussian noise.",
        )
    if result.count < 2:
        raise ConfigError(
            "model.set", linear.set.name, "is a single point: there is nothing to learn."
        )
    return result


def loss_of(noise: str, kind: LossKind, units: float, ratio: float) -> PrivacyLoss:
    """Of so many selections. ratio: range sensitivity over scale."""
    if kind == "pure":
        return PrivacyLoss(kind, units * ratio)
    return PrivacyLoss(kind, units * float(COST[noise]) * ratio * ratio)


def selection_for(
    linear: Linear,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    noise: str,
    budget: PrivacyLoss,
    share: Fraction,
    steps: int | None,
    users: int = 0,
) -> Selection:
    """Fits that cost at most a share of a budget each.

    Args:
      size, divisor, most, changes, users: see ``Selection``. noise: gumbel or laplace.
      budget: zcdp or pure. steps: T; None: by the rule.

    Raises:
      ConfigError: the set has no list of vertices, or the budget is none.
    """
    if not budget.value > 0:
        raise ConfigError("privacy.epsilon", None, "leaves no budget; raise epsilon or delta.")
    part = budget.value * float(share) * (1 - 2.0**-40)
    selection = Selection(linear, size, divisor, most, changes, 1, noise, budget.kind, 1.0, users)
    straight = budget.kind == "pure"

    def scale(built: Selection, units: float) -> float:
        """b at which so many selections cost the part."""
        if straight:
            return built.sensitivity * units / part
        return built.sensitivity * math.sqrt(units * float(COST[noise]) / part)

    if steps is None:
        noise_of_one = round_up(scale(selection, 1.0) * largest(selection))
        steps = best_steps(linear.curvature, noise_of_one, straight)
    taken = replace(selection, steps=steps)
    b = round_up(scale(taken, taken.units))
    result = replace(selection, steps=steps, scale=b)
    while result.loss.value > budget.value * float(share):
        b *= 1 + 2.0**-30
        result = replace(selection, steps=steps, scale=round_up(b))
    return result


class Selecting:
    """See ``Fit`` and ``Selection``.

    Slices carry z, the sum of the weights t + 1 of what step t chose (whole numbers, negative for a
    negative sign), and of a squared loss h, the same sum of columns of X^T X. From z the sums of
    what is predicted follow exactly, whether added up step by step or made again: so a fit gives
    the same bits however it is cut.

    Gradients: of a squared loss from h, a column of X^T X a step (one product with the rows, none
    where a vertex is chosen again or all moments are there); of others from all slopes, one
    product a step. Either way a step costs one pass over the rows, and no (d, d) array is made
    unless d is small.
    """

    def __init__(
        self,
        selection: Selection,
        rows: RowMatrix,
        targets: Floats,
        draws: Draws,
        weights: Floats | None = None,
    ) -> None:
        self._made, self._rows, self._targets, self._draws = selection, rows, targets, draws
        self._weights = weights
        self._columns: dict[int, Floats] = {}
        self._against: Floats | None = None
        self._sums: Floats | None = None

    def start(self) -> tuple[Floats, Floats]:
        """Nothing is chosen yet: the first step is taken from 0, or where that is no point of the
        set from the first vertex, and leaves nothing of it (mu_0 = 1)."""
        first, second = self._made.sizes
        return np.zeros(first), np.zeros(second)

    def advance(self, z: Floats, h: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        z, h = z.copy(), h.copy()
        built, columns = self._made, self._made.candidates.columns
        many = built.candidates.count >= MANY and built.noise == "gumbel"
        ahead = max(1, AT_ONCE // built.candidates.count)
        signs = np.empty((2 if built.candidates.signed else 1, columns))
        for first in range(done, done + steps, ahead):
            count = min(ahead, done + steps - first)
            noise = None if many else self._noise(first, count)
            for t in range(first, first + count):
                np.multiply(self.gradient(z, h, t), built.candidates.radius, out=signs[0])
                for other in signs[1:]:
                    np.negative(signs[0], out=other)
                scores = signs.reshape(-1)
                if noise is None:
                    named = self._named(t, 1)
                    (chosen,) = self._draws.noise.select(*named, scores[None], built.scale).tolist()
                else:
                    chosen = int(select(scores, built.scale, noise[t - first]))
                answer = replay.released(
                    "vertex",
                    f"{built.noise}_choice",
                    scores,
                    chosen,
                    sensitivity=built.sensitivity if t else built.first_sensitivity,
                    scale=built.scale,
                    norm=math.inf,
                )
                chosen = int(answer)
                self._take(z, h, t, chosen % columns, -1.0 if chosen >= columns else 1.0)
        return z, h

    def finish(self, z: Floats, h: Floats) -> FitResult:
        return FitResult(self._made.candidates.model(z / total(self._made.steps)))

    def gradient(self, z: Floats, h: Floats, t: int) -> Floats:
        """Of the mean loss along each column, at the model of step t: (J,)."""
        if t == 0:
            z, h = self._from(z, h)
        weight, radius = 1.0 / total(max(t, 1)), self._made.candidates.radius
        if self._made.quadratic:
            if self._against is None:
                self._against = self._rows.down(self._targets, STEP).astype(np.float64)
            sums = h * (radius * weight) - self._against
            return np.asarray(sums * (STEP * STEP / self._made.divisor))
        if self._sums is None or t == 0:
            self._sums = self._made_sums(z)
        predicted = self._sums * (radius * weight)
        slopes = self._made.linear.loss.derivative(predicted, self._targets)
        unit = self._made.unit
        most = self._made.steepest if t else self._made.first
        slopes = on_lattice(slopes, unit, most, self._weights)
        exact = self._rows.down(slopes, unit)
        return np.asarray(exact * (STEP * unit / self._made.divisor))

    def _from(self, z: Floats, h: Floats) -> tuple[Floats, Floats]:
        """Where the first gradient is taken."""
        if self._made.candidates.signed:
            return z, h
        z, h = z.copy(), h.copy()
        z[0] = 1.0
        if self._made.quadratic:
            h += self._column(0)
        return z, h

    def _take(self, z: Floats, h: Floats, t: int, j: int, sign: float) -> None:
        """A step to a vertex."""
        weight = sign * (t + 1)
        z[j] += weight
        if self._made.quadratic:
            h += weight * self._column(j)
        elif t == 0:
            self._sums = weight * self._rows.column(j)
        elif self._sums is not None:
            self._sums += weight * self._rows.column(j)

    def _made_sums(self, z: Floats) -> Floats:
        """Sum of the chosen columns by their weights: (n,), exact."""
        out = np.zeros(self._rows.n)
        for j in np.flatnonzero(z).tolist():
            out += z[j] * self._rows.column(j)
        return out

    def _column(self, j: int) -> Floats:
        """Column j of X^T X: (J,) float64, in steps of ``STEP``^2."""
        if self._rows.p <= TOGETHER:
            return np.asarray(self._rows.moments[j])
        if j not in self._columns:
            if len(self._columns) * self._rows.p > KEPT:
                self._columns.clear()
            self._columns[j] = self._rows.against(j)
        return self._columns[j]

    def _noise(self, first: int, count: int) -> Floats:
        """(count, candidates), of steps from one on: named by fit and step, keyed by the data."""
        draws, size = self._draws, self._made.candidates.count
        drawn = draws.noise.gumbel if self._made.noise == "gumbel" else draws.noise.laplace
        return np.asarray(drawn(*self._named(first, count), size)[:, 0])

    def _named(self, first: int, count: int) -> tuple[Digests, Digests]:
        """Labels and digests of the noise of steps from one on."""
        draws = self._draws
        level = (draws.place << STEP_BITS) + np.arange(first + 1, first + count + 1)
        labels = np.concatenate([label(int(item), draws.complete) for item in level])
        return labels, np.broadcast_to(draws.digest, (count, 1, 2)).astype(np.uint64)

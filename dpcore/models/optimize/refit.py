"""Select, then refit: columns that are chosen in private, and least squares on their noisy second
moments, over an l1 ball."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.models.blocks.fitter import Draws, FitResult
from weir.dpcore.models.kit.filter import constant_loss
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.models.kit.short_rows import BELOW, matrix_of, shortened, vector_of
from weir.dpcore.models.kit.short_rows import FINE as ROW
from weir.dpcore.models.optimize.least_squares import solved
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.rows import FINE, RowMatrix, on_lattice
from weir.dpcore.models.optimize.width import STEP_BITS, FitStrategy
from weir.dpcore.models.words import hidden
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import label
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.words import number

PICKS = Fraction(3, 10)
"""Share of a fit's cost for the choice of columns, where there is one."""
MOST_TERMS = 256
"""Columns of a model, at most: their moments take as many times as many."""
MOST_REFITTED = 1 << 23
"""Rows of a fit, at most: sums over them are exact."""
WEIGHTS = (2.0, 1.5, 1.0, 0.75, 0.5, 0.375, 0.25, 0.125)
"""Squared weights of x y next to x x^T that are tried: 2 at most, see ``Refit``."""
QUIET = 0.005
"""Predicted excess by noise over the squared radius, up to which a refit is the default. On tables
that no default is judged on, steps towards vertices were often nearer beyond it."""
TARGETS = 2.0**22
"""Steps of a target in 1, where it is multiplied with rows."""


@dataclass(frozen=True, kw_only=True)
class Refit(FitStrategy):
    """Makes fits in two steps: k columns of the largest |mean x_j y| + Gumbel noise; and argmin of
    1/2 <theta, M theta> - <c, theta> over the ball, of noisy means M of z z^T and c of z y, z the k
    numbers of a row, y its target. Eigenvalues of M are raised to what noise does to them.

    **Formal guarantees**
      Unit: one event. A neighbour swaps at most ``changes`` rows of what is fitted for others (a
        void one among them), or adds or removes as many.
      Selection: |x_j| <= 1 and |y| <= 1 are enforced, so that each score moves by at most
        2 changes / N, up or down, and the range of all changes is at most D = 4 changes / N. The k
        largest of scores with Gumbel noise of scale b are what k choices of the exponential
        mechanism, one after the other and without repetition, give: k (D / b)^2 / 8 of zCDP.
      Moments: with B the bound of |z| (longer rows are shortened) and P = z z^T / B^2, u = y z / B,
        the released vector is (P, sqrt(t) u), P by its diagonal and sqrt(2) times the entries above
        it, 0 < t <= 2. Of two rows with |z|, |z'| <= B and c = |<z, z'>| / B^2 <= 1 the squared
        distance is at most 2 - 2 c^2 + t (2 + 2 c), which is largest at c = t / 2: the mean moves
        by at most changes sqrt(2 + 2 t + t^2 / 2) / N. Rows and targets are truncated toward zero
        before they are multiplied, and sums are exact, so that this holds exactly. What is chosen
        is released before: which columns, k, B and t are constants for these means.
      Guarantee: zCDP of both add up, adaptively. If k is the number of columns there is no choice,
        and moments have it all. What follows from both is post-processing.
      Users: a row of weight w has its z and y times sqrt(w), so that the rows of a user in a block
        add what a mixture of single rows does; scores as in ``Selection``. In j blocks of the fit,
        j times as much (``Presence``).
      Noise: of moments it is keyed by a digest of the chosen columns, next to that of all data: no
        noise is ever added to moments of two choices.
      Rounding: ``PointNoise``; ``slack`` covers the rounding of scores.
      Source: derived here; one draw for all k: Durfee, Rogers (2019), Lemma 4.2; zCDP of a choice:
        Cesar, Rogers (2021); noisy second moments: Dwork, Talwar, Thakurta, Zhang (2014).

    Attributes: see ``FitStrategy``; scale: b, 0 if nothing is chosen.
      terms: k. weight: t. moments: noise of (P, sqrt(t) u).
    """

    terms: int
    weight: float
    moments: PointNoise

    way: ClassVar[str] = "refit"

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: the model, and the chosen columns."""
        return self.dimension, self.terms

    @property
    def work(self) -> int:
        return self.most * (self.dimension + self.terms * self.terms)

    @property
    def chooses(self) -> bool:
        """Whether there are more columns than are taken."""
        return self.terms < self.dimension

    @property
    def squares(self) -> float:
        """B^2."""
        return squares_of(self.linear, self.terms)

    @property
    def sensitivity(self) -> float:
        """Range sensitivity of the scores."""
        return round_up(4 * self.changes / self.divisor * (1 + self.slack))

    @property
    def slack(self) -> float:
        """Of scores, sums of at most ``most`` numbers of size 1, each rounded twice."""
        return 2.0**-40 + self.most * 2.0**-49

    @property
    def cost(self) -> Fraction:
        result = Fraction(self.moments.loss.value)
        if self.chooses:
            result += self.terms * (Fraction(self.sensitivity) / Fraction(self.scale)) ** 2 / 8
        return result

    @property
    def loss(self) -> PrivacyLoss:
        return PrivacyLoss(self.kind, float(self.cost))

    @property
    def noisy(self) -> float:
        """Predicted excess that noise causes, of orthonormal columns."""
        return _noisy(self.linear, self.terms, self.weight, self.moments.variance)

    @property
    def quiet(self) -> bool:
        """Whether noise is so small that a refit is the default."""
        return self.noisy <= QUIET * self.linear.set.farthest_in(1.0) ** 2

    @property
    def error(self) -> float:
        return self.noisy + _left(self.linear, self.terms)

    @property
    def step_words(self) -> str:
        taken = f"all {self.terms:,} columns"
        if self.chooses:
            taken = (
                f"{self.terms:,} of {self.dimension:,} columns, gumbel noise {number(self.scale)} "
                "on the size of the mean of feature times target"
            )
        mean = number(self.moments.stddev * math.sqrt(self.squares / self.weight))
        return f"{taken}; then least squares, {self.noise} noise {mean} on such a mean"

    @property
    def fit_words(self) -> str:
        return "one selection and one refit" if self.chooses else "one fit"

    @property
    def error_words(self) -> tuple[str, str]:
        text = f"{number(self.noisy)} by noise (scaled units, features that do not correlate)"
        if self.chooses:
            text += (
                f"; terms that are left out cost at most {number(_left(self.linear, self.terms))}"
            )
        return "predicted excess", text

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.chooses:
            return ()
        return (
            f"A model has at most {self.terms:,} coefficients that are not 0. Which they are is "
            "what is released first.",
        )

    @property
    def doubts(self) -> Iterator[str]:
        yield from hidden(self.noisy, constant_loss(False, 1), "fewer terms")

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        noise = self.moments
        own = [noise.kind, noise.scale.hex(), noise.sensitivity.hex(), noise.resolution.hex()]
        more = {"terms": self.terms, "weight": self.weight.hex(), "moments": own}
        return {**super().canonical(), **more}

    def fit(
        self,
        features: Any,
        targets: Floats,
        after: Floats,
        draws: Draws,
        weights: Floats | None = None,
        places: Ints | None = None,
    ) -> Refitting:
        """See Fitter: it starts again, whatever was released before."""
        inside = np.clip(np.where(np.isfinite(targets), targets, 0.0), -1.0, 1.0)
        return Refitting(self, RowMatrix(self.linear.points(features)), inside, draws, weights)


@dataclass(frozen=True)
class Refitting:
    """One fit with its rows in hand: see ``FitRun``. Slices carry the chosen columns."""

    made: Refit
    rows: RowMatrix
    targets: Floats
    draws: Draws
    weights: Floats | None

    def start(self) -> tuple[Floats, Floats]:
        return np.zeros(self.made.dimension), np.zeros(self.made.terms)

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        for at in range(done, done + steps):
            if at == 0:
                y = self.chosen()
            else:
                x = self.refitted(y)
        return x, y

    def finish(self, x: Floats, y: Floats) -> FitResult:
        return FitResult(x)

    def scores(self) -> Floats:
        """(d,): minus the sizes of means of feature times target."""
        targets = on_lattice(self.targets, 1.0 / FINE, FINE, self.weights)
        sums = self.rows.down(targets, 1.0 / FINE).astype(np.float64)
        return np.asarray(-np.abs(sums * (STEP / FINE / self.made.divisor)))

    def chosen(self) -> Floats:
        """(k,): columns of the largest noisy scores, ascending."""
        built, draws = self.made, self.draws
        if not built.chooses:
            return np.arange(built.terms, dtype=np.float64)
        scores = self.scores()
        where = draws.digest[None, None]
        noise = draws.noise.gumbel(self._label(1), where, built.dimension)[0, 0]
        order = np.argsort(scores - built.scale * noise, kind="stable")[: built.terms]
        taken: list[int] = []
        for column in order.tolist():
            answer = replay.released(
                "column",
                "gumbel_choice",
                scores,
                column,
                sensitivity=built.sensitivity,
                scale=built.scale,
                norm=math.inf,
            )
            taken.append(int(answer))
        return np.sort(np.array(taken, dtype=np.float64))

    def refitted(self, chosen: Floats) -> Floats:
        """(d,): least squares on noisy moments of these columns."""
        built, draws, k = self.made, self.draws, self.made.terms
        columns = chosen.astype(np.int64)
        words: Digests = draws.noise.leaf_digests(columns[None, None])[0, 0]
        digest = draws.digest ^ words
        point = self.moments(columns)
        noisy = built.moments.released(point, draws.noise, self._label(2), digest)
        split = k * (k + 1) // 2
        squares = built.squares
        matrix = matrix_of(noisy[:split], k) * squares
        right = noisy[split:] * math.sqrt(squares / built.weight)
        low = built.moments.stddev * squares
        assert isinstance(built.linear.set, L1Ball)
        out = np.zeros(built.dimension)
        out[columns] = solved(matrix, right, low, built.linear.set.radius)
        return out

    def moments(self, columns: Ints) -> Floats:
        """(P, sqrt(t) u) of these columns, without noise."""
        built, k = self.made, len(columns)
        bound = math.sqrt(built.squares)
        square, right = np.zeros((k, k), dtype=np.int64), np.zeros(k, dtype=np.int64)
        for at, z in self.rows.some(columns):
            root = 1.0 if self.weights is None else np.sqrt(self.weights[at])
            own = np.trunc(shortened(z, bound) * (np.ones(len(z)) * (root * ROW))[:, None])
            targets = np.trunc(self.targets[at] * (root * (BELOW * TARGETS)))
            # Whole numbers whose sums stay below 2^53 in any order.
            square += (own.T @ own).astype(np.int64)
            right += (own.T @ targets).astype(np.int64)
        first = vector_of(square / (ROW * ROW) / built.divisor)
        second = right / (ROW * TARGETS) * (math.sqrt(built.weight) / built.divisor)
        return np.concatenate([first, second])

    def _label(self, step: int) -> Digests:
        return label((self.draws.place << STEP_BITS) + step, self.draws.complete)


def squares_of(linear: Linear, terms: int) -> float:
    """B^2: most that the squared length of so many numbers of (x, 1) is."""
    return min(float(terms), linear.size_in(2.0) ** 2)


def moved_of(weight: float) -> float:
    """Most that one swapped row moves N times (P, sqrt(t) u)."""
    return math.sqrt(2 + 2 * weight + weight * weight / 2)


def refit_for(
    linear: Linear,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    budget: PrivacyLoss,
    share: Fraction,
    terms: int | None,
    users: int = 0,
) -> Refit:
    """Fits that cost at most a share of a budget each.

    Args:
      size, divisor, most, changes, users: see ``Refit``. budget: zcdp. terms: k; None: the one of
        the least predicted excess.

    Raises:
      ConfigError: another loss or set, terms that there are not, or noise that cannot be drawn.
    """
    _check(linear, terms, most, budget)
    tried: Iterable[int] = (terms,)  # type: ignore[assignment]
    if terms is None:
        tried = range(1, min(linear.dimension, MOST_TERMS) + 1)
    rho = budget.value * float(share)

    def excess(k: int, weight: float) -> float:
        part = rho * float(1 if k == linear.dimension else 1 - PICKS)
        variance = (moved_of(weight) * changes / divisor) ** 2 / (2 * part)
        return _left(linear, k) + _noisy(linear, k, weight, variance)

    k, weight = min(
        ((k, weight) for k in tried for weight in WEIGHTS), key=lambda own: excess(*own)
    )
    part = share * (1 if k == linear.dimension else 1 - PICKS)
    moments = PointNoise.calibrated(
        k * (k + 1) // 2 + k,
        changes * moved_of(weight) / divisor * (1 + 2.0**-50),
        budget,
        float(1 / part) * (1 + 2.0**-50),
        spare=1.0,
        name="second moments",
    )
    result = Refit(
        linear, size, divisor, most, changes, 2, moments.kind, budget.kind, 0.0, users,
        terms=k, weight=weight, moments=moments,
    )  # fmt: skip
    if result.chooses:
        b = result.sensitivity * math.sqrt(k / (8 * rho * float(PICKS)))
        result = replace(result, scale=round_up(b))
        while result.cost > Fraction(budget.value) * share:
            b *= 1 + 2.0**-30
            result = replace(result, scale=round_up(b))
    return result


def _check(linear: Linear, terms: int | None, rows: int, budget: PrivacyLoss) -> None:
    if not budget.value > 0:
        raise ConfigError("privacy.epsilon", None, "leaves no budget; raise epsilon or delta.")
    if rows > MOST_REFITTED:
        raise ConfigError(
            "model.block", rows, f"rows in a fit are more than {MOST_REFITTED:,}; take fewer."
        )
    if not linear.loss.quadratic or linear.loss.labels:
        raise ConfigError(
            "model.loss", linear.loss.name, "must be squared for form: refit; take frank_wolfe."
        )
    if not isinstance(linear.set, L1Ball):
        raise ConfigError(
            "model.set", linear.set.name, "must be an l1_ball for form: refit; take frank_wolfe."
        )
    most = min(linear.dimension, MOST_TERMS)
    if terms is not None and not 1 <= terms <= most:
        raise ConfigError("model.terms", terms, f"must be a whole number from 1 to {most:,}.")


def _noisy(linear: Linear, terms: int, weight: float, variance: float) -> float:
    """Excess that noise of a variance a coordinate causes: half of k times the variance of c, and
    of M times a model of a squared length of half the radius squared."""
    squares, radius = squares_of(linear, terms), linear.set.farthest_in(1.0)
    of_matrix = squares * squares * radius * radius / 4
    return terms / 2 * variance * (squares / weight + of_matrix)


def _left(linear: Linear, terms: int) -> float:
    """r^2 / (8 k); of more than half of p columns (p - k) (r / p)^2 / 2."""
    radius, p = linear.set.farthest_in(1.0), linear.dimension
    if 2 * terms <= p:
        return radius * radius / (8 * terms)
    return (p - terms) * (radius / p) ** 2 / 2

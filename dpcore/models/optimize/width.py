"""Strategies of a Frank-Wolfe fit: what they share, and steps with noise on every gradient."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.unit import NOISE_OF, noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fitter import Draws, FitResult, Fitter
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.models.optimize.linear import Linear, best_steps, gap
from weir.dpcore.models.optimize.rows import FINE, RowMatrix, grid_for, on_grid, on_lattice
from weir.dpcore.noise.noise import label
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.words import number

COARSE = 23
"""Bits of the sensitivity of a rounded sum, in its steps."""
STEP_BITS = 20
"""Bits of a noise label's level that tell the steps of a fit apart."""


@dataclass(frozen=True)
class FitStrategy(Fitter):
    """Makes fits of T Frank-Wolfe steps over the rows of a window.

    Attributes:
      linear: what is minimised. size: blocks of a fit. divisor: N. most: rows of a fit, at most.
      changes: rows that a neighbour swaps. steps: T. noise: its name.
      kind: the currency of the budget. scale: of the noise.
      users: whose rows have a weight of 1 together, at most; 0: each row has it.
    """

    linear: Linear
    size: int
    divisor: float
    most: int
    changes: int
    steps: int
    noise: str
    kind: LossKind
    scale: float
    users: int = 0

    way: ClassVar[str]

    @property
    def dimension(self) -> int:
        return self.linear.dimension

    @property
    def unit(self) -> float:
        """Lattice of slopes."""
        return math.ldexp(1.0, math.ceil(math.log2(self.linear.slope))) / FINE

    @property
    def steepest(self) -> int:
        """Most steps of that lattice that a slope has."""
        return math.ceil(self.linear.slope / self.unit)

    @property
    def begin(self) -> Floats:
        """The public point at which the first step is taken: (d,)."""
        return self.linear.set.start()

    @cached_property
    def first(self) -> int:
        """Most steps of the lattice of slopes that a slope has there."""
        return min(self.steepest, math.ceil(self.linear.slope_at(self.begin) / self.unit))

    @property
    @abstractmethod
    def loss(self) -> PrivacyLoss:
        """What a fit costs a record in it."""

    @property
    def cost(self) -> Fraction:
        """The same as a number that adds up: mu^2, rho or eps."""
        value = Fraction(self.loss.value)
        return value * value if self.kind == "gdp" else value

    @property
    @abstractmethod
    def error(self) -> float:
        """Bound on the expected gap of a fit of N rows."""

    @property
    @abstractmethod
    def step_words(self) -> str:
        """What a step does, for people."""

    @property
    def fit_words(self) -> str:
        """How a fit is made up, for people."""
        return f"{self.steps:,} steps"

    @property
    def error_words(self) -> tuple[str, str]:
        """What is known of the error: a title, and a text."""
        return "error bound", f"{number(self.error)} above the least mean loss (scaled units)"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a table of releases leaves open about its models."""
        return ()

    @property
    def doubts(self) -> Iterator[str]:
        """What the numbers of a fit speak against."""
        everything = self.linear.slope * self.linear.moved
        if self.error >= everything:
            yield (
                f"The error bound {number(self.error)} is no less than what any model of the set "
                f"keeps to ({number(everything)}): take larger windows, a smaller set, or more "
                "budget."
            )

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "way": self.way,
            "size": self.size,
            "divisor": self.divisor.hex(),
            "most": self.most,
            "changes": self.changes,
            "steps": self.steps,
            "noise": [self.noise, self.kind, self.scale.hex()],
            **({"users": self.users} if self.users else {}),
        }


@dataclass(frozen=True)
class Width(FitStrategy):
    """Makes fits of T steps: theta moves to argmin over C of <grad L(theta_t) + noise, .>, by
    mu_t = 2 / (t + 2). Noise costs what the set's Gaussian width makes of it.

    **Formal guarantees**
      Unit: one event. A neighbour swaps at most ``changes`` rows of what is fitted for others (a
        void one among them), or adds or removes as many.
      Sensitivity: a row's gradient is its slope times (x, 1): a whole number of lattice steps, the
        slope clipped to ``steepest`` of them whatever the model and the row are (one that is not
        finite is 0), the row within its length. Sums are exact, so that the sum of all
        gradients changes by at most 2 changes slope ||(x, 1)||_2 in l2; rounding it to a coarser
        lattice, on which any noise can be made, adds sqrt(d) steps to about 2^22 of them.
        The first step is taken at a public point, where slopes are at most ``first`` lattice steps
        and are clipped to that: it costs as much less, under the same noise.
      Users: a row's slope is shared by its weight, cut toward zero to the lattice, so that the rows
        of a user in a block add one gradient at most. In j blocks of the fit, j times as much
        (``Presence``).
      Guarantee: a step costs what one noisy sum costs: (D / sigma)^2 of mu^2, (D / sigma)^2 / 2 of
        rho, D / b of epsilon (K-norm); the first and T - 1 others add up, adaptively. What follows
        from the noisy gradients is post-processing.
      Error: E gap <= 2 Gamma / (T + 2) + 2 sigma G_C, G_C the Gaussian width of C.
      Source: Talwar, Thakurta, Zhang (2015), Theorem 2.6.

    Attributes: see ``FitStrategy``; scale: in lattice steps of a sum.
    """

    way: ClassVar[str] = "width"

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: the model alone."""
        return self.dimension, 0

    @property
    def work(self) -> int:
        return 4 * self.most * self.dimension

    @cached_property
    def grid(self) -> float:
        """Of the model: its products with rows are exact."""
        return grid_for(self.dimension, self.linear.set.farthest_in(math.inf))

    @property
    def begin(self) -> Floats:
        """See FitStrategy: the set's start."""
        return on_grid(self.linear.set.start(), self.grid)

    @property
    def exact(self) -> float:
        """l2 sensitivity of an exact sum of gradients, in steps of ``STEP * unit``."""
        return 2 * self.changes * self.steepest * self.linear.size_in(2.0) / STEP

    @property
    def shift(self) -> int:
        """Bits of an exact sum that are rounded off."""
        return max(0, math.frexp(self.exact)[1] - COARSE)

    @property
    def lattice(self) -> float:
        """Of a sum of gradients, rounded."""
        return math.ldexp(STEP * self.unit, self.shift)

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of a rounded sum, in steps of its lattice."""
        return self._sensitivity(1.0)

    def _sensitivity(self, share: float) -> float:
        """The same where slopes are at most a share of the steepest."""
        rounding = math.sqrt(self.dimension) if self.shift else 0.0
        return round_up(math.ldexp(self.exact * share, -self.shift) + rounding)

    @property
    def point(self) -> PointNoise:
        """Noise of the sum of gradients that a step takes."""
        shape = (self.noise, self.dimension, self.lattice)
        return PointNoise(*shape, self.sensitivity, self.scale)

    @cached_property
    def first_point(self) -> PointNoise:
        """The same of the first step."""
        share = self.first / self.steepest * (1 + 2.0**-50)
        return replace(self.point, sensitivity=min(self.sensitivity, self._sensitivity(share)))

    @property
    def units(self) -> float:
        """Steps of full sensitivity that cost as much as all of a fit."""
        ratio = self.first_point.sensitivity / self.sensitivity * (1 + 2.0**-50)
        return self.steps - 1 + (ratio if self.kind == "pure" else ratio * ratio)

    @property
    def loss(self) -> PrivacyLoss:
        return self.point.loss_of(self.units)

    @property
    def stddev(self) -> float:
        """Of a coordinate of the noise in the gradient of a mean."""
        return self.point.stddev / self.divisor

    @property
    def error(self) -> float:
        noise = 2 * self.stddev * self.linear.set.gaussian_width()
        return gap(self.linear.curvature, self.steps, noise)

    @property
    def step_words(self) -> str:
        return f"{self.noise} noise {number(self.stddev)} on the mean's gradient"

    def fit(
        self,
        features: Any,
        targets: Floats,
        after: Floats,
        draws: Draws,
        weights: Floats | None = None,
        places: Ints | None = None,
    ) -> Moving:
        """See Fitter: it starts again, whatever was released before."""
        return Moving(self, RowMatrix(self.linear.points(features)), targets, draws, weights)


class Moving:
    """One fit with its rows in hand: see ``Fit``. Slices carry the model, which lies on a grid."""

    def __init__(
        self,
        width: Width,
        rows: RowMatrix,
        targets: Floats,
        draws: Draws,
        weights: Floats | None = None,
    ) -> None:
        self._made, self._rows, self._targets, self._draws = width, rows, targets, draws
        self._weights, self._points = weights, (width.first_point, width.point)

    def start(self) -> tuple[Floats, Floats]:
        """The set's public start."""
        return self._made.begin.copy(), np.zeros(0)

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        built = self._made
        for t in range(done, done + steps):
            costs = self._noisy(t, self.sums(x, t)).astype(np.float64)
            vertex = built.linear.set.linear_oracle(costs[None])[0]
            step = 2.0 / (t + 2)
            x = on_grid((1.0 - step) * x + step * vertex, built.grid)
        return x, y

    def finish(self, x: Floats, y: Floats) -> FitResult:
        return FitResult(x)

    def sums(self, x: Floats, t: int) -> NDArray[np.int64]:
        """Of all rows' gradients, at the model of step t: (d,), lattice steps."""
        built = self._made
        slopes = built.linear.loss.derivative(self._rows.across(x), self._targets)
        most = built.steepest if t else built.first
        slopes = on_lattice(slopes, built.unit, most, self._weights)
        exact = self._rows.down(slopes, built.unit)
        if not built.shift:
            return exact
        return np.asarray((exact + (1 << (built.shift - 1))) >> built.shift)

    def _noisy(self, t: int, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        draws = self._draws
        labels = label((draws.place << STEP_BITS) + t + 1, draws.complete)
        point = self._points[t > 0]
        return np.asarray(point.noisy(sums[None], draws.noise, labels, draws.digest[None])[0])


def width_for(
    linear: Linear,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    budget: PrivacyLoss,
    share: Fraction,
    steps: int | None,
    users: int = 0,
) -> Width:
    """Fits that cost at most a share of a budget each.

    Args:
      size, divisor, most, changes, users: see ``Width``. steps: T; None: by the rule.

    Raises:
      ConfigError: noise that cannot be served.
    """
    if linear.set.diameter == 0:
        raise ConfigError(
            "model.set", linear.set.name, "is a single point: there is nothing to learn."
        )
    noise_name, kind = NOISE_OF[budget.kind], budget.kind
    width = Width(linear, size, divisor, most, changes, 1, noise_name, kind, 1.0, users)

    def with_steps(taken: int) -> Width:
        result = replace(width, steps=taken)
        units = result.units * float(1 / share) * (1 + 2.0**-50)
        return replace(result, scale=round_up(noise_scale_for(units, width.sensitivity, budget)))

    if steps is None:
        full = noise_scale_for(float(1 / share), width.sensitivity, budget)
        noise = round_up(2 * replace(width, scale=full).stddev * linear.set.gaussian_width())
        steps = best_steps(linear.curvature, noise, budget.kind == "pure")
    built = with_steps(steps)
    built.point.check("a gradient")
    return built

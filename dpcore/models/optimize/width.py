"""Frank and Wolfe's steps over any convex set, with noise on every gradient."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.accounting.precision import refuse_coarse
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.unit import (
    NOISE_OF,
    draw_units,
    lattice_variances,
    loss_of_units,
    noise_scale_for,
    unit_variance,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fitter import Draws, Made
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.rows import FINE, Rows, grid_for, on_grid, on_lattice
from weir.dpcore.models.optimize.steps import best_steps, gap
from weir.dpcore.models.scaling import STEP
from weir.dpcore.noise.discrete_gaussian import MAX_VARIANCE
from weir.dpcore.noise.noise import label
from weir.dpcore.pricing.calibration import round_up

COARSE = 23
"""Bits of the sensitivity of a rounded sum, in its steps."""
STEP_BITS = 20
"""Bits of a noise label's level that tell the steps of a fit apart."""
ROOM = 1 << 60
"""Noise stays below this many lattice steps, so that a gradient and its noise fit an int64."""


@dataclass(frozen=True)
class Width:
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
      Users: a row's slope is shared by its weight, cut toward zero to the lattice, so that the rows
        of a user in a block add one gradient at most. In j blocks of the fit, j times as much
        (``Presence``).
      Guarantee: a step costs what one noisy sum costs: (D / sigma)^2 of mu^2, (D / sigma)^2 / 2 of
        rho, D / b of epsilon (K-norm); T of them, adaptively, T times that. What follows from the
        noisy gradients is post-processing.
      Error: E gap <= 2 Gamma / (T + 2) + 2 sigma G_C, G_C the Gaussian width of C.
      Source: Talwar, Thakurta, Zhang (2015), Theorem 2.6.

    Attributes:
      linear: what is minimised. size: blocks of a fit. divisor: N. most: rows of a fit, at most.
      changes: rows that a neighbour swaps. steps: T. kind: the currency of the budget.
      scale: of the noise, in lattice steps of a sum.
      users: whose rows have a weight of 1 together, at most; 0: each row has it.
    """

    linear: Linear
    size: int
    divisor: float
    most: int
    changes: int
    steps: int
    kind: LossKind
    scale: float
    users: int = 0

    way: ClassVar[str] = "width"

    @property
    def noise(self) -> str:
        """Name of the noise."""
        return NOISE_OF[self.kind]

    @property
    def dimension(self) -> int:
        """See Fitter."""
        return self.linear.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: the model alone."""
        return self.dimension, 0

    @property
    def work(self) -> int:
        """See Fitter."""
        return 4 * self.most * self.dimension

    @property
    def unit(self) -> float:
        """Lattice of slopes."""
        return math.ldexp(1.0, math.ceil(math.log2(self.linear.slope))) / FINE

    @property
    def steepest(self) -> int:
        """Most steps of that lattice that a slope has."""
        return math.ceil(self.linear.slope / self.unit)

    @cached_property
    def grid(self) -> float:
        """Of the model: its products with rows are exact."""
        return grid_for(self.dimension, self.linear.set.farthest_in(math.inf))

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
        rounding = math.sqrt(self.dimension) if self.shift else 0.0
        return round_up(math.ldexp(self.exact, -self.shift) + rounding)

    @property
    def loss(self) -> PrivacyLoss:
        """What a fit costs a record in it."""
        return loss_of_units(self.noise, self.steps, self.sensitivity, self.scale)

    @property
    def cost(self) -> Fraction:
        """The same as a number that adds up: mu^2, rho or eps."""
        value = Fraction(self.loss.value)
        return value * value if self.kind == "gdp" else value

    @property
    def stddev(self) -> float:
        """Of a coordinate of the noise in the gradient of a mean."""
        variance = unit_variance(self.noise, self.scale, (1.0,) * self.dimension)
        return math.sqrt(variance) * self.lattice / self.divisor

    @property
    def error(self) -> float:
        """Bound on the expected gap of a fit of N rows."""
        noise = 2 * self.stddev * self.linear.set.gaussian_width()
        return gap(self.linear.curvature, self.steps, noise)

    def sample(self, draws: Draws) -> NDArray[Any] | None:
        """See Fitter: all rows."""
        return None

    def fit(self, features: Any, targets: Floats, after: Floats, draws: Draws) -> Moving:
        """See Fitter: it starts anew, whatever was released before."""
        return Moving(self, Rows(self.linear.points(features)), targets, draws)

    def weighed(
        self, features: Any, targets: Floats, weights: Floats, after: Floats, draws: Draws
    ) -> Moving:
        """See Weighing."""
        return Moving(self, Rows(self.linear.points(features)), targets, draws, weights)

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


class Moving:
    """One fit with its rows in hand: see ``Fit``. Slices carry the model, which lies on a grid."""

    def __init__(
        self,
        made: Width,
        rows: Rows,
        targets: Floats,
        draws: Draws,
        weights: Floats | None = None,
    ) -> None:
        self._made, self._rows, self._targets, self._draws = made, rows, targets, draws
        self._weights = weights

    def start(self) -> tuple[Floats, Floats]:
        """The set's public start."""
        return on_grid(self._made.linear.set.start(), self._made.grid), np.zeros(0)

    def advance(self, x: Floats, y: Floats, done: int, steps: int) -> tuple[Floats, Floats]:
        """See Fit."""
        made = self._made
        for t in range(done, done + steps):
            costs = (self.sums(x) + self._noise(t)).astype(np.float64)
            vertex = made.linear.set.linear_oracle(costs[None])[0]
            step = 2.0 / (t + 2)
            x = on_grid((1.0 - step) * x + step * vertex, made.grid)
        return x, y

    def finish(self, x: Floats, y: Floats) -> Made:
        """See Fit."""
        return Made(x)

    def sums(self, x: Floats) -> NDArray[np.int64]:
        """Of all rows' gradients: (d,), lattice steps."""
        made = self._made
        slopes = made.linear.loss.derivative(self._rows.across(x), self._targets)
        slopes = on_lattice(slopes, made.unit, made.steepest, self._weights)
        exact = self._rows.down(slopes, made.unit)
        if not made.shift:
            return exact
        return np.asarray((exact + (1 << (made.shift - 1))) >> made.shift)

    def _noise(self, t: int) -> NDArray[np.int64]:
        draws, made = self._draws, self._made
        labels = label((draws.place << STEP_BITS) + t + 1, draws.complete)
        ones = (1.0,) * made.dimension
        digests = draws.digest[None, None]
        drawn = draw_units(made.noise, draws.noise, labels, digests, made.scale, ones)
        return np.asarray(drawn[0, 0])


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
    one = Width(linear, size, divisor, most, changes, 1, budget.kind, 1.0, users)

    def with_steps(taken: int) -> Width:
        units = taken * float(1 / share) * (1 + 2.0**-50)
        return replace(
            one, steps=taken, scale=round_up(noise_scale_for(units, one.sensitivity, budget))
        )

    if steps is None:
        noise = round_up(2 * with_steps(1).stddev * linear.set.gaussian_width())
        steps = best_steps(linear.curvature, noise, budget.kind == "pure")
    made = with_steps(steps)
    kind, stddev = made.noise, made.stddev * divisor / made.lattice
    refuse_coarse("a gradient", kind, stddev)
    exact = lattice_variances(made.scale, (1.0,)) if kind == "discrete_gaussian" else (0,)
    if exact[0] > MAX_VARIANCE or not made.scale < ROOM / (64 + linear.dimension):
        raise ConfigError("privacy.epsilon", None, "leaves too little; raise epsilon or delta.")
    return made

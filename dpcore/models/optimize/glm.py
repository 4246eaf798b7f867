"""Losses of a linear prediction over a bounded set, with the constants that their privacy needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.kit.loss import PredictionLoss
from weir.dpcore.models.optimize.points import (
    Points,
    SparsePoints,
    lattice_sum,
    points_of,
    scores_of,
    targets_of,
)
from weir.dpcore.pricing.price import round_up

_UP = 1 + 2.0**-40


@dataclass(frozen=True)
class Glm:
    """loss(<(x, 1), w>; y) for x with ||(x, 1)||_q <= A and w of lp norm at most B, 1/p + 1/q = 1.

    **Formal guarantees**: every gradient that is summed is c (x, 1) with a number c: |c| <= the
    loss' slope for a gradient, so that its lq norm is at most L0 = slope A; for a difference of two
    gradients |c| <= bound / A, so that its norm is at most the bound. Numbers c that are not finite
    become 0 before they are clipped, and void rows have c = 0. Clipping c, and not the vector,
    leaves the derivative of another convex loss, no less smooth: L1 = curve A^2.

    Attributes:
      loss: of one prediction, without corners. features: numbers of x. intercept: whether a 1
      follows it. dual: q. norm: most that ||x||_q is. radius: B.
      most: numbers of x that are not 0, at most, where rows travel without their zeros; None: rows
      are tables.
    """

    loss: PredictionLoss
    features: int
    intercept: bool
    dual: float
    norm: float
    radius: float
    most: int | None = None

    @property
    def dimension(self) -> int:
        """d, numbers of w."""
        return self.features + self.intercept

    @property
    def terms(self) -> int:
        """Most numbers that a prediction is a sum of."""
        return self.dimension if self.most is None else self.most + self.intercept

    @property
    def reach(self) -> float:
        """A, rounded up."""
        if not self.intercept:
            return self.norm
        if math.isinf(self.dual):
            return max(self.norm, 1.0)
        largest = max(self.norm, 1.0)
        q, least = self.dual, min(self.norm, 1.0) / largest
        # Powers are the platform's: rounded up, their last bits shape no plan.
        return round_up(largest * math.pow(1.0 + math.pow(least, q), 1 / q) * _UP)

    @property
    def span(self) -> float:
        """Largest prediction."""
        return self.reach * self.radius * _UP

    @property
    def slope(self) -> float:
        """Of the loss in the prediction: rounded up."""
        # Coarser than needed for losses of labels: `self.span` bounds their predictions too, and
        # takes up to 49 % off the sensitivity of logistic models.
        reach = math.inf if self.loss.labels else self.span
        return min(self.loss.slope(math.inf), self.loss.slope(reach) * _UP)

    @property
    def lipschitz(self) -> float:
        """L0."""
        return self.slope * self.reach * _UP

    @property
    def smoothness(self) -> float:
        """L1."""
        return self.loss.smoothness * self.reach * self.reach * _UP

    def split(self, rows: Any) -> tuple[Any, Floats, NDArray[np.bool_]]:
        """Rows (n, features + 1), a table or ``SparseRows`` -> points (n, d) of that kind, targets
        (n,), and which rows are void (n,)."""
        targets = targets_of(rows)
        void = np.isnan(targets)
        points = points_of(rows, self.features, self.intercept)
        return points, np.where(void, 0.0, targets), void

    def slopes(self, points: Points, targets: Floats, void: NDArray[np.bool_], w: Floats) -> Floats:
        """Derivatives at w (d,): (n,), within +-slope."""
        found = self.loss.derivative(scores_of(points, w), targets)
        found = np.where(np.isfinite(found) & ~void, found, 0.0)
        return np.clip(found, -self.slope, self.slope)

    def factors(
        self,
        points: Points,
        targets: Floats,
        void: NDArray[np.bool_],
        w: Floats,
        before: Floats | None,
        bound: float,
    ) -> Floats:
        """c (n,) of the clipped gradients at w, less those at ``before`` where that is given: c (x,
        1) has an lq norm of at most ``bound``."""
        factor = self.slopes(points, targets, void, w)
        if before is not None:
            factor = factor - self.slopes(points, targets, void, before)
        most = bound / self.reach * (1 - 2.0**-40)
        return np.clip(factor, -most, most)

    def gradients(
        self,
        points: Points,
        targets: Floats,
        void: NDArray[np.bool_],
        w: Floats,
        before: Floats | None,
        bound: float,
    ) -> Floats:
        """Those gradients themselves: (n, d)."""
        factors = self.factors(points, targets, void, w, before, bound)
        if isinstance(points, SparsePoints):
            return points.times(factors)
        return np.asarray(points * factors[:, None])

    def sums(
        self, rows: Any, w: Floats, before: Floats | None, bound: float, resolution: float
    ) -> Ints:
        """Sum of those of rows, each truncated toward zero to a lattice: (d,), exact. No table of
        them is made of sparse rows."""
        points, targets, void = self.split(rows)
        if isinstance(points, SparsePoints):
            factors = self.factors(points, targets, void, w, before, bound)
            return points.lattice_sum(factors, resolution)
        found = self.gradients(points, targets, void, w, before, bound)
        return np.asarray(lattice_sum(found, resolution))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "loss": self.loss.canonical(),
            "features": self.features,
            "intercept": self.intercept,
            "dual": self.dual.hex(),
            "norm": self.norm.hex(),
            "radius": self.radius.hex(),
            **({} if self.most is None else {"most": self.most}),
        }

"""Losses of a linear prediction over a bounded set, with the constants that their privacy needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError, positive
from weir.dpcore.geometry.norm_balls import lp_norms
from weir.dpcore.models.losses import Absolute, Hinge, Huber, PredictionLoss, Quantile, Squared
from weir.dpcore.models.optimize.points import (
    Points,
    SparsePoints,
    lattice_sum,
    points_of,
    scores_of,
    targets_of,
)
from weir.dpcore.models.scaling import STEP
from weir.dpcore.pricing.calibration import round_up

_UP = 1 + 2.0**-40


@dataclass(frozen=True)
class Envelope:
    """The Moreau envelope of a pinball or absolute loss: its corner is a parabola ``smoothing``
    wide. It lies below the loss, by at most smoothing slope^2 / 2.

    Attributes:
      below, above: slopes of the loss left (as a size) and right of the target. smoothing: g.
    """

    below: float
    above: float
    smoothing: float
    name: str = field(default="envelope", init=False)
    labels: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        positive(smoothing=self.smoothing)

    @property
    def smoothness(self) -> float:
        """See PredictionLoss."""
        return 1 / self.smoothing

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        slope = self.derivative(prediction, target)
        return slope * (prediction - target) - 0.5 * self.smoothing * slope * slope

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        return np.clip((prediction - target) / self.smoothing, -self.below, self.above)


def cornered(loss: PredictionLoss) -> bool:
    """Whether a loss has a corner, which needs smoothing before it may be stepped along."""
    return math.isinf(loss.smoothness)


def smoothed(loss: PredictionLoss, smoothing: float) -> PredictionLoss:
    """The Moreau envelope of a loss with a corner; of the hinge that is the Huberised hinge."""
    if isinstance(loss, Hinge):
        return Hinge(smoothing)
    if isinstance(loss, Absolute):
        return Envelope(1.0, 1.0, smoothing)
    if isinstance(loss, Quantile):
        return Envelope(loss.tau, 1 - loss.tau, smoothing)
    raise ConfigError("model.loss", loss.name, "has no corner that could be smoothed.")


def slope_of(loss: PredictionLoss, span: float) -> float:
    """Lipschitz constant in predictions from -span to span, targets within [-1, 1]: rounded up.

    Raises:
      ConfigError: a loss of which none is known here.
    """
    if isinstance(loss, Squared):
        return (span + 1.0) * _UP
    if isinstance(loss, Huber):
        return min(loss.width, (span + 1.0) * _UP)
    if isinstance(loss, Quantile):
        return max(loss.tau, 1 - loss.tau)
    if isinstance(loss, Envelope):
        return max(loss.below, loss.above)
    if loss.labels or isinstance(loss, Absolute):
        return 1.0
    raise ConfigError("model.loss", loss.name, "has no slope that is known here; take another.")


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
        """Of the loss in the prediction."""
        return slope_of(self.loss, self.span)

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
            "loss": [self.loss.name, canonical_value(self.loss)],
            "features": self.features,
            "intercept": self.intercept,
            "dual": self.dual.hex(),
            "norm": self.norm.hex(),
            "radius": self.radius.hex(),
            **({} if self.most is None else {"most": self.most}),
        }


def norms(rows: Floats, q: float) -> Floats:
    """lq norms, 1 <= q <= inf: (n, m) -> (n,)."""
    if math.isinf(q):
        return np.asarray(np.max(np.abs(rows), axis=1, initial=0.0))
    return lp_norms(rows, q)


def shortened(features: Floats, q: float, bound: float) -> tuple[Floats, int]:
    """Features on the lattice of ``STEP``, each row of lq norm at most ``bound``; and how many were
    longer. A row by itself; truncation toward zero lengthens nothing.

    The target of the shortening lies below the bound by more than what powers round.
    """
    size = norms(features, q)
    target = bound * (1 - 2.0**-30)
    long = np.flatnonzero(~(size <= target))
    out = np.ascontiguousarray(features, dtype=np.float64).copy()
    if long.size:
        out[long] *= (target / size[long])[:, None]
    out = np.trunc(out * (1.0 / STEP)) * STEP + 0.0
    return out, int(np.count_nonzero(size > bound))

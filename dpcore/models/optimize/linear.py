"""A loss of a linear prediction over a set: every public number that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.losses import Huber, Logistic, PredictionLoss, Squared
from weir.dpcore.pricing.calibration import round_up


@dataclass(frozen=True)
class Linear:
    """f(theta; x, y) = loss(<(x, 1), theta>, y), theta in a set; |x_j| <= 1 and |y| <= 1.

    **Formal guarantees**: for every row within the bounds, and every theta in the set, |<(x, 1),
    theta>| is at most ``reach``, the derivative of the loss at most ``slope`` and its own Lipschitz
    constant ``curve``; the lq norm of (x, 1) is at most ``size_in(q)``. A gradient is the slope
    times (x, 1), so its lq norm is at most ``lipschitz_in(q)``. All are rounded up.

    Attributes:
      loss: smooth, of one prediction. set: where theta lies. features: numbers of x.
      intercept: whether a 1 follows them. norm: most that ||x||_2 is; infinite where only the
        ranges bound it.
    """

    loss: PredictionLoss
    set: ConvexSet
    features: int
    intercept: bool
    norm: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.loss.smoothness):
            raise ConfigError(
                "model.loss",
                self.loss.name,
                "has a corner, and every step here needs a loss without one; write squared, "
                "{huber: 0.5}, logistic or hinge, whose corner is smoothed.",
            )

    @property
    def dimension(self) -> int:
        """d, numbers of theta."""
        return self.features + self.intercept

    @property
    def outputs(self) -> int:
        """See ``Scored``."""
        return 1

    @property
    def width(self) -> int:
        """See ``Scored``."""
        return self.dimension

    @property
    def loss_name(self) -> str:
        """See ``Scored``."""
        return self.loss.name

    def points(self, features: Any) -> Any:
        """See ``Scored``; of the same kind as they are, dense or sparse."""
        if not self.intercept:
            return features
        if isinstance(features, np.ndarray):
            out = np.ones((len(features), self.dimension), dtype=features.dtype)
            out[:, : self.features] = features
            return out
        from scipy import sparse

        ones = sparse.csr_array(np.ones((features.shape[0], 1)))
        return sparse.hstack([features, ones], format="csr")

    def size_in(self, q: float) -> float:
        """Most that the lq norm of (x, 1) is, 1 <= q <= inf: from entries of at most 1, and a
        length of at most ``norm``."""
        square = min(float(self.features), self.norm * self.norm) + self.intercept
        if math.isinf(q):
            return 1.0 if self.intercept else min(1.0, self.norm)
        spread = math.pow(self.dimension, max(0.0, 1 / q - 0.5)) * math.sqrt(square)
        return round_up(spread if q < 2 else math.pow(square, 1 / q))

    @cached_property
    def reach(self) -> float:
        """Most that a prediction is in size: by Hoelder's inequality in two norms."""
        pairs = ((1.0, math.inf), (2.0, 2.0))
        return round_up(min(self.set.farthest_in(p) * self.size_in(q) for p, q in pairs))

    @cached_property
    def slope(self) -> float:
        """Most that the derivative of the loss is in size."""
        if isinstance(self.loss, Squared):
            return round_up(self.reach + 1)
        if isinstance(self.loss, Huber):
            return round_up(min(self.reach + 1, self.loss.width))
        if isinstance(self.loss, Logistic):
            return round_up(1 / (1 + math.exp(-min(self.reach, 700.0))))
        return 1.0

    @property
    def curve(self) -> float:
        """Lipschitz constant of the derivative."""
        return self.loss.smoothness

    def lipschitz_in(self, q: float) -> float:
        """Most that the lq norm of a gradient is."""
        return round_up(self.slope * self.size_in(q))

    @cached_property
    def moved(self) -> float:
        """Most that the predictions of two points of the set differ for one row."""
        pairs = ((1.0, math.inf), (2.0, 2.0))
        return round_up(min(self.set.diameter_in(p) * self.size_in(q) for p, q in pairs))

    @cached_property
    def curvature(self) -> float:
        """Gamma: a bound on the curvature constant of every mean of such losses over the set."""
        return round_up(self.curve * self.moved * self.moved)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "loss": [self.loss.name, canonical_value(self.loss)],
            "set": self.set.canonical(),
            "features": self.features,
            "intercept": self.intercept,
            "norm": self.norm.hex(),
        }

"""A linear model over a set, and how many Frank-Wolfe steps serve it.

How many steps of Frank and Wolfe's a budget is spread over: a public rule, never the data.

After T steps with mu_t = 2 / (t + 2) the gap is at most 2 Gamma / (T + 2) + e(T), e(T) what noise
costs each of them: a sqrt(T) where the losses of steps add in squares, a T where they add straight
(pure epsilon). The sum is least near T = (4 Gamma / a)^(2/3), where it is 2.38 a^(2/3) Gamma^(1/3),
and near T = sqrt(2 Gamma / a); the rule takes the 2 next to T with it.
Source: Jaggi (2013), Theorem 1; Talwar, Thakurta, Zhang (2015), Theorem 2.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet, norm_of
from weir.dpcore.models.erm.tau import within
from weir.dpcore.models.kit.loss import PredictionLoss
from weir.dpcore.pricing.calibration import round_up

MOST_STEPS = 1 << 15
"""Weights of steps add up to 2^29 of these at most: with rows on their lattice within 2^53."""


def best_steps(curvature: float, noise: float, straight: bool) -> int:
    """The least T at which more steps no longer pay.

    Args:
      curvature: Gamma. noise: a. straight: whether e(T) = a T; else a sqrt(T).
    """
    gamma, a = Fraction(curvature), Fraction(noise)
    if a == 0:
        return MOST_STEPS
    if straight:
        return within(MOST_STEPS, lambda steps: (steps + 2) * (steps + 3) * a >= 2 * gamma)
    # 2 Gamma / (T + 2)^2 <= a / (2 sqrt(T)), squared: the slopes of both parts.
    return within(MOST_STEPS, lambda steps: (steps + 2) ** 4 * a * a >= 16 * gamma**2 * steps)


def gap(curvature: float, steps: int, noise: float) -> float:
    """Bound on the expected gap after so many steps. noise: e(T)."""
    return 2 * curvature / (steps + 2) + noise


def total(steps: int) -> int:
    """Sum of the weights of the first so many steps: the model is the mean of what they chose,
    step t = 0, 1, ... weighing t + 1, as mu_t = 2 / (t + 2) has it."""
    return steps * (steps + 1) // 2


@dataclass(frozen=True)
class Linear:
    """f(theta; x, y) = loss(<(x, 1), theta>, y), theta in a set; |x_j| <= 1 and |y| <= 1.

    **Formal guarantees**: for every row within the bounds, and every theta in the set, |<(x, 1),
    theta>| is at most ``reach``, and the derivative of the loss at most ``slope``; the lq norm of
    (x, 1) is at most ``size_in(q)``. A gradient is the slope times (x, 1), so its lq norm is at
    most ``lipschitz_in(q)``. All are rounded up.

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
        if self.loss.cornered:
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
        return 1

    @property
    def width(self) -> int:
        return self.dimension

    @property
    def loss_name(self) -> str:
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
        return round_up(self.loss.slope(self.reach))

    def slope_at(self, theta: Floats) -> float:
        """Most that the derivative of the loss is in size at a point: (d,)."""
        pairs = ((1.0, math.inf), (2.0, 2.0))
        reach = round_up(min(norm_of(theta, p) * self.size_in(q) for p, q in pairs))
        return min(self.slope, round_up(self.loss.slope(reach)))

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
        return round_up(self.loss.smoothness * self.moved * self.moved)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "loss": self.loss.canonical(),
            "set": self.set.canonical(),
            "features": self.features,
            "intercept": self.intercept,
            "norm": self.norm.hex(),
        }

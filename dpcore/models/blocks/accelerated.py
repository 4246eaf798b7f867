"""Accelerated steps of a certified minimiser: how many, and with which coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError

Gradient = Callable[[Floats], Floats]
"""(D,) -> (D,), the gradient of F."""


MOST_STEPS = 1 << 16


@dataclass(frozen=True)
class Accelerated:
    """The information-theoretic exact method: no method that sees gradients alone comes nearer.

    For F mu-strongly convex with beta-Lipschitz gradients, q = mu / beta, A_0 = 0, x_0 = y_0:
    p_k = (1 - b_k) x_k + b_k y_k, y_{k+1} = p_k - grad F(p_k) / beta,
    x_{k+1} = x_k + q d_k (p_k - x_k) - (d_k / beta) grad F(p_k), with b_k and d_k of A_k below.
    Then ||x_k - x*||^2 <= ||x_0 - x*||^2 / (1 + q A_k), which falls as (1 - sqrt(q))^(2k): half the
    steps of Nesterov's method with constant momentum. An error e in every gradient moves grad F at
    the end by at most 2 beta / mu times as much (looked at on quadratics).
    Source: Taylor, Drori (2022), Algorithm 1 and Theorem 3.

    Attributes:
      steps: how many. smoothness: beta. convexity: mu. method: its name, for digests.
    """

    steps: int
    smoothness: float
    convexity: float
    method: str = field(default="exact", init=False)

    def step(self, at: int, x: Floats, y: Floats, gradient: Gradient) -> tuple[Floats, Floats]:
        share, length = _coefficients(self.convexity / self.smoothness, self.steps)[at]
        point = x + share * (y - x)
        down = gradient(point) / self.smoothness
        pull = self.convexity / self.smoothness * length
        return x + pull * (point - x) - length * down, point - down


def _advance(q: float, weight: float) -> tuple[float, float, float]:
    """(b_k, d_k, A_{k+1}) of A_k: sums, products and roots alone, the same on every CPU."""
    root = 1 + math.sqrt((1 + weight) * (1 + q * weight))
    scaled = (1 + q) * weight + 2 * root  # (1 - q)^2 A_{k+1}
    following = scaled / (1 - q) ** 2 if q < 1 else math.inf
    return weight * (1 - q) / scaled, root / (1 + q + q * weight), following


@lru_cache(maxsize=64)
def _coefficients(q: float, steps: int) -> tuple[tuple[float, float], ...]:
    """(b_k, d_k) of every step."""
    result, weight = list[tuple[float, float]](), 0.0
    for _ in range(steps):
        share, length, weight = _advance(q, weight)
        result.append((share, length))
    return tuple(result)


@lru_cache(maxsize=256)
def accelerated(smoothness: float, convexity: float, distance: float, tau: float) -> Accelerated:
    """Steps after which every such F has a gradient of at most tau / 2.

    Args:
      smoothness, convexity: of F, for every block. distance: R, from the start to any minimiser.

    Raises:
      ConfigError: they are too many.
    """
    nearest = 2 * smoothness * distance / tau * (1 + 2.0**-30)  # beta R / (tau / 2)
    q, weight, steps = convexity / smoothness, 0.0, 0
    while 1 + q * weight < nearest * nearest and steps <= MOST_STEPS:
        weight, steps = _advance(q, weight)[2], steps + 1
    if steps > MOST_STEPS:
        raise ConfigError(
            "model.regularise",
            convexity / 2,
            f"is so small compared with the curvature of the loss that more than {MOST_STEPS:,} "
            "steps a fit would be needed; take a larger one, smaller features "
            "(model.clip.features), or solver: sgd.",
        )
    return Accelerated(max(1, steps), smoothness, convexity)

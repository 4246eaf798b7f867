"""How many dimensions a projected regression needs."""

from __future__ import annotations

import math

from weir.dpcore.errors import at_least_one, positive
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.regression.membership import Inputs

BETA = 0.05
"""Chance that the embedding fails, in the rule."""


def width_of(convex_set: ConvexSet) -> float:
    """Gaussian width of a set scaled to l2 norms up to 1, or a bound above it."""
    longest = convex_set.farthest(convex_set.start() * 0)
    return convex_set.gaussian_width() / longest if longest else 0.0


def dimension_for(
    inputs: Inputs, convex_set: ConvexSet, horizon: int, constant: float = 1.0
) -> int:
    """m = ceil(constant / gamma^2 max{W^2, ln(T / beta)}), gamma = (W / T)^(1/3).

    W = w(G) + w(C), both scaled to l2 norms up to 1, as what is to be embedded are directions.
    beta = 0.05. Widths are rounded up to 24 bits, so that a library's last bits do not show.

    Args:
      horizon: T, number of events; a plan that expects no number of them takes its ticks.

    Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, step 1, whose constant is not given;
      Gordon (1988), Theorem 5.1 there.
    """
    positive(constant=constant)
    at_least_one(horizon=horizon)
    width = _up(inputs.width + width_of(convex_set))
    gamma = (width / horizon) ** (1 / 3)
    most = max(width * width, math.log(horizon / BETA))
    return max(1, math.ceil(_up(constant / (gamma * gamma) * most) * (1 - 2.0**-20)))


def _up(number: float) -> float:
    mantissa, exponent = math.frexp(number)
    return math.ldexp(math.ceil(mantissa * 2**24), exponent - 24)

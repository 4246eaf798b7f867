"""How often to run: the paper's rules for tau, in exact arithmetic.

Running seldom leaves a model stale, running often leaves each run little budget; each rule balances
the two for one event a tick. They come from bounds, and as measured run too often even so: with n
events a tick they would ask for n^(2/3) and n^(1/2) times as many runs, so T stays the ticks.
Source: Kasiviswanathan, Nissim, Jin (2017), Theorem 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from weir.dpcore.errors import ConfigError, positive

RULES = ("convex", "strongly_convex", "frank_wolfe")
"""The third is for the solver by Frank and Wolfe's steps."""


def convex(ticks: int, dimension: int, epsilon: float) -> int:
    """ceil((T d)^(1/3) / eps^(2/3)): least tau with tau^3 eps^2 >= T d."""
    positive(epsilon=epsilon)
    target = Fraction(ticks * dimension) / Fraction(epsilon) ** 2
    return within(ticks, lambda tau: tau**3 >= target)


def strongly_convex(
    ticks: int, dimension: int, epsilon: float, lipschitz: float, curvature: float, size: float
) -> int:
    """ceil(sqrt(d L) / (sqrt(nu) eps sqrt(||C||))): least tau with tau^2 nu eps^2 ||C|| >= d L."""
    if not curvature > 0:
        raise ConfigError(
            "model.every",
            "strongly_convex",
            "needs model.curvature above 0, the strong convexity that every tick adds.",
        )
    positive(epsilon=epsilon, lipschitz=lipschitz, size=size)
    below = Fraction(curvature) * Fraction(epsilon) ** 2 * Fraction(size)
    target = dimension * Fraction(lipschitz) / below
    return within(ticks, lambda tau: tau**2 >= target)


def frank_wolfe(
    ticks: int, epsilon: float, lipschitz: float, curvature: float, size: float, width: float
) -> int:
    """ceil(sqrt(T w) C_l^(1/4) / ((L ||C||)^(1/4) sqrt(eps))): least tau with
    tau^4 eps^2 L ||C|| >= T^2 w^2 C_l.

    Args:
      curvature: C_l, curvature constant of one event's loss. width: w, Gaussian width of the set.
    """
    positive(epsilon=epsilon, lipschitz=lipschitz, size=size)
    above = Fraction(ticks) ** 2 * Fraction(width) ** 2 * Fraction(curvature)
    target = above / (Fraction(epsilon) ** 2 * Fraction(lipschitz) * Fraction(size))
    return within(ticks, lambda tau: tau**4 >= target)


def within(ticks: int, enough: Callable[[int], bool]) -> int:
    """The least tau in [1, T] that is enough; T where none is. Roots in floats differ by CPU."""
    low, high = 1, max(1, ticks)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low

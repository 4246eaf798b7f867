"""How many steps of Frank and Wolfe's a budget is spread over: a public rule, never the data.

After T steps with mu_t = 2 / (t + 2) the gap is at most 2 Gamma / (T + 2) + e(T), e(T) what noise
costs each of them: a sqrt(T) where the losses of steps add in squares, a T where they add straight
(pure epsilon). The sum is least near T = (4 Gamma / a)^(2/3), where it is 2.38 a^(2/3) Gamma^(1/3),
and near T = sqrt(2 Gamma / a); the rule takes the 2 beside T with it.
Source: Jaggi (2013), Theorem 1; Talwar, Thakurta, Zhang (2015), Theorem 2.5.
"""

from __future__ import annotations

from fractions import Fraction

from weir.dpcore.models.erm.tau import within

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

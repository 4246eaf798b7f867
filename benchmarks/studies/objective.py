"""A peer: objective perturbation, for a loss of a linear prediction over an l1 ball."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from weir.dpcore.geometry.balls import L1Ball

Oracle = Callable[[Any], Any]


def scales(epsilon: float, delta: float, slope: float, curve: float, length: float) -> Any:
    """Ridge and noise of sum_i loss(<x_i, theta>, y_i) + ridge / 2 ||theta||^2 + <b, theta>.

    (epsilon, delta) where a record is replaced, as with the plans next to it. The density of the
    minimiser at theta is that of b = -(gradient of the rest) times |det| of its Jacobian.
    A record adds to the Jacobian a matrix of rank one, of at most curve length^2 in size, so the
    ratio of determinants is at most 1 + curve length^2 / ridge, replaced or not: half of epsilon.
    It moves b by s x - s' x', |s| <= slope, ||x|| <= length, where s and s' may depend on b. With
    b of deviation sigma the log ratio of densities is at most slope (|<b, x>| + |<b, x'>|) /
    sigma^2 + (2 slope length)^2 / (2 sigma^2); the two inner products are normal with deviation
    sigma length at most, so that their sizes add up to more than 2 sigma length z with probability
    at most 2 Q(z) whatever their correlation (z beyond 1.74: Q is then convex enough): z such that
    2 Q(z) is delta. What is left of epsilon pays for both terms.

    Source: Kifer, Smith, Thakurta (COLT 2012), Algorithm 1, whose own noise, for a record that is
    added, replaced here for another relation, is up to a tenth larger; Redberg, Koskela, Wang
    (2023) for the tail, where b and the slope are not independent.

    Args:
      slope, curve: most that first and second derivative of the loss are. length: of any row, l2.

    Returns:
      (ridge, sigma), in units of the sum.
    """
    ridge = curve * length * length / math.expm1(epsilon / 2)
    z, left, moved = -float(ndtri(delta / 2)), epsilon / 2, slope * length
    assert z > 1.74
    # left = 2 moved z / sigma + 2 moved^2 / sigma^2, solved for 1 / sigma
    inverse = (math.sqrt(z * z + 2 * left) - z) / (2 * moved)
    return ridge, 1 / inverse


def minimised(gradient: Oracle, smooth: float, ball: L1Ball, steps: int = 3_000) -> Any:
    """The least of a smooth convex function over a ball: accelerated projected gradient, until a
    step moves less than 1e-9. (The guarantee is of the exact least.)

    Args:
      gradient: at a point. smooth: its Lipschitz constant.
    """
    x = np.zeros(ball.dimension)
    y, t = x, 1.0
    for _ in range(steps):
        new = ball.project((y - gradient(y) / smooth)[None])[0]
        following = (1 + math.sqrt(1 + 4 * t * t)) / 2
        ahead = new + (t - 1) / following * (new - x)
        if (y - new) @ (new - x) > 0:  # begin again where momentum points uphill
            ahead, following = new, 1.0
        moved, x, y, t = float(np.abs(new - x).max()), new, ahead, following
        if moved < 1e-9:
            break
    return x

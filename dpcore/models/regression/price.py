"""Pricing of regressions: the best continual sum that can carry their moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dpcore.continual.base import ContinualSum
from dpcore.models.moments import Moments
from dpcore.models.moments_leaf import leaf_of
from dpcore.pricing.best import Offer, Priced, best_sum
from dpcore.pricing.price import Alternative, round_up
from dpcore.pricing.terms import Terms

SLACK = 1 + 2.0**-30
"""Default bounds lie above what any event has by more than rounding, so that none is touched."""

P = TypeVar("P", bound=Priced)


def choose_moments(
    over: int | None,
    terms: Terms,
    moments: Moments,
    build: Callable[..., P],
    scored: float = 0.0,
) -> tuple[P, tuple[Alternative, ...]]:
    """A program over the best continual sum for its moments: its error is that of a coordinate.

    Args:
      build: the sum that models are made of, and one more of the same leaves if they are scored.
      scored: share of the budget for that one.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    ticks = terms.ticks()

    def offer(mechanism: ContinualSum) -> Offer[P]:
        parts = [mechanism]
        if scored:
            parts = [share_of(mechanism, 1 - scored), share_of(mechanism, scored)]
        worst = float(np.sqrt(np.max(parts[0].unit_variance * parts[0].factor(ticks, over))))
        named = {f"moments over={'all' if over is None else over}": worst}
        return Offer(build(*parts), worst**2, named)

    return best_sum(leaf_of(moments, over, terms), terms, offer)


def share_of(mechanism: ContinualSum, share: float) -> ContinualSum:
    """The same sum with the noise that a share of its budget buys.

    Formal guarantees:
      Losses of mu^2 and rho fall with the square of the noise scale, epsilon with the scale, so the
      sums of shares that add up to 1 lose together what the whole one loses, or less: scales are
      rounded up.
    """
    more = 1 / share if mechanism.loss(1).kind == "pure" else share**-0.5
    return replace(mechanism, noise_scale=round_up(mechanism.noise_scale * more))

"""Pricing of regressions: the best continual sum that can carry their moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from dpcore.continual.base import ContinualSum
from dpcore.models.moments import Moments
from dpcore.models.moments_leaf import leaf_of
from dpcore.pricing.best import Offer, Priced, best_sum
from dpcore.pricing.price import Alternative
from dpcore.pricing.terms import Terms

SLACK = 1 + 2.0**-30
"""Default bounds lie above what any event has by more than rounding, so that none is touched."""

P = TypeVar("P", bound=Priced)


def choose_moments(
    over: int | None, terms: Terms, moments: Moments, build: Callable[[ContinualSum], P]
) -> tuple[P, tuple[Alternative, ...]]:
    """A program over the best continual sum for its moments: its error is that of a coordinate.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    ticks = terms.ticks()

    def offer(mechanism: ContinualSum) -> Offer[P]:
        worst = float(np.sqrt(np.max(mechanism.unit_variance * mechanism.factor(ticks, over))))
        named = {f"moments over={'all' if over is None else over}": worst}
        return Offer(build(mechanism), worst**2, named)

    return best_sum(leaf_of(moments, over, terms), terms, offer)

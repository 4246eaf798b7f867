"""Pricing of regressions: the best continual sum that can carry their moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.unit import NOISE_OF
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.moments_leaf import leaf_of
from weir.dpcore.pricing.alternatives import Offer, Priced, best_sum
from weir.dpcore.pricing.calibration import Alternative, budget_of, calibrated, share
from weir.dpcore.pricing.terms import Terms

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
    ticks, leaf = terms.ticks(), leaf_of(moments, over, terms)

    def of_share(mechanism: ContinualSum, fraction: float) -> ContinualSum:
        noise = NOISE_OF[mechanism.loss(1).kind]
        budget = budget_of(noise, terms.epsilon, terms.delta)
        return calibrated(mechanism.name, leaf, terms, share(budget, fraction))

    def offer(mechanism: ContinualSum) -> Offer[P]:
        parts = [mechanism]
        if scored:
            parts = [of_share(mechanism, 1 - scored), of_share(mechanism, scored)]
        worst = float(np.sqrt(np.max(parts[0].unit_variance * parts[0].factor(ticks, over))))
        named = {f"moments over={'all' if over is None else over}": worst}
        return Offer(build(*parts), worst**2, named)

    return best_sum(leaf, terms, offer)

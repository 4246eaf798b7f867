"""Which learner would serve better, from public numbers: docs/how-to/choose-a-learner.md."""

from __future__ import annotations

import math
from collections.abc import Iterator

from weir.dpcore.pricing.terms import Terms

FEW = 6
"""Coefficients up to which regression.incremental had the smaller error late in a stream."""
MANY = 8
"""Coefficients from which online.follow_the_leader had it."""
LEADER, MOMENTS, ROWS = "online.follow_the_leader", "regression.incremental", "regression.erm"


def advice(
    name: str, squared: bool, coefficients: int, fades: bool | None, terms: Terms
) -> Iterator[str]:
    """Sentences for a plan.

    Args:
      name: of the algorithm. squared: whether that is its loss. coefficients: d.
      fades: whether its pull to the centre does; None: there is none, or the user chose it.
    """
    if fades is False and terms.events is None:
        yield (
            "The pull to the centre grows with the ticks and never fades. Say how many events a "
            "key has in a tick, as `expect: {events: 2000}`, and leave model.curvature out: then "
            "it fades, and steps fit."
        )
    elif name == ROWS and squared:
        yield (
            f"For squared losses {LEADER} (to predict the next events) and {MOMENTS} (to describe "
            "all so far, with bands) have less error at most ticks. This is for a few exact "
            "models: at four fits in all (model.every) its last one is nearer than theirs."
        )
    elif name == MOMENTS and coefficients >= MANY:
        yield (
            f"With {coefficients:,} coefficients {LEADER} has less noise, "
            f"{_times(coefficients):.1f} times less in a sum that a model follows, and is the one "
            "to predict next events, unless features change as slowly as seasons do. This "
            "describes all events so far, with bands."
        )
    elif name == LEADER and squared and fades and coefficients <= FEW:
        yield (
            f"With {coefficients:,} coefficients and squared losses {MOMENTS} comes as near or "
            "nearer late in a stream, and has bands; this learns sooner, and follows what drifts."
        )


def _times(d: int) -> float:
    """Noise in a sum of products over that in a sum of gradients, both of events that are evenly
    spread: sensitivities sqrt(2) |x|^2 (x x^T), with |x|^2 = (d + 2) / 3, and 2 L = sqrt(d)."""
    return math.sqrt(2) * (d + 2) / 3 / math.sqrt(d)

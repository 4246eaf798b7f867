"""Settings of a regression side by side, from public numbers: what a plan shows beside its own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import ndtri

from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.price import SLACK
from weir.dpcore.models.regression.ridge import ADASSP, Ridge, predicted, prior_of
from weir.dpcore.words import number

SHARES = (0.6, 0.8, 1.0, 1.25)
"""Of the length of a typical event: clips that are shown."""
_POINTS = 200


def ridges(chosen: Ridge, events: float, stddev: float, convex_set: ConvexSet) -> str:
    """Predicted excess under each rule, and under the config's own weight.

    Args:
      chosen: of the config. events: in the span. stddev: of a coordinate of the moments.
    """
    rules: dict[str, Ridge] = {"default": None, ADASSP: ADASSP}
    if chosen is not None and chosen != ADASSP:
        rules[f"{chosen:g}"] = chosen
    prior, d = prior_of(convex_set), convex_set.dimension
    told = (
        f"{name}{' (this)' if rule == chosen else ''} "
        f"{number(predicted(rule, events, stddev, prior, d))}"
        for name, rule in rules.items()
    )
    return ", ".join(told)


def kept(features: int, intercept: bool, clip: float) -> float:
    """Share of the weight of events spread evenly over their ranges that a clip of their length
    leaves: E min(1, (clip / |x|)^2), |x|^2 taken as normal."""
    middle, spread = features / 3 + intercept, math.sqrt(4 * features / 45)
    points = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
    square = np.clip(middle + spread * points, 1e-9 + intercept, features + intercept)
    return float(np.mean(np.minimum(1.0, clip**2 / square)))


def clips(moments: Moments, features: int, intercept: bool, events: float, std: float) -> str:
    """Predicted deviation of a coefficient under a few clips of events spread over their ranges.
    Noise is taken to grow as it does under replace_one; other relations differ by little.

    Args:
      moments: of the plan. features: p. events: in the span. std: of a coordinate of the moments.
    """
    typical, whole = math.sqrt(features / 3 + intercept), math.sqrt(features + intercept) * SLACK
    own = moments.sensitivity("replace_one")
    lengths = sorted({round(typical * share, 3) for share in SHARES} | {moments.reach, whole})
    told, shown = [], set()
    for length in lengths:
        name = f"{length:.3g}"
        if length > whole or name in shown:
            continue
        shown.add(name)
        noise = std * replace(moments, reach=length).sensitivity("replace_one") / own
        error = 3 * noise / (events * kept(features, intercept, length))
        mine = " (this)" if name == f"{moments.reach:.3g}" else ""
        told.append(f"{name}{mine} {number(error)}")
    return ", ".join(told)

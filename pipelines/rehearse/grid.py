"""A small grid: by how much each output errs under other epsilons and longer ticks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.scores import Score
from weir.pipelines.rehearse.variants import (
    Place,
    growth,
    place_at,
    prices_of,
    served,
    with_epsilon,
    with_period,
)

TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Epsilons, as multiples of the config's."""
LONGER = (1, 7, 30)
"""Ticks, as multiples of the config's."""


@dataclass(frozen=True)
class ErrorGrid:
    """Errors beside the size of the value, for 19 of 20 values.

    Attributes:
      epsilons, periods: of the config and others. shares: output -> (periods, epsilons); NaN: it
        cannot be served so.
    """

    epsilons: tuple[float, ...]
    periods: tuple[str, ...]
    shares: Mapping[Place, tuple[tuple[float, ...], ...]]

    def to_json(self) -> list[dict[str, Any]]:
        """For ``--json``: a row for each number."""
        return [
            {"name": name, "over": over, "period": period, "epsilon": epsilon, "share": share}
            for (name, over), table in self.shares.items()
            for period, row in zip(self.periods, table, strict=True)
            for epsilon, share in zip(self.epsilons, row, strict=True)
            if math.isfinite(share)
        ]


def grid_of(plan: Plan, scores: tuple[Score, ...]) -> ErrorGrid | None:
    """The grid of the outputs whose error is known beforehand; None: there are none.

    Noise is priced by plans; what clips and caps take is as measured, and the value of a tick alone
    grows with the tick.
    """
    config, now = plan.config, prices_of(plan)
    known = [
        one
        for one in scores
        if one.true > 0 and math.isfinite(one.band) and now.get((one.name, one.over), 0.0) > 0
    ]
    if not known or config.model is not None:
        return None
    epsilons = tuple(config.privacy.epsilon * times for times in TIMES)
    periods: list[str] = []
    shares: dict[Place, list[tuple[float, ...]]] = {(one.name, one.over): [] for one in known}
    for times in LONGER:
        ratio = Fraction(times)
        longer = with_period(config, ratio)
        if longer is None:
            continue
        priced = [served(with_epsilon(longer, epsilon)) for epsilon in epsilons]
        if not any(priced):
            continue
        periods.append(longer.clock.period)
        for one in known:
            row = (_share(config, one, ratio, now, some) for some in priced)
            shares[one.name, one.over].append(tuple(row))
    return ErrorGrid(
        epsilons, tuple(periods), {place: tuple(rows) for place, rows in shares.items()}
    )


def _share(
    config: PlanConfig,
    score: Score,
    ratio: Fraction,
    now: Mapping[Place, float],
    priced: Mapping[Place, float],
) -> float:
    place = score.name, score.over
    half = priced.get(place_at(place, ratio), math.nan)
    grows = growth(config, place, ratio)
    noise = score.band * half / now[place]
    return math.hypot(noise, score.clip * grows) / (score.true * grows)


__all__ = ["ErrorGrid", "grid_of"]

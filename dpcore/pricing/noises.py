"""Which noises a continual sum is tried with."""

from __future__ import annotations

import math
from typing import Any

from dpcore.aggregates.price import SLACK
from dpcore.aggregates.program import Aggregates
from dpcore.errors import ConfigError
from dpcore.plan_config import PlanConfig
from dpcore.pricing.price import Alternative
from dpcore.registry import CONTINUAL_SUMS

SPLIT = "separate"
"""Name of the alternative that gives each ``over`` a mechanism of its own."""


FINEST = 2.0**-40
"""Smallest delta that real-valued noise serves: each normal is made from 64 random bits, so that
its far tail is a few atoms of mass 2^-63 and then nothing. Discrete noise is exact at any delta."""


def noises_for(config: PlanConfig) -> tuple[str, ...]:
    """Which noises can keep the promise."""
    asked, delta = config.mechanism.noise, config.privacy.delta
    if asked is None and delta == 0:
        return ("k_norm",)
    if 0 < delta < FINEST and asked in (None, "gaussian"):
        only_real = "discrete_gaussian" not in kinds_of(config.mechanism.continual_sum)
        if asked is not None or only_real:
            raise ConfigError(
                "privacy.delta",
                delta,
                "is finer than Gaussian noise in floating point, whose tails end at 9 standard "
                "deviations; set 1e-12 or more, or mechanism.noise: discrete_gaussian, which is "
                "exact.",
            )
        return ("discrete_gaussian",)
    if asked is None:
        return ("gaussian", "discrete_gaussian")
    if delta == 0 and asked != "k_norm":
        raise ConfigError(
            "privacy.delta",
            delta,
            f"must be above 0 for {asked} noise; set 1e-6, or use "
            "mechanism.noise: k_norm, which serves delta = 0.",
        )
    return (asked,)


def kinds_of(named: str | None) -> tuple[str, ...]:
    """Noises of the mechanism that the user named; all of them without a name."""
    if named is None:
        return ("gaussian", "discrete_gaussian", "k_norm")
    return ("gaussian",) if named == SPLIT else tuple(CONTINUAL_SUMS[named].kinds)


def options_of(config: PlanConfig) -> tuple[tuple[str, Any], ...]:
    """What the user fixed of a mechanism besides its name and noise."""
    fixed = config.mechanism.model_dump(exclude={"continual_sum", "noise"}, exclude_none=True)
    return tuple(sorted(fixed.items()))


def pick(
    config: PlanConfig,
    tried: list[tuple[Alternative, Aggregates | None]],
    named: str | None,
) -> tuple[Aggregates, tuple[Alternative, ...]]:
    """Relates scores to the best, marks the chosen one and sorts."""
    able = [(a, p) for a, p in tried if p is not None]
    if named is not None:
        able_named = [(a, p) for a, p in able if a.mechanism == named]
        if not able_named:
            reasons = [a.note for a, _ in tried if a.mechanism == named]
            remedy = (
                reasons[0]
                if reasons
                else (
                    "cannot serve these aggregates, their `over` and this noise; remove it and "
                    "the plan chooses one that can."
                )
            )
            raise ConfigError("mechanism.continual_sum", named, remedy)
        able_to_choose = able_named
    else:
        # A mechanism that protects nothing after the window is taken only when asked for by name.
        able_to_choose = [(a, p) for a, p in able if not a.note]
    if not able_to_choose:
        raise ConfigError(
            "mechanism",
            config.mechanism.continual_sum,
            "nothing can serve this plan: "
            + "; ".join(f"{a.mechanism}: {a.note}" for a, _ in tried),
        )
    best = min(a.score for a, _ in able_to_choose)
    close = [(a, p) for a, p in able_to_choose if a.score <= best * SLACK**2]
    winner, program = min(close, key=lambda pair: (pair[0].state_bytes, pair[0].score))
    assert program is not None
    ranked = []
    for alternative, _ in tried:
        relative = (
            math.sqrt(alternative.score / best)
            if best > 0 and math.isfinite(alternative.score)
            else 1.0
            if alternative.score == best
            else math.inf
        )
        ranked.append(
            Alternative(
                alternative.mechanism,
                alternative.noise,
                alternative is winner,
                relative,
                alternative.state_bytes,
                alternative.epsilon_10w,
                alternative.stddev,
                alternative.note,
            )
        )
    ranked.sort(key=lambda a: (not a.chosen, a.score, a.state_bytes))
    return program, tuple(ranked)

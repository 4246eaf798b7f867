"""Choosing: the smallest state among the mechanisms whose error is within 5 % of the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from dpcore.aggregates.compile import compile_outputs
from dpcore.aggregates.price import (
    SLACK,
    Alternative,
    Question,
    budget_of,
    by_over,
    joint,
    score_of,
)
from dpcore.aggregates.program import Aggregates
from dpcore.config import PlanConfig
from dpcore.errors import ConfigError
from dpcore.registry import CONTINUAL_SUMS

SPLIT = "separate"
"""Name of the alternative that gives each ``over`` a mechanism of its own."""
SPLIT_INTO = ("blt", "sliding", "independent")

FINEST = 2.0**-40
"""Smallest delta that real-valued noise serves: each normal is made from 64 random bits, so that
its far tail is a few atoms of mass 2^-63 and then nothing. Discrete noise is exact at any delta."""


def choose(config: PlanConfig) -> tuple[Aggregates, tuple[Alternative, ...]]:
    """Prices every alternative for what was asked and takes the best.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    named = config.mechanism.continual_sum
    if named is not None and named not in (*CONTINUAL_SUMS, SPLIT):
        raise ConfigError(
            "mechanism.continual_sum", named, f"must be one of {sorted(CONTINUAL_SUMS)} or {SPLIT}."
        )
    readers = SPLIT_INTO if named == SPLIT else (named,)
    for setting, value in options_of(config):
        known = [getattr(CONTINUAL_SUMS[name], "settings", {}) for name in readers if name]
        if known and not any(setting in settings for settings in known):
            raise ConfigError(
                f"mechanism.{setting}", value, f"is not a setting of {named}; remove it."
            )
    tried = [entry for noise in noises_for(config) for entry in price_noise(config, noise)]
    return pick(config, tried, named)


Entry = tuple[Alternative, Aggregates | None]


def price_noise(config: PlanConfig, noise: str) -> list[Entry]:
    """Every way to serve the plan with one kind of noise; what cannot says why."""
    question = ask(config, noise)
    budget = budget_of(noise, config.privacy.epsilon, config.privacy.delta)
    ways: dict[str, Callable[[], Aggregates]] = {
        name: partial(joint, name, question, budget)
        for name, cls in CONTINUAL_SUMS.items()
        if noise in cls.kinds and cls.serves(question.overs)
    }
    if noise == "gaussian" and len(question.overs) > 1:
        ways[SPLIT] = partial(by_over, question, budget, "blt")
    tried: list[Entry] = []
    for name, build in ways.items():
        try:
            program = build()
        except ConfigError as error:
            cannot = Alternative(name, noise, False, math.inf, 0, None, {}, error.remedy)
            tried.append((cannot, None))
        else:
            tried.append((price(name, noise, program, question, config), program))
    return tried


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


def ask(config: PlanConfig, noise: str) -> Question:
    """The config as a question to the mechanisms."""
    clock = config.clock.to_clock()
    channels, outputs = compile_outputs(config.aggregates, whole=noise == "discrete_gaussian")
    return Question(
        channels,
        outputs,
        config.privacy.relation,
        # A neighbour's payload may be filtered out, or bear an arrival time that makes it late.
        may_vanish=config.where is not None or config.schema_.arrival is not None,
        window=config.privacy.window_ticks(clock),
        horizon=clock.ticks,
        options=options_of(config),
    )


def price(
    name: str, noise: str, program: Aggregates, question: Question, config: PlanConfig
) -> Alternative:
    """What an alternative costs; its score is absolute until ``pick`` relates it to the best."""
    window = question.window or question.horizon
    ten = program.loss(None if window is None else 10 * window).epsilon(config.privacy.delta)
    named = {
        f"{info.name} over={'all' if info.over is None else info.over}": info.stddev_worst
        for info in program.describe(question.ticks())
    }
    note = "no protection after the window" if math.isinf(ten) else ""
    score = score_of(program, question)
    return Alternative(name, noise, False, score, program.state_bytes(), ten, named, note)


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

"""Choosing: the smallest state among the mechanisms whose error is within 5 % of the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from dpcore.aggregates.compile import compile_outputs
from dpcore.aggregates.price import by_over, joint, score_of
from dpcore.aggregates.program import Aggregates
from dpcore.errors import ConfigError
from dpcore.plan_config import PlanConfig
from dpcore.pricing.noises import SPLIT, noises_for, options_of, pick
from dpcore.pricing.price import Alternative, budget_of
from dpcore.pricing.question import Question
from dpcore.registry import CONTINUAL_SUMS

SPLIT_INTO = ("blt", "sliding", "independent")


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

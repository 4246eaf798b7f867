"""Pricing: every continual sum that can carry a regression's moments, at the same promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dpcore.accounting.guarantee import Loss
from dpcore.continual.base import ContinualSum
from dpcore.errors import ConfigError
from dpcore.geometry.parse import parse_set
from dpcore.models.losses import Squared, parse_loss
from dpcore.models.moments import Moments
from dpcore.models.regression.incremental import Incremental
from dpcore.models.regression.rows import EventRows
from dpcore.models.regression.solver import Solver
from dpcore.plan_config import PlanConfig
from dpcore.pricing.noises import noises_for, options_of, pick
from dpcore.pricing.price import Alternative, budget_of, round_up, within_memory
from dpcore.pricing.question import Question
from dpcore.program import Program
from dpcore.registry import CONTINUAL_SUMS

NAME = "regression.incremental"
SLACK = 1 + 2.0**-30
"""Default bounds lie above what any event has by more than rounding, so that none is touched."""


def compile_incremental(config: PlanConfig) -> tuple[Incremental, tuple[Alternative, ...]]:
    """Incremental regression over the best continual sum for it, and every alternative.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    model = model_of(config, NAME)
    moments = moments_of(model)
    rows = EventRows.of(model, moments)
    convex_set = parse_set(model.set, moments.features)
    if not convex_set.projects:
        raise ConfigError("model.set", model.set, f"has no projection, which {NAME} needs.")
    solver = Solver.of(model)

    def build(mechanism: ContinualSum) -> Incremental:
        return Incremental(
            rows,
            (mechanism,),
            convex_set,
            None if model.ridge is None else float(model.ridge),
            solver,
            bool(model.error),
            bool(model.statistics),
            NAME,
        )

    chosen, ranked = choose_moments(config, moments, build)
    return cast(Incremental, chosen), ranked


def model_of(config: PlanConfig, name: str) -> Any:
    """The model section, of least squares.

    Raises:
      ConfigError: another loss, or an error that needs the constant.
    """
    model = cast(Any, config).model
    if not isinstance(parse_loss(model.loss, "model.loss"), Squared):
        raise ConfigError("model.loss", model.loss, f"must be squared for {name}.")
    if model.error and not model.intercept:
        raise ConfigError(
            "model.error",
            True,
            "divides by the number of events, which the square of the constant counts; set "
            "model.intercept: true.",
        )
    return model


def moments_of(model: Any) -> Moments:
    """What a leaf holds for a model section, within its bounds."""
    d, k = len(model.features) + bool(model.intercept), len(model.targets)
    reach, height = model.clip.features, model.clip.target
    return Moments(
        d,
        k,
        bool(model.error),
        math.sqrt(d) * SLACK if reach is None else min(float(reach), math.sqrt(d) * SLACK),
        math.sqrt(k) * SLACK if height is None else min(float(height), math.sqrt(k) * SLACK),
    )


def choose_moments(
    config: PlanConfig, moments: Moments, build: Callable[[ContinualSum], Program]
) -> tuple[Program, tuple[Alternative, ...]]:
    """A program over the best continual sum for its moments.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    model, named = cast(Any, config).model, config.mechanism.continual_sum
    if named is not None and named not in CONTINUAL_SUMS:
        raise ConfigError(
            "mechanism.continual_sum", named, f"must be one of {sorted(CONTINUAL_SUMS)}."
        )
    for setting, value in options_of(config):
        if named and setting not in getattr(CONTINUAL_SUMS[named], "settings", {}):
            raise ConfigError(
                f"mechanism.{setting}", value, f"is not a setting of {named}; remove it."
            )
    over = None if model.over == "all" else int(model.over)
    question = question_of(config)
    tried: list[tuple[Alternative, Program | None]] = []
    for noise in noises_for(config):
        budget = budget_of(noise, config.privacy.epsilon, config.privacy.delta)
        for name, cls in CONTINUAL_SUMS.items():
            if noise not in cls.kinds or not cls.serves((over,)):
                continue
            try:
                mechanism = build_sum(name, moments, over, question, budget)
            except ConfigError as error:
                cannot = Alternative(name, noise, False, math.inf, 0, None, {}, error.remedy)
                tried.append((cannot, None))
                continue
            program = build(mechanism)
            priced = price(name, noise, program, mechanism, question, config.privacy.delta)
            tried.append((priced, program))
    chosen, ranked = pick(config, cast(Any, tried), named)
    return cast(Any, chosen), ranked


def question_of(config: PlanConfig) -> Question:
    """Relation, window and horizon of a config."""
    clock = config.clock.to_clock()
    return Question(
        (),
        (),
        config.privacy.relation,
        may_vanish=True,
        window=config.privacy.window_ticks(clock),
        horizon=clock.ticks,
        options=options_of(config),
    )


def build_sum(
    name: str, moments: Moments, over: int | None, question: Question, budget: Loss
) -> ContinualSum:
    """A continual sum over moments, calibrated to the budget.

    Formal guarantees:
      Sensitivity in units of the scales, under which a leaf's l2 norm is that of (svec(x x^T),
      x y^T[, y^2]): ``Moments.sensitivity``. An event that is filtered out after a change is the
      zero event, which is among the neighbours that it covers.

    Raises:
      ConfigError: it cannot serve.
    """
    add_up = budget.kind == "pure" or CONTINUAL_SUMS[name].signed
    sensitivity = moments.sensitivity(question.relation, add_up)
    scales = tuple(map(round_up, moments.scales))
    cls = CONTINUAL_SUMS[name]
    mechanism: ContinualSum = cls.calibrated(
        dimension=len(scales),
        scales=scales,
        sensitivity=round_up(sensitivity),
        overs=(over,),
        window=question.window,
        horizon=question.horizon,
        budget=budget,
        **{k: v for k, v in question.options if k in getattr(cls, "settings", {})},
    )
    within_memory(name, mechanism.state_bytes())
    return replace(mechanism, noise_scale=round_up(mechanism.noise_scale))


def price(
    name: str,
    noise: str,
    program: Program,
    mechanism: ContinualSum,
    question: Question,
    delta: float,
) -> Alternative:
    """What an alternative costs: its score is the worst tick's variance of a coordinate."""
    ticks, over = question.ticks(), mechanism.overs[0]
    window = question.window or question.horizon
    ten = program.loss(None if window is None else 10 * window).epsilon(delta)
    worst = float(np.sqrt(np.max(mechanism.unit_variance * mechanism.factor(ticks, over))))
    named = {f"moments over={'all' if over is None else over}": worst}
    note = "no protection after the window" if math.isinf(ten) else ""
    return Alternative(name, noise, False, worst**2, program.state_bytes(), ten, named, note)

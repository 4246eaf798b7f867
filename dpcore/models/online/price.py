"""Pricing: every continual sum that can carry a learner's gradients, at the same promise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dpcore.accounting.guarantee import Loss
from dpcore.continual.base import ContinualSum
from dpcore.errors import ConfigError
from dpcore.geometry.parse import parse_set
from dpcore.models.gradients import Gradients
from dpcore.models.losses import parse_loss
from dpcore.models.online.conditional_gradient import ConditionalGradient
from dpcore.models.online.follow_the_leader import FollowTheLeader
from dpcore.models.online.program import Learner
from dpcore.models.online.rule import Rule
from dpcore.models.scaling import Scaling
from dpcore.plan_config import PlanConfig
from dpcore.pricing.noises import noises_for, options_of, pick
from dpcore.pricing.price import Alternative, budget_of, round_up, within_memory
from dpcore.pricing.question import Question
from dpcore.registry import CONTINUAL_SUMS

PFTAL = "online.pftal"
LEADER = "online.follow_the_leader"
GRADIENT = "online.conditional_gradient"


def compile_learner(config: PlanConfig) -> tuple[Learner, tuple[Alternative, ...]]:
    """A learner over the best continual sum for it, and every alternative, the chosen one first.

    Reads ``config.model`` (dpcore/models/config.py):
      algorithm: online.follow_the_leader, online.conditional_gradient, or online.pftal (the former
        over a full-history tree).
      features: sequence of columns. target: column. intercept: bool (last coordinate of theta).
      ranges: column -> (low, high), low < high, for every feature and the target.
      clip: ``.gradient`` (L, float) and ``.loss`` (largest loss of an event that counts, float;
        None or 0: no running loss is released).
      set: mapping for geometry.parse.parse_set. loss: text or mapping for losses.parse_loss.
      curvature: mu > 0. centre: None (zero) or d numbers. own_curvature: bool.
      step: "line_search" or "constant" (conditional gradient only).
      cap: rows a key and tick. weight: share of the squared budget that the loss takes, in (0, 1).

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    model = cast(Any, config).model
    scaling = Scaling.of(tuple(model.features), model.target, model.ranges)
    gradients = Gradients(
        parse_loss(model.loss, "model.loss"),
        float(model.clip.gradient),
        float(model.clip.loss) if model.clip.loss else None,
        len(model.features),
        bool(model.intercept),
    )
    rule = rule_of(model, gradients.parameters)
    return choose_sum(config, scaling, gradients, rule)


def choose_sum(
    config: PlanConfig, scaling: Scaling, gradients: Gradients, rule: Rule
) -> tuple[Learner, tuple[Alternative, ...]]:
    """A learner over the best continual sum for it.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    model = cast(Any, config).model
    gradients.lattice.check_capacity(gradients.clip, model.cap, "model.cap")
    named = config.mechanism.continual_sum
    if model.algorithm == PFTAL:
        if named not in (None, "tree"):
            raise ConfigError(
                "mechanism.continual_sum", named, f"{PFTAL} runs over tree; use {LEADER}."
            )
        named = "tree"
    if named is not None and named not in CONTINUAL_SUMS:
        raise ConfigError(
            "mechanism.continual_sum", named, f"must be one of {sorted(CONTINUAL_SUMS)}."
        )
    for setting, value in options_of(config):
        if named and setting not in getattr(CONTINUAL_SUMS[named], "settings", {}):
            raise ConfigError(
                f"mechanism.{setting}", value, f"is not a setting of {named}; remove it."
            )
    scales, sensitivity = split(gradients, model.weight)
    clock = config.clock.to_clock()
    question = Question(
        (),
        (),
        config.privacy.relation,
        may_vanish=True,
        window=config.privacy.window_ticks(clock),
        horizon=clock.ticks,
        options=options_of(config),
    )
    tried: list[tuple[Alternative, Learner | None]] = []
    for noise in noises_for(config):
        budget = budget_of(noise, config.privacy.epsilon, config.privacy.delta)
        for name, cls in CONTINUAL_SUMS.items():
            if noise not in cls.kinds or not cls.serves((None,)):
                continue
            try:
                mechanism = build_sum(name, question, scales, sensitivity, budget)
            except ConfigError as error:
                cannot = Alternative(name, noise, False, math.inf, 0, None, {}, error.remedy)
                tried.append((cannot, None))
                continue
            learner = Learner(scaling, gradients, rule, mechanism, model.cap, model.algorithm)
            tried.append((price(name, noise, learner, question, config.privacy.delta), learner))
    chosen, ranked = pick(config, cast(Any, tried), named)
    return cast(Any, chosen), ranked


def rule_of(model: Any, dimension: int) -> Rule:
    """The algorithm that a model names, over its set.

    Raises:
      ConfigError: no such algorithm, or its set, centre or step do not fit it.
    """
    convex_set = parse_set(model.set, dimension)
    centre = (0.0,) * dimension if model.centre is None else tuple(map(float, model.centre))
    curvature, own = float(model.curvature), bool(model.own_curvature)
    if model.algorithm in (LEADER, PFTAL):
        return FollowTheLeader(convex_set, curvature, centre, own)
    if model.algorithm == GRADIENT:
        return ConditionalGradient(convex_set, curvature, centre, own, model.step)
    raise ConfigError(
        "model.algorithm", model.algorithm, f"must be {LEADER}, {GRADIENT} or {PFTAL}."
    )


def build_sum(
    name: str, question: Question, scales: tuple[float, ...], sensitivity: float, budget: Loss
) -> ContinualSum:
    """A continual sum over (gradient, loss), calibrated to the budget.

    Args:
      scales, sensitivity: of ``split``, for one cell.

    Formal guarantees:
      One cell changes by at most (2 L, B) / scales =: Delta in l2, whichever relation (a cap makes
      rows compete). Under replace_anywhere two cells change, by at most Delta each: 2 Delta.

    Raises:
      ConfigError: it cannot serve.
    """
    if question.relation == "replace_anywhere":
        sensitivity *= 2
    cls = CONTINUAL_SUMS[name]
    common: dict[str, Any] = {
        "dimension": len(scales),
        "scales": scales,
        "sensitivity": sensitivity,
        "overs": (None,),
        "window": question.window,
        "horizon": question.horizon,
        "budget": budget,
    }
    settings = getattr(cls, "settings", {})
    common.update({key: value for key, value in question.options if key in settings})
    mechanism: ContinualSum = cls.calibrated(**common)
    within_memory(name, mechanism.state_bytes())
    return replace(mechanism, noise_scale=round_up(mechanism.noise_scale))


def split(gradients: Gradients, weight: float) -> tuple[tuple[float, ...], float]:
    """Noise weights of a leaf's coordinates, and its joint sensitivity in units of them.

    The loss takes the share ``weight`` of the squared sensitivity, the gradient the rest.

    Returns:
      scales (D,) in lattice units; l2 sensitivity of (leaf / scales), rounded up.

    Raises:
      ConfigError: the share is not inside (0, 1).
    """
    change = 2 * gradients.clip / gradients.lattice.resolution
    d = gradients.parameters
    if gradients.loss_bound is None:
        return (round_up(change),) * d, 1.0
    if not 0 < weight < 1:
        raise ConfigError("model.weight", weight, "must lie strictly inside (0, 1), like 0.05.")
    loss_change = float(gradients.loss_lattice.steps(gradients.loss_bound))
    scale = round_up(change / math.sqrt(1 - weight))
    loss_scale = round_up(loss_change / math.sqrt(weight))
    joint = math.hypot(change / scale, loss_change / loss_scale)
    return (*((scale,) * d), loss_scale), round_up(joint)


def price(name: str, noise: str, learner: Learner, question: Question, delta: float) -> Alternative:
    """What an alternative costs: its score is the worst tick's variance of the gradient sum."""
    ticks = question.ticks()
    window = question.window or question.horizon
    ten = learner.loss(None if window is None else 10 * window).epsilon(delta)
    worst = float(np.max(learner.gradient_stddev(ticks)))
    named = {"gradient over=all": worst}
    if learner.gradients.loss_bound is not None:
        named["loss over=all"] = float(np.max(learner.loss_stddev(ticks)))
    note = "no protection after the window" if math.isinf(ten) else ""
    return Alternative(name, noise, False, worst**2, learner.state_bytes(), ten, named, note)

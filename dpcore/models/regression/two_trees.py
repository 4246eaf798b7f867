"""The paper's own calibration, as a baseline: two trees that share the budget by halves."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import numpy as np

from dpcore.accounting.guarantee import Loss
from dpcore.continual.tree import Tree
from dpcore.errors import ConfigError
from dpcore.geometry.parse import parse_set
from dpcore.models.moments import Moments
from dpcore.models.regression.incremental import Incremental
from dpcore.models.regression.price import model_of, moments_of, question_of
from dpcore.models.regression.rows import EventRows
from dpcore.models.regression.solver import Solver
from dpcore.plan_config import PlanConfig
from dpcore.pricing.price import Alternative, budget_of, round_up, within_memory
from dpcore.registry import CONTINUAL_SUMS

NAME = "regression.two_trees"


def compile_two_trees(config: PlanConfig) -> tuple[Incremental, tuple[Alternative, ...]]:
    """Incremental regression over one tree for x x^T and another for x y; there is one way to run
    it.

    Formal guarantees:
      Each tree is (epsilon / 2, delta / 2)-private by the paper's Theorem, and the noise is never
      less than what Gaussian DP needs for half of mu^2; the plan states what both add up to.
      Sensitivity: 2 X^2 of x x^T and 2 X Y of x y, the paper's 2 at unit bounds, which also covers
      an event that moves to another cell.
      Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 2 with Algorithm 4.

    Raises:
      ConfigError: what it cannot serve: a clock without end, delta = 0, another continual sum or
        noise, several targets.
    """
    model = model_of(config, NAME)
    named, noise = config.mechanism.continual_sum, config.mechanism.noise
    if named not in (None, "tree"):
        raise ConfigError("mechanism.continual_sum", named, f"{NAME} runs over tree; remove it.")
    if noise not in (None, "gaussian"):
        raise ConfigError("mechanism.noise", noise, f"is not for {NAME}: gaussian only.")
    if config.privacy.delta == 0:
        raise ConfigError("privacy.delta", 0.0, f"must be above 0 for {NAME}; set 1e-6.")
    moments = moments_of(model)
    convex_set = parse_set(model.set, moments.features)
    if not convex_set.projects:
        raise ConfigError("model.set", model.set, f"has no projection, which {NAME} needs.")
    program = Incremental(
        EventRows.of(model, moments),
        trees(config, moments),
        convex_set,
        float(model.ridge or 0.0),
        Solver.of(model),
        False,
        bool(model.statistics),
        NAME,
    )
    within_memory("tree", program.state_bytes())
    ticks = question_of(config).ticks()
    after = program.loss(None).epsilon(config.privacy.delta)
    named_worst = {"moments over=all": float(np.max(program.stddev(ticks)))}
    chosen = Alternative("tree", "gaussian", True, 1.0, program.state_bytes(), after, named_worst)
    return program, (chosen,)


def trees(config: PlanConfig, moments: Moments) -> tuple[Tree, Tree]:
    """The tree of x x^T and that of x y.

    Raises:
      ConfigError: a clock without end.
    """
    horizon = config.clock.to_clock().ticks
    if horizon is None:
        raise ConfigError(
            "clock.end", None, f"is needed: {NAME} must know the number of ticks beforehand."
        )
    epsilon, delta = config.privacy.epsilon, config.privacy.delta
    whole = budget_of("gaussian", epsilon, delta)
    half = Loss(whole.kind, whole.value * math.sqrt(0.5) * (1 - 2.0**-40))
    size = moments.features * (moments.features + 1) // 2
    scales = tuple(map(round_up, moments.scales))
    made = []
    for part, sensitivity in (
        (scales[:size], 2 * moments.reach**2),
        (scales[size:], 2 * moments.reach * moments.height),
    ):
        tree = CONTINUAL_SUMS["tree"].calibrated(
            dimension=len(part),
            scales=part,
            sensitivity=round_up(sensitivity),
            overs=(None,),
            window=None,
            horizon=horizon,
            budget=half,
        )
        # Algorithm 4: variance 2 log^2(T) Delta^2 ln(2 / delta) / epsilon^2; log T for the levels.
        printed = tree.levels * math.sqrt(2 * math.log(4 / delta)) * tree.sensitivity * 2 / epsilon
        tree = replace(tree, noise_scale=round_up(max(tree.noise_scale, printed)))
        made.append(cast(Tree, tree))
    return made[0], made[1]

"""From a config to incremental ERM: what it is, how often it runs, what each run may spend."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from dpcore.accounting.guarantee import Loss
from dpcore.errors import ConfigError
from dpcore.geometry.parse import parse_set
from dpcore.models.erm import tau
from dpcore.models.erm.incremental import IncrementalErm
from dpcore.models.erm.schedule import Schedule, schedule_for
from dpcore.models.gradients import Gradients
from dpcore.models.losses import parse_loss
from dpcore.models.online.implicit_descent import smoothness_of
from dpcore.models.scaling import Scaling
from dpcore.models.solvers.problem import Problem
from dpcore.plan_config import PlanConfig
from dpcore.pricing.noises import noises_for, options_of
from dpcore.pricing.price import MOST_STATE, Alternative, budget_of, round_up
from dpcore.registry import SOLVERS

NAME = "regression.erm"
MOST_ITERATIONS = 1 << 16


def compile_erm(config: PlanConfig) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
    """Incremental ERM with the noise that serves best, and every noise that could.

    Reads of ``config.model``: features, target, intercept, ranges, loss, set, clip.gradient (L),
    curvature (nu, of every tick; 0 adds none) and centre, cap, every (tau, or the name of a rule),
    rows (limit), iterations (of a run), solver.

    Raises:
      ConfigError: what it cannot serve.
    """
    model = cast(Any, config).model
    refuse_sums(config, NAME)
    problem = problem_of(config)
    clock = config.clock.to_clock()
    window = config.privacy.window_ticks(clock)
    if window is not None and clock.ticks is not None and window >= clock.ticks:
        window = None
    every = rule_of(model, problem, config.privacy.epsilon)
    return choose(
        config,
        problem,
        lambda budget: schedule_for(every, window, clock.ticks, budget),
        noises_for(config),
    )


def choose(
    config: PlanConfig,
    problem: Problem,
    schedule_of: Callable[[Loss], Schedule],
    noises: tuple[str, ...],
) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
    """The program over the noise with the smallest error of a gradient; all are priced."""
    model = cast(Any, config).model
    epsilon, delta = config.privacy.epsilon, config.privacy.delta
    scaling = Scaling.of(tuple(model.features), model.target, model.ranges)
    tried: list[tuple[float, str, IncrementalErm]] = []
    for noise in noises:
        schedule = schedule_of(budget_of(noise, epsilon, delta))
        most = Loss(schedule.budget.kind, schedule.budget.value * fraction(schedule))
        solver = SOLVERS[model.solver].make(problem, model.iterations, most)
        program = IncrementalErm(scaling, problem, solver, schedule, model.cap, model.algorithm)
        tried.append((program.gradient_stddev(schedule.smallest), noise, program))
    tried.sort(key=lambda entry: entry[0])
    best, _, chosen = tried[0]
    return chosen, tuple(
        Alternative(
            model.solver,
            noise,
            program is chosen,
            error / best,
            program.state_bytes(),
            program.loss(None).epsilon(delta),
            {"gradient over=all": error},
        )
        for error, noise, program in tried
    )


def fraction(schedule: Schedule) -> float:
    """Of a budget's value, what its most generous run may spend."""
    share = float(schedule.largest)
    return math.sqrt(share) if schedule.budget.kind == "gdp" else share


def problem_of(config: PlanConfig) -> Problem:
    """What is minimised for each key.

    Raises:
      ConfigError: a set without projection, a centre of another length, or too many rows.
    """
    model = cast(Any, config).model
    gradients = Gradients(
        parse_loss(model.loss, "model.loss"),
        float(model.clip.gradient),
        None,
        len(model.features),
        bool(model.intercept),
    )
    dimension = gradients.parameters
    limit = limit_of(config, 4 * (len(model.features) + 1) + 16)
    gradients.lattice.check_capacity(gradients.clip, limit, "model.rows")
    if model.iterations is not None and model.iterations > MOST_ITERATIONS:
        raise ConfigError(
            "model.iterations", model.iterations, f"must be at most {MOST_ITERATIONS:,}."
        )
    return Problem(
        set=parse_set(model.set, dimension),
        gradients=gradients,
        curvature=float(model.curvature),
        centre=(0.0,) * dimension if model.centre is None else tuple(map(float, model.centre)),
        changes=2 if config.privacy.relation == "replace_anywhere" else 1,
        limit=limit,
    )


def limit_of(config: PlanConfig, row_bytes: int) -> int:
    """R, most rows of a key that are kept.

    Raises:
      ConfigError: none is given where the clock has no end, or the state would be too large.
    """
    model = cast(Any, config).model
    ticks, most = config.clock.to_clock().ticks, MOST_STATE // row_bytes
    if model.rows is not None and model.rows <= most:
        return int(model.rows)
    if model.rows is None and ticks is None:
        raise ConfigError(
            "model.rows",
            None,
            f"is needed: the clock has no end, and {model.algorithm} keeps the rows of each key, "
            f"{row_bytes} bytes a row; say how many it may keep, {most:,} at most.",
        )
    limit = int(model.rows or ticks * model.cap)
    if limit > most:
        raise ConfigError(
            "model.rows",
            model.rows,
            f"would let a key's state grow to {limit * row_bytes / 2**20:,.0f} MiB "
            f"({row_bytes} bytes a row); at most {most:,} rows fit, set that or less.",
        )
    return limit


def rule_of(model: Any, problem: Problem, epsilon: float) -> Callable[[int], int]:
    """Ticks over which the budget is spread -> tau.

    Raises:
      ConfigError: no such rule, or one that the problem does not suit.
    """
    rule = model.every
    if rule is None:
        rule = "strongly_convex" if problem.curvature else "convex"
    if isinstance(rule, int):
        return lambda ticks: rule
    size = round_up(problem.set.farthest(np.zeros(problem.dimension)))
    d, lipschitz = problem.dimension, problem.lipschitz
    if rule == "convex":
        return lambda ticks: tau.convex(ticks, d, epsilon)
    if rule == "strongly_convex":
        return lambda ticks: tau.strongly_convex(
            ticks, d, epsilon, lipschitz, problem.curvature, size
        )
    if rule == "frank_wolfe":
        width = round_up(problem.set.gaussian_width())
        # C_l <= smoothness of f times the square of the diameter, and rows are in [-1, 1]^d.
        bend = smoothness_of(problem.gradients.loss) * d * problem.set.diameter**2
        return lambda ticks: tau.frank_wolfe(ticks, epsilon, lipschitz, size, width, round_up(bend))
    raise ConfigError(
        "model.every", rule, f"must be a number of ticks, or one of {', '.join(tau.RULES)}."
    )


def refuse_sums(config: PlanConfig, name: str) -> None:
    """Raises ConfigError: settings of continual sums, of which there is none here."""
    named = config.mechanism.continual_sum
    if named is not None:
        raise ConfigError(
            "mechanism.continual_sum", named, f"is not for {name}, which sums nothing; remove it."
        )
    for setting, value in options_of(config):
        raise ConfigError(f"mechanism.{setting}", value, f"is not for {name}; remove it.")

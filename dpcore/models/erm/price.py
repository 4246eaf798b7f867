"""Pricing of incremental ERM: which noise, how often it runs, what each run may spend."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.erm import tau
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.erm.schedule import Schedule
from weir.dpcore.models.solvers.frank_wolfe import refuse_corners
from weir.dpcore.models.solvers.problem import Problem
from weir.dpcore.pricing.alternatives import Offer, pick, tries
from weir.dpcore.pricing.calibration import Alternative, round_up
from weir.dpcore.pricing.terms import Terms


def choose(
    terms: Terms,
    noises: tuple[str, ...],
    schedule_of: Callable[[PrivacyLoss], Schedule],
    program_of: Callable[[Schedule], IncrementalErm],
    solver: str,
) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
    """The program over the noise with the smallest error of a gradient; all are priced.

    Raises:
      ConfigError: none of them can serve; says why the first cannot.
    """

    def offer(budget: PrivacyLoss) -> Offer[IncrementalErm]:
        schedule = schedule_of(budget)
        program = program_of(schedule)
        error = program.gradient_stddev(schedule.smallest)
        return Offer(program, error**2, {"gradient over=all": error})

    tried = tries(terms, noises, lambda noise: {solver: offer})
    refused = [one.refusal for one in tried if one.refusal is not None]
    if len(refused) == len(tried):
        raise refused[0]
    return pick(terms, tried)


def fraction(schedule: Schedule) -> float:
    """Of a budget's value, what its most generous run may spend."""
    share = float(schedule.largest)
    return math.sqrt(share) if schedule.budget.kind == "gdp" else share


def rule_of(every: int | str | None, problem: Problem, epsilon: float) -> Callable[[int], int]:
    """Ticks over which the budget is spread -> tau.

    Raises:
      ConfigError: no such rule, or one that the problem does not suit.
    """
    rule = every
    if rule is None:
        rule = "strongly_convex" if problem.curvature else "convex"
    if isinstance(rule, int):
        fixed = rule
        return lambda ticks: fixed
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
        curvature = curvature_of(problem)
        return lambda ticks: tau.frank_wolfe(ticks, epsilon, lipschitz, curvature, size, width)
    raise ConfigError(
        "model.every", rule, f"must be a number of ticks, or one of {', '.join(tau.RULES)}."
    )


def curvature_of(problem: Problem) -> float:
    """C_l: a bound on the curvature constant of one event's loss over the set. Features lie in
    [-1, 1], so that a row has l2 norm at most sqrt(d).

    Raises:
      ConfigError: a loss with a corner.
    """
    refuse_corners(problem)
    moved = problem.set.diameter * problem.set.diameter * problem.dimension
    return round_up(problem.gradients.loss.smoothness * moved)


def refuse_sums(terms: Terms, name: str) -> None:
    """Raises ConfigError: settings of continual sums, of which there is none here."""
    named = terms.continual_sum
    if named is not None:
        raise ConfigError(
            "mechanism.continual_sum", named, f"is not for {name}, which sums nothing; remove it."
        )
    for setting, value in terms.options:
        raise ConfigError(f"mechanism.{setting}", value, f"is not for {name}; remove it.")

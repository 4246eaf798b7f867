"""What a reader should know before running a plan."""

from __future__ import annotations

import math

from weir.dpcore.accounting.guarantee import Guarantee
from weir.dpcore.accounting.precision import UNEVEN, missing_tail
from weir.dpcore.algorithm import Compiled
from weir.dpcore.config.spans import show_ticks
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.together import long_stays_are_dear


def warnings_for(
    config: PlanConfig, promise: Guarantee, horizon: int | None, made: Compiled, share: float
) -> tuple[str, ...]:
    """What a reader should know before running the plan; share: see ``refuse_uneven``."""
    found, program = list[str](), made.program
    if any(math.isinf(row.epsilon) for row in promise.expiration):
        found.append(
            "This mechanism protects nothing after the window. mechanism.continual_sum: blt (or "
            "merging_tree for delta = 0) fades by degrees instead, usually with less noise."
        )
    if promise.epsilon > 10:
        found.append(
            f"epsilon = {promise.epsilon:g} is a weak promise; 1 is common, 10 is the usual limit."
        )
    if promise.delta > 1e-4:
        found.append(
            f"delta = {promise.delta:g} is large: keep it well below one over the number of people."
        )
    ticks = config.privacy.protect_for
    if isinstance(ticks, int):
        clock = config.clock.to_clock()
        unit = "d" if clock.calendar is None or clock.calendar.days else " months"
        found.append(
            f"privacy.protect_for: {ticks} has no unit, so it counts ticks: protection lasts for "
            f"{show_ticks(clock, ticks)}. If another time is meant, write its unit, like "
            f"{ticks}{unit}."
        )
    if program.loss(1).kind == "pure":
        found.append(
            "K-norm noise is computed in floating point from 64 random bits a number: its far "
            f"tail, about {missing_tail(program.sums):.0e} of the probability of every draw, is "
            "not covered by delta = 0."
        )
    if share > UNEVEN:
        found.append(
            "The promise is so strict, and its noise so large in steps of the lattice, that the "
            "rounding of doubles is not small beside it. Take a larger epsilon, or, where it "
            "can serve, mechanism.noise: discrete_gaussian, which is exact."
        )
    if config.misread:
        found.append(
            f"Text was read as a number: {', '.join(config.misread)}. Tools of YAML 1.1 take 1e-6 "
            "for text; 1.0e-6 is a number to all."
        )
    if config.schema_.id is None and config.privacy.unit == "user":
        found.append(
            "schema.id is not set: an event that is delivered twice may count twice, within the "
            "caps of its user."
        )
    elif config.schema_.id is None:
        found.append(
            "schema.id is not set: an event that is delivered twice counts twice, and then "
            "the promise holds for each delivery, not for the event."
        )
    if config.key is not None and config.key.observed_keys_are_public:
        found.append(
            "The keys that occur, and the tick of their first event, are published as they are."
        )
    may_vanish = config.where is not None or config.schema_.arrival is not None
    of_events = config.privacy.unit != "user"
    if of_events and config.privacy.relation == "replace_one" and not may_vanish:
        is_public = "is public" if config.model is None else "is not covered by the promise"
        found.append(f"Under replace_one the number of events per key and tick {is_public}.")
    person = config.person(config.terms().clock)
    if person is not None and person.periods.longest is None:
        found.append(
            "per: all without clock.end keeps what every user has used up of the caps for ever: "
            "state grows with users, and nobody's caps begin anew. Take a period, like per: 30d."
        )
    dear = None if person is None else long_stays_are_dear(program, config.terms())
    if dear is not None:
        found.append(
            f"protect_for is short beside the stays of users: {dear} periods of a user in a row "
            "cost more than as many promises added up, since what was added is seen in releases "
            "long after. A longer protect_for makes long stays cheaper."
        )
    found.extend(made.warnings)
    if horizon is None and promise.window is None:
        found.append("protect_for: all without clock.end is calibrated for 2^40 ticks.")
    return tuple(found)

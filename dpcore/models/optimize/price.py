"""Which noise serves a window best: every one is priced by the bound on its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.program import Way, WindowProgram
from weir.dpcore.models.optimize.selection import COST
from weir.dpcore.pricing.alternatives import Offer, Try, noises_for, pick, priced
from weir.dpcore.pricing.calibration import Alternative, budget_of
from weir.dpcore.pricing.terms import Terms

SELECTIONS = tuple(COST)
"""Noises of selections."""
VARIANT = "the paper's noise, at an exact scale: taken where mechanism.noise names it"

Build = Callable[[str, PrivacyLoss], Way]
"""Noise and budget -> how windows are fitted."""


def budgets(noise: str, epsilon: float, delta: float) -> tuple[PrivacyLoss, ...]:
    """The whole budget, in every currency that a noise can be paid in."""
    if noise not in SELECTIONS:
        return (budget_of(noise, epsilon, delta),)
    pure = PrivacyLoss("pure", epsilon)
    if delta == 0:
        return (pure,)
    return (budget_of("discrete_gaussian", epsilon, delta), pure)


def tried_noises(linear: Linear, terms: Terms) -> tuple[str, ...]:
    """Noises to try: those that can keep the promise, over this set.

    Raises:
      ConfigError: the one that was named cannot.
    """
    if terms.noise in SELECTIONS:
        return (str(terms.noise),)
    others = noises_for(terms)
    some = SELECTIONS if terms.noise is None and linear.set.corners() is not None else ()
    return (*some, *others)


def best_way(noise: str, epsilon: float, delta: float, build: Build) -> Way:
    """The way with the least error bound among the currencies of a noise.

    Raises:
      ConfigError: none of them can serve.
    """
    found = [build(noise, budget) for budget in budgets(noise, epsilon, delta)]
    return min(found, key=lambda way: way.error)


def choose(
    terms: Terms, linear: Linear, build: Build, program: Callable[[Way], WindowProgram]
) -> tuple[WindowProgram, tuple[Alternative, ...]]:
    """The program with the least bound on its error; every noise is priced.

    Raises:
      ConfigError: none of them can serve; says why the first cannot.
    """
    tried: list[Try[WindowProgram]] = []
    for noise in tried_noises(linear, terms):
        try:
            way = best_way(noise, terms.epsilon, terms.delta, build)
        except ConfigError as error:
            cannot = Alternative(noise, noise, False, math.inf, 0, None, {}, error.remedy)
            tried.append(Try(cannot, None, error))
            continue
        offer = Offer(program(way), way.error**2, {"gap over=all": way.error})
        found = priced(way.way, noise, offer, terms)
        if noise == "laplace" and terms.noise != noise:
            found = _noted(found)
        tried.append(Try(found, offer.program))
    refuse_all(tried)
    return pick(terms, tried)


def refuse_all(tried: Sequence[Try[WindowProgram]]) -> None:
    """Raises the first refusal where there is nothing else."""
    refused = [one.refusal for one in tried if one.refusal is not None]
    if len(refused) == len(tried):
        raise refused[0]


def _noted(found: Alternative) -> Alternative:
    return Alternative(
        found.mechanism,
        found.noise,
        found.chosen,
        found.score,
        found.state_bytes,
        found.epsilon_10w,
        found.stddev,
        VARIANT,
    )

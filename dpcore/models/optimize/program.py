"""Frank-Wolfe over windows of records: strategy, price and program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.partition import Blocks
from weir.dpcore.models.blocks.program import KeptBlocks
from weir.dpcore.models.blocks.schedule import (
    ALONE,
    FitSchedule,
    Participation,
    Period,
    PlannedFit,
    ShownFit,
)
from weir.dpcore.models.erm.section import refuse_all
from weir.dpcore.models.kit.inputs import Inputs
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.selection import COST, selection_for
from weir.dpcore.models.optimize.width import FitStrategy, width_for
from weir.dpcore.pricing.alternatives import Offer, Try, pick, priced
from weir.dpcore.pricing.calibration import Alternative, budget_of
from weir.dpcore.pricing.noises import FINEST_PURE, noises_for
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import SPARSE_FROM, OutputInfo


@dataclass(frozen=True)
class Windows(FitSchedule):
    """When t >= span blocks are complete, a model of the last span of them, by itself.

    Windows of one block are tumbling; of more they slide by a block.

    **Formal guarantees**: a record is in exactly span fits (``spent`` counts them), each of which
    costs 1 / span of the budget; nothing follows anything.

    Attributes:
      span: blocks of a window.
    """

    span: int

    name: ClassVar[str] = "windows"

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.span,)

    @property
    def period(self) -> Period:
        return Period(self.span, 1)

    def fits(self, complete: int) -> tuple[PlannedFit, ...]:
        if complete < self.span:
            return ()
        return (PlannedFit(0, complete - self.span, complete - 1, None, 0),)

    def shown(self, complete: int) -> ShownFit | None:
        if complete < self.span:
            return None
        return ShownFit(0, complete - self.span, complete - 1)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "span": self.span}


def strategy_for(
    linear: Linear,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    share: Fraction,
    steps: int | None,
    noise: str,
    budget: PrivacyLoss,
    users: int = 0,
) -> FitStrategy:
    """See ``selection_for`` and ``width_for``."""
    if noise in SELECTIONS:
        shape = (linear, size, divisor, most, changes, noise, budget)
        return selection_for(*shape, share, steps, users)
    return width_for(linear, size, divisor, most, changes, budget, share, steps, users)


@dataclass(frozen=True)
class WindowProgram(KeptBlocks):
    """A model per key of a window of its records, by private steps over a set.

    Formal guarantees:
      Unit: one event, or a user in a period. Relation: as the cut says (``ByCount``, ``ByTicks``,
        ``ByUsers``); of a user's period in place of another twice as much is paid for.
      Sensitivity: of a fit, ``Selection`` or ``Width``. Guarantee: what a record pays is the sum of
        what the fits cost that its block is in, found by brute force (``schedule.spent``); costs
        of one currency add up, adaptively. It does not grow with time. A user is in several blocks
        (``Participation``).
      Source: Talwar, Thakurta, Zhang (2015), for each window.

    Attributes:
      inputs: from columns to rows. schedule, cut: see there. way: how windows are fitted.
      cap: rows a key and tick. algorithm: its name in the config. presence: of the unit.
    """

    inputs: Inputs
    schedule: FitSchedule
    cut: Blocks
    way: FitStrategy
    cap: int
    algorithm: str
    presence: Participation = ALONE

    @property
    def fitters(self) -> tuple[FitStrategy]:
        return (self.way,)

    @property
    def scored(self) -> Linear:
        return self.way.linear

    @property
    def kind(self) -> LossKind:
        return self.way.kind

    @property
    def costs(self) -> list[Fraction]:
        return [self.way.cost]

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. A model's error is not additive: NaN."""
        own = self.way.linear
        return self.outputs_of(own.set.diameter, own.set.sparse and own.dimension >= SPARSE_FROM)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release, and all that a prediction needs."""
        return {
            "program": self.algorithm,
            "inputs": self.inputs.canonical(),
            "linear": self.way.linear.canonical(),
            "schedule": self.schedule.canonical(),
            "cut": self.cut.canonical(),
            "way": self.way.canonical(),
            "cap": self.cap,
            **({} if self.presence == ALONE else {"presence": self.presence.canonical()}),
        }


SELECTIONS = tuple(COST)
"""Noises of selections."""
VARIANT = "the paper's noise, at an exact scale: taken where mechanism.noise names it"

Build = Callable[[str, PrivacyLoss], FitStrategy]
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
    """Noises to try: those that can keep the guarantee, over this set.

    Raises:
      ConfigError: the one that was named cannot.
    """
    if terms.noise in SELECTIONS:
        return (str(terms.noise),)
    others = noises_for(terms)
    some = SELECTIONS if terms.noise is None and linear.set.corners() is not None else ()
    return (*some, *others)


def refit_noises(terms: Terms) -> tuple[str]:
    """The noise of a refit, whose selections have zCDP.

    Raises:
      ConfigError: another one is asked for, or delta = 0.
    """
    if terms.noise not in (None, "discrete_gaussian"):
        raise ConfigError(
            "mechanism.noise", terms.noise, "must be discrete_gaussian for form: refit."
        )
    refuse_pure(terms.delta, "privacy.delta")
    return ("discrete_gaussian",)


def refuse_pure(delta: float, field: str) -> None:
    """Raises ConfigError where a refit has no delta, or one that its selections do not serve."""
    if delta < FINEST_PURE:
        raise ConfigError(
            field, delta, "must be 1e-9 or more for form: refit; set 1e-6, or form: frank_wolfe."
        )


def best_strategy(noise: str, epsilon: float, delta: float, build: Build) -> FitStrategy:
    """The way with the least error bound among the currencies of a noise.

    Raises:
      ConfigError: none of them can serve.
    """
    results = [build(noise, budget) for budget in budgets(noise, epsilon, delta)]
    return min(results, key=lambda way: way.error)


def choose(
    terms: Terms,
    build: Build,
    program: Callable[[FitStrategy], WindowProgram],
    noises: Sequence[str],
) -> tuple[WindowProgram, tuple[Alternative, ...]]:
    """The program with the least bound on its error; every noise is priced.

    Args:
      noises: to try.

    Raises:
      ConfigError: none of them can serve; says why the first cannot.
    """
    tried: list[Try[WindowProgram]] = []
    for noise in noises:
        try:
            way = best_strategy(noise, terms.epsilon, terms.delta, build)
        except ConfigError as error:
            cannot = Alternative(noise, noise, False, math.inf, 0, None, {}, error.remedy)
            tried.append(Try(cannot, None, error))
            continue
        offer = Offer(program(way), way.error**2, {"gap over=all": way.error})
        result = priced(way.way, noise, offer, terms)
        if noise == "laplace" and terms.noise != noise:
            result = replace(result, note=VARIANT)
        tried.append(Try(result, offer.program))
    refuse_all(tried)
    return pick(terms, tried)

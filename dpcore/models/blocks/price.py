"""How the budget is shared among the levels of a schedule, and which noise serves best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from types import MappingProxyType

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.models.blocks.schedule import ALONE, FitSchedule, Participation
from weir.dpcore.models.erm.section import refuse_all
from weir.dpcore.pricing.alternatives import Offer, pick, tries
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.noises import covers_pure, noises_for
from weir.dpcore.pricing.terms import Terms

Build = Callable[[PrivacyLoss, tuple[Fraction, ...]], BlockProgram]
"""Budget and shares of levels -> the program."""
SPLITS = ("best", "even", "paper")
"""Ways to share the budget among levels."""
_BITS = 20


def shares(
    schedule: FitSchedule,
    split: str,
    kind: LossKind,
    presence: Participation = ALONE,
    stepped: bool = False,
) -> tuple[Fraction, ...]:
    """What a fit of each level may cost a record, of the whole budget: so that the unit that pays
    most pays all of it.

    paper: noises in the proportions of the paper. even: every level alike, but where a base is
    half of a window, half for it. best: the least variance in a chain of one fit of each level, of
    noise with standard deviation D / share (pure; D / sqrt(share) otherwise), where D falls as
    1 / size: shares in proportion to D^(2/3), or to D; where a fit costs a user v times what it
    costs a record, to D / sqrt(v). Of noisy steps every level alike: a later fit goes on from a
    model that is near, and gains less from a budget than its noise would say.

    Args:
      stepped: whether fits are noisy steps.
    """
    levels = range(len(schedule.sizes))
    raw = [Fraction(1) for _ in levels]
    if split != "best" or not stepped:
        raw = [_weight(schedule, level, split, kind, presence) for level in levels]
    total = presence.spent(schedule, raw, kind)
    return tuple(item / total for item in raw)


def _weight(
    schedule: FitSchedule, level: int, split: str, kind: LossKind, presence: Participation
) -> Fraction:
    size = schedule.sizes[level]
    if split == "paper":
        weight = schedule.weights[level]
        return weight if kind == "pure" else weight * weight
    if split == "best":
        if kind == "pure":
            return two_thirds(size)
        worth = presence.worth(size, kind)
        return Fraction(1, size) * Fraction(1 << _BITS, math.isqrt(worth << 2 * _BITS))
    return schedule.even[level]


def two_thirds(size: int) -> Fraction:
    """size^(-2/3) to 20 bits, in whole numbers: the same on every CPU."""
    target = (1 << 3 * _BITS) // (size * size)
    low, high = 0, 1 << _BITS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= target else (low, middle - 1)
    return Fraction(max(low, 1), 1 << _BITS)


def choose(
    terms: Terms,
    schedule: FitSchedule,
    presence: Participation,
    split: str | None,
    noises: tuple[str, ...],
    build: Build,
    unchosen: Mapping[str, Build] = MappingProxyType({}),
    stepped: bool = False,
) -> tuple[BlockProgram, tuple[Alternative, ...]]:
    """The program with the least noise in what it releases; every split and noise is priced.

    Args:
      presence: of the unit. split: the one that was named; None: the best.
      noises: that the algorithm can use.
      build: budget and shares -> the program.
      unchosen: the same of other solvers, by name: priced to compare, at one split, never taken.
      stepped: whether ``build`` makes noisy steps.

    Raises:
      ConfigError: none of them can serve; says why the first cannot.
    """
    names = SPLITS if len(schedule.sizes) > 1 else ("whole",)
    if split is not None and split not in names:
        raise ConfigError(
            "model.split", split, "is for schedules of fits of several sizes; remove it."
        )

    def offer(make: Build, name: str, budget: PrivacyLoss) -> Offer[BlockProgram]:
        steps = stepped and make is build
        program = make(budget, shares(schedule, name, budget.kind, presence, steps))
        error = program.released_stddev()
        return Offer(program, error**2, {"theta over=all": error})

    def ways(noise: str) -> Mapping[str, Callable[[PrivacyLoss], Offer[BlockProgram]]]:
        return {name: partial(offer, build, name) for name in names}

    def others(noise: str) -> Mapping[str, Callable[[PrivacyLoss], Offer[BlockProgram]]]:
        return {name: partial(offer, make, split or names[0]) for name, make in unchosen.items()}

    among = _noises(terms, noises)
    named = split or (names[0] if stepped else None)  # noise says little of what steps end at
    terms = replace(terms, continual_sum=named)
    tried = tries(terms, among, ways)
    refuse_all(tried)
    if terms.compare:
        tried += [item._replace(program=None) for item in tries(terms, among, others)]
    return pick(terms, tried)


def _noises(terms: Terms, can: tuple[str, ...]) -> tuple[str, ...]:
    """Noises to try: K-norm noise too, where delta is 0 or covers its tails, or nothing else can
    serve."""
    result = noises_for(terms)
    others = any(item in can for item in result)
    if terms.noise is None and "k_norm" not in result:
        result = (*result, "k_norm") if covers_pure(terms.delta) or not others else result
    some = tuple(item for item in result if item in can)
    if not some:
        raise ConfigError(
            "mechanism.noise", terms.noise or result[0], f"is not for it: {', '.join(can)} only."
        )
    return some

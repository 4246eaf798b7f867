"""What a user's periods cost together, one event of theirs, and what each cap costs in noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import (
    EveryPeriod,
    PrivacyLoss,
    SeveralPeriods,
    compose,
)
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import Program
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit

PERIODS = (2, 7, 30)
"""Numbers of periods whose common loss is reported."""
EXACT_PERIODS = 1 << 10
"""Up to so many periods the loss of all of them is that of the mechanism; of more it is bounded by
that of a group, which takes no time that grows with their number."""
YEAR = 365 * 86_400_000_000
"""Microseconds in which periods that need not follow each other may lie."""


def together(program: Program, terms: Terms) -> tuple[SeveralPeriods, ...]:
    """Epsilon of a user in several periods: in a row, and anywhere within a year.

    Empty where there is one period only.
    """
    person = terms.person
    if person is None or person.periods.longest is None:
        return ()
    most = most_periods(person.periods)
    year = -(-YEAR // (person.periods.longest * terms.clock.period))

    def cost(count: int, among: int) -> float:
        loss = loss_of_periods(program, person, count, among, terms.lasting)
        return loss.epsilon(terms.delta)

    results = []
    for count in PERIODS:
        if most is not None and count > most:
            break
        in_a_row = cost(count, count)
        anywhere = None
        if count <= year:
            anywhere = max(in_a_row, cost(count, year if most is None else min(year, most)))
        delta = terms.delta + count * terms.delta_sel
        results.append(SeveralPeriods(count, in_a_row, anywhere, delta))
    return tuple(results)


def every_period(program: Program, terms: Terms) -> EveryPeriod | None:
    """Epsilon of a user who is present in every period of the clock; None where the unit is an
    event."""
    person = terms.person
    if person is None:
        return None
    longest, window = person.periods.longest, terms.lasting
    count = 1 if longest is None else most_periods(person.periods)
    if count is None:
        return EveryPeriod(None, math.inf, terms.delta)
    if count == 1 or longest is None:
        loss = program.loss(window)
    elif count <= EXACT_PERIODS:
        loss = loss_of_periods(program, person, count, count, window)
    else:
        # No period is followed for longer than the first one, from its last tick on.
        followed = None if window is None else window + (count - 1) * longest
        loss = program.loss(followed).of_group(count)
    delta = min(1.0, terms.delta + count * terms.delta_sel)
    return EveryPeriod(count, loss.epsilon(terms.delta), delta)


def loss_of_periods(
    program: Program, person: UserUnit | None, count: int, among: int, window: int | None
) -> PrivacyLoss:
    """Loss of a user in so many periods of ``among`` in a row, against what is released within a
    window from the last one's last tick on: of each sum, or all together."""
    longest = None if person is None else person.periods.longest
    return program.loss_of_periods(count, window, among, longest)


def costly_periods(program: Program, terms: Terms) -> int | None:
    """Periods in a row that cost more than as many guarantees added up; None where none do.

    The window is short then next to what it is followed by: later releases still depend on what was
    added long before, and each further period is seen in more of them.
    """
    rows = together(program, terms)
    if not rows:
        return None
    count = rows[-1].count
    whole = loss_of_periods(program, terms.person, count, count, terms.lasting)
    alone = program.loss(terms.lasting).of_group(count)
    return count if whole.value > alone.value * (1 + 1e-9) else None


def most_periods(periods: Periods) -> int | None:
    """How many periods the clock has; None: no end."""
    end = periods.clock.ticks
    return None if end is None else int(periods.of(np.asarray([end - 1]))[0]) + 1


OF_TICKS = ("ticks", "spacing", "ticks_per_key")
"""Caps that say nothing where there is a single tick."""


@dataclass(frozen=True)
class CapPrice:
    """What another cap would cost.

    Attributes:
      cap: its name. value: what it is. other: what it might be.
      noise: of what the plan releases, over what it has now: of the output that changes the most.
    """

    cap: str
    value: int
    other: int
    noise: float


def cap_prices(
    sums: Sequence[ContinualSum], terms: Terms, of_events: Callable[[Terms], float]
) -> tuple[CapPrice, ...]:
    """Noise for the same guarantee with each cap halved, one less, and doubled.

    Caps on where a user's contributions lie change what the sums move; the events of a cell what
    a cell adds, which the algorithm knows.

    Args:
      sums: of the plan; empty: its noise comes from none.
      of_events: terms with other caps (with sums: other events a cell) -> noise over what it is
        now.
    """
    person = terms.person
    if person is None:
        return ()
    now = compose(tuple(part.loss(terms.lasting) for part in sums)) if sums else None
    results = []
    for cap, value, other, caps in _others(person.caps):
        if person.periods.clock.once and cap in OF_TICKS:
            continue
        try:
            changed = UserUnit(caps, person.periods)
        except ConfigError:
            continue
        if cap == "events" or now is None or terms.groups is not None:
            groups = terms.groups and replace(terms.groups, keys=caps.keys)
            try:
                ratio = of_events(replace(terms, person=changed, groups=groups))
            except ConfigError:
                continue
        else:
            moved = [_under(part, person.pattern, changed.pattern) for part in sums]
            then = compose(tuple(part.loss(terms.lasting) for part in moved))
            ratio = then.value / now.value
            ratio = math.sqrt(ratio) if now.kind == "zcdp" else ratio
        results.append(CapPrice(cap, value, other, ratio))
    return tuple(results)


def _others(caps: ContributionBounds) -> Iterator[tuple[str, int, int, ContributionBounds]]:
    """Every cap that is set, with what it might be."""
    for cap in ("ticks", "spacing", "keys", "events", "ticks_per_key", "period_keys", "total"):
        value = getattr(caps, cap)
        if value is None:
            continue
        for other in sorted({value // 2, value - 1, 2 * value} - {value}):
            try:
                yield cap, value, other, replace(caps, **{cap: other})
            except ConfigError:
                continue


def _under(part: ContinualSum, old: Pattern, new: Pattern) -> ContinualSum:
    """The same sum under another pattern."""
    once = part.pattern == old.once() and part.pattern != old
    return replace(part, pattern=new.once() if once else new)


def _of(part: ContinualSum) -> Pattern:
    assert part.pattern is not None
    return part.pattern

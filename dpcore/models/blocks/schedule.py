"""Public schedules of fits, what a record or user pays on them, and when the first model comes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from weir.dpcore.accounting.guarantee import LossKind
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.partition import Blocks, ByCount, ByTicks, ByUsers
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.users.unit import UserUnit


class PlannedFit(NamedTuple):
    """A model that is fitted once, when its last block is complete.

    Attributes:
      slot: where it is kept, over what was there.
      first, last: blocks that it learns from, both included.
      after: slot of the released model that it is pulled to; None: the point 0.
      level: which of the schedule's noises it gets.
    """

    slot: int
    first: int
    last: int
    after: int | None
    level: int


class ShownFit(NamedTuple):
    """What is released.

    Attributes:
      slot: of the model. first, last: blocks behind it, by itself or by the models it follows.
    """

    slot: int
    first: int
    last: int


class Period(NamedTuple):
    """From ``start`` complete blocks on, the fits repeat, moved by ``length`` blocks.

    Attributes:
      start, length: blocks.
    """

    start: int
    length: int


class FitSchedule(ABC):
    """Public: a function of how many blocks of a key are complete, and of nothing else.

    **Formal guarantees**: a fit sees the blocks that it names and released models, which are
    outputs. What a record costs is the sum over the fits that its block is in (``spent``).

    Attributes:
      name: in the config. sizes: blocks of a fit of each level. slots: models that are kept.
      period: when it repeats. weights: what a fit of each level costs, in the paper's proportions.
      even: the same, where levels are treated alike.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """See above."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """See above."""

    @property
    @abstractmethod
    def period(self) -> Period:
        """See above."""

    @property
    def slots(self) -> int:
        """See above."""
        return 1

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """See above."""
        return self.even

    @property
    def even(self) -> tuple[Fraction, ...]:
        """See above."""
        return (Fraction(1),) * len(self.sizes)

    @abstractmethod
    def fits(self, complete: int) -> tuple[PlannedFit, ...]:
        """What is fitted, in order, when so many blocks are complete (1 or more)."""

    @abstractmethod
    def shown(self, complete: int) -> ShownFit | None:
        """What is released from then on; None: nothing yet."""

    def oldest(self, complete: int) -> int:
        """The first block that fits read from then on; it never goes back."""
        return max(0, complete - max(self.sizes))

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""


def used(schedule: FitSchedule) -> tuple[Counter[int], ...]:
    """How often each level uses a block, of every block that a period may hold: by brute force.

    Every fit of two periods is walked through. A block of the first of them, or before it, is in
    no fit after those: none reaches back further than ``oldest``.
    """
    start, length = schedule.period
    reach = max(schedule.sizes)
    last = start + length
    results: list[Counter[int]] = [Counter() for _ in range(last)]
    for complete in range(1, last + length + reach + 1):
        for fit in schedule.fits(complete):
            for block in range(fit.first, min(fit.last + 1, last)):
                results[block][fit.level] += 1
    return tuple(results)


@lru_cache(maxsize=1024)
def followers(schedule: FitSchedule) -> frozenset[int]:
    """Levels some of whose fits follow a released model."""
    start, length = schedule.period
    every = range(1, start + 2 * length + 1)
    return frozenset(
        fit.level for at in every for fit in schedule.fits(at) if fit.after is not None
    )


@lru_cache(maxsize=1024)
def _kinds(schedule: FitSchedule) -> frozenset[tuple[tuple[int, int], ...]]:
    """(level, times) of ``used``, without blocks that are used alike."""
    return frozenset(tuple(sorted(item.items())) for item in used(schedule))


def spent(schedule: FitSchedule, costs: Sequence[Fraction]) -> Fraction:
    """The most that a record pays in its life. costs: of a fit of each level."""
    return max(
        sum((n * costs[level] for level, n in kind), Fraction(0)) for kind in _kinds(schedule)
    )


def spread(schedule: FitSchedule, variances: Sequence[float]) -> float:
    """Variance of the noise in what is released, a coordinate, on average over a period.

    A model holds its own noise and, where its data say nothing against it, all of that of the
    model that it is pulled to: the most that there can be.

    Args:
      variances: of the noise of each level.
    """
    start, length = schedule.period
    held, total = [0.0] * schedule.slots, 0.0
    for complete in range(1, start + 2 * length):
        for fit in schedule.fits(complete):
            before = 0.0 if fit.after is None else held[fit.after]
            held[fit.slot] = variances[fit.level] + before
        shown = schedule.shown(complete)
        if complete >= start + length and shown is not None:
            total += held[shown.slot]
    return total / length


@dataclass(frozen=True)
class Participation:
    """Blocks that hold something of one unit: of a record one, of a user in a period several.

    **Formal guarantees**
      A fit that sees j of the unit's blocks has a gradient that the unit moves by j times what it
      moves that of one, so its minimiser too: such a fit costs j epsilon, or j^2 of what adds up as
      mu^2 or rho (``PrivacyLoss.of_group``). With B the unit's blocks of one key, c_f the cost of a
      fit f and p = 1 or 2, it pays sum over f of c_f |B in f|^p, which is the sum over x in B of
      sum over f with x of c_f |B in f|^(p - 1), and |B in f| is at most min(n, blocks of f), n the
      unit's blocks of a key. So it pays at most as many times what a record pays in ``spent``, each
      cost times that minimum, as it has blocks of any key. Attained by one block, and by blocks
      that lie together.
      Source: derived here; held to brute force over all sets of blocks.

    Attributes:
      blocks: n, of one key. cells: pairs of a key and a block of it, of all keys.
    """

    blocks: int = 1
    cells: int = 1

    def worth(self, size: int, kind: LossKind) -> int:
        """How much more expensive a fit of so many blocks is than to a record."""
        return 1 if kind == "pure" else min(self.blocks, size)

    def spent(self, schedule: FitSchedule, costs: Sequence[Fraction], kind: LossKind) -> Fraction:
        """The most that it pays. costs: of a fit of each level to a record in it."""
        sizes = zip(schedule.sizes, costs, strict=True)
        return self.cells * spent(schedule, [self.worth(size, kind) * cost for size, cost in sizes])

    def of_periods(self, periods: int) -> Participation:
        """In so many periods, wherever they lie."""
        return Participation(periods * self.blocks, periods * self.cells)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"blocks": self.blocks, "cells": self.cells}


ALONE = Participation()
"""Of a record."""


def presence_of(person: UserUnit | None, ticks: int) -> Participation:
    """Of a user in a period, in blocks of so many ticks from tick 0 on; None: of a record."""
    if person is None:
        return ALONE
    pattern, periods = person.pattern, person.periods
    blocks, span = pattern.key_ticks, pattern.span
    if span is not None:
        whole = isinstance(periods.per, int)  # periods of a duration begin at its multiples
        if whole and (span % ticks == 0 or ticks % span == 0):
            met = max(1, span // ticks)
        else:
            met = -(-(span - 1) // ticks) + 1
        blocks = min(blocks, met)
    return Participation(blocks, min(pattern.cells, pattern.touched * blocks))


@dataclass(frozen=True)
class Waits:
    """Before the first model of a key there is none (null). Public.

    Attributes:
      ticks: that must be over, at least. records: that the key must have; None: any number will do.
      cap: records of a key and tick that count, at most.
    """

    ticks: int
    records: int | None = None
    cap: int = 1

    @classmethod
    def of_blocks(cls, schedule: FitSchedule, cut: Blocks, cap: int) -> Waits:
        """Until enough blocks are complete."""
        blocks = 1
        while schedule.shown(blocks) is None:
            blocks += 1
        if isinstance(cut, ByCount):
            return cls.of_records(blocks * cut.records, cap)
        assert isinstance(cut, ByTicks | ByUsers)
        return cls(blocks * cut.ticks)

    @classmethod
    def of_records(cls, records: int, cap: int) -> Waits:
        """Until there are so many."""
        return cls(-(-records // cap), records, cap)

    def check(self, field: str, value: object, terms: Terms) -> None:
        """Refuses a model that the clock ends before.

        Args:
          field, value: what sets how long it waits.

        Raises:
          ConfigError: there is none by the end of the clock, whatever the events are.
        """
        end = terms.horizon
        if end is None or self.ticks <= end:
            return
        if self.records is None:
            raise ConfigError(
                field,
                value,
                f"never gives a model: the first is fitted after {self.ticks:,} ticks, and the "
                f"clock has {end:,}. Take shorter or fewer blocks, or a later clock.end.",
            )
        raise ConfigError(
            field,
            value,
            f"never gives a model: the first is fitted to {self.records:,} records of a key, and "
            f"at most {end * self.cap:,} count by the end of the clock (model.cap of "
            f"{self.cap:,} in each of {end:,} ticks). Take fewer records, a larger model.cap, or a "
            "later clock.end.",
        )

    def doubts(self, terms: Terms) -> Iterator[str]:
        """A clock that is too short for the events that are expected."""
        end, events = terms.horizon, terms.events
        if self.records is None or end is None or events is None or self.records <= events * end:
            return
        yield (
            f"Of the events that are expected no model comes by the end of the clock: the first is "
            f"fitted to {self.records:,} records of a key, and {events * end:,.0f} are expected. "
            "Take fewer records, or a later clock.end."
        )

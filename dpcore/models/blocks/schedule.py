"""Which blocks of records are fitted when, after which released model, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol


class Fit(NamedTuple):
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


class Shown(NamedTuple):
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


class Schedule(Protocol):
    """Public: a function of how many blocks of a key are complete, and of nothing else.

    **Formal guarantees**: a fit sees the blocks that it names and released models, which are
    outputs. What a record costs is the sum over the fits that its block is in (``spent``).

    Attributes:
      name: in the config. sizes: blocks of a fit of each level. slots: models that are kept.
      period: when it repeats. weights: what a fit of each level costs, in the paper's proportions.
      even: the same, where levels are treated alike.
    """

    @property
    def name(self) -> str: ...

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def slots(self) -> int: ...

    @property
    def period(self) -> Period: ...

    @property
    def weights(self) -> tuple[Fraction, ...]: ...

    @property
    def even(self) -> tuple[Fraction, ...]: ...

    def fits(self, complete: int) -> tuple[Fit, ...]:
        """What is fitted, in order, when so many blocks are complete (1 or more)."""

    def shown(self, complete: int) -> Shown | None:
        """What is released from then on; None: nothing yet."""

    def oldest(self, complete: int) -> int:
        """The first block that fits read from then on; it never goes back."""

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""


def used(schedule: Schedule) -> tuple[Counter[int], ...]:
    """How often each level uses a block, of every block that a period may hold: by brute force.

    Every fit of two periods is walked through. A block of the first of them, or before it, is in
    no fit after those: none reaches back further than ``oldest``.
    """
    start, length = schedule.period
    reach = max(schedule.sizes)
    last = start + length
    found: list[Counter[int]] = [Counter() for _ in range(last)]
    for complete in range(1, last + length + reach + 1):
        for fit in schedule.fits(complete):
            for block in range(fit.first, min(fit.last + 1, last)):
                found[block][fit.level] += 1
    return tuple(found)


def spent(schedule: Schedule, costs: Sequence[Fraction]) -> Fraction:
    """The most that a record pays in its life. costs: of a fit of each level."""
    kinds = {tuple(sorted(one.items())) for one in used(schedule)}
    return max(sum((n * costs[level] for level, n in kind), Fraction(0)) for kind in kinds)


def spread(schedule: Schedule, variances: Sequence[float]) -> float:
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

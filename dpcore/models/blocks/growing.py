"""The schedules of continual release: base models of all so far, and updates since the last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.dpcore.models.blocks.schedule import Fit, Period, Shown

BASE, CURRENT = 0, 1
"""Slots: of the newest base model, and of the newest update."""


@dataclass(frozen=True)
class Growing:
    """Base models at t = B, 2B, 4B, ... blocks of all so far, and an update at every block between.

    At t_g + 2^j, t_g the last base, the update learns from all blocks since t_g, pulled to the base
    (where ``larger``); at any other it learns from the newest block, pulled to the newest model. At
    ``turn`` = 2^doublings B blocks all begins anew: rows before are let go, the base stays in force
    until the next, and the first base then is pulled to it.

    **Formal guarantees**: what a record pays is found by brute force over a turn (``spent``). With
    the paper's noise scales and exact sensitivities updates come to less than half of epsilon, and
    updates and bases to 0.69 in the first turn; the paper's Theorem 4 counts the updates alone.
    Source: Watson et al. (2021), Algorithm 4, and Appendix C without the larger updates.

    Attributes:
      base: B. doublings: of the base in a turn. larger: whether updates of several blocks are made.
    """

    base: int
    doublings: int
    larger: bool

    @property
    def name(self) -> str:
        """See Schedule."""
        return "continual" if self.larger else "basic_continual"

    @property
    def turn(self) -> int:
        """Blocks of a turn."""
        return self.base << self.doublings

    @property
    def updates(self) -> tuple[int, ...]:
        """Sizes of updates: below the last base but one."""
        most = self.turn // 2 if self.larger and self.doublings else 1
        return tuple(1 << j for j in range(max(1, (most - 1).bit_length())))

    @property
    def sizes(self) -> tuple[int, ...]:
        """See Schedule: bases, then updates."""
        return (*(self.base << k for k in range(self.doublings + 1)), *self.updates)

    @property
    def slots(self) -> int:
        """See Schedule."""
        return 2

    @property
    def period(self) -> Period:
        """See Schedule: the first turn has no base before it."""
        return Period(self.turn, self.turn)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """See Schedule: a quarter over the size, of bases in units of B."""
        bases = (Fraction(1, 4 << k) for k in range(self.doublings + 1))
        return (*bases, *(Fraction(1, 4 * size) for size in self.updates))

    @property
    def even(self) -> tuple[Fraction, ...]:
        """See Schedule."""
        return (Fraction(1),) * len(self.sizes)

    def _place(self, complete: int) -> tuple[int, int]:
        """First block of the turn, and how many of it are complete (1 or more)."""
        turns, place = divmod(complete - 1, self.turn)
        return turns * self.turn, place + 1

    def _base(self, place: int) -> int | None:
        """k of the base that is made at a place of a turn; None: an update is."""
        times, rest = divmod(place, self.base)
        return None if rest or times & (times - 1) else times.bit_length() - 1

    def fits(self, complete: int) -> tuple[Fit, ...]:
        """See Schedule."""
        if complete < self.base:
            return ()
        origin, place = self._place(complete)
        k = self._base(place)
        if k is not None:
            after = BASE if origin and k == 0 else None
            return (Fit(BASE, origin, complete - 1, after, k),)
        made = place // self.base
        since = place - (self.base << (made.bit_length() - 1) if made else 0)
        first = self.doublings + 1
        if made and self.larger and not since & (since - 1):
            level = first + since.bit_length() - 1
            return (Fit(CURRENT, complete - since, complete - 1, BASE, level),)
        return (Fit(CURRENT, complete - 1, complete - 1, BASE if since == 1 else CURRENT, first),)

    def shown(self, complete: int) -> Shown | None:
        """See Schedule."""
        if complete < self.base:
            return None
        origin, place = self._place(complete)
        slot = CURRENT if self._base(place) is None else BASE
        first = origin - self.turn if origin and place < 2 * self.base else origin
        return Shown(slot, first, complete - 1)

    def oldest(self, complete: int) -> int:
        """See Schedule: the first block of the turn."""
        return self._place(complete)[0] if complete >= 1 else 0

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "base": self.base, "doublings": self.doublings}

"""In how many blocks one unit may be, and what it pays there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.dpcore.accounting.guarantee import LossKind
from weir.dpcore.models.blocks.schedule import Schedule, spent
from weir.dpcore.users.unit import UserUnit


@dataclass(frozen=True)
class Presence:
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
        """How much dearer a fit of so many blocks is than to a record."""
        return 1 if kind == "pure" else min(self.blocks, size)

    def spent(self, schedule: Schedule, costs: Sequence[Fraction], kind: LossKind) -> Fraction:
        """The most that it pays. costs: of a fit of each level to a record in it."""
        sizes = zip(schedule.sizes, costs, strict=True)
        return self.cells * spent(schedule, [self.worth(size, kind) * cost for size, cost in sizes])

    def of_periods(self, periods: int) -> Presence:
        """In so many periods, wherever they lie."""
        return Presence(periods * self.blocks, periods * self.cells)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"blocks": self.blocks, "cells": self.cells}


ALONE = Presence()
"""Of a record."""


def presence_of(person: UserUnit | None, ticks: int) -> Presence:
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
    return Presence(blocks, min(pattern.cells, pattern.touched * blocks))

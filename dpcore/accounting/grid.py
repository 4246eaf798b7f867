"""Spans of time that follow each other: the periods in which users are protected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

DAY: Final = 86_400_000_000
CYCLE: Final = 4800
"""Months after which the calendar repeats."""


@dataclass(frozen=True)
class Grid:
    """Periods of a duration, of months of the calendar (UTC), or a single one that never ends.

    Attributes:
      per: microseconds; None: months, or one period. months: of a period; None: no months.
      origin: a moment, microseconds since 1970, at which one of them begins; of months, a moment in
        the first of them.
    """

    per: int | None = None
    months: int | None = None
    origin: int = 0

    @property
    def is_all(self) -> bool:
        """Whether all of time is one period."""
        return self.per is None and self.months is None

    def of(self, moment: int) -> int:
        """Number of the period of a moment, in microseconds."""
        if self.months is not None:
            return (_month(moment) - _month(self.origin)) // self.months
        return 0 if self.per is None else (moment - self.origin) // self.per

    def first(self, period: int) -> int:
        """The moment at which a period begins; of the only one, the origin."""
        if self.months is not None:
            month = np.datetime64(_month(self.origin) + period * self.months, "M")
            return int(month.astype("datetime64[us]").astype(np.int64))
        return self.origin + period * (self.per or 0)

    def met_by(self, other: Grid) -> tuple[int, bool]:
        """Most of these periods that one of another grid meets, and whether it may hold a part of
        one of them alone. Neither is ``is_all``."""
        if self.months is not None and other.months is not None:
            apart = _month(other.origin) - _month(self.origin)
            return _met(self.months, other.months, apart)
        if self.per is not None and other.per is not None:
            return _met(self.per, other.per, other.origin - self.origin)
        if self._divides_days and other.months is not None:
            assert self.per is not None
            return other.longest // self.per, False
        if other._divides_days:
            return 1, True
        return -(-(other.longest - 1) // self.shortest) + 1, True

    @property
    def _divides_days(self) -> bool:
        """Whether every midnight of UTC is the beginning of a period."""
        return self.per is not None and DAY % self.per == 0 and self.origin % self.per == 0

    @cached_property
    def longest(self) -> int:
        """Microseconds of the longest period."""
        return self.per or _spans(self.months or 0)[0]

    @cached_property
    def shortest(self) -> int:
        """Microseconds of the shortest period."""
        return self.per or _spans(self.months or 0)[1]

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {"per": self.per, "months": self.months, "origin": self.origin}


def _met(mine: int, theirs: int, apart: int) -> tuple[int, bool]:
    """Of equal lengths: most periods of ``mine`` that one of ``theirs`` meets, and whether it may
    hold a part of one alone. apart: from the beginning of one of mine to that of one of theirs."""
    if theirs % mine == 0 and apart % mine == 0:
        return theirs // mine, False
    if mine % theirs == 0 and apart % theirs == 0:
        return 1, True
    return -(-(theirs - 1) // mine) + 1, True


def _month(moment: int) -> int:
    """Months since 1970."""
    return int(np.datetime64(moment, "us").astype("datetime64[M]").astype(np.int64))


@lru_cache(maxsize=64)
def _spans(months: int) -> tuple[int, int]:
    """Microseconds of the longest and of the shortest span of so many months."""
    starts = np.arange(CYCLE + months).astype("datetime64[M]").astype("datetime64[D]")
    days = (starts[months:] - starts[:-months]).astype(np.int64)
    return int(days.max()) * DAY, int(days.min()) * DAY

"""Periods: the spans of public time within which a user's caps hold, and anew in each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcore.arrays import Ints
from dpcore.config.durations import show_duration, show_timestamp
from dpcore.errors import ConfigError
from dpcore.leaves.clock import Clock

CYCLE = 4800
"""Months after which the calendar repeats."""


@dataclass(frozen=True)
class Months:
    """A period of so many months of the calendar, in UTC."""

    count: int = 1

    def __str__(self) -> str:
        return "1 month" if self.count == 1 else f"{self.count} months"


@dataclass(frozen=True)
class Periods:
    """The ticks of a clock in periods: 0, 1, 2, ... A tick belongs to the period of its start.

    Periods of a duration begin with the clock; months begin on the first day of one, so that the
    period of tick 0 may be cut short, as the last one may be by the end of the clock.

    Attributes:
      clock: the public clock.
      per: microseconds, months, or None: one period that lasts as long as the clock.

    Raises:
      ConfigError: a period that is no whole number of ticks.
    """

    clock: Clock
    per: int | Months | None

    def __post_init__(self) -> None:
        if isinstance(self.per, Months):
            self._check_months(self.per)
        elif self.per is not None:
            ticks, rest = divmod(self.per, self.clock.period)
            if rest or ticks < 1:
                near = " or ".join(
                    show_duration(n * self.clock.period) for n in (ticks, ticks + 1) if n > 0
                )
                raise ConfigError(
                    "privacy.per",
                    show_duration(self.per),
                    f"must be a whole number of periods of the clock "
                    f"({show_duration(self.clock.period)}): {near}.",
                )

    def of(self, ticks: Ints) -> Ints:
        """Ticks (n,) int64, 0 or more -> period numbers (n,) int64."""
        ticks = np.asarray(ticks, dtype=np.int64)
        if self.per is None:
            return np.zeros_like(ticks)
        if isinstance(self.per, Months):
            months = _months(self.clock.start + ticks * self.clock.period)
            return np.asarray((months - self._month) // self.per.count, dtype=np.int64)
        return ticks // self._length

    def first(self, period: int) -> int:
        """First tick of a period."""
        if period <= 0 or self.per is None:
            return 0
        if isinstance(self.per, Months):
            month = self._month + period * self.per.count
            start = int(np.datetime64(month, "M").astype("datetime64[us]").astype(np.int64))
            return -(-(start - self.clock.start) // self.clock.period)
        return period * self._length

    def last(self, period: int) -> int | None:
        """Last tick of a period, at most that of the clock; None: it has none."""
        end = self.clock.ticks
        if self.per is None:
            return None if end is None else end - 1
        last = self.first(period + 1) - 1
        return last if end is None else min(last, end - 1)

    @property
    def words(self) -> str:
        """In which span, as a sentence says it."""
        if self.per is None:
            return "at any time"
        if isinstance(self.per, Months):
            return f"in one period ({self.per} of the calendar, in UTC)"
        return f"in one period ({show_duration(self.per)}, counted from clock.start on)"

    @property
    def longest(self) -> int | None:
        """S, ticks of the longest period; None: one that never ends."""
        return self._lengths[0]

    @property
    def shortest(self) -> int | None:
        """Ticks of the shortest period that neither end of the clock cuts; the longest where there
        is none."""
        return self._lengths[1]

    @cached_property
    def _length(self) -> int:
        """Ticks of a period of a fixed duration."""
        assert isinstance(self.per, int)
        return self.per // self.clock.period

    @cached_property
    def _month(self) -> int:
        """The month of tick 0, counted from 1970."""
        return int(_months(np.asarray([self.clock.start]))[0])

    @cached_property
    def _lengths(self) -> tuple[int | None, int | None]:
        """Ticks of the longest period, and of the shortest that is whole."""
        end = self.clock.ticks
        if self.per is None:
            return end, end
        if isinstance(self.per, Months):
            # The calendar repeats after 400 years: whatever comes later has been seen.
            count = CYCLE // self.per.count + 3
            starts = [self.first(period) for period in range(count)]
            if end is not None:
                starts = [start for start in starts if start < end] + [end]
            lengths = np.diff(starts)
            whole = lengths[1:] if end is None else lengths[1:-1]
            longest = int(lengths.max())
            return longest, int(whole.min()) if whole.size else longest
        longest = self._length if end is None else min(self._length, end)
        return longest, longest

    def _check_months(self, per: Months) -> None:
        """Raises ConfigError unless every month begins with a tick."""
        period, start = self.clock.period, self.clock.start
        day = 86_400_000_000
        if per.count < 1:
            raise ConfigError("privacy.per", str(per), "must be 1 month or more.")
        if day % period:
            raise ConfigError(
                "privacy.per",
                str(per),
                f"needs a clock.period that divides a day, not {show_duration(period)}, so that "
                "every month begins with a tick.",
            )
        if start % period:
            raise ConfigError(
                "privacy.per",
                str(per),
                f"needs a clock whose ticks begin with the months of UTC: clock.start "
                f"{show_timestamp(start)} is no whole number of periods after midnight.",
            )


def _months(micros: Ints) -> Ints:
    """Months since 1970 of moments in microseconds (n,)."""
    moments = np.asarray(micros, dtype=np.int64).astype("datetime64[us]")
    return moments.astype("datetime64[M]").astype(np.int64)

"""The user as privacy unit: contribution bounds, periods, and partition selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Final, Self

import numpy as np

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.price import CYCLE, DAY
from weir.dpcore.arrays import Ints
from weir.dpcore.config.durations import show_duration, show_timestamp
from weir.dpcore.config.ticks import show_ticks
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock

MOST: Final = (1 << 16) - 1
"""Largest cap: what a user has used up is stored in two bytes."""


@dataclass(frozen=True)
class ContributionBounds:
    """Caps on the events of a user in one period; a cell is a key and a tick. All public.

    Attributes:
      ticks: m, ticks with events of the user. keys: k, keys in one of them.
      events: e, events in a cell.
      spacing: g, fewest ticks from one of these ticks to the next: 1 sets no bound.
      ticks_per_key: q, ticks with events of one key. period_keys: K, keys. total: cells. None: no
        cap in addition what the others say.
      by_hash: whether cells stay by their hashes (``dpcore.users.hash_order``), not in order of
        time.

    Raises:
      ConfigError: a cap is below 1 or above 2^16 - 1.
    """

    ticks: int
    keys: int
    events: int
    spacing: int = 1
    ticks_per_key: int | None = None
    period_keys: int | None = None
    total: int | None = None
    by_hash: bool = False

    def __post_init__(self) -> None:
        for field in fields(self)[:-1]:
            value = getattr(self, field.name)
            if value is not None and not 1 <= value <= MOST:
                raise ConfigError(
                    f"privacy.contributions.{field.name}", value, f"must be from 1 to {MOST:,}."
                )

    @property
    def key_ticks(self) -> int:
        """r, most ticks of one key."""
        return min(self.ticks, self.ticks_per_key or self.ticks)

    @property
    def cells(self) -> int:
        """N, most cells of a period."""
        most = self.ticks * self.keys
        if self.total is not None:
            most = min(most, self.total)
        if self.period_keys is not None:
            most = min(most, self.period_keys * self.key_ticks)
        return most

    @property
    def touched(self) -> int:
        """Most keys of a period."""
        return self.cells if self.period_keys is None else min(self.cells, self.period_keys)


@dataclass(frozen=True)
class Months:
    """A period of so many months of the calendar: of the clock's zone."""

    count: int = 1

    def __str__(self) -> str:
        return "1 month" if self.count == 1 else f"{self.count} months"


@dataclass(frozen=True)
class Periods:
    """The ticks of a clock in periods: 0, 1, 2, ... A tick belongs to the period of its start.

    Periods of a duration begin with the clock; months on the first day of one (in the zone of a
    calendar clock, else in UTC), so that the
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
            ticks, rest = self.clock.ticks_in(self.per)
            if rest or ticks < 1:
                near = " or ".join(self._shown(n) for n in (ticks, ticks + 1) if n > 0)
                raise ConfigError(
                    "privacy.per",
                    show_duration(self.per),
                    f"must be a whole number of periods of the clock "
                    f"({show_ticks(self.clock, 1)}): {near}.",
                )

    def of(self, ticks: Ints) -> Ints:
        """Ticks (n,) int64, 0 or more -> period numbers (n,) int64."""
        ticks = np.asarray(ticks, dtype=np.int64)
        if self.per is None:
            return np.zeros_like(ticks)
        if isinstance(self.per, Months):
            months = self._months(ticks)
            return np.asarray((months - self._month) // self.per.count, dtype=np.int64)
        return ticks // self._length

    def first(self, period: int) -> int:
        """First tick of a period."""
        if period <= 0 or self.per is None:
            return 0
        if isinstance(self.per, Months):
            month = self._month + period * self.per.count
            if self.clock.calendar is not None:
                return self._tick_of_month(month)
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
            return f"in one period ({self.per} of the calendar, in {self._zone})"
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
        return self.clock.ticks_in(self.per)[0]

    @cached_property
    def _month(self) -> int:
        """The month of tick 0, counted from 1970."""
        return int(self._months(np.zeros(1, dtype=np.int64))[0])

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
        period, start, calendar = self.clock.period, self.clock.start, self.clock.calendar
        if per.count < 1:
            raise ConfigError("privacy.per", str(per), "must be 1 month or more.")
        if calendar is not None:
            if calendar.days > 1 or (calendar.months and per.count % calendar.months):
                raise ConfigError(
                    "privacy.per",
                    str(per),
                    f"must be a whole number of ticks, which are {show_ticks(self.clock, 1)}: "
                    "every period begins with a tick. Take a clock.period of 1d or 1 month.",
                )
            return
        if DAY % period:
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

    @property
    def _zone(self) -> str:
        return "UTC" if self.clock.calendar is None else self.clock.calendar.zone

    def _shown(self, ticks: int) -> str:
        """So many ticks as privacy.per is written."""
        calendar = self.clock.calendar
        if calendar is None:
            return show_duration(ticks * self.clock.period)
        return (
            str(Months(ticks * calendar.months)) if calendar.months else f"{ticks * calendar.days}d"
        )

    def _months(self, ticks: Ints) -> Ints:
        """Months since 1970 in which ticks (n,) begin."""
        if self.clock.calendar is not None:
            return self.clock.calendar.months_of(ticks)
        return _months(self.clock.start + ticks * self.clock.period)

    def _tick_of_month(self, month: int) -> int:
        """The first tick of a month of a calendar clock, or of a later one."""
        calendar = self.clock.calendar
        assert calendar is not None
        if calendar.months:
            return -(-(month - calendar.first) // calendar.months)
        return int(np.searchsorted(self._known, month))

    @cached_property
    def _known(self) -> Ints:
        """The month of each tick of a table, and of its end."""
        return self._months(np.arange((self.clock.ticks or 0) + 1))


def _months(micros: Ints) -> Ints:
    """Months since 1970 of moments in microseconds (n,)."""
    moments = np.asarray(micros, dtype=np.int64).astype("datetime64[us]")
    return moments.astype("datetime64[M]").astype(np.int64)


@dataclass(frozen=True)
class UserUnit:
    """A user in a period: all that neighbouring streams differ in. Public.

    Attributes:
      caps: of a user in a period. periods: of the clock.

    Raises:
      ConfigError: more ticks than a period has room for.
    """

    caps: ContributionBounds
    periods: Periods

    @classmethod
    def of(cls, caps: Mapping[str, Any], periods: Periods) -> Self:
        """With bounds as a config has them; without one on ticks, all of a period count.

        Raises:
          ConfigError: as this class and ``ContributionBounds``; or ticks that no bound is on and
            that are too many to count.
        """
        if caps["ticks"] is None and periods.longest is not None:
            room = 1 + (periods.longest - 1) // caps["spacing"]
            if room > MOST:
                raise ConfigError(
                    "privacy.contributions.ticks",
                    None,
                    f"is missing, and a period has {room:,} ticks, above {MOST:,}; write how many "
                    "of them count of a user, or take a shorter privacy.per.",
                )
            caps = {**caps, "ticks": room}
        numbers = {name: value for name, value in caps.items() if name != "order"}
        # Of a single tick nothing is in order of time.
        by_hash = caps["order"] == "hash" and not periods.clock.once
        return cls(ContributionBounds(**numbers, by_hash=by_hash), periods)

    def __post_init__(self) -> None:
        longest = self.periods.longest
        if longest is None:
            return
        room = 1 + (longest - 1) // self.caps.spacing
        if self.caps.ticks > room:
            apart = (
                "" if self.caps.spacing == 1 else f", with {self.caps.spacing} ticks between two,"
            )
            raise ConfigError(
                "privacy.contributions.ticks",
                self.caps.ticks,
                f"must be at most {room}: a period (privacy.per) of {longest:,} "
                f"tick{'' if longest == 1 else 's'}{apart} is full.",
            )

    def refuse_endless(self, noun: str) -> None:
        """Refuses bounds that need all events of a period at once, where they never are.

        Args:
          noun: what events come from.

        Raises:
          ConfigError: says what to write.
        """
        if self.caps.by_hash:
            raise ConfigError(
                "privacy.contributions.order",
                "hash",
                f"needs all events of a period before its first release, and {noun} has no end. "
                "Write order: time, or read files or frames.",
            )

    @property
    def pattern(self) -> Pattern:
        """For the accountant: cells that a user may contribute to in one period."""
        caps, periods = self.caps, self.periods
        return Pattern(
            periods.longest,
            periods.shortest,
            caps.ticks,
            caps.spacing,
            caps.keys,
            caps.key_ticks,
            caps.period_keys,
            caps.cells,
        )

    def canonical(self) -> dict[str, Any]:
        """Every public number of it, JSON-able."""
        per, caps = self.periods.per, asdict(self.caps)
        if caps.pop("by_hash"):
            caps["order"] = "hash"
        return {
            "caps": caps,
            "per": per if per is None or isinstance(per, int) else str(per),
        }


DELTA = 0.5
"""Of delta, for what keys may tell by being found: 0.1 and 0.9 find a fiftieth fewer keys."""

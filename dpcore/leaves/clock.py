"""The public release clock: ticks of a fixed length, or of the calendar."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints, extremes, in_one_piece
from weir.dpcore.errors import ConfigError
from weir.dpcore.native import kernels

DAY: Final = 86_400_000_000
UTC: Final = "UTC"


@dataclass(frozen=True)
class Calendar:
    """Where ticks of so many days or months begin.

    Months in UTC are arithmetic and go on for ever. In any other zone the edges are a table: the
    rules of a zone are data that change, so they are looked up once, where a plan is made, and what
    they gave is a part of the plan. Before and after the table ticks are as long as ``nominal``.

    Attributes:
      days, months: of a tick; one of them is 0. zone: its IANA name.
      first: tick 0 begins on this day or month, counted from 1970 on.
      edges: little-endian int64, microseconds since 1970Z: starts of all ticks, and the last end;
        none for months in UTC.
      skipped: days, counted from 1970 on, that the zone did not have; they are no ticks.
    """

    days: int
    months: int
    zone: str = UTC
    first: int = 0
    edges: bytes = b""
    skipped: tuple[int, ...] = ()

    @property
    def nominal(self) -> int:
        """About how long a tick is, in microseconds."""
        return (self.days + 30 * self.months) * DAY

    @cached_property
    def shortest(self) -> int:
        """No tick is shorter, in microseconds."""
        if not self.edges:
            return 28 * DAY * self.months
        return int(np.diff(self._edges).min(initial=self.nominal))

    def tick_of(self, times: Ints) -> Ints:
        """Microseconds (n,) -> ticks (n,); negative before the start."""
        times = np.asarray(times, dtype=np.int64)
        if not self.edges:
            months = times.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
            return np.asarray(np.floor_divide(months - self.first, self.months), dtype=np.int64)
        edges = self._edges
        ticks = np.searchsorted(edges, times, side="right") - 1
        last = len(edges) - 1
        before = np.floor_divide(times - edges[0], self.nominal)
        after = last + np.floor_divide(times - edges[-1], self.nominal)
        result = np.where(ticks < 0, before, np.where(ticks >= last, after, ticks))
        return np.asarray(result, dtype=np.int64)

    def starts(self, ticks: Ints) -> Ints:
        """Ticks (n,) -> their first microseconds (n,)."""
        ticks = np.asarray(ticks, dtype=np.int64)
        if not self.edges:
            months = (self.first + ticks * self.months).astype("datetime64[M]")
            return np.asarray(months.astype("datetime64[us]").astype(np.int64))
        edges = self._edges
        inside = np.clip(ticks, 0, len(edges) - 1)
        return np.asarray(edges[inside] + (ticks - inside) * self.nominal, dtype=np.int64)

    def walls(self, ticks: Ints) -> Ints:
        """Ticks (n,) -> where they begin by the clocks on the zone's walls (n,): microseconds from
        1970 on, as if these clocks showed UTC."""
        labels = self._labels(np.asarray(ticks, dtype=np.int64))
        unit = "datetime64[M]" if self.months else "datetime64[D]"
        return np.asarray(labels.astype(unit).astype("datetime64[us]").astype(np.int64))

    def months_of(self, ticks: Ints) -> Ints:
        """Months since 1970 of the first days of ticks (n,), in the zone."""
        labels = self._labels(np.asarray(ticks, dtype=np.int64))
        if self.months:
            return labels
        return np.asarray(labels.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64))

    def canonical(self) -> dict[str, Any]:
        """What shapes a release, JSON-able; a table by its hash."""
        unit = {"months": self.months} if self.months else {"days": self.days}
        table = {"edges": hashlib.sha256(self.edges).hexdigest()} if self.edges else {}
        skipped = {"skipped": list(self.skipped)} if self.skipped else {}
        return {**unit, "zone": self.zone, "first": self.first, **skipped, **table}

    @cached_property
    def _edges(self) -> Ints:
        return np.frombuffer(self.edges, dtype="<i8").astype(np.int64)

    def _labels(self, ticks: Ints) -> Ints:
        """Days or months since 1970 on which ticks begin."""
        labels = self.first + ticks * (self.months or self.days)
        for day in self.skipped:
            labels = labels + (labels >= day)
        return np.asarray(labels, dtype=np.int64)


def shown_unit(days: int, months: int, zone: str) -> str:
    """What a tick is, in words: ``1 month``, ``1 day of Europe/Berlin``."""
    count, noun = (months, "month") if months else (days, "day")
    of = "" if zone == UTC else f" of {zone}"
    return f"{count:,} {noun}{'' if count == 1 else 's'}{of}"


@dataclass(frozen=True)
class Clock:
    """tick t covers event times [tick_start(t), tick_start(t + 1)): [start + t * period,
    start + (t + 1) * period) where ticks are of a fixed length.

    Attributes:
      start: microseconds since 1970-01-01T00:00:00Z.
      period: microseconds, > 0. Of a calendar clock, no tick is shorter: good for waiting, not for
        finding a tick.
      end: microseconds, or None for a stream without end. The last tick is the last whole one
        before it; a config must say where a tick ends.
      delay: microseconds by which a message may arrive after its event time and still count.
      ahead: microseconds by which it may arrive before its event time and still count; None: any.
      calendar: where its days or months begin; None: ticks of a fixed length.
      once: whether there is one release of all rows, which have no times. See ``ONCE``.
    """

    start: int
    period: int
    end: int | None = None
    delay: int = 0
    ahead: int | None = None
    calendar: Calendar | None = None
    once: bool = False

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise ConfigError(
                "clock.period", self.period, "must be longer than nothing, like 1d or 15m."
            )
        if self.delay < 0:
            raise ConfigError("clock.delay", self.delay, "must be 0s or more.")
        if self.ahead is not None and self.ahead < 0:
            raise ConfigError("clock.ahead", self.ahead, "must be 0s or more.")
        if self.end is not None and self.end < self.tick_start(1):
            raise ConfigError(
                "clock.end", self.end, "must be at least one period after clock.start."
            )

    @property
    def ticks(self) -> int | None:
        """How many ticks there are; None without end."""
        return None if self.end is None else self.tick_at(self.end)

    def tick_of(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Event times in microseconds (n,) -> ticks (n,); negative before the start."""
        if self.calendar is not None:
            return self.calendar.tick_of(times)
        offsets = np.asarray(times - self.start)
        return np.floor_divide(offsets, self.period, out=offsets)

    def ticks_within(self, times: NDArray[np.int64]) -> tuple[NDArray[np.int64], int, int]:
        """Event times (n,), n >= 1 -> their ticks (n,), the first of these and the last."""
        if kernels is None or self.calendar is not None:
            first, last = self.tick_of(np.asarray(extremes(times))).tolist()
            # Ticks follow times, and those of a batch are often all in one.
            ticks = self.tick_of(times) if first < last else np.full(len(times), first)
            return ticks, first, last
        ticks, ended = np.empty(len(times), dtype=np.int64), np.empty(2, dtype=np.int64)
        kernels.ticks(in_one_piece(times), np.array([self.start, self.period]), ticks, ended)
        first, last = self.tick_of(ended).tolist()
        return ticks, first, last

    def tick_at(self, moment: int) -> int:
        """The tick of one moment in microseconds: as many are over by then."""
        if self.calendar is not None:
            return int(self.calendar.tick_of(np.asarray([moment]))[0])
        return (moment - self.start) // self.period

    def tick_start(self, tick: int) -> int:
        """First microsecond of a tick; tick_start(t + 1) is the end of t."""
        if self.calendar is not None:
            return int(self.calendar.starts(np.asarray([tick]))[0])
        return self.start + tick * self.period

    def starts(self, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """First microseconds of ticks (n,)."""
        if self.calendar is not None:
            return self.calendar.starts(ticks)
        return self.start + self.period * ticks

    def ticks_in(self, length: int) -> tuple[int, int]:
        """Whole ticks of a duration in microseconds, and what is left. A duration is of days where
        ticks are days of a zone; none is a number of months."""
        calendar = self.calendar
        if calendar is None:
            return divmod(length, self.period)
        return divmod(length, calendar.nominal) if calendar.days else (0, length)

    @property
    def unit(self) -> str | None:
        """What a tick of a calendar clock is, in words; None: ticks of a fixed length."""
        if self.calendar is None:
            return None
        return shown_unit(self.calendar.days, self.calendar.months, self.calendar.zone)


ONCE: Final = Clock(0, DAY, DAY, once=True)
"""The clock of a config without one: a single tick. Rows without a time are given its start, so
that every step treats them as it treats the events of any tick."""

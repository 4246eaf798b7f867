"""Ticks of the calendar: days or months, which are not all as long as each other."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from weir.dpcore.arrays import Ints

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
        found = np.where(ticks < 0, before, np.where(ticks >= last, after, ticks))
        return np.asarray(found, dtype=np.int64)

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

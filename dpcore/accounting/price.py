"""Periods of a duration or of the calendar, and the price of a plan in a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC as GREENWICH
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss, Relation
from weir.dpcore.errors import ConfigError

UTC: Final = "UTC"
DAY: Final = 86_400_000_000
CYCLE: Final = 4800
"""Months after which the calendar repeats."""
YEARS: Final = 100
"""Years from 1970 on whose days a zone is asked for: behind them rules repeat."""
_EPOCH = datetime(1970, 1, 1, tzinfo=GREENWICH)


@dataclass(frozen=True)
class PeriodGrid:
    """Periods of a duration, of months or days of the calendar, or a single one that never ends.

    Attributes:
      per: microseconds; None: of the calendar, or one period.
      months: of a period; None: no months.
      origin: a moment, microseconds since 1970, at which one of them begins; of the calendar, a
        moment in the first month or day.
      days: of a period, in a zone that is not UTC; None: no days.
      zone: whose calendar it is. Its rules are read where periods are counted: what they say of
        ticks of a plan is checked against the plan's own table.
    """

    per: int | None = None
    months: int | None = None
    origin: int = 0
    days: int | None = None
    zone: str = UTC

    @property
    def is_all(self) -> bool:
        """Whether all of time is one period."""
        return self.per is None and not self._unit

    @property
    def _unit(self) -> int:
        """Months or days of a period; 0: it is not of the calendar."""
        return self.months or self.days or 0

    def of(self, moment: int) -> int:
        """Number of the period of a moment, in microseconds."""
        if self._unit:
            return (self._label(moment) - self._label(self.origin)) // self._unit
        return 0 if self.per is None else (moment - self.origin) // self.per

    def first(self, period: int) -> int:
        """The moment at which a period begins; of the only one, the origin."""
        if self._unit:
            label = self._label(self.origin) + period * self._unit
            if self.zone != UTC:
                return calendar_start(label, bool(self.months), ZoneInfo(self.zone))
            month = np.datetime64(label, "M")
            return int(month.astype("datetime64[us]").astype(np.int64))
        return self.origin + period * (self.per or 0)

    def _label(self, moment: int) -> int:
        """The month or day of a moment by the clocks of the zone, counted from 1970 on."""
        if self.zone == UTC:
            return _month(moment)
        local = (_EPOCH + timedelta(microseconds=moment)).astimezone(ZoneInfo(self.zone))
        if self.months:
            return (local.year - 1970) * 12 + local.month - 1
        return local.date().toordinal() - _EPOCH.toordinal()

    def met_by(self, other: PeriodGrid) -> tuple[int, bool]:
        """Most of these periods that one of another grid meets, and whether it may hold a part of
        one of them alone. Neither is ``is_all``."""
        alike = self.zone == other.zone and bool(self.months) == bool(other.months)
        if self._unit and other._unit and alike:
            apart = self._label(other.origin) - self._label(self.origin)
            return _met(self._unit, other._unit, apart)
        if self.days == 1 and other.months and self.zone == other.zone:
            return _spans(other.months)[0] // DAY, False
        if self.months and other.days == 1 and self.zone == other.zone:
            return 1, True
        if self.per is not None and other.per is not None:
            return _met(self.per, other.per, other.origin - self.origin)
        if self._divides_days and other.months and other.zone == UTC:
            assert self.per is not None
            return other.longest // self.per, False
        if other._divides_days and self.zone == UTC:
            return 1, True
        return -(-(other.longest - 1) // self.shortest) + 1, True

    @property
    def _divides_days(self) -> bool:
        """Whether every midnight of UTC is the beginning of a period."""
        return self.per is not None and DAY % self.per == 0 and self.origin % self.per == 0

    @cached_property
    def longest(self) -> int:
        """Microseconds of the longest period."""
        return self.per or self._lengths[0]

    @cached_property
    def shortest(self) -> int:
        """Microseconds of the shortest period."""
        return self.per or self._lengths[1]

    @property
    def _lengths(self) -> tuple[int, int]:
        """The longest and the shortest period of the calendar."""
        if self.zone == UTC:
            return _spans(self.months or 0)
        return _spans_in(self._unit, bool(self.months), self.zone)

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        zoned = {} if self.zone == UTC else {"days": self.days, "zone": self.zone}
        return {"per": self.per, "months": self.months, "origin": self.origin, **zoned}


def _met(mine: int, theirs: int, apart: int) -> tuple[int, bool]:
    """Of equal lengths: most periods of ``mine`` that one of ``theirs`` meets, and whether it may
    hold a part of one alone. apart: from the beginning of one of mine to that of one of theirs."""
    if theirs % mine == 0 and apart % mine == 0:
        return theirs // mine, False
    if mine % theirs == 0 and apart % theirs == 0:
        return 1, True
    return -(-(theirs - 1) // mine) + 1, True


def calendar_start(label: int, months: bool, zone: ZoneInfo) -> int:
    """First microsecond of a day or month of a zone, counted from 1970 on. A midnight that clocks
    jump over is the moment at which they jump; of two midnights it is the first."""
    if months:
        local = datetime(1970 + label // 12, label % 12 + 1, 1, tzinfo=zone)
    else:
        local = (datetime(1970, 1, 1) + timedelta(days=label)).replace(tzinfo=zone)
    return (local - _EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=64)
def _spans_in(count: int, months: bool, zone: str) -> tuple[int, int]:
    """As ``_spans``, of so many months or days of a zone, clocks set forward and back included."""
    labels = range(YEARS * (12 if months else 366))
    known = ZoneInfo(zone)
    starts = np.array([calendar_start(label, months, known) for label in labels])
    spans = starts[count:] - starts[:-count]
    return int(spans.max()), int(spans[spans > 0].min())


def _month(moment: int) -> int:
    """Months since 1970."""
    return int(np.datetime64(moment, "us").astype("datetime64[M]").astype(np.int64))


@lru_cache(maxsize=64)
def _spans(months: int) -> tuple[int, int]:
    """Microseconds of the longest and of the shortest span of so many months."""
    starts = np.arange(CYCLE + months).astype("datetime64[M]").astype("datetime64[D]")
    days = (starts[months:] - starts[:-months]).astype(np.int64)
    return int(days.max()) * DAY, int(days.min()) * DAY


Unit = Literal["event", "user"]

ANY_TIME: Final = -(2**62)
"""``Price.first`` of a plan whose events have no times."""


@dataclass(frozen=True)
class Point:
    """The loss of anyone who changes in ``periods`` periods of a plan, against all that is released
    until ``horizon`` microseconds after the last of them; None: for ever."""

    periods: int
    horizon: int | None
    loss: PrivacyLoss


@dataclass(frozen=True)
class Price:
    """Loss of one unit against one plan, for so many periods and against so much of its output.

    Attributes:
      unit, relation: of the plan.
      first, last: its event times, microseconds; [first, last), None: without end. ANY_TIME and
        None where events have no times: it meets every period.
      points: prices; a loss rises with periods and horizon, so that each bounds all smaller ones.
      slack: probability next to the losses that nothing is guaranteed at all, for one period: of a
        selection of keys, or the delta of a guarantee that is known as (epsilon, delta) only.
      grid: the periods of a plan of users; None: the unit is an event.
    """

    unit: Unit
    relation: Relation
    first: int
    last: int | None
    points: tuple[Point, ...]
    slack: float = 0.0
    grid: PeriodGrid | None = None

    def __post_init__(self) -> None:
        if self.last is not None and self.last <= self.first:
            raise ConfigError("to", self.last, f"must be after from = {self.first}.")
        if not 0 <= self.slack < 1:
            raise ConfigError("delta", self.slack, "must be 0 or more and below 1.")
        if (self.grid is None) != (self.unit == "event"):
            raise ConfigError("unit", self.unit, "has periods if it is a user, and only then.")
        for point in self.points:
            if not point.loss.value >= 0:
                raise ConfigError("loss", point.loss.value, "must be 0 or more.")

    def at(self, periods: int, horizon: int | None) -> PrivacyLoss | None:
        """The smallest price that covers so many periods and so long a horizon (rounded toward
        more spent); None where none does."""
        fitting = [
            point.loss
            for point in self.points
            if point.periods >= periods
            and (point.horizon is None or (horizon is not None and point.horizon >= horizon))
        ]
        return min(fitting, key=lambda loss: loss.value, default=None)

    def scaled(self, factor: float) -> Price:
        """The same plan with noise of 1 / factor times as much."""
        points = tuple(replace(point, loss=point.loss.scaled(factor)) for point in self.points)
        return replace(self, points=points)

    def to_json(self) -> dict[str, Any]:
        """JSON-able and exact: numbers as hexadecimal floats."""
        return {
            "unit": self.unit,
            "relation": self.relation,
            "first": self.first,
            "last": self.last,
            "grid": None if self.grid is None else self.grid.to_json(),
            "slack": self.slack.hex(),
            "points": [
                [point.periods, point.horizon, point.loss.kind, point.loss.value.hex()]
                for point in self.points
            ],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Price:
        """As ``to_json`` wrote it."""
        return cls(
            word_of(Unit, found["unit"]),
            word_of(Relation, found["relation"]),
            found["first"],
            found["last"],
            tuple(
                Point(periods, horizon, PrivacyLoss(word_of(LossKind, kind), float.fromhex(value)))
                for periods, horizon, kind, value in found["points"]
            ),
            float.fromhex(found["slack"]),
            None if found["grid"] is None else PeriodGrid(**found["grid"]),
        )


def word_of(words: Any, value: Any) -> Any:
    """A stored word, one of a ``Literal``.

    Raises:
      ValueError: it is another.
    """
    if value not in get_args(words):
        raise ValueError("must be a word that was written.")
    return value


def known_bound(
    epsilon: float, delta: float, kind: Literal["pure", "gdp", "zcdp"]
) -> tuple[PrivacyLoss, float]:
    """What another system guaranteed, as (loss, slack), rounded toward more spent.

    pure: (epsilon, delta) of anything. It is as private as something that tells all with
    probability delta and is epsilon-DP otherwise (Kairouz, Oh, Viswanath 2015, Theorem 3.1), so
    delta adds next to the losses. gdp, zcdp: of one who knows that the noise was Gaussian and was
    calibrated by its exact curve, or that the guarantee came from zCDP: the loss behind the
    numbers.

    Raises:
      ConfigError: a guarantee of Gaussian noise without delta.
    """
    from weir.dpcore.accounting import calibrate

    if kind == "pure":
        return PrivacyLoss("pure", epsilon), delta
    up = 1 + 2.0**-30  # the searches round down, by less than 2^-35
    if kind == "gdp":
        return PrivacyLoss("gdp", calibrate.gdp_mu(epsilon, delta) * up), 0.0
    return PrivacyLoss("zcdp", calibrate.zcdp_rho(epsilon, delta) * up), 0.0

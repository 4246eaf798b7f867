"""Estimates of keys that began at one tick, as their releases come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.estimates.bank import Bank, NoiseMoments, SignalModel
from weir.dpcore.estimates.hindsight import LONGEST, rising, smoothed
from weir.dpcore.estimates.rules import LEAST_TICKS, Estimates, claimed, shown
from weir.dpcore.estimates.sources import EstimateSource

MOST_KEYS = 1000
"""Keys of a bank. Where there are more, there are several, each with the members that it needs."""
LONGEST_SPAN = 400
"""Ticks of a sum whose estimate the filter keeps, at most: it keeps each of them for every key."""
FIRST_FACTOR = 8
"""Ticks after which a sum is first taken apart by its count; again whenever they double."""
SURE = 5.0
"""Units of noise below which a count is not divided by."""


def windows(totals: Floats, over: int | None) -> Floats:
    """Sums over the last ``over`` ticks from totals (n, K)."""
    if over is None:
        return totals
    out = totals.copy()
    out[over:] -= totals[:-over] if over < len(totals) else 0.0
    return out


@dataclass
class Tracker:
    """One source of K keys.

    Attributes:
      source, season, keys, first, prune: what it is of, as in ``Bank``.
      counts: whether totals of its count come with its own.
      totals: released totals of each tick, (K,) each. counted: of the count.
      factor: (K,) what an event is worth, by which the sum is taken apart; None: not yet.
    """

    source: EstimateSource
    season: int | None
    keys: int
    first: int = 0
    prune: bool = False
    counts: bool = False
    totals: list[Floats] = field(default_factory=list)
    counted: list[Floats] = field(default_factory=list)
    factor: Floats | None = None

    def __post_init__(self) -> None:
        longest = max((over or 0 for over in self.source.overs), default=0)
        if longest > LONGEST_SPAN:
            raise ConfigError(
                "over",
                longest,
                f"has no estimates: the filter keeps at most {LONGEST_SPAN} ticks of a sum. Take "
                "a shorter span, or a longer clock.period.",
            )
        self.own = self._bank()
        self.pair: tuple[Bank, Bank] | None = None

    def _bank(self) -> Bank:
        model = SignalModel(self.source.law, self.season)
        return Bank(model, self.keys, self.source.overs, self.first, prune=self.prune)

    def add(
        self, total: Floats, stddevs: Mapping[int | None, Floats], count: Floats | None = None
    ) -> dict[int | None, Estimates]:
        """Takes one tick.

        Args:
          total: (K,) released totals. stddevs: of the released sums, (K,) or () a span.
          count: (K,) released totals of the count.

        Returns:
          an estimate of each span, (K,) each.
        """
        self.totals.append(total)
        if self.counts:
            assert count is not None
            self.counted.append(count)
        moments = self.own.step(self._change(self.totals) / self.source.unit)
        pair = self._step_pair()
        n = len(self.totals)
        out = {}
        for over, item in moments.items():
            release = self._released(self.totals, over)
            result = self._alone(release, item, stddevs[over])
            if pair is not None:
                counted = self._released(self.counted, over)
                both = self._with_count(
                    release, counted, pair[0][over], pair[1][over], stddevs[over]
                )
                result = claimed(both, result)
            if n < LEAST_TICKS:
                result = without(release, stddevs[over])
            out[over] = result
        if self.counts and n >= FIRST_FACTOR and n & (n - 1) == 0:
            self._take_apart(self._factor())
        return out

    @staticmethod
    def _change(totals: Sequence[Floats]) -> Floats:
        return totals[-1] - totals[-2] if len(totals) > 1 else totals[-1]

    @staticmethod
    def _released(totals: Sequence[Floats], over: int | None) -> Floats:
        if over is None or len(totals) <= over:
            return totals[-1]
        return np.asarray(totals[-1] - totals[-1 - over])

    def _alone(self, release: Floats, noise: NoiseMoments, stddev: Floats) -> Estimates:
        """What the model says of a release, whose noise has these moments in units."""
        source = self.source
        value = release - source.unit * noise.mean
        variance = source.unit**2 * noise.variance
        return shown(release, stddev, value, variance, source.event, source.least)

    # What an event is worth.

    @property
    def count_unit(self) -> float:
        """Unit of noise of the count."""
        variance = sum((other * unit) ** 2 for _, other, unit in self.source.shares)
        return float(variance**0.5)

    def _factor(self) -> Floats:
        """(K,) sum over count, inside the clip of a value."""
        count = np.maximum(self.counted[-1], SURE * self.count_unit)
        return np.clip(self.totals[-1] / count, *self.source.clip)

    def _take_apart(self, factor: Floats) -> None:
        """Filters the count, and the sum less ``factor`` times the count, from the first tick."""
        self.factor, self.pair = factor, (self._bank(), self._bank())
        self._replay(*self.pair)

    def _rest(self) -> list[Floats]:
        """Totals of the sum less the factor times the count, in units of their noise."""
        assert self.factor is not None
        unit = self.source.unit_with_count(self.factor)
        pairs = zip(self.totals, self.counted, strict=True)
        return [(total - self.factor * count) / unit for total, count in pairs]

    def _replay(self, counts: Bank, rest: Bank) -> None:
        for change in np.diff(np.stack(self.counted), axis=0, prepend=0.0):
            counts.step(change / self.count_unit)
        for change in np.diff(np.stack(self._rest()), axis=0, prepend=0.0):
            rest.step(change)

    def _step_pair(
        self,
    ) -> tuple[dict[int | None, NoiseMoments], dict[int | None, NoiseMoments]] | None:
        if self.pair is None or self.factor is None:
            return None
        count = self._change(self.counted)
        change = self._change(self.totals) - self.factor * count
        unit = self.source.unit_with_count(self.factor)
        counts, rest = self.pair
        return counts.step(count / self.count_unit), rest.step(change / unit)

    def _with_count(
        self,
        release: Floats,
        counted: Floats,
        count: NoiseMoments,
        rest: NoiseMoments,
        stddev: Floats,
    ) -> Estimates:
        """factor x the count's estimate + the rest's; both errors may agree, so they add up."""
        assert self.factor is not None
        factor, unit = self.factor, self.source.unit_with_count(self.factor)
        events = counted - self.count_unit * count.mean
        value = factor * events + (release - factor * counted) - unit * rest.mean
        spread = self.count_unit**2 * count.variance + np.maximum(events, 0.0)
        sides = np.abs(factor) * np.sqrt(spread), unit * np.sqrt(rest.variance)
        wide, likely = (sides[0] + sides[1]) ** 2, sides[0] ** 2 + sides[1] ** 2
        wide = np.minimum(wide, np.broadcast_to(stddev, wide.shape) ** 2)
        return shown(release, stddev, value, wide, 0.0, self.source.least, likely)

    # All ticks at once.

    def hindsight(self, stddevs: Mapping[int | None, Floats]) -> dict[int | None, Estimates]:
        """Estimates of every tick from all that came in.

        Args:
          stddevs: of the released sums, (n, K) or (n, 1) a span.

        Returns:
          an estimate of each span, (n, K) each.

        Raises:
          ConfigError: there are more ticks than are smoothed at once.
        """
        n = len(self.totals)
        if n > LONGEST:
            raise ConfigError(
                "--hindsight",
                n,
                f"ticks are more than the {LONGEST} that are smoothed at once. Leave it out, or "
                "take a longer clock.period.",
            )
        totals = np.stack(self.totals)
        alone = smoothed(self.own, np.diff(totals, axis=0, prepend=0.0) / self.source.unit)
        pair = None
        if self.counts and n >= FIRST_FACTOR:
            self._take_apart(self._factor())
            assert self.pair is not None
            counted = np.stack(self.counted)
            changes = np.diff(counted, axis=0, prepend=0.0) / self.count_unit
            rest = np.diff(np.stack(self._rest()), axis=0, prepend=0.0)
            pair = smoothed(self.pair[0], changes), smoothed(self.pair[1], rest)
        out = {}
        for over in self.source.overs:
            release, noise = windows(totals, over), _stacked(alone[over])
            if over is None and self.source.least == 0:
                value = release - self.source.unit * noise.mean
                ordered = np.stack([rising(one, np.ones(n)) for one in value.T], axis=1)
                noise = NoiseMoments((release - ordered) / self.source.unit, noise.variance)
            result = self._alone(release, noise, stddevs[over])
            if pair is not None:
                both = (_stacked(pair[0][over]), _stacked(pair[1][over]))
                counted = windows(np.stack(self.counted), over)
                estimate = self._with_count(release, counted, *both, stddevs[over])
                result = claimed(estimate, result)
            out[over] = result
        return out

    # Going on later.

    def to_arrays(self) -> dict[str, Any]:
        """Everything that the next tick needs, by name."""
        banks = {"own": self.own}
        if self.pair is not None:
            banks |= {"counts": self.pair[0], "rest": self.pair[1]}
        arrays = {
            f"{part}.{name}": array
            for part, bank in banks.items()
            for name, array in bank.to_arrays().items()
        }
        arrays["totals"] = np.reshape(self.totals, (len(self.totals), self.keys))
        arrays["counted"] = np.reshape(self.counted, (len(self.counted), self.keys))
        if self.factor is not None:
            arrays["factor"] = self.factor
        return arrays

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Puts back what ``to_arrays`` gave."""

        def part(name: str) -> dict[str, Any]:
            start = f"{name}."
            return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}

        self.own.restore(part("own"))
        self.totals, self.counted = list(arrays["totals"]), list(arrays["counted"])
        self.factor = arrays.get("factor")
        if self.factor is not None:
            self.pair = (self._bank(), self._bank())
            for bank, name in zip(self.pair, ("counts", "rest"), strict=True):
                bank.restore(part(name))
        if len(self.totals) != self.own.age:
            raise WeirError("stored estimates are of another number of ticks; delete them.")


def without(release: Floats, stddev: Floats) -> Estimates:
    """No estimate: the release itself."""
    none, wide = np.zeros(release.shape, dtype=bool), np.broadcast_to(stddev, release.shape)
    return shown(release, wide, release, wide**2, 0.0, None)._replace(claims=none, surprise=none)


def _stacked(moments: Sequence[NoiseMoments]) -> NoiseMoments:
    return NoiseMoments(
        np.stack([item.mean for item in moments]), np.stack([item.variance for item in moments])
    )

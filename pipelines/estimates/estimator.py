"""Filters over all outputs and keys of a run, tick by tick, and their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates.rules import LEAST_TICKS, Estimates, narrower
from weir.dpcore.estimates.series import MOST_KEYS, Tracker
from weir.dpcore.estimates.sources import EstimateSource
from weir.pipelines.estimates.grid import ReleaseGrid

ESTIMATE_SCHEMA = pa.schema(
    [
        ("release", pa.string()),
        ("key", pa.string()),
        ("tick", pa.int64()),
        ("name", pa.string()),
        ("label", pa.string()),
        ("over", pa.int64()),
        ("estimate", pa.float64()),
        ("estimate_low", pa.float64()),
        ("estimate_high", pa.float64()),
        ("how", pa.string()),
        ("as_of", pa.int64()),
        ("surprise", pa.bool_()),
        ("model", pa.string()),
    ]
)
"""A row for each estimate. how: live, of the releases up to its tick; hindsight, of all up to the
tick ``as_of``. model: bank, or release where a model has nothing to add and the release stands."""
EXACT = 1e-6
"""Of a standard deviation: by how much rows and plan may differ."""


@dataclass
class Cohort:
    """Keys of an output that began at one tick.

    Attributes:
      source, first, keys, width: what, since when, who, and how many numbers a key has.
      trackers: for at most ``MOST_KEYS`` numbers each, in the order of keys and numbers.
      live: estimates of each tick, where they are remembered.
      stddevs: (n,) of the release a span, as rows have them.
    """

    source: EstimateSource
    first: int
    keys: tuple[str, ...]
    width: int
    trackers: list[Tracker]
    live: dict[int | None, list[Estimates]] = field(default_factory=dict)
    stddevs: dict[int | None, list[float]] = field(default_factory=dict)

    @property
    def ticks(self) -> int:
        """How many were taken."""
        return len(self.trackers[0].totals)

    def blocks(self) -> Iterator[tuple[Tracker, slice]]:
        """Trackers with their numbers."""
        for i, tracker in enumerate(self.trackers):
            yield tracker, slice(i * MOST_KEYS, (i + 1) * MOST_KEYS)


class ReleasedSums(NamedTuple):
    """Released sums (ticks, keys, width) over a span; None: since the start."""

    over: int | None
    value: Floats


class Estimator:
    """Estimates of a run.

    Args:
      release: name of the run. facts: what its plan says of estimates. labels: of the numbers of
        each output. names: outputs that are wanted; None: all that have estimates.
      remember: whether live estimates are kept, for hindsight.

    Raises:
      ConfigError: an output that is wanted, or every one, has none; with the reason.
    """

    def __init__(
        self,
        release: str,
        facts: Mapping[str, Any],
        labels: Mapping[str, Sequence[str]],
        names: Sequence[str] | None = None,
        remember: bool = False,
    ) -> None:
        self.release, self.labels, self.remember = release, labels, remember
        self.season: int | None = facts["season"]
        self.every: dict[str, EstimateSource] = {}
        self.refused: dict[str, str] = {}
        reasons: list[ConfigError] = []
        for entry in facts["outputs"]:
            try:
                self.every[str(entry["name"])] = EstimateSource.of(entry)
            except ConfigError as error:
                about = "" if error.field == "name" else f"{error.field} = {error.value} "
                self.refused[str(entry["name"])] = f"{about}{error.remedy}"
                reasons.append(error)
                if names and entry["name"] in names:
                    raise
        for name in names or ():
            if name not in self.every:
                raise ConfigError("--name", name, f"is no output; {nearest(name, [*self.every])}")
        if not self.every:
            raise reasons[0]
        self.names = tuple(names or self.every)
        self.last = -1
        self.cohorts: dict[tuple[str, int], list[Cohort]] = {}

    @property
    def read(self) -> tuple[str, ...]:
        """Outputs whose releases are read: the wanted ones, and counts next to them."""
        counts = (self.every[name].count for name in self.names)
        return tuple(dict.fromkeys([*self.names, *(name for name in counts if name is not None)]))

    def add(self, grid: ReleaseGrid) -> list[pa.Table]:
        """Takes the ticks of a grid, which begins after the last one taken; gives their rows, by
        tick.

        Raises:
          ConfigError: rows are missing, or their noise is not that of the plan.
        """
        rows: list[tuple[int, pa.Table]] = []
        for name in self.names:
            source = self.every[name]
            sums = self._sums(grid, name)
            counts = None if source.count is None else self._sums(grid, source.count)
            for cohort, row, columns in self._places(source, sums.value, grid):
                rows += self._taken(cohort, grid, sums, counts, row, columns)
        self.last = grid.first + grid.ticks - 1
        return [table for _, table in sorted(rows, key=lambda row: row[0])]

    @staticmethod
    def _sums(grid: ReleaseGrid, name: str) -> ReleasedSums:
        """Running totals of an output or, where there are none, sums over its shortest span."""
        overs = [over for of, over in grid.value if of == name]
        if not overs:
            raise ConfigError("name", name, "has no rows; give the folder that the run wrote.")
        over = None if None in overs else min(item for item in overs if item is not None)
        return ReleasedSums(over, grid.value[name, over])

    def _places(
        self, source: EstimateSource, totals: Floats, grid: ReleaseGrid
    ) -> Iterator[tuple[Cohort, int, list[int]]]:
        """Cohorts, the first row of the grid that each takes, and their columns."""
        place = {key: i for i, key in enumerate(grid.keys)}
        there = np.asarray(np.isfinite(totals).all(axis=2))
        seen: set[str] = set()
        for (name, _), cohorts in [*self.cohorts.items()]:
            for cohort in cohorts if name == source.name else ():
                seen.update(cohort.keys)
                columns = [place.get(key, -1) for key in cohort.keys]
                self._check_rows(source, there, 0, columns, grid)
                yield cohort, 0, columns
        begun: dict[int, list[int]] = {}
        for i, key in enumerate(grid.keys):
            if key not in seen and there[:, i].any():
                begun.setdefault(int(np.argmax(there[:, i])), []).append(i)
        for row, columns in sorted(begun.items()):
            self._check_rows(source, there, row, columns, grid)
            keys = tuple(grid.keys[i] for i in columns)
            cohort = self._cohort(source, grid.first + row, keys, totals.shape[2])
            self.cohorts.setdefault((source.name, cohort.first), []).append(cohort)
            yield cohort, row, columns

    def _check_rows(
        self, source: EstimateSource, there: Any, row: int, columns: list[int], grid: ReleaseGrid
    ) -> None:
        if min(columns) >= 0 and there[row:, columns].all():
            return
        raise ConfigError(
            "name",
            source.name,
            f"lacks rows from tick {grid.first + row} on, and a filter needs every tick of a key "
            "from its first one on: copy the whole folder.",
        )

    def _cohort(
        self, source: EstimateSource, first: int, keys: tuple[str, ...], width: int
    ) -> Cohort:
        size = len(keys) * width
        many, counts = size > MOST_KEYS, source.count is not None and width == 1
        trackers = [
            Tracker(source, self.season, min(MOST_KEYS, size - start), first, many, counts)
            for start in range(0, size, MOST_KEYS)
        ]
        return Cohort(source, first, keys, width, trackers)

    def _taken(
        self,
        cohort: Cohort,
        grid: ReleaseGrid,
        sums: ReleasedSums,
        counts: ReleasedSums | None,
        row: int,
        columns: list[int],
    ) -> Iterator[tuple[int, pa.Table]]:
        """Steps a cohort through the rows of a grid: rows of each tick."""
        source, trackers = cohort.source, cohort.trackers
        own = _totals(sums, row, columns, [tracker.totals for tracker in trackers])
        theirs = None
        if counts is not None and trackers[0].counts:
            theirs = _totals(counts, row, columns, [tracker.counted for tracker in trackers])
        noise = {over: grid.stddev[source.name, over][row:, columns[0], 0] for over in source.overs}
        for t in range(len(own)):
            tick = grid.first + row + t
            now = {over: np.asarray(noise[over][t]) for over in source.overs}
            self._check_noise(cohort, now)
            parts = [
                tracker.add(own[t, s], now, None if theirs is None else theirs[t, s])
                for tracker, s in cohort.blocks()
            ]
            for over in source.overs:
                cohort.stddevs.setdefault(over, []).append(float(now[over]))
                several = [part[over] for part in parts]
                item = Estimates(*(np.concatenate(x) for x in zip(*several, strict=True)))
                if self.remember:
                    cohort.live.setdefault(over, []).append(item)
                if cohort.ticks >= LEAST_TICKS:
                    yield tick, self._rows(cohort, over, tick, item, tick)

    def _check_noise(self, cohort: Cohort, stddevs: Mapping[int | None, Floats]) -> None:
        """The rows' own standard deviation is that of the law, at a key's first tick."""
        stddev = min(float(item) for item in stddevs.values())
        if not stddev > 0:
            raise ConfigError(
                "stddev",
                stddev,
                f"is that of a release of {cohort.source.name}: without noise there is nothing to "
                "estimate.",
            )
        if cohort.ticks:
            return
        law = cohort.source.unit * abs(cohort.source.law.at(cohort.first).size)
        for item in stddevs.values():  # of keys that begin later rows state that of older ones
            ratio = float(item) / law
            if ratio < 1 - EXACT or (cohort.first == 0 and ratio > 1 + EXACT):
                raise ConfigError(
                    "stddev",
                    float(item),
                    f"of {cohort.source.name} is not that of the plan ({law:.6g}): the plan file "
                    "belongs to other releases. Copy the folder again as its run wrote it.",
                )

    def _rows(
        self,
        cohort: Cohort,
        over: int | None,
        tick: int,
        item: Estimates,
        as_of: int,
        how: Any = "live",
    ) -> pa.Table:
        n, width = len(item.value), cohort.width
        labels = self.labels.get(cohort.source.name) or ("",)
        columns = {
            "release": [self.release] * n,
            "key": [key for key in cohort.keys for _ in range(width)],
            "tick": [tick] * n,
            "name": [cohort.source.name] * n,
            "label": [*labels][:width] * len(cohort.keys),
            "over": [over] * n,
            "estimate": item.value,
            "estimate_low": item.low,
            "estimate_high": item.high,
            "how": [how] * n if isinstance(how, str) else how,
            "as_of": [as_of] * n,
            "surprise": item.surprise,
            "model": np.where(item.claims, "bank", "release"),
        }
        return pa.table(columns, schema=ESTIMATE_SCHEMA)

    def hindsight(self) -> Iterator[pa.Table]:
        """Rows of every tick, from all that was added: of live and hindsight what is narrower.

        Raises:
          ConfigError: there are more ticks than are smoothed at once.
        """
        assert self.remember
        for cohort in [cohort for several in self.cohorts.values() for cohort in several]:
            if cohort.ticks < LEAST_TICKS:
                continue
            noise = {over: np.asarray(own)[:, None] for over, own in cohort.stddevs.items()}
            parts = [tracker.hindsight(noise) for tracker in cohort.trackers]
            for over in cohort.source.overs:
                several = [part[over] for part in parts]
                later = Estimates(*(np.concatenate(x, axis=1) for x in zip(*several, strict=True)))
                pairs = zip(*cohort.live[over], strict=True)
                result, was_live = narrower(later, Estimates(*(np.stack(x) for x in pairs)))
                for t in range(cohort.ticks):
                    item = Estimates(*(x[t] for x in result))
                    how = np.where(was_live[t], "live", "hindsight")
                    yield self._rows(cohort, over, cohort.first + t, item, self.last, how)

    # Going on later.

    def to_arrays(self) -> dict[str, Any]:
        """Everything that the next tick needs, by name."""
        arrays: dict[str, Any] = {}
        several = [cohort for cohorts in self.cohorts.values() for cohort in cohorts]
        about = []
        for i, cohort in enumerate(several):
            fields = (cohort.source.name, cohort.first, list(cohort.keys), cohort.width)
            about.append([*fields, [[over, own] for over, own in cohort.stddevs.items()]])
            for j, tracker in enumerate(cohort.trackers):
                arrays |= {f"{i}.{j}.{name}": x for name, x in tracker.to_arrays().items()}
        arrays["about"] = np.array(json.dumps({"last": self.last, "cohorts": about}))
        return arrays

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Puts back what ``to_arrays`` gave."""
        about = json.loads(str(arrays["about"]))
        self.last = int(about["last"])
        for i, (name, first, keys, width, stddevs) in enumerate(about["cohorts"]):
            cohort = self._cohort(self.every[name], first, tuple(keys), width)
            cohort.stddevs = {over: list(own) for over, own in stddevs}
            for j, tracker in enumerate(cohort.trackers):
                start = f"{i}.{j}."
                tracker.restore(
                    {k.removeprefix(start): x for k, x in arrays.items() if k.startswith(start)}
                )
            self.cohorts.setdefault((name, first), []).append(cohort)


def _totals(
    sums: ReleasedSums, row: int, columns: list[int], before: Sequence[Sequence[Floats]]
) -> Floats:
    """Running totals of some keys from a row on, flat: (ticks, numbers).

    Args:
      before: totals of earlier ticks, of each tracker.
    """
    now = sums.value[row:, columns]
    flat = now.reshape(len(now), -1)
    if sums.over is None:
        return flat
    taken = [np.concatenate(parts) for parts in zip(*before, strict=True)]
    start = len(taken)
    for item in flat:
        at = len(taken) - sums.over
        taken.append(item + taken[at] if at >= 0 else item)
    return np.reshape(taken[start:], flat.shape)

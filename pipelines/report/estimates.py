"""Estimates that lie in a folder of results, at the places of the releases that are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.pipelines.estimates.estimate import stored
from weir.pipelines.estimates.words import WHAT
from weir.pipelines.results.run import ReleasedOutput, ResultFolder

Floats = NDArray[np.float64]
Spot = tuple[str, int | None]


@dataclass(frozen=True)
class DrawnEstimates:
    """Estimates of drawn keys; NaN where the release stands.

    Attributes:
      ticks: (m,). keys: that are drawn. hindsight: whether all releases went into each.
      value, low, high: output and span -> (keys, m, d).
    """

    keys: tuple[str, ...]
    ticks: NDArray[np.int64]
    hindsight: bool
    value: Mapping[Spot, Floats]
    low: Mapping[Spot, Floats]
    high: Mapping[Spot, Floats]

    def of(
        self, output: ReleasedOutput, key: str, ticks: NDArray[np.int64], part: int
    ) -> tuple[Floats, Floats, Floats] | None:
        """Estimates of one key of one number at some ticks, with their ends; None: there are
        none."""
        spot = (output.name, output.over)
        if spot not in self.value or key not in self.keys:
            return None
        row, at = self.keys.index(key), np.searchsorted(self.ticks, ticks)
        value, low, high = (item[spot][row, at, part] for item in (self.value, self.low, self.high))
        return value, low, high

    @property
    def words(self) -> str:
        """What they are, for who reads the page."""
        how = "in hindsight, of all releases" if self.hindsight else "of the releases before each"
        return f" Dashed orange lines and margins are estimates ({how}). {WHAT}"


def drawn_estimates(
    run: ResultFolder,
    outputs: Sequence[ReleasedOutput],
    keys: tuple[str, ...],
    ticks: NDArray[np.int64],
) -> DrawnEstimates | None:
    """What ``weir estimate`` left in a folder; None: nothing that is drawn."""
    rows = stored(run)
    if rows is None:
        return None
    place = {key: i for i, key in enumerate(keys)}
    column = {tick: i for i, tick in enumerate(ticks.tolist())}
    spots = {(output.name, output.over): output for output in outputs if output.part is None}
    shapes = {spot: (len(keys), len(ticks), len(output.labels)) for spot, output in spots.items()}
    ends: tuple[dict[Spot, Floats], ...] = ({}, {}, {})
    shown: dict[str, str] = {}
    for row in rows.to_pylist():
        spot = (row["name"], row["over"])
        key = shown.setdefault(row["key"] or "", run.shown(row["key"] or ""))
        if row["model"] == "release" or spot not in spots or key not in place:
            continue
        if row["tick"] not in column:
            continue
        at = (place[key], column[row["tick"]], _part(spots[spot], row))
        for item, name in zip(ends, ("estimate", "estimate_low", "estimate_high"), strict=True):
            item.setdefault(spot, np.full(shapes[spot], np.nan))[at] = row[name]
    if not ends[0]:
        return None
    return DrawnEstimates(keys, ticks, "hindsight" in set(rows["how"].to_pylist()), *ends)


def _part(output: ReleasedOutput, row: Mapping[str, Any]) -> int:
    return output.labels.index(row["label"]) if row["label"] in output.labels else 0

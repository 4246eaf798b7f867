"""Estimates that lie in a folder of results, at the places of the releases that are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.pipelines.estimates import estimate, reconciled
from weir.pipelines.estimates.words import WHAT
from weir.pipelines.results.run import ReleasedOutput, ResultFolder

Floats = NDArray[np.float64]
Spot = tuple[str, int | None]


@dataclass(frozen=True)
class DrawnEstimates:
    """Estimates of drawn keys; NaN where the release stands.

    Attributes:
      ticks: (m,). keys: that are drawn. words: what they are, for who reads the page.
      value, low, high: output and span -> (keys, m, d).
    """

    keys: tuple[str, ...]
    ticks: NDArray[np.int64]
    words: str
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


def drawn_estimates(
    run: ResultFolder,
    outputs: Sequence[ReleasedOutput],
    keys: tuple[str, ...],
    ticks: NDArray[np.int64],
) -> DrawnEstimates | None:
    """What ``weir estimate`` left in a folder, figures that add up where an output has both; None:
    nothing that is drawn."""
    ends: tuple[dict[Spot, Floats], ...] = ({}, {}, {})
    moved, rows = reconciled.stored(run), estimate.stored(run)
    words = ""
    if moved is not None:
        place = _DrawnPlaces(run, outputs, keys, ticks)
        if place.put(moved.to_pylist(), ("value", "low", "high"), ends):
            words += f" Dashed orange lines and margins are figures that add up. {reconciled.WHAT}"
    if rows is not None:
        others = [item for item in outputs if (item.name, item.over) not in ends[0]]
        place = _DrawnPlaces(run, others, keys, ticks)
        modelled = [row for row in rows.to_pylist() if row["model"] != "release"]
        if place.put(modelled, ("estimate", "estimate_low", "estimate_high"), ends):
            late = "hindsight" in set(rows["how"].to_pylist())
            how = "in hindsight, of all releases" if late else "of the releases before each"
            lines = "Those of other outputs" if words else "Dashed orange lines and margins"
            words += f" {lines} are estimates ({how}). {WHAT}"
    return DrawnEstimates(keys, ticks, words, *ends) if ends[0] else None


class _DrawnPlaces:
    """Where rows of a table belong among what is drawn."""

    def __init__(
        self,
        run: ResultFolder,
        outputs: Sequence[ReleasedOutput],
        keys: tuple[str, ...],
        ticks: NDArray[np.int64],
    ) -> None:
        self._run = run
        self._row = {key: i for i, key in enumerate(keys)}
        self._column = {tick: i for i, tick in enumerate(ticks.tolist())}
        self._outputs = {(item.name, item.over): item for item in outputs if item.part is None}

    def put(
        self,
        rows: Sequence[Mapping[str, Any]],
        names: tuple[str, str, str],
        ends: tuple[dict[Spot, Floats], ...],
    ) -> bool:
        """Puts rows into values, lows and highs, whose columns are named; whether any is drawn."""
        shown: dict[str, str] = {}
        drawn = False
        for row in rows:
            spot = (row["name"], row["over"])
            key = shown.setdefault(row["key"] or "", self._run.shown(row["key"] or ""))
            output = self._outputs.get(spot)
            if output is None or key not in self._row or row["tick"] not in self._column:
                continue
            at = (self._row[key], self._column[row["tick"]], _part(output, row))
            shape = (len(self._row), len(self._column), len(output.labels))
            for item, name in zip(ends, names, strict=True):
                item.setdefault(spot, np.full(shape, np.nan))[at] = row[name]
            drawn = True
        return drawn


def _part(output: ReleasedOutput, row: Mapping[str, Any]) -> int:
    return output.labels.index(row["label"]) if row["label"] in output.labels else 0

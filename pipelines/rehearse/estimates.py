"""Estimates of a dry run's releases next to the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates.hindsight import LONGEST
from weir.pipelines.estimates.estimate import estimator_of
from weir.pipelines.estimates.grid import ReleaseGrid, Spot, of_folder
from weir.pipelines.results.run import ResultFolder

KEYS = 50
"""Keys that are compared, at most: the first by name."""


class EstimateScore(NamedTuple):
    """Errors of one output, off what clips and bounds leave; each holds for 19 of 20 values.

    Attributes:
      name, over: of the output. cells: values that were compared.
      release, live, hindsight: errors of the release and of both estimates; None: too many ticks.
      inside: share of the live intervals that hold the true value.
    """

    name: str
    over: int | None
    cells: int
    release: float
    live: float
    hindsight: float | None
    inside: float


def estimate_scores(released: Path, clean: Path) -> tuple[EstimateScore, ...]:
    """A score for each output that has estimates; () where there are none.

    Args:
      released: folder of the releases. clean: of the same within bounds, next to no noise.
    """
    run = ResultFolder.open(released)
    try:
        live = estimator_of(run)
        grid = _some(of_folder(run, live.read))
        rows = {"live": live.add(grid)}
        if grid.ticks <= LONGEST:
            later = estimator_of(run, remember=True)
            later.add(grid)
            rows["hindsight"] = list(later.hindsight())
    except ConfigError:
        return ()
    truth = of_folder(ResultFolder.open(clean), live.read)
    by_how = {how: _by_spot(pa.concat_tables(tables)) for how, tables in rows.items() if tables}
    scores = []
    for spot, own in by_how.get("live", {}).items():
        first, last = int(own["tick"].min()), int(own["tick"].max())
        exact, release = (_values(item, spot, own) for item in (truth, grid))
        errors = {"release": np.abs(release - exact), "live": np.abs(own["estimate"] - exact)}
        inside = (own["estimate_low"] <= exact) & (exact <= own["estimate_high"])
        after = None
        if "hindsight" in by_how:
            hind = by_how["hindsight"][spot]
            mine = (hind["tick"] >= first) & (hind["tick"] <= last)
            hind = {name: column[mine] for name, column in hind.items()}
            after = _often(np.abs(hind["estimate"] - _values(truth, spot, hind)))
        scores.append(
            EstimateScore(
                *spot,
                len(exact),
                _often(errors["release"]),
                _often(errors["live"]),
                after,
                float(inside.mean()),
            )  # fmt: skip
        )
    return tuple(scores)


def _some(grid: ReleaseGrid) -> ReleaseGrid:
    """The first keys alone."""
    value = {spot: item[:, :KEYS] for spot, item in grid.value.items()}
    stddev = {spot: item[:, :KEYS] for spot, item in grid.stddev.items()}
    return ReleaseGrid(grid.first, grid.keys[:KEYS], value, stddev)


def _by_spot(rows: pa.Table) -> dict[Spot, dict[str, Any]]:
    """Columns of each output and span; and ``place``, the number of a row within its key."""
    names = ("key", "tick", "name", "over", "estimate", "estimate_low", "estimate_high")
    columns = {name: np.asarray(rows[name].to_pylist(), dtype=object) for name in names}
    result: dict[Spot, dict[str, Any]] = {}
    spots = list(zip(columns["name"], columns["over"], strict=True))
    seen: dict[Any, int] = {}
    place = np.zeros(len(spots), dtype=np.int64)
    for i, spot in enumerate(spots):
        cell = (*spot, columns["key"][i], columns["tick"][i])
        place[i] = seen[cell] = seen.get(cell, -1) + 1
    for spot in dict.fromkeys(spots):
        mine = np.array([item == spot for item in spots])
        own: dict[str, Any] = {
            name: columns[name][mine].astype(np.float64)
            for name in ("estimate", "estimate_low", "estimate_high")
        }
        own["tick"], own["key"] = columns["tick"][mine].astype(np.int64), columns["key"][mine]
        result[spot] = own | {"place": place[mine]}
    return result


def _values(grid: ReleaseGrid, spot: Spot, rows: dict[str, Any]) -> Floats:
    """What a grid has at the rows' places."""
    at = {key: i for i, key in enumerate(grid.keys)}
    keys = np.array([at[key] for key in rows["key"].tolist()])
    values: Floats = grid.value[spot][rows["tick"] - grid.first, keys, rows["place"]]
    return values


def _often(errors: Floats) -> float:
    return float(np.quantile(errors, 0.95))

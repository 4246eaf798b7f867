"""What a report shows: a few keys in full, all keys as a heat map, the last values as a table."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from pipelines.results.batch import COLUMNS, Batch, batch_of
from pipelines.results.files import matrix
from pipelines.results.run import Output, Run

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Spot = tuple[str, int | None]

KEYS_DRAWN = 5
KEYS_LISTED = 20
TICKS_DRAWN = 600
TICKS_LISTED = 7
HEAT_LABELLED = 40
HEAT_ROWS = 200
HEAT_TICKS = 240


@dataclass(frozen=True)
class Series:
    """One key of one output. ticks: (n,); value, half: (n, d).

    half is the half width of the 95 % band of the noise, NaN where there is none.
    """

    key: str
    ticks: Ints
    value: Floats
    half: Floats


@dataclass(frozen=True)
class HeatMap:
    """All keys of one output over time, largest last value first.

    Attributes:
      ticks: (m,).
      rows: what each row is: a key, or a range of ranks.
      keys_per_row: 1, or more where rows are means over keys of neighbouring rank.
      noise: twice the half width of the band of a row.
      value: (rows, m), NaN where there is none.
    """

    ticks: Ints
    rows: tuple[str, ...]
    keys_per_row: float
    noise: float
    value: Floats


@dataclass(frozen=True)
class Panel:
    """One output: the keys that are drawn, and the heat map of all keys where there are more."""

    output: Output
    series: tuple[Series, ...]
    heat: HeatMap | None


@dataclass(frozen=True)
class Last:
    """One cell of the table of last values: value and half width of its band, (d,) each."""

    value: Floats
    half: Floats


@dataclass(frozen=True)
class ReportData:
    """Everything that is drawn.

    Attributes:
      run: the folder. panels: in the plan's order.
      keys: how many there are. drawn: keys with lines of their own, by rank.
      listed: keys in the table of last values, by rank. last: (key, name, over) -> values.
      ranked_by: the output whose last value ranks the keys; None: keys were named, or there is one.
      stride: every stride-th tick is drawn.
    """

    run: Run
    panels: tuple[Panel, ...]
    keys: int
    drawn: tuple[str, ...]
    listed: tuple[str, ...]
    last: dict[tuple[str, str, int | None], Last]
    ranked_by: Output | None
    stride: int


def gather(
    run: Run, keys: Sequence[str] | None = None, names: Sequence[str] | None = None
) -> ReportData:
    """Reads what a report shows.

    Args:
      run: a folder of results.
      keys: keys to draw; None: the first by last value.
      names: outputs to draw; None: all.

    Raises:
      ConfigError: a key or a name that this run does not have.
    """
    outputs = tuple(output.shown() for output in _chosen(run, names))
    ranker = next((o for o in outputs if len(o.labels) == 1), None)
    last = _last_values(run, outputs)
    everyone = sorted({key for key, _, _ in last})
    if ranker is not None:
        order = {key: last.get((key, ranker.name, ranker.over)) for key in everyone}
        everyone.sort(key=lambda key: _descending(order[key]))
    if keys:
        keys = [run.shown(key) for key in keys]
        for key in keys:
            if key not in set(everyone):
                near = difflib.get_close_matches(key, everyone, 1)
                hint = f"; did you mean {near[0]!r}?" if near else "."
                raise ConfigError("key", key, f"is not among the {len(everyone):,} keys{hint}")
        drawn, listed = tuple(dict.fromkeys(keys)), tuple(dict.fromkeys(keys))
    else:
        drawn, listed = tuple(everyone[:KEYS_DRAWN]), tuple(everyone[:KEYS_LISTED])
    first, final = run.first_tick, run.last_tick
    heat_rows = _heat_rows(everyone) if not keys and len(everyone) > len(drawn) else None
    budget = TICKS_DRAWN if heat_rows is None else HEAT_TICKS
    stride = max(1, -(-(final - first + 1) // budget))
    panels = _panels(run, outputs, drawn, heat_rows, everyone, first, final, stride)
    ranked_by = ranker if not keys and len(everyone) > 1 else None
    return ReportData(run, panels, len(everyone), drawn, listed, last, ranked_by, stride)


def _chosen(run: Run, names: Sequence[str] | None) -> tuple[Output, ...]:
    if not names:
        return run.outputs
    known = list(dict.fromkeys(output.name for output in run.outputs))
    for name in names:
        if name not in known:
            raise ConfigError("name", name, f"must be one of {', '.join(known)}.")
    return tuple(output for output in run.outputs if output.name in names)


def _batches(run: Run, first: int = 0) -> Iterator[Batch]:
    """Rows from a tick on, with keys as people read them."""
    for raw in run.batches(COLUMNS, first):
        batch = batch_of(raw)
        yield replace(batch, keys=[run.shown(key) for key in batch.keys])


def _descending(last: Last | None) -> float:
    return np.inf if last is None or np.isnan(last.value[0]) else -float(last.value[0])


def numbers(lists: pa.Array, rows: Ints, output: Output) -> Floats:
    """Components of an output that are shown: (rows, labels)."""
    if output.part is None:
        return matrix(lists, rows, len(output.labels))
    return matrix(lists, rows, output.width)[:, [output.part]]


def _last_values(run: Run, outputs: Sequence[Output]) -> dict[tuple[str, str, int | None], Last]:
    found: dict[tuple[str, str, int | None], Last] = {}
    for batch in _batches(run, run.last_tick):
        latest = np.flatnonzero(batch.tick == run.last_tick)
        for output in outputs:
            rows = batch.rows(output, latest)
            value = numbers(batch.value, rows, output)
            half = run.band * numbers(batch.stddev, rows, output)
            for i, code in enumerate(batch.key[rows]):
                found[batch.keys[code], output.name, output.over] = Last(value[i], half[i])
    return found


def _heat_rows(ranked: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Key -> row, and what the rows are called."""
    n = len(ranked)
    if n <= HEAT_LABELLED:
        return {key: i for i, key in enumerate(ranked)}, tuple(ranked)
    count = min(n, HEAT_ROWS)
    row_of = {key: i * count // n for i, key in enumerate(ranked)}
    starts = [-(-row * n // count) for row in range(count + 1)]
    labels = []
    for low, high in zip(starts, starts[1:], strict=False):
        alone = high == low + 1
        labels.append(
            f"{ranked[low]} (rank {low + 1:,})" if alone else f"keys ranked {low + 1:,} to {high:,}"
        )
    return row_of, tuple(labels)


class _Heat:
    """Sums cells as batches come by."""

    def __init__(self, rows: int, columns: int) -> None:
        self.shape = (rows, columns)
        self.total, self.count = np.zeros(rows * columns), np.zeros(rows * columns)

    def add(self, row: Ints, column: Ints, value: Floats) -> None:
        fine = np.isfinite(value)
        cell = row[fine] * self.shape[1] + column[fine]
        self.total += np.bincount(cell, value[fine], minlength=self.total.size)
        self.count += np.bincount(cell, minlength=self.count.size)

    def mean(self) -> Floats:
        out = np.full(self.total.size, np.nan)
        np.divide(self.total, self.count, out=out, where=self.count > 0)
        return out.reshape(self.shape)


def _panels(
    run: Run,
    outputs: Sequence[Output],
    drawn: Sequence[str],
    heat_rows: tuple[dict[str, int], tuple[str, ...]] | None,
    everyone: Sequence[str],
    first: int,
    final: int,
    stride: int,
) -> tuple[Panel, ...]:
    ticks = np.arange(first, final + 1)
    shown = (final - ticks) % stride == 0
    column = np.where(shown, np.cumsum(shown) - 1, -1)
    listed = shown | (ticks > final - TICKS_LISTED)
    number = {key: i for i, key in enumerate(drawn)}
    pieces: dict[Spot, list[tuple[Ints, Ints, Floats, Floats]]] = {}
    heats: dict[Spot, _Heat] = {}
    for batch in _batches(run):
        who = np.array([number.get(key, -1) for key in batch.keys], dtype=np.int64)[batch.key]
        mine = np.flatnonzero((who >= 0) & listed[batch.tick - first])
        for output in outputs:
            rows = batch.rows(output, mine)
            pieces.setdefault((output.name, output.over), []).append(
                (
                    who[rows],
                    batch.tick[rows],
                    numbers(batch.value, rows, output),
                    run.band * numbers(batch.stddev, rows, output),
                )
            )
        if heat_rows is None:
            continue
        row_of, labels = heat_rows
        where = np.array([row_of.get(key, -1) for key in batch.keys], dtype=np.int64)[batch.key]
        all_of_them = np.flatnonzero((where >= 0) & shown[batch.tick - first])
        for output in outputs:
            if len(output.labels) > 1:
                continue
            grid = heats.setdefault(
                (output.name, output.over), _Heat(len(labels), int(shown.sum()))
            )
            rows = batch.rows(output, all_of_them)
            value = numbers(batch.value, rows, output)[:, 0]
            grid.add(where[rows], column[batch.tick[rows] - first], value)
    panels = []
    for output in outputs:
        spot = (output.name, output.over)
        heat: HeatMap | None = None
        series = _series(drawn, pieces.get(spot, []))
        if heat_rows is not None and spot in heats:
            per_row = len(everyone) / len(heat_rows[1])
            halves = np.concatenate([s.half for s in series]) if series else np.zeros((0, 1))
            halves = halves[np.isfinite(halves)]
            noise = 2 * float(np.median(halves)) / per_row**0.5 if halves.size else 0.0
            heat = HeatMap(ticks[shown], heat_rows[1], per_row, noise, heats[spot].mean())
        panels.append(Panel(output, series, heat))
    return tuple(panels)


def _series(
    drawn: Sequence[str], pieces: Sequence[tuple[Ints, Ints, Floats, Floats]]
) -> tuple[Series, ...]:
    if not pieces:
        return ()
    who, tick, value, half = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    found = []
    for i, key in enumerate(drawn):
        rows = np.flatnonzero(who == i)
        rows = rows[np.unique(tick[rows], return_index=True)[1]]
        if len(rows):
            found.append(Series(key, tick[rows], value[rows], half[rows]))
    return tuple(found)

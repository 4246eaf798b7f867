"""What a report shows: some keys in full, all keys more coarsely, the last values as a table."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.pipelines.report.estimates import DrawnEstimates, drawn_estimates
from weir.pipelines.report.heat import HeatMap, heat_map, stride_of
from weir.pipelines.report.model_error import (
    BASELINE,
    LOSS,
    SQUARES,
    ErrorPerEvent,
    error_per_event,
)
from weir.pipelines.results.files import matrix
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.pipelines.results.series import COLUMNS, Batch, batch_of, ends

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Spot = tuple[str, int | None]

KEYS_DRAWN = 5
KEYS_LISTED = 20
TICKS_DRAWN = 600
PARTS_LISTED = 8
"""Coefficients of a long model in the table of last values, at most."""
TICKS_LISTED = 7
CELLS = 1_400_000
"""Numbers of all keys that a page holds, at most: with their errors packed, below 10 MB."""
WIDEST = 12
"""Components of an output of which all keys are held; of longer ones only drawn keys are."""


@dataclass(frozen=True)
class Series:
    """One key of one output. ticks: (n,); value, half, low, high: (n, d).

    half is half the width of the 95 % margin of error, low and high are its ends; NaN where there
    is none.
    """

    key: str
    ticks: Ints
    value: Floats
    half: Floats
    low: Floats
    high: Floats

    @classmethod
    def bare(cls, key: str, ticks: Ints, value: Floats) -> Series:
        """Without margins."""
        return cls(key, ticks, value, *(np.full_like(value, np.nan) for _ in range(3)))

    @property
    def newest(self) -> Series:
        """The last tick alone."""
        numbers = (self.value, self.half, self.low, self.high)
        return Series(self.key, self.ticks[-1:], *(number[-1:] for number in numbers))


@dataclass(frozen=True)
class SeriesGrid:
    """Keys over ticks. ticks: (m,). value, half, low, high: output -> (keys, m, d), NaN where none
    is. released: output -> (keys, m), where there is a row, be it of no value."""

    keys: tuple[str, ...]
    ticks: Ints
    value: dict[Spot, Floats]
    half: dict[Spot, Floats]
    low: dict[Spot, Floats]
    high: dict[Spot, Floats]
    released: dict[Spot, NDArray[np.bool_]]

    def series(self, output: ReleasedOutput) -> tuple[Series, ...]:
        """Its keys one by one, each at the ticks at which it was released."""
        spot = (output.name, output.over)
        numbers = [item[spot] for item in (self.value, self.half, self.low, self.high)]
        results = []
        for i, key in enumerate(self.keys):
            own = np.flatnonzero(self.released[spot][i])
            if len(own):
                results.append(
                    Series(key, self.ticks[own], *(number[i, own] for number in numbers))
                )
        return tuple(results)


@dataclass(frozen=True)
class Panel:
    """One output: the keys that are drawn, and the heat map of all keys where there are more.

    Attributes:
      base: of an error, that of its baseline, of the keys that are drawn. words: what it is.
    """

    output: ReleasedOutput
    series: tuple[Series, ...]
    heat: HeatMap | None
    base: tuple[Series, ...] = ()
    words: str = ""


@dataclass(frozen=True)
class Last:
    """One cell of the table of last values: value, half the width of its margin of error, and its
    ends, (d,) each."""

    value: Floats
    half: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class ReportData:
    """Everything that is drawn.

    Attributes:
      run: the folder. panels: in the plan's order.
      keys: how many there are. drawn: keys that are drawn at first, by rank.
      listed: keys in the table of last values, by rank. last: (key, name, over) -> values.
      ranked_by: the output whose last value ranks the keys; None: keys were named, or there is one.
      stride: every stride-th tick is drawn.
      fine: the drawn keys. coarse: all keys, at fewer ticks; None where all are drawn.
      chosen: whether outputs were named. estimates: of drawn keys, if they lie in the folder.
    """

    run: ResultFolder
    panels: tuple[Panel, ...]
    keys: int
    drawn: tuple[str, ...]
    listed: tuple[str, ...]
    last: dict[tuple[str, str, int | None], Last]
    ranked_by: ReleasedOutput | None
    stride: int
    fine: SeriesGrid
    coarse: SeriesGrid | None
    chosen: bool = False
    estimates: DrawnEstimates | None = None

    @property
    def keyless(self) -> bool:
        """Whether its only key is that of a run without keys."""
        return self.keys == 1 and self.drawn == ("",)


def gather(
    run: ResultFolder, keys: Sequence[str] | None = None, names: Sequence[str] | None = None
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
    values = [o for o in outputs if len(o.labels) == 1 and o.role != "trace"]
    ranker = next(iter(values), None)
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
    fine, coarse = _grids(run, outputs, drawn, tuple(everyone) if not keys else drawn)
    panels = _panels(run, outputs, fine, coarse, last, bool(names))
    ranked_by = ranker if not keys and len(everyone) > 1 else None
    stride = stride_of(run.last_tick - run.first_tick + 1, TICKS_DRAWN)
    return ReportData(
        run,
        panels,
        len(everyone),
        drawn,
        listed,
        last,
        ranked_by,
        stride,
        fine,
        coarse,
        bool(names),
        drawn_estimates(run, outputs, fine.keys, fine.ticks),
    )


def _panels(
    run: ResultFolder,
    outputs: Sequence[ReleasedOutput],
    fine: SeriesGrid,
    coarse: SeriesGrid | None,
    last: dict[tuple[str, str, int | None], Last],
    chosen: bool,
) -> tuple[Panel, ...]:
    """Every output; of models first their error per event, where releases give it. A sum of losses
    grows with the number of events, so it says only what a model was made of."""
    error = None if chosen else error_per_event(run, outputs)
    models = not chosen and any(output.is_model for output in outputs)
    panels: list[Panel] = []
    if error is not None:
        for grid in filter(None, (fine, coarse)):
            _add_error(error, grid)
        spot = (error.source.name, error.source.over)
        for key in {key for key, *rest in last if tuple(rest) == spot}:
            newest = last[key, *spot]
            value, low, high = (error.of(x) for x in (newest.value, newest.low, newest.high))
            last[key, error.output.name, error.output.over] = Last(
                value, (high - low) / 2, low, high
            )
        base = replace(error.output, name=BASELINE[0], over=BASELINE[1])
        heat = _heat(error.output, coarse, run.band)
        series = fine.series(error.output)
        panels = [Panel(error.output, series, heat, fine.series(base), error.words)]
    for item in outputs:
        trace = models and item.name in (LOSS, SQUARES)
        shown = replace(item, role="trace") if trace else item
        heat = None if trace else _heat(item, coarse, run.band)
        panels.append(Panel(shown, fine.series(item), heat))
    return tuple(panels)


def _heat(output: ReleasedOutput, coarse: SeriesGrid | None, band: float) -> HeatMap | None:
    """All keys of an output, where there are more than are drawn; None of one that has parts."""
    if coarse is None or len(output.labels) > 1:
        return None
    spot = (output.name, output.over)
    value, half = (held[spot][:, :, 0] for held in (coarse.value, coarse.half))
    return heat_map(coarse.keys, coarse.ticks, value, half, band)


def _add_error(error: ErrorPerEvent, grid: SeriesGrid) -> None:
    """Puts the errors per event, and their baseline, next to the releases of a grid."""
    source = (error.source.name, error.source.over)
    if source not in grid.value:
        return
    spot = (error.output.name, error.output.over)
    explained = None
    if error.ratio is not None:
        explained = grid.value[error.ratio.name, error.ratio.over]
    for held in (grid.value, grid.low, grid.high):
        held[spot] = error.of(held[source])
    grid.half[spot] = (grid.high[spot] - grid.low[spot]) / 2
    grid.value[BASELINE] = error.baseline(grid.value[source], explained)
    for held in (grid.half, grid.low, grid.high):
        held[BASELINE] = np.full_like(grid.value[BASELINE], np.nan)
    grid.released[spot] = grid.released[BASELINE] = grid.released[source]


def _chosen(run: ResultFolder, names: Sequence[str] | None) -> tuple[ReleasedOutput, ...]:
    if not names:
        return run.outputs
    known = list(dict.fromkeys(output.name for output in run.outputs))
    for name in names:
        if name not in known:
            raise ConfigError("name", name, f"must be one of {', '.join(known)}.")
    return tuple(output for output in run.outputs if output.name in names)


def _batches(run: ResultFolder, first: int = 0) -> Iterator[Batch]:
    """Rows from a tick on, with keys as people read them."""
    for raw in run.batches((*COLUMNS, *run.interval_columns), first):
        batch = batch_of(raw)
        yield replace(batch, keys=[run.shown(key) for key in batch.keys])


def _descending(last: Last | None) -> float:
    return np.inf if last is None or np.isnan(last.value[0]) else -float(last.value[0])


def numbers(lists: pa.Array, rows: Ints, output: ReleasedOutput) -> Floats:
    """Components of an output that are shown: (rows, labels)."""
    if output.part is None:
        return matrix(lists, rows, len(output.labels))
    return matrix(lists, rows, output.width)[:, [output.part]]


def margins(
    batch: Batch, rows: Ints, output: ReleasedOutput, band: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Value, half the width of the margin of error, and its ends: (rows, labels) each."""
    value = numbers(batch.value, rows, output)
    half = band * numbers(batch.stddev, rows, output)
    if not output.interval or batch.low is None or batch.high is None:
        return value, half, *ends(output, value, half)
    low, high = (numbers(item, rows, output) for item in (batch.low, batch.high))
    low, high = ends(output, value, half, low, high)
    return value, (high - low) / 2, low, high


def _last_values(
    run: ResultFolder, outputs: Sequence[ReleasedOutput]
) -> dict[tuple[str, str, int | None], Last]:
    results: dict[tuple[str, str, int | None], Last] = {}
    for batch in _batches(run, run.last_tick):
        latest = np.flatnonzero(batch.tick == run.last_tick)
        for output in outputs:
            rows = batch.rows(output, latest)
            cells = zip(*margins(batch, rows, output, run.band), strict=True)
            for code, cell in zip(batch.key[rows], cells, strict=True):
                results[batch.keys[code], output.name, output.over] = Last(*cell)
    return results


class _Filling:
    """A grid while batches come by."""

    def __init__(
        self,
        run: ResultFolder,
        outputs: Sequence[ReleasedOutput],
        keys: Sequence[str],
        room: int,
        tail: int,
    ) -> None:
        self._first = run.first_tick
        every = np.arange(run.first_tick, run.last_tick + 1)
        shown = (run.last_tick - every) % stride_of(len(every), room) == 0
        shown |= every > run.last_tick - tail
        self._column = np.where(shown, np.cumsum(shown) - 1, -1)
        self._place = {key: i for i, key in enumerate(keys)}
        self._outputs, self._band = outputs, run.band
        shape = (len(keys), int(shown.sum()))
        spots = [((output.name, output.over), len(output.labels)) for output in outputs]
        value, half, low, high = (
            {spot: np.full((*shape, d), np.nan) for spot, d in spots} for _ in range(4)
        )
        released = {spot: np.zeros(shape, dtype=bool) for spot, _ in spots}
        self.grid = SeriesGrid(tuple(keys), every[shown], value, half, low, high, released)

    def add(self, batch: Batch) -> None:
        who = np.array([self._place.get(key, -1) for key in batch.keys], dtype=np.int64)[batch.key]
        column = self._column[batch.tick - self._first]
        mine = np.flatnonzero((who >= 0) & (column >= 0))
        for output in self._outputs:
            spot, rows = (output.name, output.over), batch.rows(output, mine)
            at = (who[rows], column[rows])
            self.grid.released[spot][at] = True
            held = (self.grid.value, self.grid.half, self.grid.low, self.grid.high)
            for item, margin in zip(held, margins(batch, rows, output, self._band), strict=True):
                item[spot][at] = margin


def _grids(
    run: ResultFolder,
    outputs: Sequence[ReleasedOutput],
    drawn: Sequence[str],
    everyone: Sequence[str],
) -> tuple[SeriesGrid, SeriesGrid | None]:
    """The drawn keys, and all keys where there are more, in one pass."""
    fillings = [_Filling(run, outputs, drawn, TICKS_DRAWN, TICKS_LISTED)]
    if len(everyone) > len(drawn):
        short = [output for output in outputs if len(output.labels) <= WIDEST]
        width = max(1, sum(len(item.labels) for item in short))
        room = max(2, min(TICKS_DRAWN, CELLS // (width * len(everyone))))
        fillings.append(_Filling(run, short, everyone, room, 1))
    for batch in _batches(run):
        for filling in fillings:
            filling.add(batch)
    return fillings[0].grid, fillings[1].grid if fillings[1:] else None


def largest(panel: Panel, room: int) -> list[int]:
    """Components to show, in their order: all where there is room, else those that reach furthest
    from 0 in any drawn key; none that stay at 0, but the first where all do."""
    count = len(panel.output.labels)
    if count <= room:
        return list(range(count))
    reach = np.zeros(count)
    for item in panel.series:
        reach = np.maximum(reach, np.nan_to_num(np.abs(item.value)).max(axis=0, initial=0.0))
    retained = np.argsort(-reach, kind="stable")[:room]
    some = retained[reach[retained] > 0] if reach.any() else retained[:1]
    return [int(i) for i in np.sort(some)]

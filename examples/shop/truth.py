"""The truth beside the demo's releases. Public data only: nothing else may compare so."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from examples.shop.data import DAYS, Purchases
from pipelines.report import words
from pipelines.report.data import Series, gather
from pipelines.report.numbers import decimals_for, show_value
from pipelines.results.run import Output, Run

Floats = NDArray[np.float64]

CLIP = 200.0
EDGES = (1.0, 2.0, 3.0, 5.0, 10.0, np.inf)
DAYS_SHOWN = 3


class Truth:
    """What the releases of examples/shop/shop.yaml would be without noise."""

    def __init__(self, purchases: Purchases) -> None:
        self._purchases = purchases

    @cached_property
    def clipped_share(self) -> float:
        """Share of all dollars above the clip."""
        dollars = self._purchases.dollars
        return float(1 - np.minimum(dollars, CLIP).sum() / dollars.sum())

    def values(self, output: Output, clipped: bool) -> Floats:
        """(days, components): the true value of an output at every tick."""
        p = self._purchases
        dollars = np.minimum(p.dollars, CLIP) if clipped else p.dollars
        count = _sums(p.day, np.ones(len(p.day)), output.over)
        if output.name == "purchases":
            return count[:, None]
        if output.name == "dollars":
            return _sums(p.day, dollars, output.over)[:, None]
        if output.name == "basket":
            return (_sums(p.day, dollars, output.over) / np.maximum(count, 1))[:, None]
        size = np.searchsorted(EDGES, p.cds, side="right") - 1
        bins = [_sums(p.day, size == i, output.over) for i in range(len(EDGES) - 1)]
        return np.stack(bins, axis=1)


def _sums(day: NDArray[np.int64], weight: NDArray[np.generic], over: int | None) -> Floats:
    """Sums since the start or over the last ``over`` days, at every day: (days,)."""
    total = np.cumsum(np.bincount(day, weight, minlength=DAYS))
    if over is None:
        return total
    before = np.concatenate([np.zeros(over), total])[: len(total)]
    return np.asarray(total - before)


def _series(run: Run) -> list[tuple[Output, Series]]:
    return [(panel.output, panel.series[0]) for panel in gather(run).panels if panel.series]


def coverage(run: Run, truth: Truth) -> tuple[int, int]:
    """How many bands hold the true clipped value, of how many."""
    inside = bands = 0
    for output, series in _series(run):
        true = truth.values(output, clipped=True)[series.ticks]
        half = series.half
        fine = np.isfinite(half) & np.isfinite(series.value)
        inside += int((np.abs(series.value - true) <= half)[fine].sum())
        bands += int(fine.sum())
    return inside, bands


def table(run: Run, truth: Truth) -> Table:
    """The last days: private value, error band, truth."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("day", no_wrap=True)
    made.add_column("release", no_wrap=True)
    for title in ("private value", "true value", "within the clip"):
        made.add_column(title, justify="right", no_wrap=True)
    found = _series(run)
    last = run.last_tick
    for tick in range(max(run.first_tick, last - DAYS_SHOWN + 1), last + 1):
        day = words.when(run, tick)
        for output, series in found:
            true, clipped = truth.values(output, False), truth.values(output, True)
            at = int(np.flatnonzero(series.ticks == tick)[0])
            for i, label in enumerate(output.labels):
                value, width = float(series.value[at, i]), float(series.half[at, i])
                shown, half = show_value(value, width)
                digits = decimals_for(width, value)
                both = [f"{v[tick, i]:,.{digits}f}" for v in (true, clipped)]
                if output.name not in ("dollars", "basket"):
                    both[1] = ""
                span = "all" if output.over is None else f"last {output.over}"
                name = " ".join(filter(None, (output.name, label)))
                private = f"{shown} \N{PLUS-MINUS SIGN} {half}"
                cells = [day, f"{name}, {span}", private, *both]
                made.add_row(*(Text(cell) for cell in cells))
                day = ""
        made.add_section()
    return made

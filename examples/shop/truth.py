"""The truth next to the demo's releases. Public data only: nothing else may compare so."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from examples.shop.data import DAYS, FIRST_DAY, Purchases
from weir.pipelines.report import words
from weir.pipelines.report.data import Series, gather
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.pipelines.results.series import decimals_for, show_value

Floats = NDArray[np.float64]

CLIP = 100.0
EDGES = (1.0, 2.0, 3.0, 5.0, np.inf)
MONTHS, TICKS, EVENTS = 3, 4, 1
"""Of customers.yaml: months of a period, days of a customer in it, purchases of such a day."""


class Truth:
    """What the releases of examples/shop would be without noise.

    Args:
      purchases: all of them.
      capped: within the caps of customers.yaml too. Which of a customer's purchases of a day counts
        depends on a secret: here each counts for its share.
    """

    def __init__(self, purchases: Purchases, capped: bool = False) -> None:
        self._purchases = purchases
        self._capped = capped

    @cached_property
    def clipped_share(self) -> float:
        """Share of all dollars above the clip."""
        dollars = self._purchases.dollars
        return float(1 - np.minimum(dollars, CLIP).sum() / dollars.sum())

    @property
    def capped_share(self) -> float:
        """Share of all purchases beyond the caps."""
        return float(1 - self._within.mean())

    @cached_property
    def _within(self) -> Floats:
        """(n,): how much of each purchase counts within the caps."""
        p = self._purchases
        cells, cell, size = np.unique(
            p.customer * DAYS + p.day, return_inverse=True, return_counts=True
        )
        months = (FIRST_DAY + cells % DAYS).astype("datetime64[M]").astype(np.int64)
        period = cells // DAYS * DAYS + months // MONTHS
        begins = np.flatnonzero(np.diff(period, prepend=-1))
        rank = np.arange(len(cells)) - np.repeat(begins, np.diff(begins, append=len(cells)))
        share = np.where(rank < TICKS, np.minimum(size, EVENTS) / size, 0.0)
        return np.asarray(share[cell])

    def values(self, output: ReleasedOutput, bounded: bool) -> Floats:
        """(days, components): the true value of an output at every tick.

        Args:
          output: which.
          bounded: within the clip, and within the caps where there are some.
        """
        p = self._purchases
        weight = self._within if bounded and self._capped else np.ones(len(p.day))
        dollars = weight * (np.minimum(p.dollars, CLIP) if bounded else p.dollars)
        count = _sums(p.day, weight, output.over)
        if output.name == "purchases":
            return count[:, None]
        if output.name == "dollars":
            return _sums(p.day, dollars, output.over)[:, None]
        if output.name == "basket":
            return (_sums(p.day, dollars, output.over) / np.maximum(count, 1))[:, None]
        size = np.searchsorted(EDGES, p.cds, side="right") - 1
        bins = [_sums(p.day, weight * (size == i), output.over) for i in range(len(EDGES) - 1)]
        return np.stack(bins, axis=1)


def _sums(day: NDArray[np.int64], weight: NDArray[np.generic], over: int | None) -> Floats:
    """Sums since the start or over the last ``over`` days, at every day: (days,)."""
    total = np.cumsum(np.bincount(day, weight, minlength=DAYS))
    if over is None:
        return total
    before = np.concatenate([np.zeros(over), total])[: len(total)]
    return np.asarray(total - before)


def series(run: ResultFolder) -> list[tuple[ReleasedOutput, Series]]:
    """All outputs of a run, each with its only key."""
    return [(panel.output, panel.series[0]) for panel in gather(run).panels if panel.series]


def coverage(run: ResultFolder, truth: Truth) -> tuple[int, int]:
    """How many margins hold the true value within clip and contribution bounds, of how many."""
    inside = bands = 0
    for output, found in series(run):
        true = truth.values(output, bounded=True)[found.ticks]
        half = found.half
        fine = np.isfinite(half) & np.isfinite(found.value)
        inside += int((np.abs(found.value - true) <= half)[fine].sum())
        bands += int(fine.sum())
    return inside, bands


def table(purchases: ResultFolder, customers: ResultFolder, truth: Truth, capped: Truth) -> Table:
    """The last day: private values with their margins under both guarantees, and the truth.

    Args:
      purchases, customers: the runs of shop.yaml and customers.yaml.
      truth, capped: without and with the caps.
    """
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    made.add_column(words.when(customers, customers.last_tick), no_wrap=True)
    for title in ("a purchase\nis protected", "a customer\nis protected", "true\nvalue",
                  "within\nthe clip", "and within\nthe contribution bounds"):  # fmt: skip
        made.add_column(title, justify="right", no_wrap=True)
    both = zip(series(purchases), series(customers), strict=True)
    tick = customers.last_tick
    for (output, one), (_, other) in both:
        true = truth.values(output, False)[tick]
        clipped, within = (t.values(output, True)[tick] for t in (truth, capped))
        for i, label in enumerate(output.labels):
            private = []
            for found in (one, other):
                at = int(np.flatnonzero(found.ticks == tick)[0])
                value, width = float(found.value[at, i]), float(found.half[at, i])
                shown, half = show_value(value, width)
                private.append(f"{shown} \N{PLUS-MINUS SIGN} {half}")
                digits = decimals_for(width, value)
            exact = [f"{v[i]:,.{digits}f}" for v in (true, clipped, within)]
            if output.name not in ("dollars", "basket"):
                exact[1] = ""
            span = "all" if output.over is None else f"last {output.over}"
            name = " ".join(filter(None, (output.name, label)))
            made.add_row(*(Text(cell) for cell in (f"{name}, {span}", *private, *exact)))
    return made

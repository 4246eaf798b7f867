"""The picture of the second example: what privacy costs the forecast, over time and by carrier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import DateFormatter, MonthLocator
from matplotlib.figure import Figure
from numpy.typing import NDArray

from examples.flights.data import CARRIERS, START, Flights
from examples.flights.truth import CENTRE, EXACT, MADE_UP, PRIVATE

Floats = NDArray[np.float64]

INK, SOFT, GRID = "#1b2330", "#566175", "#e6e9ef"
LOOK = {
    CENTRE: ("#8590a3", "as late as it left: the public guess"),
    MADE_UP: ("#0d7f6c", "as it left, less what last week's flights made up (not private)"),
    PRIVATE: ("#0b68b4", "private: epsilon = {}"),
    EXACT: ("#c2410c", "the same learner without noise (not private)"),
}
WINDOW = 28 * 24
FEW = 24


def draw(forecasts: Mapping[str, Floats], flights: Flights, epsilon: float, path: Path) -> Path:
    """Left: mean absolute error over the last four weeks. Right: over the year, by carrier."""
    figure = Figure(figsize=(12.0, 5.3), dpi=110, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        1, 2, left=0.055, right=0.985, top=0.7, bottom=0.11, wspace=0.14, width_ratios=[1.25, 1]
    )
    over, by = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    figure.text(
        0.02, 0.94, "How late will it land? Forecast by carrier, learned hour by hour",
        fontsize=15, weight="bold", color=INK, va="center",
    )  # fmt: skip
    figure.text(
        0.02, 0.885,
        f"{len(flights.target):,} flights from New York City in 2013, each forecast as it leaves "
        "its gate. Mean absolute error in minutes; lower is better.",
        fontsize=10, color=SOFT, va="center",
    )  # fmt: skip
    order = np.argsort(flights.left, kind="stable")
    hours = np.arange(WINDOW, int(flights.left.max()) + 1, FEW)
    upto = np.searchsorted(flights.left[order], hours)
    since = np.searchsorted(flights.left[order], hours - WINDOW)
    count = np.bincount(flights.carrier, minlength=len(CARRIERS))
    ranked = np.argsort(-count)
    at = START.astype("datetime64[s]") + hours.astype("timedelta64[h]")
    for name, (colour, label) in LOOK.items():
        off = np.abs(forecasts[name] - flights.target)
        total = np.concatenate([[0.0], off[order].cumsum()])
        rolling = (total[upto] - total[since]) / np.maximum(upto - since, 1)
        wide = 3.0 if name == PRIVATE else 1.3
        over.plot(at, rolling, color=colour, linewidth=wide, label=label.format(f"{epsilon:g}"))
        mean = np.bincount(flights.carrier, off, len(CARRIERS)) / np.maximum(count, 1)
        by.plot(
            np.arange(len(CARRIERS)), mean[ranked], color=colour, linewidth=0, marker="o",
            markersize=9 if name == PRIVATE else 5,
        )  # fmt: skip
    over.set_title("over the four weeks before", loc="left", fontsize=10.5, color=INK)
    by.set_title("over the year, by carrier and its flights", loc="left", fontsize=10.5, color=INK)
    by.set_xticks(
        np.arange(len(CARRIERS)),
        [f"{CARRIERS[i]}\n{short(int(count[i]))}" for i in ranked],
    )
    over.xaxis.set_major_locator(MonthLocator((2, 4, 6, 8, 10, 12)))
    over.xaxis.set_major_formatter(DateFormatter("%b"))
    figure.legend(
        *over.get_legend_handles_labels(), loc="upper left", bbox_to_anchor=(0.013, 0.865), ncols=2,
        frameon=False, fontsize=9.5, labelcolor=SOFT,
    )  # fmt: skip
    for axes in (over, by):
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color("#b9c1cd")
        axes.tick_params(labelsize=8.5, labelcolor=SOFT, color="#b9c1cd", length=3)
        axes.grid(axis="y", color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
    canvas.print_png(path)
    return path


def short(count: int) -> str:
    """57,782 -> "58k"; 342 stays."""
    return f"{count / 1000:.0f}k" if count >= 1000 else str(count)

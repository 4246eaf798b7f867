"""The picture of the demo: the same figures with purchases and with customers protected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import DateFormatter, MonthLocator
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from examples.shop.data import FIRST_DAY
from examples.shop.truth import Truth, series
from weir.pipelines.report.data import Series
from weir.pipelines.report.words import short
from weir.pipelines.results.run import ReleasedOutput, ResultFolder

INK, SOFT, GRID = "#1b2330", "#566175", "#e6e9ef"
PURCHASE, CUSTOMER, TRUE = "#0b68b4", "#c2410c", "#1b2330"
Floats = NDArray[np.float64]


def draw(purchases: ResultFolder, customers: ResultFolder, truth: Truth, path: Path) -> Path:
    """Weekly figures, how far running totals are off, and the histogram; bands of both promises."""
    one, other = (
        {(o.name, o.over): (o, s) for o, s in series(run)} for run in (purchases, customers)
    )
    figure = Figure(figsize=(12.0, 8.2), dpi=110, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        2, 2, left=0.065, right=0.985, top=0.8, bottom=0.06, wspace=0.16, hspace=0.34
    )
    figure.text(
        0.02, 0.97, "Daily figures of a CD shop: what it costs to protect its customers",
        fontsize=15, weight="bold", color=INK, va="center",
    )  # fmt: skip
    epsilon, delta, _ = customers.promise
    figure.text(
        0.02, 0.922,
        f"Differentially private releases, epsilon = {short(epsilon)} and delta = {short(delta)} "
        "within a year, for any one purchase or for all purchases of a customer in a quarter.\n"
        "Bands hold 95 % of the noise; with customers protected, "
        f"{other['purchases', 28][0].left_out}."
        " The truth is public here.",
        fontsize=10, color=SOFT, va="center", linespacing=1.5,
    )  # fmt: skip
    for place, name, title in (
        ((0, 0), "purchases", "purchases of the last 28 days"),
        ((0, 1), "dollars", "dollars of the last 28 days, at most 100 a purchase"),
    ):
        axes = figure.add_subplot(grid[place])
        output, _ = one[name, 28]
        _lines(axes, output, one[name, 28][1], other[name, 28][1], truth)
        _title(axes, title)
    handles = axes.get_legend_handles_labels()
    figure.legend(
        *handles, loc="upper left", bbox_to_anchor=(0.013, 0.893), ncols=3, frameon=False,
        fontsize=9.5, labelcolor=SOFT,
    )  # fmt: skip
    axes = figure.add_subplot(grid[1, 0])
    _off(axes, *(found["dollars", None] for found in (one, other)), truth)
    _title(axes, "dollars since the start, less the truth within the clip")
    axes = figure.add_subplot(grid[1, 1])
    _bars(axes, *(found["sizes", None] for found in (one, other)), truth)
    _title(axes, "purchases by number of CDs, since the start")
    canvas.print_png(path)
    return path


def _lines(axes: Axes, output: ReleasedOutput, one: Series, other: Series, truth: Truth) -> None:
    for found, colour, label in ((other, CUSTOMER, "customers protected"),
                                 (one, PURCHASE, "purchases protected")):  # fmt: skip
        _band(axes, found, found.value[:, 0], colour, label)
    day = _days(one)
    true = truth.values(output, bounded=True)[one.ticks, 0]
    axes.plot(day, true, color=TRUE, linewidth=0.9, label="the truth within the clip")
    axes.set_ylim(bottom=0)
    _dates(axes)


def _off(
    axes: Axes,
    one: tuple[ReleasedOutput, Series],
    other: tuple[ReleasedOutput, Series],
    truth: Truth,
) -> None:
    for (output, found), colour in ((other, CUSTOMER), (one, PURCHASE)):
        true = truth.values(output, bounded=True)[found.ticks, 0]
        _band(axes, found, found.value[:, 0] - true, colour, "")
    axes.axhline(0, color=TRUE, linewidth=0.9)
    below = axes.get_ylim()[0]
    axes.annotate(
        "what is beyond the caps is left out", (0.02, 0.06), xycoords="axes fraction",
        fontsize=9, color=SOFT, visible=below < 0,
    )  # fmt: skip
    _dates(axes)


def _bars(
    axes: Axes,
    one: tuple[ReleasedOutput, Series],
    other: tuple[ReleasedOutput, Series],
    truth: Truth,
) -> None:
    output, _ = one
    x = np.arange(len(output.labels))
    for (_, found), colour, shift in ((one, PURCHASE, -0.2), (other, CUSTOMER, 0.2)):
        axes.bar(
            x + shift, found.value[-1], 0.36, yerr=found.half[-1], color=colour, alpha=0.75,
            error_kw={"ecolor": INK, "capsize": 4, "elinewidth": 1.2},
        )  # fmt: skip
    true = truth.values(output, bounded=True)[one[1].ticks[-1]]
    axes.hlines(true, x - 0.42, x + 0.42, color=TRUE, linewidth=1.2)
    axes.set_xticks(x, output.labels)
    _look(axes)


def _band(axes: Axes, found: Series, value: Floats, colour: str, label: str) -> None:
    day, half = _days(found), found.half[:, 0]
    axes.fill_between(day, value - half, value + half, color=colour, alpha=0.22, linewidth=0)
    axes.plot(day, value, color=colour, linewidth=1.1, label=label)


def _days(found: Series) -> NDArray[np.datetime64]:
    return np.asarray(FIRST_DAY + found.ticks)


def _dates(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MonthLocator((1, 4, 7, 10)))
    axes.xaxis.set_major_formatter(DateFormatter("%b %Y"))
    _look(axes)


def _title(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, color=INK)


def _look(axes: Axes) -> None:
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#b9c1cd")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(labelsize=8.5, labelcolor=SOFT, color="#b9c1cd", length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)

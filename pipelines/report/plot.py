"""The report as one picture."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from pipelines.report import holdout, plot_model, words
from pipelines.report.data import HEAT_LABELLED, Panel, ReportData, Series
from pipelines.report.heat import HeatScale
from pipelines.report.model import Small, multiples
from pipelines.report.numbers import (
    limits,
    number_ticks,
    show_level,
    show_numbers,
    show_value,
    time_ticks,
)
from pipelines.report.score import Holdout, Scatter, bounds
from pipelines.report.svg import runs

COLOURS = ("#0b68b4", "#c2410c", "#0d7f6c", "#8b3fa8", "#8a6400")
INK, SOFT, GRID = "#1b2330", "#566175", "#e6e9ef"
PANELS_DRAWN = 16
_STYLE: dict[str, Any] = {"fontsize": 9, "color": SOFT}


def draw(data: ReportData, path: Path, held: Holdout | None = None, dpi: int = 110) -> Path:
    """Writes the picture: one panel an output, a heat map of all keys where there are many."""
    others = [panel for panel in data.panels if not panel.output.is_model][:PANELS_DRAWN]
    jobs: list[Callable[[Axes], None]] = [partial(_chart, panel=p, data=data) for p in others]
    heats = [panel for panel in others if panel.heat is not None][:4]
    jobs += [partial(_keys, panel=panel, data=data) for panel in heats]
    for panel in (panel for panel in data.panels if panel.output.is_model):
        jobs += _model_charts(panel, data)
    if held is not None:
        jobs += [partial(_lines, panel=panel, data=data) for panel in held.panels]
        jobs += _scatters(held)
    columns = 1 if len(jobs) == 1 else 2
    rows = -(-len(jobs) // columns)
    width, head = 12.0, 1.35
    height = head + 2.55 * rows
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    grid = figure.add_gridspec(
        rows,
        columns,
        left=0.07,
        right=0.975,
        top=1 - head / height,
        bottom=0.38 / height,
        hspace=0.44,
        wspace=0.2,
    )
    _title(figure, data, height)
    for i, job in enumerate(jobs):
        job(figure.add_subplot(grid[i // columns, i % columns]))
    canvas.print_png(path)
    return path


def _chart(axes: Axes, panel: Panel, data: ReportData) -> None:
    if len(panel.output.labels) > 1:
        _components(axes, panel, data)
    else:
        _lines(axes, panel, data)


def _scatters(held: Holdout) -> list[Callable[[Axes], None]]:
    ends = bounds(held.scatters)

    def chart(axes: Axes, one: Scatter, title: str) -> None:
        _dress(axes, title)
        holdout.draw(axes, one, ends)

    pairs = zip(held.scatters, holdout.titles(held), strict=True)
    return [partial(chart, one=one, title=title) for one, title in pairs]


def _model_charts(panel: Panel, data: ReportData) -> list[Callable[[Axes], None]]:
    made = multiples(panel, data)

    def chart(axes: Axes, small: Small, first: bool) -> None:
        about = ", ".join(filter(None, (panel.output.name, small.title)))
        _dress(axes, f"{about} ({made.caption})")
        plot_model.draw(axes, small, first)
        _time(axes, data)

    return [partial(chart, small=small, first=i == 0) for i, small in enumerate(made.smalls)]


def _title(figure: Figure, data: ReportData, height: float) -> None:
    run = data.run
    epsilon, delta, window = run.promise
    lasting = "always" if window is None else words.duration(run, window)
    promise = (
        f"\N{GREEK SMALL LETTER EPSILON} = {words.short(epsilon)}, "
        f"\N{GREEK SMALL LETTER DELTA} = {words.short(delta)} per {words.unit(run)}, "
        f"protected for {lasting}"
    )
    if window is None:
        promise = promise.replace("protected for always", "protected always")
    left = 0.025
    figure.text(
        left, 1 - 0.3 / height, run.name, fontsize=16, weight="bold", color=INK, va="center"
    )
    lines = [f"{words.facts(data)}  {promise}."]
    # Bands of models may cover more than noise.
    of = ", as the plan says" if any(one.is_model for one in run.outputs) else " of the noise"
    note = words.unfinished(run) or (
        f"Lines: released values. Bands: 95 %{of}."
        + (
            f" Drawn: the {len(data.drawn)} keys with the largest last value of "
            f"{data.ranked_by.name}."
            if data.ranked_by is not None and data.keys > len(data.drawn)
            else ""
        )
    )
    lines.append(note)
    for i, line in enumerate(lines):
        y = 1 - (0.6 + 0.22 * i) / height
        figure.text(left, y, textwrap.shorten(line, 190), fontsize=10, color=SOFT, va="center")


def _dress(axes: Axes, title: str, value: str = "") -> None:
    axes.set_title(
        textwrap.shorten(title, 74 - len(value), placeholder=" ..."),
        loc="left",
        fontsize=10.5,
        color=INK,
        pad=7,
    )
    if value:
        axes.set_title(value, loc="right", fontsize=10.5, color=INK, pad=7, weight="bold")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#b9c1cd")
    axes.tick_params(labelsize=9, labelcolor=SOFT, color="#b9c1cd", length=3)


def _time(axes: Axes, data: ReportData) -> None:
    run = data.run
    first, last = run.first_tick, run.last_tick
    axes.set_xlim(first - 0.5, last + 0.5)
    if first == last:
        axes.set_xticks([first], [words.when(run, first)])
        return
    marks = time_ticks(run.tick_start(first), run.tick_start(last), 6)
    axes.set_xticks([run.ruler.place(stamp) for stamp, _ in marks], [label for _, label in marks])


def _name(panel: Panel, data: ReportData) -> str:
    unit = f" ({panel.output.unit})" if panel.output.unit else ""
    return f"{panel.output.name}{unit}, {words.span(panel.output, data.run)}"


def _lines(axes: Axes, panel: Panel, data: ReportData) -> None:
    headline = ""
    if data.keys == 1 and panel.series:
        one = panel.series[0]
        value, half = show_value(float(one.value[-1, 0]), float(one.half[-1, 0]))
        headline = f"{value} \N{PLUS-MINUS SIGN} {half}" if half else value
    _dress(axes, _name(panel, data), headline)
    for i, one in enumerate(panel.series):
        _band(axes, one, COLOURS[i % len(COLOURS)])
    everything = [s.value[:, 0] for s in panel.series] or [np.zeros(0)]
    errors = [s.half[:, 0] for s in panel.series] or [np.zeros(0)]
    low, high, _ = limits(np.concatenate(everything), np.concatenate(errors))
    axes.set_ylim(low, high)
    ticks = number_ticks(low, high, 5)
    axes.set_yticks(ticks, show_numbers(ticks))
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    if low < 0 < high:
        axes.axhline(0, color="#b9c1cd", linewidth=0.8, zorder=1)
    _time(axes, data)
    if data.keys > 1 and panel is data.panels[0]:
        axes.legend(loc="upper left", fontsize=8.5, frameon=False, labelcolor=SOFT, ncols=2)


def _band(axes: Axes, one: Series, colour: str) -> None:
    value, half = one.value[:, 0], one.half[:, 0]
    fine = np.isfinite(value)
    name = one.key if one.key else "(empty)"
    for i, part in enumerate(runs(fine)):
        label = name if i == 0 else None
        x = one.ticks[part]
        if len(x) == 1:
            axes.plot(x, value[part], "o", color=colour, markersize=4, label=label)
        else:
            axes.plot(x, value[part], color=colour, linewidth=1.3, label=label)
    for part in runs(fine & np.isfinite(half)):
        x, v, h = one.ticks[part], value[part], half[part]
        if len(x) == 1:
            axes.errorbar(x, v, h, color=colour, linewidth=1.2, capsize=3)
        else:
            axes.fill_between(x, v - h, v + h, color=colour, alpha=0.24, linewidth=0)


def _components(axes: Axes, panel: Panel, data: ReportData) -> None:
    labels = panel.output.labels
    who = ""
    if data.keys > 1 and panel.series:
        who = f", {panel.series[0].key or '(empty)'}"
    if not panel.series:
        _dress(axes, _name(panel, data))
        return
    day = words.when(data.run, int(panel.series[0].ticks[-1]))
    _dress(axes, f"{_name(panel, data)}{who}, at {day}")
    one = panel.series[0]
    if len(one.ticks) > 1 and len(labels) > HEAT_LABELLED:
        _heat(axes, one.value.T, one.ticks, data)
        return
    value, half = one.value[-1], np.nan_to_num(one.half[-1])
    at = np.arange(len(labels))
    axes.bar(at, np.nan_to_num(value), color=COLOURS[0], alpha=0.75, width=0.72)
    axes.errorbar(at, np.nan_to_num(value), half, fmt="none", ecolor=INK, linewidth=1.2, capsize=3)
    axes.axhline(0, color="#b9c1cd", linewidth=0.8)
    every = max(1, len(labels) // 12)
    axes.set_xticks(at[::every], [label[:12] for label in labels[::every]])
    low, high = axes.get_ylim()
    ticks = number_ticks(low, high, 4)
    axes.set_yticks(ticks, show_numbers(ticks))
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def _keys(axes: Axes, panel: Panel, data: ReportData) -> None:
    heat = panel.heat
    assert heat is not None
    _dress(axes, f"{_name(panel, data)}: all {data.keys:,} keys")
    _heat(axes, heat.value, heat.ticks, data, heat.noise)
    rows = len(heat.rows)
    if rows <= HEAT_LABELLED:
        every = max(1, -(-rows // 14))
        marks: Sequence[Any] = range(0, rows, every)
        axes.set_yticks(list(marks), [heat.rows[i][:14] or "(empty)" for i in marks])
    else:
        shares = (0.0, 0.25, 0.5, 0.75, 1.0)
        names = [f"{max(1, round(data.keys * share)):,}" for share in shares]
        axes.set_yticks([share * (rows - 1) for share in shares], names)
        axes.set_ylabel("rank", **_STYLE)


def _heat(axes: Axes, value: Any, ticks: Any, data: ReportData, noise: float = 0.0) -> None:
    scale = HeatScale.of(value, noise)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1
    image = axes.imshow(
        scale.share(value),
        aspect="auto",
        interpolation="nearest",
        cmap="viridis",
        vmin=0,
        vmax=1,
        extent=(ticks[0] - step + 0.5, ticks[-1] + 0.5, len(value) - 0.5, -0.5),
    )
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    names = [show_level(scale.value(share)) for share in shares]
    bar = axes.figure.colorbar(image, ax=axes, pad=0.015, fraction=0.05, ticks=shares)
    bar.outline.set_visible(False)
    bar.ax.set_yticklabels(names)
    bar.ax.tick_params(labelsize=8.5, labelcolor=SOFT, length=0)
    _time(axes, data)

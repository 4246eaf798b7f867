"""A model's coefficients in the picture of a report: one small chart an axes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from pipelines.report.model import Small
from pipelines.report.numbers import number_ticks, show_numbers
from pipelines.report.svg import runs

COLOURS = (
    *("#0b68b4", "#c2410c", "#0d7f6c", "#8b3fa8"),
    *("#8a6400", "#be185d", "#4d7c0f", "#475569"),
)


def draw(axes: Axes, small: Small, legend: bool) -> None:
    """Lines over time, with the bands that are known."""
    for i, line in enumerate(small.lines):
        value, half = line.value[:, 0], line.half[:, 0]
        colour = COLOURS[i % len(COLOURS)]
        for part in runs(np.isfinite(value) & np.isfinite(half)):
            low, high = (value - half)[part], (value + half)[part]
            axes.fill_between(line.ticks[part], low, high, color=colour, alpha=0.18, linewidth=0)
        for n, part in enumerate(runs(np.isfinite(value))):
            axes.plot(
                line.ticks[part],
                value[part],
                "o" if len(line.ticks[part]) == 1 else "-",
                color=colour,
                linewidth=1.2,
                markersize=4,
                label=small.names[i] if n == 0 else None,
            )
    bottom, top = small.between
    axes.set_ylim(bottom, top)
    ticks = number_ticks(bottom, top, 5)
    axes.set_yticks(ticks, show_numbers(ticks))
    axes.grid(axis="y", color="#e6e9ef", linewidth=0.8)
    axes.set_axisbelow(True)
    if bottom < 0 < top:
        axes.axhline(0, color="#b9c1cd", linewidth=0.8, zorder=1)
    if legend and any(small.names):
        axes.legend(
            loc="best",
            fontsize=8,
            frameon=True,
            framealpha=0.85,
            edgecolor="none",
            labelcolor="#566175",
            ncols=2 if len(small.lines) > 4 else 1,
        )

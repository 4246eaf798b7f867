"""The grid of a rehearsal as a picture: error beside value, by epsilon, a line for each tick."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from dpcore.errors import ConfigError
from pipelines.rehearse.rehearse import Rehearsal
from pipelines.terminal import number

ENDINGS = (".png", ".svg", ".pdf")
PANELS = 24
"""Outputs that are drawn."""
COLUMNS = 3
COLOURS = ("#1f5fa8", "#c2571a", "#3a7d44")


def check(path: Path) -> None:
    """Refuses a file that no picture can be written to, before anything runs.

    Raises:
      ConfigError: its ending, or a folder that is not there.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError("--picture", str(path), f"must end in one of {', '.join(ENDINGS)}.")
    if not path.absolute().parent.is_dir():
        raise ConfigError("--picture", str(path), "lies in a folder that is not there; make it.")


def draw(found: Rehearsal, path: Path) -> Path | None:
    """Draws a panel for each output; None: there is no grid, as of models.

    Raises:
      ConfigError: the file cannot be written.
    """
    if found.grid is None or not found.grid.shares:
        return None
    from matplotlib.figure import Figure

    panels = list(found.grid.shares.items())[:PANELS]
    width = min(COLUMNS, len(panels))
    height = math.ceil(len(panels) / width)
    figure = Figure(figsize=(1 + 4 * width, 1 + 3 * height), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False, sharex=True, sharey=True).ravel()
    for axis, ((name, over), by_period) in zip(axes, panels, strict=False):
        _panel(axis, found, by_period)
        shown = "since the start" if over is None else "each tick" if over == 1 else f"{over} ticks"
        axis.set_title(f"{name}, {shown}", fontsize=10, loc="left")
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    axes[0].legend(fontsize=8, title="a tick of", title_fontsize=8)
    figure.supxlabel("epsilon", fontsize=9)
    figure.supylabel("error of 19 in 20 values, of the true value", fontsize=9)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ConfigError("--picture", str(path), f"cannot be written: {error.strerror}.") from None
    return path


def _panel(axis: Any, found: Rehearsal, by_period: Any) -> None:
    assert found.grid is not None
    axis.axhspan(1e-6, found.within, color="#3a7d44", alpha=0.10, lw=0)
    axis.axhline(1, color="#b02020", lw=1, ls="--")
    for period, shares, colour in zip(found.grid.periods, by_period, COLOURS, strict=False):
        axis.plot(found.grid.epsilons, shares, marker="o", ms=3, lw=1.4, color=colour, label=period)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(found.grid.epsilons, [number(one) for one in found.grid.epsilons])
    axis.minorticks_off()
    low, high = _limits(found)
    axis.set_ylim(low, high)
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:,.4g} %")
    axis.tick_params(labelsize=8, labelbottom=True)
    axis.grid(alpha=0.25)


def _limits(found: Rehearsal) -> tuple[float, float]:
    assert found.grid is not None
    every = [
        share
        for table in found.grid.shares.values()
        for row in table
        for share in row
        if math.isfinite(share) and share > 0
    ]
    return min(*every, found.within) / 1.5, max(*every, 1.0) * 1.5


__all__ = ["check", "draw"]

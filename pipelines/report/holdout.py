"""How held-back data is drawn: predicted against actual, and R² over time."""

from __future__ import annotations

import html

import numpy as np
from matplotlib.axes import Axes

from pipelines.report import svg
from pipelines.report.numbers import number_ticks, show_numbers
from pipelines.report.score import Holdout, Scatter, bounds

SIZE = (370.0, 300.0)
E_ = html.escape


def titles(found: Holdout) -> list[str]:
    """One a scatter: what, and whose."""
    several = len({one.key for one in found.scatters}) > 1
    return [
        f"{one.target}: predicted against actual" + (f", {one.key or '(empty)'}" if several else "")
        for one in found.scatters
    ]


def figures(found: Holdout) -> str:
    """The scatters of a page."""
    ends = bounds(found.scatters)
    drawn = [
        f"<figure><figcaption><h2>{E_(title)}</h2></figcaption>{_svg(one, ends, title)}</figure>"
        for one, title in zip(found.scatters, titles(found), strict=True)
    ]
    return f'<div class="smalls">{"".join(drawn)}</div>'


def _svg(one: Scatter, ends: tuple[float, float], title: str) -> str:
    low, high = ends
    width, height = SIZE
    left, right = float(svg.LEFT), width - svg.RIGHT
    top, bottom = float(svg.TOP), height - svg.BOTTOM
    frame = svg.Frame(left, right, top, bottom, low, high, low, high)
    parts = [svg.value_labels(frame)]
    ticks = number_ticks(low, high, 4)
    for value, label in zip(ticks, show_numbers(ticks), strict=True):
        parts.append(svg.text(float(frame.x(value)), bottom + 17, label, "tick"))
    parts.append(f'<path class="zero" d="M{left:.1f} {bottom:.1f}L{right:.1f} {top:.1f}"/>')
    x, y = frame.x(one.actual), frame.y(np.clip(one.predicted, low, high))
    parts += [
        f'<circle class="dot s0" opacity="0.35" cx="{a:.1f}" cy="{b:.1f}" r="1.6"/>'
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    return svg.svg("".join(parts), height, title, width)


def draw(axes: Axes, one: Scatter, ends: tuple[float, float]) -> None:
    """A scatter of the picture."""
    low, high = ends
    predicted = np.clip(one.predicted, low, high)
    axes.plot(ends, ends, color="#b9c1cd", linewidth=0.9, zorder=1)
    axes.plot(one.actual, predicted, ".", color="#0b68b4", markersize=3, alpha=0.35)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    ticks = number_ticks(low, high, 4)
    axes.set_xticks(ticks, show_numbers(ticks))
    axes.set_yticks(ticks, show_numbers(ticks))
    axes.grid(color="#e6e9ef", linewidth=0.8)
    axes.set_axisbelow(True)

"""Charts as inline SVG: lines with error bands, bars with whiskers; coloured by CSS."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.report.data import Series
from pipelines.report.numbers import limits, number_ticks, show_numbers, time_ticks
from pipelines.results.ruler import Ruler

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WIDTH, HEIGHT = 560, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 10, 26


@dataclass(frozen=True)
class TimeAxis:
    """Where ticks are in time, and which are drawn."""

    ruler: Ruler
    first: int
    last: int

    def at(self, tick: int) -> int:
        """First microsecond of a tick."""
        return self.ruler.at(tick)


@dataclass(frozen=True)
class Frame:
    """The plot area in pixels, and the numbers at its borders."""

    left: float
    right: float
    top: float
    bottom: float
    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: Floats | float) -> Floats:
        """Data to pixels."""
        span = (self.x1 - self.x0) or 1.0
        return self.left + (np.asarray(value) - self.x0) / span * (self.right - self.left)

    def y(self, value: Floats | float) -> Floats:
        """Data to pixels, downwards."""
        span = (self.y1 - self.y0) or 1.0
        return self.bottom - (np.asarray(value) - self.y0) / span * (self.bottom - self.top)


def text(x: float, y: float, label: str, cls: str, anchor: str = "middle") -> str:
    """One label."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" class="{cls}" text-anchor="{anchor}">'
        f"{html.escape(label)}</text>"
    )


def svg(body: str, height: float, label: str, width: float = WIDTH) -> str:
    """The element around a chart."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html.escape(label)}">'
        f"{body}</svg>"
    )


def script(value: Any, name: str = "") -> str:
    """What a chart says when it is pointed at, for the page's own program."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    mark = f' id="{name}"' if name else ""
    return f'<script type="application/json"{mark}>{text}</script>'


def time_labels(frame: Frame, axis: TimeAxis, about: int = 6, width: float = WIDTH) -> str:
    """Marks and labels under a plot whose x is in ticks."""
    begin, end = axis.at(axis.first), axis.at(axis.last)
    if axis.first == axis.last:
        x = float(frame.x(axis.first))
        return text(x, frame.bottom + 17, f"tick {axis.first}", "tick")
    parts = []
    for stamp, label in time_ticks(begin, end, about):
        x = float(frame.x(axis.ruler.place(stamp)))
        parts.append(f'<path class="mark" d="M{x:.1f} {frame.bottom:.1f}v4"/>')
        half = 3.2 * len(label)
        anchor = "end" if x + half > width else "middle"
        parts.append(text(min(x, width - 2), frame.bottom + 17, label, "tick", anchor))
    return "".join(parts)


def value_labels(frame: Frame) -> str:
    """Grid lines and labels left of a plot; the line at 0 is stronger."""
    ticks = number_ticks(frame.y0, frame.y1, 5)
    parts = []
    for value, label in zip(ticks, show_numbers(ticks), strict=True):
        y = float(frame.y(value))
        cls = "zero" if value == 0 else "grid"
        parts.append(f'<path class="{cls}" d="M{frame.left:.1f} {y:.1f}H{frame.right:.1f}"/>')
        parts.append(text(frame.left - 6, y + 3.5, label, "tick", "end"))
    return "".join(parts)


def runs(fine: NDArray[np.bool_]) -> list[slice]:
    """Stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], fine.astype(np.int8), [0]])))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def points(x: Floats, y: Floats) -> str:
    """ "x,y x,y ..." with one decimal."""
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def line_chart(
    series: Sequence[Series],
    axis: TimeAxis,
    label: str,
    size: tuple[float, float] = (WIDTH, HEIGHT),
    between: tuple[float, float] | None = None,
) -> tuple[str, Frame, bool]:
    """Lines with their bands. Returns the SVG, its frame, and whether bands are cut.

    Args:
      series: component 0 of each is drawn. axis: of time. label: for who cannot see the chart.
      size: width and height in pixels. between: ends of the axis; None: what the values need.
    """
    width, height = size
    value = np.concatenate([s.value[:, 0] for s in series]) if series else np.zeros(0)
    errors = np.concatenate([s.half[:, 0] for s in series]) if series else np.zeros(0)
    low, high, cut = limits(value, errors)
    if between is not None:
        low, high = between
    frame = Frame(
        LEFT, width - RIGHT, TOP, height - BOTTOM, axis.first - 0.5, axis.last + 0.5, low, high
    )
    bands, lines = [], []
    for i, one in enumerate(series):
        x, v = frame.x(one.ticks.astype(np.float64)), one.value[:, 0]
        half = one.half[:, 0]
        for part in runs(np.isfinite(v) & np.isfinite(half)):
            upper = np.clip(frame.y((v + half)[part]), TOP - 9, height)
            lower = np.clip(frame.y((v - half)[part]), TOP - 9, height)
            outline = f"{points(x[part], upper)} {points(x[part][::-1], lower[::-1])}"
            if len(upper) == 1:
                bands.append(
                    f'<path class="whisker s{i}" d="M{x[part][0]:.1f} {upper[0]:.1f}'
                    f'V{lower[0]:.1f}"/>'
                )
            else:
                bands.append(f'<polygon class="band s{i}" points="{outline}"/>')
        for part in runs(np.isfinite(v)):
            y = np.clip(frame.y(v[part]), -50, height + 50)
            if len(y) == 1:
                lines.append(
                    f'<circle class="dot s{i}" cx="{x[part][0]:.1f}" cy="{y[0]:.1f}" r="3"/>'
                )
            else:
                lines.append(f'<polyline class="line s{i}" points="{points(x[part], y)}"/>')
    clip = (
        f'<svg x="{LEFT}" y="{TOP}" width="{frame.right - LEFT}" height="{frame.bottom - TOP}" '
        f'viewBox="{LEFT} {TOP} {frame.right - LEFT} {frame.bottom - TOP}">'
        f"{''.join(bands)}{''.join(lines)}</svg>"
    )
    body = (
        value_labels(frame)
        + time_labels(frame, axis, round(width / 95), width)
        + clip
        + '<g class="hover"></g>'
    )
    return svg(body, height, label, width), frame, cut


def thin(one: Series, frame: Frame) -> bool:
    """Whether the band is lost behind the line for most of the time."""
    half = one.half[:, 0]
    half = half[np.isfinite(half)]
    per_unit = (frame.bottom - frame.top) / ((frame.y1 - frame.y0) or 1.0)
    return bool(half.size) and float(np.median(half)) * per_unit < 1.2


def side_for(labels: Sequence[str]) -> float:
    """Room for labels at the left, in pixels."""
    return min(150.0, max(float(LEFT), 14 + 6.6 * max(len(label) for label in labels)))


def bar_chart(value: Floats, half: Floats, labels: Sequence[str], label: str) -> str:
    """Horizontal bars with whiskers of the 95 % band, one row a component."""
    step, side = 22.0, side_for(labels)
    fine = np.isfinite(value)
    half = np.where(np.isfinite(half), half, 0.0)
    low = min(0.0, float((value - half)[fine].min())) if fine.any() else 0.0
    high = max(0.0, float((value + half)[fine].max())) if fine.any() else 1.0
    high = high if high > low else low + 1.0
    height = TOP + step * len(labels) + BOTTOM
    frame = Frame(side, WIDTH - 84, TOP, height - BOTTOM, low, high, 0, 1)
    parts = []
    ticks = number_ticks(low, high, 4)
    for at, name in zip(ticks, show_numbers(ticks), strict=True):
        x = float(frame.x(at))
        cls = "zero" if at == 0 else "grid"
        parts.append(f'<path class="{cls}" d="M{x:.1f} {TOP}V{frame.bottom:.1f}"/>')
        parts.append(text(x, frame.bottom + 17, name, "tick"))
    zero = float(frame.x(0.0))
    for i, name in enumerate(labels):
        middle = TOP + step * (i + 0.5)
        parts.append(text(side - 8, middle + 4, name[:22], "name", "end"))
        if not fine[i]:
            parts.append(text(zero + 6, middle + 4, "no value", "tick", "start"))
            continue
        x = float(frame.x(value[i]))
        parts.append(
            f'<rect class="bar" x="{min(x, zero):.1f}" y="{middle - 7:.1f}" '
            f'width="{max(abs(x - zero), 0.5):.1f}" height="14" rx="2"/>'
        )
        a, b = float(frame.x(value[i] - half[i])), float(frame.x(value[i] + half[i]))
        if half[i] > 0:
            parts.append(
                f'<path class="whisker ink" d="M{a:.1f} {middle:.1f}H{b:.1f}'
                f'M{a:.1f} {middle - 4:.1f}v8M{b:.1f} {middle - 4:.1f}v8"/>'
            )
        shown = (
            show_numbers([round(float(value[i]))]) if abs(value[i]) >= 100 else [f"{value[i]:.3g}"]
        )
        if abs(value[i]) >= 1e4:
            shown = [f"{value[i]:,.0f}"]
        parts.append(text(max(b, x, zero) + 7, middle + 4, shown[0], "name", "start"))
    return svg("".join(parts), height, label)

"""What a report shows of models: coefficients over time as small multiples.

``theta`` (scaled, so comparable) is drawn key by key with a line a feature; ``coefficients`` (in
the user's own units) feature by feature with a line a key. Bands are drawn where they are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.report.data import Panel, ReportData, Series
from pipelines.report.numbers import limits

Floats = NDArray[np.float64]

LINES_DRAWN = 8
CHARTS_DRAWN = 12


@dataclass(frozen=True)
class Small:
    """One of the small charts.

    Attributes:
      title: a key or a feature. names: of the lines.
      lines: one component each. between: ends of its axis, shared where that says something.
    """

    title: str
    names: tuple[str, ...]
    lines: tuple[Series, ...]
    between: tuple[float, float]


@dataclass(frozen=True)
class Multiples:
    """All small charts of one output.

    Attributes:
      smalls: in order. legend: names of the lines by colour, where all charts share them.
      caption: what they show. left_out: how many components are not drawn.
    """

    smalls: tuple[Small, ...]
    legend: tuple[str, ...]
    caption: str
    left_out: int


def multiples(panel: Panel, data: ReportData) -> Multiples:
    """Arranges the coefficients of the drawn keys."""
    if not panel.series:
        return Multiples((), (), "no values", 0)
    labels = panel.output.labels
    scaled = panel.output.role == "scaled_model"
    room = LINES_DRAWN if scaled else CHARTS_DRAWN
    chosen = largest(panel.series, room)
    left_out = len(labels) - len(chosen)
    names = tuple(labels[i] or panel.output.name for i in chosen)
    keys = tuple(one.key or "(empty)" for one in panel.series)
    if scaled:
        between = room_for([component(one, i) for one in panel.series for i in chosen])
        smalls = [
            Small(
                "" if data.keys == 1 else key,
                names,
                tuple(component(one, i) for i in chosen),
                between,
            )
            for key, one in zip(keys, panel.series, strict=True)
        ]
        return Multiples(
            tuple(smalls), names, "scaled to the public ranges; a line a feature", left_out
        )
    smalls = []
    for i, name in zip(chosen, names, strict=True):
        lines = tuple(component(one, i) for one in panel.series)
        between = room_for(lines)
        smalls.append(Small(name, keys if data.keys > 1 else ("",), lines, between))
    caption = "in the units of the data" + ("; a line a key" if data.keys > 1 else "")
    return Multiples(tuple(smalls), (), caption, left_out)


def room_for(lines: Sequence[Series]) -> tuple[float, float]:
    """Ends of an axis that holds lines and bands; where a model still follows the noise, at three
    times its usual band, it may leave the axis."""
    value = np.concatenate([line.value[:, 0] for line in lines])
    half = np.concatenate([line.half[:, 0] for line in lines])
    known = np.isfinite(half) & np.isfinite(value)
    if known.any():
        calm = known & (half <= 3 * np.median(half[known]))
        value, half = value[calm], half[calm]
    low, high, _ = limits(value, half)
    return low, high


def banded(made: Multiples) -> bool:
    """Whether any line has a band."""
    return any(np.isfinite(line.half).any() for small in made.smalls for line in small.lines)


def largest(series: Sequence[Series], room: int) -> list[int]:
    """Components to draw, in their order: those that reach furthest from 0 in any drawn key."""
    reach = np.zeros(series[0].value.shape[1])
    for one in series:
        reach = np.maximum(reach, np.nan_to_num(np.abs(one.value)).max(axis=0))
    kept = np.argsort(-reach, kind="stable")[:room]
    return [int(i) for i in np.sort(kept)]


def component(one: Series, i: int) -> Series:
    """A single coordinate of a model over time."""
    return Series(one.key, one.ticks, one.value[:, [i]], one.half[:, [i]])

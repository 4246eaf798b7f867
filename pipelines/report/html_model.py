"""The section of a page that shows a model's coefficients: small charts side by side."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.report import svg
from pipelines.report.data import Panel, ReportData
from pipelines.report.model import Multiples, Small, banded, multiples

Floats = NDArray[np.float64]
SIZE = (370.0, 190.0)
E_ = html.escape


def section(panel: Panel, data: ReportData, axis: svg.TimeAxis) -> str:
    """All small charts of one output."""
    made = multiples(panel, data)
    figures = "".join(_figure(small, data, axis) for small in made.smalls)
    foot = []
    if made.left_out:
        foot.append(f"{made.left_out:,} more that stay closer to 0 are not drawn")
    if banded(made):
        foot.append("bands: 95 %, as the plan says; where noise dominates, a model may be anywhere")
    else:
        foot.append("no band: the noise is in the sums that a model follows")
    return (
        f'<section class="card wide"><h2>{E_(panel.output.name)} '
        f"<small>{E_(made.caption)}</small></h2>{_legend(made)}"
        f'<div class="smalls">{figures}</div><p class=foot>{E_("; ".join(foot))}</p></section>'
    )


def _legend(made: Multiples) -> str:
    items = "".join(
        f'<li><i style="background:var(--s{i})"></i>{E_(name)}</li>'
        for i, name in enumerate(made.legend)
    )
    return f'<ul class="chips">{items}</ul>' if items else ""


def _figure(small: Small, data: ReportData, axis: svg.TimeAxis) -> str:
    label = f"{small.title or data.run.name} over time"
    drawing, frame, _ = svg.line_chart(small.lines, axis, label, SIZE, small.between)
    ticks = np.unique(np.concatenate([line.ticks for line in small.lines]))
    series = []
    for name, line in zip(small.names, small.lines, strict=True):
        value, half = np.full(len(ticks), np.nan), np.full(len(ticks), np.nan)
        at = np.searchsorted(ticks, line.ticks)
        value[at], half[at] = line.value[:, 0], line.half[:, 0]
        item: dict[str, Any] = {"name": name, "value": _rounded(value)}
        if np.isfinite(half).any():
            item["half"] = _rounded(half)
        series.append(item)
    area = (frame.left, frame.right, frame.top, frame.bottom)
    corners = (*area, frame.x0, frame.x1, frame.y0, frame.y1)
    about = {
        "frame": [float(f"{v:.7g}") for v in corners],
        "ticks": ticks.astype(int).tolist(),
        "series": series,
    }
    title = f"<figcaption><h2>{E_(small.title)}</h2></figcaption>" if small.title else ""
    return f"<figure data-chart>{title}{drawing}{svg.script(about)}</figure>"


def _rounded(value: Floats) -> list[float | None]:
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in value]

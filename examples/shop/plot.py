"""The picture of the demo: the same figures with purchases and with customers protected."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from examples.shop.data import FIRST_DAY
from examples.shop.truth import Truth, series
from weir.pipelines import vega
from weir.pipelines.report.data import Series
from weir.pipelines.report.picture import theme
from weir.pipelines.report.words import short
from weir.pipelines.results.run import ReleasedOutput, ResultFolder

COLOURS = {
    "purchases protected": "#0b68b4",
    "customers protected": "#c2410c",
    "the truth within the clip": "#1b2330",
}
"""Of both runs and of the truth, in the order of the legend."""
WIDTH, HEIGHT = 500, 260
LETTERS = 150
"""Of a line under the title, at most: as wide as two charts."""
Floats = NDArray[np.float64]
Rows = list[dict[str, Any]]
Released = tuple[ReleasedOutput, Series]


def draw(purchases: ResultFolder, customers: ResultFolder, truth: Truth, path: Path) -> Path:
    """Monthly figures, errors of totals, and the histogram; margins of error of both guarantees."""
    runs = [{(o.name, o.over): (o, s) for o, s in series(run)} for run in (purchases, customers)]
    bins = runs[0]["sizes", None][0].labels
    charts = [
        _lines([run["purchases", 28] for run in runs], truth, "purchases of the last 28 days"),
        _lines(
            [run["dollars", 28] for run in runs],
            truth,
            "dollars of the last 28 days, at most 100 a purchase",
        ),
        _lines(
            [run["dollars", None] for run in runs],
            truth,
            "dollars since the start, less the truth within the clip",
            less=True,
        ),
        _bars([run["sizes", None] for run in runs], truth, bins),
    ]
    epsilon, delta, _ = customers.promise
    lines = (
        f"Differentially private releases, epsilon = {short(epsilon)} and delta = "
        f"{short(delta)} within a year, for any one purchase or for all purchases of a "
        "customer in a quarter.",
        "Margins hold 95 % of the noise; with customers protected, "
        f"{runs[1]['purchases', 28][0].left_out}. The truth is public here.",
    )
    title = alt.TitleParams(
        "Daily figures of a CD shop: what it costs to protect its customers",
        subtitle=[part for line in lines for part in textwrap.wrap(line, LETTERS)],
        fontSize=18,
        subtitleFontSize=12,
        offset=14,
    )
    spec: dict[str, Any] = alt.concat(*charts, columns=2).properties(title=title).to_dict()
    return vega.save({**spec, "config": theme()}, path, 1.4)


def _lines(released: list[Released], truth: Truth, title: str, less: bool = False) -> Any:
    """Values with their margins against the day. less: the truth is taken off."""
    rows: Rows = []
    output, found = released[0]
    true = truth.values(output, bounded=True)[found.ticks, 0]
    for who, (_, found) in zip(COLOURS, released, strict=False):
        value, half = found.value[:, 0] - (true if less else 0.0), found.half[:, 0]
        rows += _rows(who, found, value, half)
    last = list(COLOURS)[-1]
    rows += _rows(last, found, 0.0 * true if less else true, np.full_like(true, np.nan))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("t:T", title=None, axis=alt.Axis(format="%b %Y", tickCount=6), scale=_utc()),
        color=_colour(),
    )
    band = base.mark_area(opacity=0.22).encode(y=_value("lo"), y2="hi:Q")
    line = base.mark_line(strokeWidth=1.4).encode(y=_value("v"))
    return alt.layer(band, line).properties(width=WIDTH, height=HEIGHT, title=title)


def _bars(released: list[Released], truth: Truth, bins: tuple[str, ...]) -> Any:
    """The last histogram of both, with its margins, and that of the truth."""
    rows: Rows = []
    output, found = released[0]
    for who, (_, found) in zip(COLOURS, released, strict=False):
        value, half = found.value[-1], found.half[-1]
        rows += [
            {"who": who, "bin": label, "v": v, "lo": v - h, "hi": v + h}
            for label, v, h in zip(bins, value.tolist(), half.tolist(), strict=True)
        ]
    true = truth.values(output, bounded=True)[found.ticks[-1]].tolist()
    last = list(COLOURS)[-1]
    rows += [{"who": last, "bin": b, "v": v} for b, v in zip(bins, true, strict=True)]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("bin:N", sort=None, title=None, axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("who:N", sort=list(COLOURS)),
    )
    bar = base.mark_bar(opacity=0.75).encode(y=_value("v"), color=_colour())
    error = base.mark_rule(strokeWidth=1.2).encode(y=_value("lo"), y2="hi:Q")
    return alt.layer(bar, error).properties(
        width=WIDTH, height=HEIGHT, title="purchases by number of CDs, since the start"
    )


def _rows(who: str, found: Series, value: Floats, half: Floats) -> Rows:
    days = (FIRST_DAY + found.ticks).astype("datetime64[ms]").astype(int).tolist()
    return [
        {"who": who, "t": t, "v": v, **({} if np.isnan(h) else {"lo": v - h, "hi": v + h})}
        for t, v, h in zip(days, value.tolist(), half.tolist(), strict=True)
    ]


def _utc() -> alt.Scale:
    return alt.Scale(type="utc")


def _value(name: str) -> alt.Y:
    return alt.Y(f"{name}:Q", title=None, axis=alt.Axis(tickCount=6, format=",.0f"))


def _colour() -> alt.Color:
    scale = alt.Scale(domain=list(COLOURS), range=list(COLOURS.values()))
    legend = alt.Legend(orient="top", title=None, labelLimit=300)
    return alt.Color("who:N", scale=scale, legend=legend)

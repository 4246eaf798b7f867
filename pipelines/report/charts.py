"""The charts, each one Vega-Lite specification for the page and the picture: lines with bands over
time, bins as bars, all keys as a heat map, predicted against actual.

The page gives each its rows, the ends of its axes (the parameters ``x0``, ``x1``, ``y0``, ``y1``)
and its colours; the picture gives them as numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import altair as alt

COLOURS = (
    *("#0b68b4", "#c2410c", "#0d7f6c", "#8b3fa8"),
    *("#8a6400", "#be185d", "#4d7c0f", "#475569"),
)
"""Of keys in a picture; the page has them in page.css, in light and in dark."""
INK, SOFT, GRID, GREY = "#1b2330", "#566175", "#e6e9ef", "#a3acba"
NUMBER = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, ',~g')"
VEGA_LITE = "6.1"
"""Version that compiles the charts. From 6.4 on the tooltips of the nearest point read undefined:
they look for fields in the cell of the Voronoi diagram, which holds the point one level deeper."""
APART: dict[str, Any] = {"labelOverlap": "greedy", "labelSeparation": 8}
ROWS = alt.NamedData("rows")
Chart = alt.LayerChart | alt.FacetChart
Ends = tuple[float, float] | None


def _domain(ends: Ends, name: str) -> list[Any]:
    if ends is not None:
        return list(ends)
    return [alt.ExprRef(f"{name}0"), alt.ExprRef(f"{name}1")]


def _params(x: Ends, y: Ends) -> list[Any]:
    names = [*(("x0", "x1") if x is None else ()), *(("y0", "y1") if y is None else ())]
    return [alt.param(name=name, value=0) for name in names]


def _time(ends: Ends) -> alt.X:
    low, high = _domain(ends, "x")
    # Of a time, Vega-Lite takes parameters as ends only, not as a list.
    scale = alt.Scale(type="utc", domainMin=low, domainMax=high, nice=False)
    axis = alt.Axis(grid=False, labelBound=True, **APART, tickCount=5)
    return alt.X("t:T", title=None, scale=scale, axis=axis)


def _value(ends: Ends, name: str = "v") -> alt.Y:
    scale = alt.Scale(domain=_domain(ends, "y"), nice=False, zero=False)
    axis = alt.Axis(tickCount=4, labelExpr=NUMBER)
    return alt.Y(f"{name}:Q", title=None, scale=scale, axis=axis)


def _colour(keys: Sequence[str] = ()) -> alt.Color:
    """By the place of a key among the drawn ones; the colours are those of the theme. keys: in a
    legend under the chart; in the page the list of shown keys is the legend."""
    legend = None
    if keys:
        legend = alt.Legend(
            orient="bottom",
            title=None,
            values=list(range(len(keys))),
            labelExpr=f"{json.dumps(list(keys))}[datum.value]",
            symbolType="stroke",
        )
    return alt.Color("slot:N", scale=alt.Scale(domain=list(range(8))), legend=legend)


def _tooltip(*fields: str) -> list[alt.Tooltip]:
    """Fields of a row in a tooltip, under their titles for readers."""
    titles = {"when": "time", "told": "value"}
    return [alt.Tooltip(f"{name}:N", title=titles.get(name, name)) for name in fields]


def lines(x: Ends = None, y: Ends = None, keys: Sequence[str] = ()) -> Chart:
    """Lines with their bands: grey where noise hides the value, a point where a line has no length.

    Rows: t (milliseconds), v, lo, hi, s (v where noise does not hide it), slot, key, alone, and the
    texts when, tick, told.
    """
    base = alt.Chart(ROWS).encode(x=_time(x), detail="key:N")
    told = _tooltip("when", "tick", "key", "told")
    band = base.mark_area(clip=True, opacity=0.22).encode(
        y=_value(y, "lo"), y2="hi:Q", color=_colour(keys)
    )
    grey = base.mark_line(clip=True, strokeWidth=1.2, color=GREY).encode(y=_value(y))
    line = base.mark_line(clip=True, strokeWidth=1.7).encode(y=_value(y, "s"), color=_colour(keys))
    alone = base.transform_filter("datum.alone")
    stick = alone.mark_rule(clip=True).encode(y=_value(y, "lo"), y2="hi:Q", color=_colour(keys))
    dot = alone.mark_point(clip=True, filled=True, size=40).encode(y=_value(y), color=_colour(keys))
    made = [band, grey, line, stick, dot]
    if x is None:
        near = alt.selection_point(
            name="near",
            on="pointermove",
            nearest=True,
            encodings=["x"],
            empty=False,
            clear="pointerout",
        )
        spot = base.mark_point(clip=True, filled=True, size=60).encode(
            y=_value(y),
            color=_colour(),
            tooltip=told,
            opacity=alt.when(near).then(alt.value(1)).otherwise(alt.value(0)),
        )
        brush = alt.selection_interval(name="brush", encodings=["x"])
        made = [band.add_params(brush), *made[1:], spot.add_params(near)]
    return alt.layer(*made).add_params(*_params(x, y))


def bars(y: Ends = None) -> Chart:
    """Bins at one time, with their bands. Rows: bin, v, lo, hi, noise, told."""
    base = alt.Chart(ROWS).encode(
        y=alt.Y("bin:N", sort=None, title=None, axis=alt.Axis(grid=False, labelLimit=140))
    )
    scale = alt.Scale(domain=_domain(y, "y"), nice=False)
    axis = alt.Axis(tickCount=4, labelExpr=NUMBER, labelBound=True, **APART)
    told = _tooltip("bin", "told")
    bar = base.mark_bar(clip=True, opacity=0.8).encode(
        x=alt.X("v:Q", title=None, scale=scale, axis=axis),
        color=alt.when("datum.noise").then(alt.value(GREY)).otherwise(_colour()),
        tooltip=told,
    )
    error = base.mark_rule(clip=True, strokeWidth=1.6).encode(
        x=alt.X("lo:Q", title=None, scale=scale), x2="hi:Q", tooltip=told
    )
    return alt.layer(bar, error).add_params(*_params((0, 0), y))


def heat(x: Ends = None) -> Chart:
    """Rows of keys over time. Rows: t, t2, row, v, told, and top, bend: of the scale of colours."""
    scale = alt.Scale(type="symlog", constant=1, scheme="viridis")
    legend = alt.Legend(
        orient="bottom", title=None, gradientLength=150, tickCount=3, labelExpr=NUMBER
    )
    marks = (
        alt.Chart(ROWS)
        .mark_rect(clip=True)
        .encode(
            x=_time(x),
            x2="t2:T",
            y=alt.Y(
                "row:N",
                sort=None,
                title=None,
                axis=alt.Axis(grid=False, labelOverlap=True, labelLimit=140),
            ),
            color=alt.Color("v:Q", scale=scale, legend=legend),
            tooltip=_tooltip("row", "when", "told"),
        )
    )
    return alt.layer(marks).add_params(*_params(x, (0, 0)))


def scatter(ends: Ends = None) -> Chart:
    """Predicted against actual. Rows: a, p."""
    scale = alt.Scale(domain=_domain(ends, "y"), nice=False, zero=False)
    axis = alt.Axis(tickCount=4, labelExpr=NUMBER, labelBound=True, **APART)
    dots = (
        alt.Chart(ROWS)
        .mark_circle(clip=True, size=12, opacity=0.4)
        .encode(
            x=alt.X("a:Q", title="actual", scale=scale, axis=axis),
            y=alt.Y("p:Q", title="predicted", scale=scale, axis=axis),
        )
    )
    same = (
        alt.Chart(ROWS)
        .mark_line(clip=True, color=GREY, strokeWidth=1)
        .encode(x=alt.X("a:Q", scale=scale), y=alt.Y("a:Q", scale=scale))
    )
    return alt.layer(same, dots).add_params(*_params((0, 0), ends))


def theme() -> dict[str, Any]:
    """The look of a picture; the page takes the same from page.css."""
    words = {"labelColor": SOFT, "titleColor": SOFT, "labelFontSize": 11, "titleFontSize": 11}
    return {
        "font": "DejaVu Sans, Arial, sans-serif",
        "background": "white",
        "view": {"stroke": None},
        "axis": {**words, "gridColor": GRID, "domainColor": GREY, "tickColor": GREY},
        "axisY": {"domain": False, "ticks": False},
        "legend": words,
        "header": {"labelColor": INK, "labelFontSize": 12, "title": None},
        "title": {"color": INK, "subtitleColor": SOFT, "anchor": "start", "fontSize": 14},
        "range": {"category": list(COLOURS)},
        "rule": {"color": INK},
    }

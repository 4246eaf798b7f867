"""The charts of a report as Vega-Lite, and the picture that shows them side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from weir.dpcore.words import not_in_margin, sentence
from weir.pipelines import vega
from weir.pipelines.report import words
from weir.pipelines.report.data import ReportData, Series
from weir.pipelines.report.figures import Figure, sections
from weir.pipelines.report.score import Holdout, bounds, titles
from weir.pipelines.results.series import cut, hidden, label_of, limits

COLOURS = (
    *("#0b68b4", "#c2410c", "#0d7f6c", "#8b3fa8"),
    *("#8a6400", "#be185d", "#4d7c0f", "#475569"),
)
"""Of keys in a picture; the page has them in page.css, in light and in dark."""
INK, SOFT, GRID, GREY = "#1b2330", "#566175", "#e6e9ef", "#a3acba"
ESTIMATE = "#d97706"
"""Of estimates, whatever the key: it stands out from the colours of keys, in light and in dark."""
NUMBER = "abs(datum.value) >= 10000 ? format(datum.value, '~s') : format(datum.value, ',~g')"
APART: dict[str, Any] = {"labelOverlap": "greedy", "labelSeparation": 8}
ROWS, NEAR = alt.NamedData("rows"), alt.NamedData("near")
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


def _colour() -> alt.Color:
    """By the place of a key among the drawn ones; the colours are those of the theme."""
    return alt.Color("slot:N", scale=alt.Scale(domain=list(range(8))), legend=None)


def _tooltip(*fields: str) -> list[alt.Tooltip]:
    """Fields of a row in a tooltip, under their titles for readers."""
    titles = {"when": "time", "told": "value"}
    return [alt.Tooltip(f"{name}:N", title=titles.get(name, name)) for name in fields]


def lines(x: Ends = None, y: Ends = None) -> Chart:
    """Lines with their margins: grey where noise hides the value, a point where a line has no
    length.

    Estimates are dashed, in a colour of their own.

    Rows: t (milliseconds), v, lo, hi, e, elo, ehi (of an estimate), s (v where noise does not hide
    it), b (a baseline), slot, key, noise, alone. The rows of ``near`` are those at the pointer.
    """
    base = alt.Chart(ROWS).encode(x=_time(x), detail="key:N")
    band = base.mark_area(clip=True, opacity=0.22).encode(
        y=_value(y, "lo"), y2="hi:Q", color=_colour()
    )
    grey = base.mark_line(clip=True, strokeWidth=1.2, color=GREY).encode(y=_value(y))
    line = base.mark_line(clip=True, strokeWidth=1.7).encode(y=_value(y, "s"), color=_colour())
    alone = base.transform_filter("datum.alone")
    stick = alone.mark_rule(clip=True).encode(y=_value(y, "lo"), y2="hi:Q", color=_colour())
    dot = alone.mark_point(clip=True, filled=True, size=40).encode(y=_value(y), color=_colour())
    compared = base.mark_line(clip=True, strokeWidth=1.4, strokeDash=[5, 4], color=GREY)
    dashes: dict[str, Any] = {"strokeWidth": 1.6, "strokeDash": [5, 3], "color": ESTIMATE}
    sure = base.mark_area(clip=True, opacity=0.25, color=ESTIMATE)
    named = {
        "margin": band, "hidden": grey, "baseline": compared.encode(y=_value(y, "b")),
        "line": line, "interval": sure.encode(y=_value(y, "elo"), y2="ehi:Q"),
        "estimate": base.mark_line(clip=True, **dashes).encode(y=_value(y, "e")),
        "stick": stick, "dot": dot,
    }  # fmt: skip
    built = list(named.values())
    if x is None:  # the page leaves layers without rows out, by their names
        built = [layer.properties(name=name) for name, layer in named.items()]
        spot = alt.Chart(NEAR).mark_point(clip=True, filled=True, size=60)
        spot = spot.encode(x=_time(x), y=_value(y), color=_colour())
        brush = alt.selection_interval(name="brush", encodings=["x"])
        built = [*built[:3], built[3].add_params(brush), *built[4:], spot]
    return alt.layer(*built).add_params(*_params(x, y))


def bars(y: Ends = None) -> Chart:
    """Bins at one time, with their margins. Rows: bin, v, lo, hi, noise, told."""
    base = alt.Chart(ROWS).encode(
        y=alt.Y("bin:N", sort=None, title=None, axis=alt.Axis(grid=False, labelLimit=140))
    )
    scale = alt.Scale(domain=_domain(y, "y"), nice=False)
    axis = alt.Axis(tickCount=4, labelExpr=NUMBER, labelBound=True, **APART)
    reported = _tooltip("bin", "told")
    bar = base.mark_bar(clip=True, opacity=0.8).encode(
        x=alt.X("v:Q", title=None, scale=scale, axis=axis),
        color=alt.when("datum.noise").then(alt.value(GREY)).otherwise(_colour()),
        tooltip=reported,
    )
    error = base.mark_rule(clip=True, strokeWidth=1.6).encode(
        x=alt.X("lo:Q", title=None, scale=scale), x2="hi:Q", tooltip=reported
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


FIGURES_DRAWN = 18
WIDTH, HEIGHT = 520, 150
NOTHING = [np.zeros(0)] * 4
SPACING = {"row": 30, "column": 40}
NOTE_WIDTH = 96
"""Letters of a line under the title of a chart."""
Rows = list[dict[str, Any]]


def draw(data: ReportData, path: Path, held: Holdout | None = None, scale: float = 1.5) -> Path:
    """Writes the picture: the figures in the order of the page, two side by side."""
    result = [(s.name, f) for s in sections(data, held) for f in s.figures][:FIGURES_DRAWN]
    notes = [
        _note(name, f, i > 0 and result[i - 1][0] == name) for i, (name, f) in enumerate(result)
    ]
    jobs = [
        _bars(f, data, note) if f.part is None else _lines(f, data, note)
        for (_, f), note in zip(result, notes, strict=True)
    ]
    if held is not None:
        jobs += _scatters(held)
    chart = alt.concat(*jobs, columns=1 if len(jobs) == 1 else 2, spacing=SPACING, bounds="full")
    chart = chart.resolve_scale(x="independent", y="independent", color="independent")
    spec = chart.properties(title=_title(data)).to_dict()
    spec["config"] = theme()
    return vega.save(spec, path, scale, "report.png")


def _title(data: ReportData) -> alt.TitleParams:
    run = data.run
    epsilon, delta, window = run.promise
    lasting = "for ever" if window is None else words.duration(run, window)
    lasting = "" if run.once else f"; protection horizon: {lasting}"
    promise = (
        f"\N{GREEK SMALL LETTER EPSILON} = {words.short(epsilon)}, "
        f"\N{GREEK SMALL LETTER DELTA} = {words.short(delta)} per {words.unit(run)}{lasting}."
    )
    # Margins of models may cover more than noise.
    of = ", as the plan says" if any(output.is_model for output in run.outputs) else " of the noise"
    what = "Bars" if run.once else "Lines"
    note = f"{what}: released values. Margins: 95 %{of}. Grey: hidden by noise."
    note += "" if data.estimates is None else " Dashed, orange: estimates, not releases."
    if data.ranked_by is not None and data.keys > len(data.drawn):
        note += f" The {len(data.drawn)} keys with the largest last {data.ranked_by.name}."
    lines = [f"{words.facts(data)} {promise}", words.unfinished(run) or note]
    short = [textwrap.shorten(line, 180) for line in lines]
    return alt.TitleParams(run.name, subtitle=short, fontSize=18, subtitleFontSize=12, offset=18)


def _rows(series: Series, part: int, figure: Figure, data: ReportData, slot: int) -> Rows:
    base = next((item for item in figure.panel.base if item.key == series.key), None)
    compared = series.value * np.nan if base is None else base.value
    between = figure.panel.output.between
    value = series.value[:, part]
    noise = hidden(value, series.half[:, part], between)
    low, high = (cut(end[:, part], between) for end in (series.low, series.high))
    fine = np.isfinite(value)
    beside = np.concatenate([[False], fine, [False]])
    alone = fine & ~beside[:-2] & ~beside[2:]
    output = figure.panel.output
    none = np.full_like(value, np.nan)
    estimated = data.estimates and data.estimates.of(output, series.key, series.ticks, part)
    e, elo, ehi = estimated or (none, none, none)
    results = []
    for i, tick in enumerate(series.ticks.tolist()):
        shown = (value, low, high, e, elo, ehi)
        v, lo, hi, *model = (float(x[i]) if np.isfinite(x[i]) else None for x in shown)
        results.append(
            {
                "t": data.run.tick_start(tick) / 1000, "v": v, "lo": lo, "hi": hi,
                "b": float(compared[i, part]) if np.isfinite(compared[i, part]) else None,
                "s": None if noise[i] else v, "noise": bool(noise[i]), "alone": bool(alone[i]),
                "slot": slot % 8, "key": series.key or "(empty)",
                **dict(zip(("e", "elo", "ehi"), model, strict=True)),
            }
        )  # fmt: skip
    return results


def _note(section: str, figure: Figure, again: bool) -> list[str]:
    """Lines under a figure's title: what bounds keep out of it. Of models, whose charts are small
    and many, under the first alone. again: whether it is not the first of its section."""
    if section == "model" and again:
        return []
    output = figure.panel.output
    text = not_in_margin(output.left_out, words.is_banded(figure.panel))
    lines = [sentence(figure.caption), text] if figure.baseline else [text]
    return [line for text in lines for line in textwrap.wrap(text, NOTE_WIDTH)]


def _lines(figure: Figure, data: ReportData, note: Sequence[str]) -> Any:
    drawn = [item for item in figure.panel.series if item.key in data.drawn]
    part = figure.part or 0
    if data.run.once:
        return _key_bars(figure, drawn, part, data, note)
    rows = [r for i, item in enumerate(drawn) for r in _rows(item, part, figure, data, i)]
    parts = [[x[:, part] for x in (s.value, s.half, s.low, s.high)] for s in drawn] or [NOTHING]
    value, half, low, high = (np.concatenate(x) for x in zip(*parts, strict=True))
    first, last = (data.run.tick_start(t) / 1000 for t in (data.run.first_tick, data.run.last_tick))
    ends = (first, last if last > first else first + data.run.period / 1000)
    between = limits(value, half, figure.panel.output.between, low, high)
    base = [item.value[:, part] for item in figure.panel.base if item.key in data.drawn]
    if base and np.isfinite(np.concatenate(base)).any():
        most = 1.5 * float(np.nanmax(np.concatenate(base)))
        between = (0.0, max(0.7 * most, min(between[1], most)))
    keys = [item.key or "(empty)" for item in drawn]
    if len(keys) == 1:
        chart: Any = lines(ends, between).properties(width=WIDTH, height=HEIGHT)
    else:
        width = WIDTH // max(1, len(keys)) - 10
        chart = lines(ends, between).properties(width=width, height=HEIGHT)
        chart = chart.facet(column=alt.Column("key:N", sort=keys, title=None), spacing=10)
    unit = f" ({figure.unit})" if figure.unit and figure.unit != figure.title else ""
    title = f"{figure.title}{unit}" + ("" if figure.baseline else f", {figure.caption}")
    with np.errstate(invalid="ignore"):
        out = int(np.count_nonzero((value < between[0]) | (value > between[1])))
    beyond = [f"{out:,} of {len(value):,} values lie beyond the axis."] if out else []
    return _with(chart, rows, textwrap.shorten(title, 84), [*note, *beyond])


def _bars(figure: Figure, data: ReportData, note: Sequence[str]) -> Any:
    rows: Rows = []
    when = ""
    output = figure.panel.output
    if figure.panel.series:
        item = figure.panel.series[0]
        when = f", {words.when(data.run, int(item.ticks[-1]))}"
        when += f", {item.key or '(empty)'}" if not data.keyless else ""
        for i in range(len(output.labels)):
            rows += [
                {**r, "bin": label_of(output, i)} for r in _rows(item.newest, i, figure, data, 0)
            ]
    return _drawn_bars(figure, rows, f"{figure.title}, {figure.caption}{when}", note)


def _key_bars(
    figure: Figure, drawn: Sequence[Series], part: int, data: ReportData, note: Sequence[str]
) -> Any:
    """A number that has no times: a bar for each key."""
    rows = [
        {**row, "bin": item.key or figure.title}
        for item in drawn
        for row in _rows(item, part, figure, data, 0)
    ]
    unit = f" ({figure.unit})" if figure.unit and figure.unit != figure.title else ""
    return _drawn_bars(figure, rows, f"{figure.title}{unit}, {figure.caption}", note)


def _drawn_bars(figure: Figure, rows: Rows, title: str, note: Sequence[str]) -> Any:
    value, low, high = (np.array([r[x] or 0.0 for r in rows] + [0.0]) for x in ("v", "lo", "hi"))
    ends = limits(value, (high - low) / 2, figure.panel.output.between, low, high)
    chart = bars(ends).properties(width=WIDTH, height=HEIGHT)
    return _with(chart, rows, textwrap.shorten(title, 84), note)


def _scatters(held: Holdout) -> list[Any]:
    ends = bounds(held.scatters)
    results = []
    for item, title in zip(held.scatters, titles(held), strict=True):
        pairs = zip(item.actual.tolist(), item.predicted.tolist(), strict=True)
        rows = [{"a": a, "p": p} for a, p in pairs]
        results.append(_with(scatter(ends).properties(width=WIDTH, height=220), rows, title))
    return results


def _with(chart: Any, rows: Sequence[dict[str, Any]], title: str, note: Sequence[str] = ()) -> Any:
    """A chart of its own rows, not of the page's. note: lines under its title."""
    value = alt.InlineData(values=list(rows))
    built = chart.copy(deep=True)
    layered = built.spec if isinstance(built, alt.FacetChart) else built
    for layer in layered.layer:
        layer.data = alt.Undefined
    layered.data = alt.Undefined
    built.data = value
    under = list(note) or alt.Undefined
    return built.properties(
        title=alt.TitleParams(title, fontSize=12, subtitle=under, subtitleFontSize=10)
    )

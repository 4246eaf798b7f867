"""The report as one self-contained page: no network, readable in light and in dark."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.report import heat as report_heat
from pipelines.report import holdout, html_model, svg, words
from pipelines.report.data import HEAT_LABELLED, Panel, ReportData, Series
from pipelines.report.numbers import show_level, show_value
from pipelines.report.score import Holdout, caption
from pipelines.results.run import Output

_HERE = Path(__file__).parent
_HISTOGRAMS_DRAWN = 3
E_ = html.escape


def page(data: ReportData, held: Holdout | None = None) -> str:
    """Draws everything. Returns the text of an HTML file."""
    run = data.run
    axis = svg.TimeAxis(run.ruler, run.first_tick, run.last_tick)
    settings: dict[str, Any] = {"start": run.start, "period": run.period}
    if run.ruler.calendar is not None:
        ticks = range(run.first_tick, run.last_tick + 1)
        settings |= {"first": run.first_tick, "starts": [run.tick_start(tick) for tick in ticks]}
    models = [panel for panel in data.panels if panel.output.is_model]
    others = [panel for panel in data.panels if not panel.output.is_model]
    drawings = [drawing for panel in others for drawing in _drawings(panel, data, axis)]
    sections = [html_model.section(panel, data, axis) for panel in models]
    if held is not None:
        sections.append(_holdout(held, data, axis))
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{E_(run.name)}: private releases</title>"
        f"<style>{(_HERE / 'report.css').read_text()}</style></head><body><main>"
        f"{_head(data)}{_promise(data)}{_reading(data)}{_chips(data)}"
        f'<div class="panels">{"".join(drawings)}</div>{"".join(sections)}'
        f"{_last_table(data)}{_details(data)}"
        f"</main>{svg.script(settings, 'page')}"
        f"<script>{(_HERE / 'report.js').read_text()}</script></body></html>\n"
    )


def _head(data: ReportData) -> str:
    lines = words.facts(data)
    warning = words.unfinished(data.run)
    banner = f'<p class="note warn">{E_(warning)}</p>' if warning else ""
    return f"<h1>{E_(data.run.name)}</h1><p class=lead>{E_(lines)}</p>{banner}"


def _promise(data: ReportData) -> str:
    numbers = "".join(
        f"<div><b>{E_(value)}</b><span>{E_(label)}</span></div>"
        for value, label in words.numbers(data.run)
    )
    rows = words.expiration(data.run)
    table = ""
    if rows:
        body = "".join(
            f"<tr><td>{E_(within)}</td><td>{E_(epsilon)}</td><td>{E_(delta)}</td></tr>"
            for within, epsilon, delta in rows
        )
        table = (
            f"<div class=scroll><table><caption>{E_(words.against(data.run))}</caption>"
            "<thead><tr><th>released within</th>"
            f"<th>epsilon</th><th>delta</th></tr></thead><tbody>{body}</tbody></table></div>"
        )
    statement = words.statement(data.run)
    return (
        f'<section class="card promise"><div><div class="numbers">{numbers}</div>'
        f'<p class="statement">{E_(statement)}</p></div>{table}</section>'
    )


def _reading(data: ReportData) -> str:
    return f'<p class="note">{E_(words.how_to_read(data))}</p>'


def _drawings(panel: Panel, data: ReportData, axis: svg.TimeAxis) -> list[str]:
    if len(panel.output.labels) > 1:
        drawn = panel.series[:_HISTOGRAMS_DRAWN]
        return [_histogram(panel, series, data, axis) for series in drawn]
    drawings = [_lines(panel, data, axis)]
    if panel.heat is not None:
        drawings.append(_heat(panel, data, axis))
    return drawings


def _holdout(held: Holdout, data: ReportData, axis: svg.TimeAxis) -> str:
    charts = "".join(_lines(panel, data, axis) for panel in held.panels)
    return (
        f'<section class="card wide"><h2>Held-back data <small>{E_(caption(held))}</small></h2>'
        f'<div class="panels">{charts}</div>{holdout.figures(held)}</section>'
    )


def _chips(data: ReportData) -> str:
    if data.keys == 1:
        return ""
    items = "".join(
        f'<li><i style="background:var(--s{i % 5})"></i>{E_(show_key(key))}</li>'
        for i, key in enumerate(data.drawn)
    )
    return f'<ul class="chips">{items}</ul>'


def show_key(key: str) -> str:
    """A key for people."""
    return key if key else "(empty)"


def _rounded(values: np.ndarray[Any, Any]) -> list[float | None]:
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in values]


def _figure(
    output: Output, caption: str, drawing: str, about: Any, foot: str = "", headline: str = ""
) -> str:
    unit = f" <small>{E_(output.unit)}</small>" if output.unit else ""
    value = f"<b>{headline}</b>" if headline else ""
    return (
        f'<figure class="card"{"" if about is None else " data-chart"}>'
        f"<figcaption><h2>{E_(output.name)}{unit}</h2>{value}<p>{E_(caption)}</p></figcaption>"
        f"{drawing}{'' if about is None else svg.script(about)}"
        f"{f'<p class=foot>{E_(foot)}</p>' if foot else ''}</figure>"
    )


def _value(value: float, half: float) -> str:
    shown, width = show_value(value, half)
    error = f" <small>\N{PLUS-MINUS SIGN} {E_(width)}</small>" if width else ""
    return f"{E_(shown)}{error}"


def _lines(panel: Panel, data: ReportData, axis: svg.TimeAxis) -> str:
    span = words.span(panel.output, data.run)
    label = f"{panel.output.name}, {span}"
    drawing, frame, cut = svg.line_chart(panel.series, axis, label)
    ticks = (
        np.unique(np.concatenate([s.ticks for s in panel.series])) if panel.series else np.zeros(0)
    )
    series = []
    banded = False
    for one in panel.series:
        value, half = np.full(len(ticks), np.nan), np.full(len(ticks), np.nan)
        at = np.searchsorted(ticks, one.ticks)
        value[at], half[at] = one.value[:, 0], one.half[:, 0]
        item: dict[str, Any] = {
            "name": show_key(one.key) if data.keys > 1 else "",
            "value": _rounded(value),
        }
        if np.isfinite(half).any():
            item["half"], banded = _rounded(half), True
        series.append(item)
    about = {"frame": _frame(frame), "ticks": ticks.astype(int).tolist(), "series": series}
    headline = ""
    if len(panel.series) == 1 and data.keys == 1:
        one = panel.series[0]
        headline = _value(one.value[-1, 0], one.half[-1, 0])
    feet = []
    if not panel.series:
        feet.append("no values")
    elif not banded:
        feet.append("no error band: the error of this release is not additive noise")
    elif data.keys == 1 and svg.thin(panel.series[0], frame):
        feet.append("the band is narrower than the line")
    if cut:
        feet.append("the widest part of the band is cut off")
    return _figure(panel.output, span, drawing, about, "; ".join(feet), headline)


def _frame(frame: svg.Frame) -> list[float]:
    numbers = (frame.left, frame.right, frame.top, frame.bottom)
    return [float(f"{v:.7g}") for v in (*numbers, frame.x0, frame.x1, frame.y0, frame.y1)]


def _histogram(panel: Panel, series: Series, data: ReportData, axis: svg.TimeAxis) -> str:
    labels = panel.output.labels
    span = words.span(panel.output, data.run)
    who = f"{show_key(series.key)}, " if data.keys > 1 else ""
    drawing, about, when = "", None, words.when(data.run, int(series.ticks[-1]))
    if len(labels) <= HEAT_LABELLED:
        name = f"{panel.output.name}, {span}"
        drawing = svg.bar_chart(series.value[-1], series.half[-1], labels, name)
    if len(series.ticks) > 1:
        rows = len(labels)
        height = 16.0 if rows <= 20 else max(2.0, 420.0 / rows)
        every = max(1, -(-rows // 26))
        marks = [(i + 0.5, label[:22]) for i, label in enumerate(labels) if i % every == 0]
        side = svg.side_for(labels)
        name = f"{panel.output.name} over time"
        chart, frame, scale = report_heat.heat_chart(
            series.value.T, series.ticks, marks, axis, height, name, side
        )
        about = _heat_data(series.value.T, series.ticks, list(labels), frame, scale)
        drawing += chart + _scale(scale)
    caption = f"{who}{span}, at {when} and over time"
    return _figure(panel.output, caption, drawing, about)


def _heat_data(
    value: np.ndarray[Any, Any],
    ticks: np.ndarray[Any, Any],
    rows: Sequence[str],
    frame: svg.Frame,
    scale: report_heat.HeatScale,
) -> dict[str, Any]:
    level = np.ascontiguousarray(scale.level(value))
    return {
        "frame": _frame(frame),
        "ticks": ticks.astype(int).tolist(),
        "rows": list(rows),
        "top": float(f"{scale.top:.6g}"),
        "soft": float(f"{scale.soft:.6g}"),
        "levels": base64.b64encode(level.tobytes()).decode(),
    }


def _scale(scale: report_heat.HeatScale) -> str:
    return f'<div class="key-scale">{report_heat.legend(scale, show_level)}</div>'


def _heat(panel: Panel, data: ReportData, axis: svg.TimeAxis) -> str:
    heat = panel.heat
    assert heat is not None
    rows = len(heat.rows)
    if rows <= HEAT_LABELLED:
        marks = [(i + 0.5, show_key(key)[:16]) for i, key in enumerate(heat.rows)]
        height = 14.0
    else:
        marks = [(0.5, "rank 1"), (rows - 0.5, f"{data.keys:,}")]
        marks += [(rows * f, f"{round(data.keys * f):,}") for f in (0.25, 0.5, 0.75)]
        height = 190.0 / rows
    side = 14 + 6.6 * max(len(label) for _, label in marks)
    span = words.span(panel.output, data.run)
    chart, frame, scale = report_heat.heat_chart(
        heat.value,
        heat.ticks,
        marks,
        axis,
        height,
        f"{panel.output.name}, all keys",
        side,
        heat.noise,
    )
    foot = (
        f"each row is the mean of about {heat.keys_per_row:,.0f} keys of neighbouring rank"
        if heat.keys_per_row > 1
        else ""
    )
    about = _heat_data(heat.value, heat.ticks, heat.rows, frame, scale)
    caption = f"all {data.keys:,} keys, {span}"
    return _figure(panel.output, caption, chart + _scale(scale), about, foot)


def _last_table(data: ReportData) -> str:
    head, body = words.last_values(data)
    cells = "".join(f"<th>{'<br>'.join(map(E_, title))}</th>" for title in head)
    rows = []
    for first, values in body:
        shown = "".join(f"<td>{_value(*pair)}</td>" for pair in values)
        rows.append(f"<tr><td>{E_(first)}</td>{shown}</tr>")
    caption = words.last_caption(data)
    return (
        f'<section class="card"><div class=scroll><table><caption>{E_(caption)}</caption>'
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _details(data: ReportData) -> str:
    parts = []
    warnings = data.run.plan.get("warnings") or []
    if warnings:
        items = "".join(f"<li>{E_(str(item))}</li>" for item in warnings)
        parts.append(f"<p>The plan's warnings:</p><ul>{items}</ul>")
    head, body = words.alternatives(data.run)
    if body:
        cells = "".join(f"<th>{E_(title)}</th>" for title in head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{E_(cell)}</td>" for cell in row) + "</tr>" for row in body
        )
        parts.append(
            "<div class=scroll><table><caption>What the plan chose among</caption>"
            f"<thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table></div>"
        )
    budget = words.budget(data.run)
    if budget:
        parts.append(f"<p>{E_(budget)}</p>")
    digest = data.run.plan.get("digest")
    if digest:
        parts.append(f"<p>Plan <code>{E_(str(digest))}</code></p>")
    if not parts:
        return ""
    inside = f"<details><summary>The plan</summary>{''.join(parts)}</details>"
    return f'<section class="card">{inside}</section>'

"""The report as one picture, of the page's own specifications."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert

from weir.dpcore.words import not_in_margin
from weir.pipelines.report import charts, words
from weir.pipelines.report.data import ReportData, Series
from weir.pipelines.report.figures import Figure, sections
from weir.pipelines.report.numbers import cut, hidden, label_of, limits
from weir.pipelines.report.score import Holdout, bounds, titles

FIGURES_DRAWN = 18
WIDTH, HEIGHT = 520, 150
NOTHING = [np.zeros(0)] * 4
SPACING = {"row": 30, "column": 40}
NOTE_WIDTH = 96
"""Letters of a line under the title of a chart."""
Rows = list[dict[str, Any]]


def draw(data: ReportData, path: Path, held: Holdout | None = None, scale: float = 1.5) -> Path:
    """Writes the picture: the figures in the order of the page, two side by side."""
    found = [(s.name, f) for s in sections(data, held) for f in s.figures][:FIGURES_DRAWN]
    notes = [_note(name, f, i > 0 and found[i - 1][0] == name) for i, (name, f) in enumerate(found)]
    jobs = [
        _bars(f, data, note) if f.part is None else _lines(f, data, name, note)
        for (name, f), note in zip(found, notes, strict=True)
    ]
    if held is not None:
        jobs += _scatters(held)
    chart = alt.concat(*jobs, columns=1 if len(jobs) == 1 else 2, spacing=SPACING, bounds="full")
    chart = chart.resolve_scale(x="independent", y="independent", color="independent")
    spec = chart.properties(title=_title(data)).to_dict()
    spec["config"] = charts.theme()
    path.write_bytes(vl_convert.vegalite_to_png(spec, vl_version=charts.VEGA_LITE, scale=scale))
    return path


def _title(data: ReportData) -> alt.TitleParams:
    run = data.run
    epsilon, delta, window = run.promise
    lasting = "always" if window is None else f"for {words.duration(run, window)}"
    promise = (
        f"\N{GREEK SMALL LETTER EPSILON} = {words.short(epsilon)}, "
        f"\N{GREEK SMALL LETTER DELTA} = {words.short(delta)} per {words.unit(run)}, "
        f"protected {lasting}."
    )
    # Bands of models may cover more than noise.
    of = ", as the plan says" if any(one.is_model for one in run.outputs) else " of the noise"
    note = f"Lines: released values. Bands: 95 %{of}. Grey: hidden by noise."
    if data.ranked_by is not None and data.keys > len(data.drawn):
        note += f" The {len(data.drawn)} keys with the largest last {data.ranked_by.name}."
    lines = [f"{words.facts(data)} {promise}", words.unfinished(run) or note]
    short = [textwrap.shorten(line, 180) for line in lines]
    return alt.TitleParams(run.name, subtitle=short, fontSize=18, subtitleFontSize=12, offset=18)


def _rows(one: Series, part: int, figure: Figure, data: ReportData, slot: int) -> Rows:
    between = figure.panel.output.between
    value = one.value[:, part]
    noise = hidden(value, one.half[:, part], between)
    low, high = (cut(end[:, part], between) for end in (one.low, one.high))
    fine = np.isfinite(value)
    beside = np.concatenate([[False], fine, [False]])
    alone = fine & ~beside[:-2] & ~beside[2:]
    found = []
    for i, tick in enumerate(one.ticks.tolist()):
        v, lo, hi = (float(x[i]) if np.isfinite(x[i]) else None for x in (value, low, high))
        found.append(
            {
                "t": data.run.tick_start(tick) / 1000, "v": v, "lo": lo, "hi": hi,
                "s": None if noise[i] else v, "noise": bool(noise[i]), "alone": bool(alone[i]),
                "slot": slot % 8, "key": one.key or "(empty)",
            }
        )  # fmt: skip
    return found


def _note(section: str, figure: Figure, again: bool) -> list[str]:
    """Lines under a figure's title: what bounds keep out of it. Of models, whose charts are small
    and many, under the first alone. again: whether it is not the first of its section."""
    if section == "model" and again:
        return []
    output = figure.panel.output
    text = not_in_margin(output.left_out, words.is_banded(figure.panel))
    return textwrap.wrap(text, NOTE_WIDTH)


def _lines(figure: Figure, data: ReportData, section: str, note: Sequence[str]) -> Any:
    drawn = [one for one in figure.panel.series if one.key in data.drawn]
    part = figure.part or 0
    rows = [r for i, one in enumerate(drawn) for r in _rows(one, part, figure, data, i)]
    lines = [[x[:, part] for x in (s.value, s.half, s.low, s.high)] for s in drawn] or [NOTHING]
    value, half, low, high = (np.concatenate(x) for x in zip(*lines, strict=True))
    first, last = (data.run.tick_start(t) / 1000 for t in (data.run.first_tick, data.run.last_tick))
    ends = (first, last if last > first else first + data.run.period / 1000)
    between = limits(value, half, figure.panel.output.between, low, high)
    keys = [one.key or "(empty)" for one in drawn]
    if len(keys) == 1:
        chart: Any = charts.lines(ends, between).properties(width=WIDTH, height=HEIGHT)
    elif section == "model":
        chart = charts.lines(ends, between, keys).properties(width=WIDTH, height=HEIGHT)
    else:
        width = WIDTH // max(1, len(keys)) - 10
        chart = charts.lines(ends, between).properties(width=width, height=HEIGHT)
        chart = chart.facet(column=alt.Column("key:N", sort=keys, title=None), spacing=10)
    unit = f" ({figure.unit})" if figure.unit and figure.unit != figure.title else ""
    title = textwrap.shorten(f"{figure.title}{unit}, {figure.caption}", 84)
    return _with(chart, rows, title, note)


def _bars(figure: Figure, data: ReportData, note: Sequence[str]) -> Any:
    rows: Rows = []
    when = ""
    output = figure.panel.output
    if figure.panel.series:
        one = figure.panel.series[0]
        when = f", {words.when(data.run, int(one.ticks[-1]))}"
        when += f", {one.key or '(empty)'}" if not data.keyless else ""
        for i in range(len(output.labels)):
            rows += [
                {**r, "bin": label_of(output, i)} for r in _rows(one.newest, i, figure, data, 0)
            ]
    value, low, high = (np.array([r[x] or 0.0 for r in rows] + [0.0]) for x in ("v", "lo", "hi"))
    ends = limits(value, (high - low) / 2, output.between, low, high)
    chart = charts.bars(ends).properties(width=WIDTH, height=HEIGHT)
    title = textwrap.shorten(f"{figure.title}, {figure.caption}{when}", 84)
    return _with(chart, rows, title, note)


def _scatters(held: Holdout) -> list[Any]:
    ends = bounds(held.scatters)
    found = []
    for one, title in zip(held.scatters, titles(held), strict=True):
        pairs = zip(one.actual.tolist(), one.predicted.tolist(), strict=True)
        rows = [{"a": a, "p": p} for a, p in pairs]
        found.append(_with(charts.scatter(ends).properties(width=WIDTH, height=220), rows, title))
    return found


def _with(chart: Any, rows: Sequence[dict[str, Any]], title: str, note: Sequence[str] = ()) -> Any:
    """A chart of its own rows, not of the page's. note: lines under its title."""
    given = alt.InlineData(values=list(rows))
    made = chart.copy(deep=True)
    layered = made.spec if isinstance(made, alt.FacetChart) else made
    for layer in layered.layer:
        layer.data = alt.Undefined
    layered.data = alt.Undefined
    made.data = given
    under = list(note) or alt.Undefined
    return made.properties(
        title=alt.TitleParams(title, fontSize=12, subtitle=under, subtitleFontSize=10)
    )

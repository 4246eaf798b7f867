"""Numbers packed for a page: as many digits as the noise leaves, differences, deflate, base64.

The page unpacks them with the browser's own DecompressionStream (``unpack`` in page.js).
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from weir.dpcore.words import not_in_margin
from weir.pipelines.report import words
from weir.pipelines.report.data import ReportData, Series, SeriesGrid
from weir.pipelines.report.figures import Figure, FigureSection, sections
from weir.pipelines.report.model_error import BASELINE
from weir.pipelines.report.score import Holdout, bounds, titles
from weir.pipelines.results.series import hidden, label_of, show_margin

Floats = NDArray[np.float64]

NONE = -(1 << 31)
"""Code of no value."""
_ROOM = 1e9


def step_of(value: Floats, half: Floats) -> float:
    """The unit in which numbers are held: 1, or a tenth of the last digit that the noise leaves."""
    known = half[np.isfinite(half) & (half > 0)]
    seen = value[np.isfinite(value)]
    top = float(np.abs(seen).max()) if seen.size else 1.0
    small = float(known.min()) if known.size else top / 1e4
    step = min(1.0, 10.0 ** (math.floor(math.log10(small)) - 2)) if small > 0 else 1.0
    widest = float(known.max()) if known.size else 0.0
    least = max(top, widest) / _ROOM
    return step if step > least else 10.0 ** math.ceil(math.log10(least))


def pack(numbers: Floats, step: float) -> str:
    """(rows, columns) -> text. Differences along rows wrap at 32 bits, as they do in the page."""
    fine = np.isfinite(numbers)
    codes = np.full(numbers.shape, NONE, np.int64)
    codes[fine] = np.round(numbers[fine] / step).astype(np.int64)
    steps = np.diff(codes, axis=1, prepend=0).astype(np.uint32)  # modulo 2^32
    planes = np.ascontiguousarray(steps.astype("<u4").reshape(-1, 1).view(np.uint8).T)
    return base64.b64encode(zlib.compress(planes.tobytes(), 5)).decode()


def packed(
    value: Floats, half: Floats, low: Floats | None = None, high: Floats | None = None
) -> dict[str, Any]:
    """Values and half widths of their margins, (rows, columns) each; where a value need not lie in
    the middle of its margin its ends too. Half widths that all rows share are one row."""
    step = step_of(value, half)
    if low is not None and high is not None:
        sides = np.stack([value - low, high - value, half, np.abs(low), np.abs(high)])
        step = step_of(np.concatenate([value, low, high]), sides)
    results: dict[str, Any] = {"step": step, "value": pack(value, step)}
    if low is not None and high is not None:
        results |= {"low": pack(low, step), "high": pack(high, step)}
    if np.isfinite(half).any():
        # Rows differ in where a key begins, too: a half width counts where there is a value.
        with np.errstate(invalid="ignore"):
            shared = np.nanmax(np.vstack([half, np.full((1, half.shape[1]), -np.inf)]), axis=0)
            shared = np.where(np.isfinite(shared), shared, np.nan)[None, :]
            off = np.abs(half - shared) > step / 2
        unbanded = np.isfinite(value) & ~np.isfinite(half)
        alike = not off.any() and not unbanded.any()
        results["half"] = pack(shared if alike else half, step)
    return results


_HERE = Path(__file__).parent


@functools.cache
def templates() -> jinja2.Environment:
    """The templates; every value that enters one is escaped."""
    loader = jinja2.FileSystemLoader(_HERE / "templates")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)


@functools.cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed, to be inlined: ``make vega`` writes the file."""
    return (_HERE / "vega.js").read_text(encoding="utf-8")


@functools.cache
def _specs() -> dict[str, Any]:
    from weir.pipelines.report import picture

    built = {f.__name__: f for f in (picture.lines, picture.bars, picture.heat, picture.scatter)}
    return {name: _bare(make().to_dict()) for name, make in built.items()}


def _bare(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in spec.items() if name not in ("$schema", "config")}


def page(data: ReportData, held: Holdout | None = None, live: bool = False) -> str:
    """Draws everything. Returns the text of an HTML file; live: for a server that tells ticks."""
    run = data.run
    library, script = _library(), (_HERE / "page.js").read_text()
    heads, alternatives = words.alternatives(run)
    warnings = [str(item) for item in run.plan.get("warnings") or []]
    digest, budget = str(run.plan.get("digest") or ""), words.budget(run)
    result = templates().get_template("page.html")
    safe = Markup
    return result.render(
        **_parts_of(data, live),
        name=run.name,
        policy=policy((library, script), live),
        css=safe((_HERE / "page.css").read_text()),
        library=safe(library),
        script=safe(script),
        data=safe(as_script(payload(data, held))),
        live=live,
        once=run.once,
        keys=f"{data.keys:,} keys",
        numbers=words.numbers(run),
        statement=words.statement(run),
        expiration=words.expiration(run),
        against=words.against(run),
        always=words.every_period(run),
        reading=words.how_to_read(data),
        warnings=warnings,
        heads=heads,
        alternatives=alternatives,
        choice=str(run.plan.get("choice") or ""),
        budget=budget,
        digest=digest,
        plan=bool(warnings or alternatives or budget or digest),
    )


def policy(scripts: tuple[str, ...], live: bool) -> str:
    """Content-Security-Policy: these scripts run and no other; nothing is fetched, or this host."""
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    allowed = (
        " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests) or "'none'"
    )
    host = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src {host}; base-uri 'none'; form-action 'none'"
    )


def as_script(value: Any) -> str:
    """JSON that may stand in a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _parts_of(data: ReportData, live: bool = False) -> dict[str, Any]:
    """What templates need that changes as ticks come."""
    heads, body = words.last_values(data)
    outputs = [output for output, _, _ in words.columns(data)]
    rows = []
    for first, values in body:
        cells = []
        for output, cell in zip(outputs, values, strict=True):
            noise = bool(hidden(np.array(cell[0]), np.array(cell[1]), output.between))
            cells.append((*show_margin(*cell), noise))
        rows.append((first, cells))
    if data.keys == 1:  # dates side by side, as in charts
        names = [", ".join(title) for title in heads[1:]]
        across = zip(*(cells for _, cells in rows), strict=True)
        heads = [("release",), *((first,) for first, _ in rows)]
        rows = [(name, list(cells)) for name, cells in zip(names, across, strict=True)]
    last = {
        "caption": words.last_caption(data),
        "heads": heads,
        "rows": rows,
        "left_out": words.left_out(data),
    }
    return {
        "facts": words.facts(data),
        "unfinished": "" if live else words.unfinished(data.run),
        "last": last,
    }


def parts(data: ReportData) -> dict[str, str]:
    """The parts of a live page that are renewed: id -> markup."""
    reported = _parts_of(data, live=True)
    return {
        name: templates().get_template(f"{name}.html").render(**reported)
        for name in ("facts", "last")
    }


def payload(data: ReportData, held: Holdout | None = None) -> dict[str, Any]:
    """All that the page draws, JSON-able: ``page.js`` unpacks it."""
    result = sections(data, held)
    if data.run.once:  # numbers that have no times stand in the table
        result = [replace(part, figures=_without_times(part.figures)) for part in result]
        result = [part for part in result if part.figures or part.note]
    figures = [figure for section in result for figure in section.figures]
    place = {id(figure): i for i, figure in enumerate(figures)}
    coarse = data.coarse
    everyone = coarse.keys if coarse is not None else data.drawn
    heats = [
        {"figure": place[id(figure)], **_heat(figure, data)}
        for figure in figures
        if figure.panel.heat is not None and figure.part == 0
    ]
    scatters = []
    if held is not None:
        ends = bounds(held.scatters)
        scatters = [
            {
                "title": title,
                "ends": ends,
                "a": _short(scatter.actual),
                "p": _short(scatter.predicted),
            }
            for scatter, title in zip(held.scatters, titles(held), strict=True)
        ]
    return {
        "name": data.run.name,
        "period": data.run.period,
        "complete": data.run.complete,
        "keyless": data.keyless,
        "keys": list(everyone),
        "drawn": list(data.drawn),
        "fine": _axis(data.fine, data),
        "coarse": None if coarse is None else _axis(coarse, data),
        "figures": [_figure(figure, i, data) for i, figure in enumerate(figures)],
        "sections": [_section(section, place) for section in result],
        "heats": heats,
        "scatters": scatters,
        "specs": _specs(),
    }


def _without_times(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    return tuple(figure for figure in figures if figure.part is None)


def _section(section: FigureSection, place: Mapping[int, int]) -> dict[str, Any]:
    ids = [place[id(figure)] for figure in section.figures]
    return {"name": section.name, "title": section.title, "note": section.note, "figures": ids}


def _axis(grid: SeriesGrid, data: ReportData) -> dict[str, Any]:
    ticks = grid.ticks.tolist()
    return {"keys": list(grid.keys), "ticks": ticks, "times": _times(ticks, data)}


def _times(ticks: list[int], data: ReportData) -> list[float]:
    return [data.run.tick_start(tick) / 1000 for tick in ticks]


def _figure(figure: Figure, number: int, data: ReportData) -> dict[str, Any]:
    output = figure.panel.output
    parts = range(len(output.labels)) if figure.part is None else [figure.part]
    blocks = []
    for part in parts:
        block = {"fine": _block(figure, part, data.fine)}
        if data.coarse is not None and (output.name, output.over) in data.coarse.value:
            block["coarse"] = _block(figure, part, data.coarse)
        spot, own = (output.name, output.over), data.estimates
        if own is not None and spot in own.value:
            value, low, high = (item[spot][:, :, part] for item in (own.value, own.low, own.high))
            block["estimate"] = packed(value, (high - low) / 2, low, high)
        blocks.append(block)
    return {
        "id": number,
        "kind": "bars" if figure.part is None else "lines",
        "title": figure.title,
        "caption": figure.caption,
        "unit": figure.unit,
        "small": figure.small,
        "name": output.name,
        "over": output.over,
        "between": list(output.between),
        "interval": output.interval,
        "left_out": not_in_margin(output.left_out, words.is_banded(figure.panel)),
        "labels": [output.labels[part] for part in parts],
        "bins": [label_of(output, part) for part in parts],
        "parts": blocks,
        "baseline": bool(figure.panel.base),
    }


def _block(figure: Figure, part: int, grid: SeriesGrid) -> dict[str, Any]:
    """Packed values and margins of a component, and its baseline."""
    block = packed(*_of(figure, part, grid))
    if figure.panel.base:
        own = (figure.panel.output.name, figure.panel.output.over) in grid.value
        base = grid.value[BASELINE][:, :, part] if own else _in(grid, figure.panel.base, part)
        block["base"] = packed(base, np.full_like(base, np.nan))
    return block


def _in(grid: SeriesGrid, series: Sequence[Series], part: int) -> Floats:
    """Series of some keys as a grid has them: (keys, ticks), NaN where there is none."""
    value = np.full((len(grid.keys), len(grid.ticks)), np.nan)
    for entry in series:
        shown = np.isin(entry.ticks, grid.ticks)
        at = np.searchsorted(grid.ticks, entry.ticks[shown])
        value[grid.keys.index(entry.key), at] = entry.value[shown, part]
    return value


def _of(figure: Figure, part: int, grid: SeriesGrid) -> list[Floats]:
    """Value and half width, and ends where margins are intervals of their own, (keys, ticks) each;
    of held-back events they are in series alone."""
    spot = (figure.panel.output.name, figure.panel.output.over)
    if spot in grid.value:
        held = (grid.value, grid.half, grid.low, grid.high)
        own = held if figure.panel.output.interval else held[:2]
        return [item[spot][:, :, part] for item in own]
    value = _in(grid, figure.panel.series, part)
    return [value, np.full_like(value, np.nan)]


def _heat(figure: Figure, data: ReportData) -> dict[str, Any]:
    heat = figure.panel.heat
    assert heat is not None
    none = np.full_like(heat.value, np.nan)
    return {
        "rows": list(heat.rows),
        "per": heat.keys_per_row,
        "spread": heat.spread,
        "noise": heat.noise,
        "times": _times(heat.ticks.tolist(), data),
        **packed(heat.value, none),
    }


def _short(values: Floats) -> list[float | None]:
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in values.tolist()]

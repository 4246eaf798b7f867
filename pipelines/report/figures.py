"""What a page and a picture are made of: sections of figures, each one number over time or bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weir.dpcore.words import sentence
from weir.pipelines.report import words
from weir.pipelines.report.data import Panel, ReportData, largest
from weir.pipelines.report.score import Holdout, caption
from weir.pipelines.results.series import label_of

LINES_DRAWN = 12
"""Components of an output that get a chart, at most: those that reach furthest from 0."""


@dataclass(frozen=True)
class Figure:
    """One number of an output over time, for the drawn keys; or the bins of a histogram.

    Attributes:
      panel: where its numbers are. part: which component; None: its bins at one time.
      title, caption, unit: for people. small: a coefficient, one of many.
    """

    panel: Panel
    part: int | None
    title: str
    caption: str
    unit: str = ""
    small: bool = False

    @property
    def baseline(self) -> bool:
        """Whether its panel has a public baseline to compare it with."""
        return bool(self.panel.base)


NO_ERROR = (
    "This run released no error of a prediction. Give public events with --holdout FILE. Or "
    "let a regression release its error (error: true), or say how many events a learner can expect "
    "(expect: {events: N})."
)


@dataclass(frozen=True)
class FigureSection:
    """Figures under a title. note: a sentence under it, or ""."""

    name: Literal["score", "period", "total", "model", "trace"]
    title: str
    figures: tuple[Figure, ...]
    note: str = ""


def sections(data: ReportData, held: Holdout | None = None) -> list[FigureSection]:
    """In the order in which they are read: how well a model predicts, figures per period, totals,
    coefficients, and what tells of what they were made."""
    own = any(panel.output.role == "model" for panel in data.panels)
    retained = [p for p in data.panels if p.output.role != "scaled_model" or not own or data.chosen]

    def of(*roles: str) -> list[Panel]:
        return [panel for panel in retained if panel.output.role in roles]

    values = of("value", "bins")
    period = [panel for panel in values if panel.output.over is not None]
    total = [panel for panel in values if panel.output.over is None]
    models = of("model", "scaled_model")
    scores = of("score")
    results = []
    if models or scores or held is not None:
        figures = (
            [f for p in held.panels for f in _lines(p, data, f"on held-back events; {p.words}")]
            if held
            else []
        )
        figures += [figure for panel in scores for figure in _lines(panel, data)]
        note = caption(held) + "." if held is not None else ""
        if not figures:
            note = NO_ERROR
        results.append(FigureSection("score", "How well it predicts", tuple(figures), note))
    results.append(FigureSection("period", "Figures per period", _all(period, data)))
    since = "All rows" if data.run.once else "Since the start"
    results.append(FigureSection("total", since, _all(total, data)))
    note, left = "", sum(len(p.output.labels) - len(largest(p, LINES_DRAWN)) for p in models)
    if models:
        banded = any(map(words.is_banded, models))
        note = (
            "Margins: 95 %, as the plan says; where noise dominates, a model may be anywhere."
            if banded
            else "No margin of error: the noise is in the sums that a model follows."
        )
        note += f" {left:,} more that are 0 or stay closer to it are not drawn." if left else ""
        note = " ".join([note, *(sentence(f"{item}.") for item in _left_out(models))])
    results.append(FigureSection("model", "Coefficients", _all(models, data), note))
    results.append(FigureSection("trace", "What models were made of", _all(of("trace"), data)))
    return [item for item in results if item.figures or item.note]


def _left_out(panels: Sequence[Panel]) -> list[str]:
    """What bounds keep out of models: the same of most, so told once for all of them."""
    return list(dict.fromkeys(panel.output.left_out for panel in panels if panel.output.left_out))


def _all(panels: Sequence[Panel], data: ReportData) -> tuple[Figure, ...]:
    return tuple(figure for panel in panels for figure in _figures(panel, data))


def _figures(panel: Panel, data: ReportData) -> list[Figure]:
    if panel.output.role != "bins":
        return _lines(panel, data)
    span = words.span(panel.output, data.run)
    return [Figure(panel, None, panel.output.name, span, panel.output.unit)]


def _lines(panel: Panel, data: ReportData, caption: str = "") -> list[Figure]:
    output = panel.output
    span = caption or words.span(output, data.run)
    if panel.words and not caption:
        span = f"{panel.words}; {span}"
    if output.is_model:
        span = "in the units of the data" if output.role == "model" else "scaled to public ranges"
    if len(output.labels) == 1:
        label = output.labels[0]
        title = label if output.is_model and label else output.name
        return [Figure(panel, 0, title, span, output.unit, output.is_model)]
    return [
        Figure(panel, i, label_of(output, i), f"{output.name}, {span}", output.unit, True)
        for i in largest(panel, LINES_DRAWN)
    ]

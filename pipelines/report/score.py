"""Held-back public data: how well the released models predict events that they were not made of.

The data are the user's own to show: what is drawn quotes them. Nothing here touches the budget,
because a model is a release and the data are said to be public.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.prediction import labels_of
from weir.dpcore.models.predictor import Predictor
from weir.pipelines.report.data import Panel, ReportData, Series
from weir.pipelines.results.events import features_of, keys_of, numbers, tables, without_numbers
from weir.pipelines.results.plan_file import model_of
from weir.pipelines.results.run import OWN, ReleasedOutput, ResultFolder

Floats = NDArray[np.float64]

POINTS = 2000
"""Events that are drawn, at most, spread evenly over the file."""

HELD = "--holdout"


@dataclass(frozen=True)
class Scatter:
    """Predicted against actual, by the model of the last tick. Both (n,), in the user's units."""

    key: str
    target: str
    actual: Floats
    predicted: Floats


@dataclass(frozen=True)
class Holdout:
    """What held-back data say of the models of a run.

    Attributes:
      panels: root of the mean squared error, or the share of right classes, over time, one a
        target, each next to that of a public baseline.
      scatters: one a drawn key and target; none of classes.
      events: how many were read. left_out: how many of them lack a number or belong to no key that
        is drawn.
    """

    panels: tuple[Panel, ...]
    scatters: tuple[Scatter, ...]
    events: int
    left_out: int


@dataclass(frozen=True)
class _Columns:
    """What a model reads, from the plan of its run."""

    features: tuple[str, ...]
    targets: tuple[str, ...]
    low: Floats
    high: Floats
    keys: tuple[str, ...]


def score(data: ReportData, path: Path | str) -> Holdout:
    """Predicts every event of a file with the drawn keys' models.

    Args:
      data: what a report shows. path: CSV with a header, NDJSON or Parquet, with the model's
        features, its targets, and the key column where there is one.

    Raises:
      ConfigError: a run without models, a file that cannot be read, or a column that it lacks.
    """
    model = model_of(data.run.plan)
    if model is not None and (model.declared or parse_loss(model.loss_spec).labels):
        return accuracy(data, Path(path), model)
    if model is not None and model.listed is not None:
        return listed_errors(data, Path(path), model)
    columns = _columns(data.run)
    names = (*columns.features, *columns.targets)
    wanted = list(dict.fromkeys((*names, *columns.keys)))
    table = pa.concat_tables(item.select(wanted) for item in tables(Path(path), wanted, HELD))
    argument = np.stack([numbers(table, name, HELD) for name in names], axis=1)
    fine: NDArray[np.bool_] = np.all(np.isfinite(argument), axis=1)
    p = len(columns.features)
    x = np.clip(argument[:, :p], columns.low[:p], columns.high[:p])
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    keys = None
    if columns.keys:
        keys = np.array([data.run.shown(key) for key in keys_of(table, columns.keys)], dtype=object)
    shown = next((panel for panel in data.panels if panel.output.name == OWN), None)
    if shown is None:
        raise ConfigError("--name", "", f"must include {OWN} where there is held-back data.")
    results = _Errors(columns.targets)
    scatters: list[Scatter] = []
    used = np.zeros(len(fine), dtype=bool)
    for series in shown.series:
        mine = fine if keys is None else fine & (keys == series.key)
        used |= mine
        for j, target in enumerate(columns.targets):
            y = argument[mine, p + j]
            models = series.value[:, j * (p + 1) : (j + 1) * (p + 1)]
            results.add(target, series, root_mean_square(models, x[mine], y), y)
            some = np.unique(np.linspace(0, max(0, len(y) - 1), min(POINTS, len(y))).astype(int))
            scatters.append(Scatter(series.key, target, y[some], x[mine][some] @ models[-1]))
    return Holdout(results.panels(), tuple(scatters), len(fine), int((~used).sum()))


class _Errors:
    """Errors of models by target and key, next to those of the mean of the same events."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._lines: dict[str, list[Series]] = {target: [] for target in targets}
        self._base: dict[str, list[Series]] = {target: [] for target in targets}

    def add(self, target: str, series: Series, error: Floats, actual: Floats) -> None:
        """error: (m,), at the ticks of a series. actual: (n,), the events of its key."""
        spread = np.full(len(error), float(actual.std()) if len(actual) else math.nan)
        for lines, value in ((self._lines, error), (self._base, spread)):
            lines[target].append(Series.bare(series.key, series.ticks, value[:, None]))

    def panels(self) -> tuple[Panel, ...]:
        """One a target."""
        words = "dashed: that of the mean of the same events"
        return tuple(
            Panel(_scored(f"error of {target}", UNIT), tuple(lines), None, base, words)
            for (target, lines), base in zip(
                self._lines.items(), map(tuple, self._base.values()), strict=True
            )
        )


def accuracy(data: ReportData, path: Path, model: Predictor) -> Holdout:
    """Share of right classes over time, by the drawn keys' models; see ``score``."""
    target = model.targets[0]
    by = model.predicts_by
    shown = next((panel for panel in data.panels if panel.output.name == by), None)
    if shown is None:
        raise ConfigError("--name", "", f"must include {by} where there is held-back data.")
    wanted = list(dict.fromkeys((*model.sources, target, *data.run.key_columns)))
    pieces = tables(path, wanted, HELD, model.listed)
    table = pa.concat_tables(piece.select(wanted) for piece in pieces)
    argument = features_of(table, model, HELD)
    actual = _classes(table, model, target)
    fine = ~without_numbers(argument) & np.isfinite(actual)
    keys = np.array([data.run.shown(key) for key in keys_of(table, data.run.key_columns)])
    lines, base, used = [], [], np.zeros(len(table), dtype=bool)
    for series in shown.series:
        mine = np.flatnonzero(fine & (keys == series.key)) if data.run.key_columns else fine
        used[mine] = True
        own = {name: item[mine] for name, item in argument.items()}
        value = np.full((len(series.ticks), 1), np.nan)
        for i, theta in enumerate(series.value):
            if i and np.array_equal(theta, series.value[i - 1]):
                value[i] = value[i - 1]  # the same model, released again
            elif np.isfinite(theta).all() and used[mine].any():
                result = model.predict(own, theta).columns[f"predicted.{target}"]
                value[i] = np.mean(result == actual[mine])
        lines.append(Series.bare(series.key, series.ticks, value))
        counts = np.unique(actual[mine], return_counts=True)[1]
        share = counts.max(initial=0) / max(1, counts.sum())
        base.append(Series.bare(series.key, series.ticks, np.full_like(value, share)))
    output = _scored(f"share of right {target}", "of all events", 1.0)
    left = int(np.count_nonzero(np.logical_not(used)))
    words = "dashed: that of the most frequent class"
    panel = Panel(output, tuple(lines), None, tuple(base), words)
    return Holdout((panel,), (), len(table), left)


def _classes(table: pa.Table, model: Predictor, target: str) -> Floats:
    """(n,) the class of each event as predictions have it: its place among those that are declared,
    or an end of the target's range; NaN where it has none."""
    if not model.declared:
        actual = numbers(table, target, HELD)
        labels = labels_of(actual, model.public_ranges[target])
        return np.where(np.isfinite(actual), labels, np.nan)
    place = {value: float(at) for at, value in enumerate(model.declared[target])}
    return np.array([place.get(item, math.nan) for item in table[target].to_pylist()])


def listed_errors(data: ReportData, path: Path, model: Predictor) -> Holdout:
    """Errors over time of models of a list column, by the drawn keys' models; see ``score``."""
    by = model.predicts_by
    shown = next((panel for panel in data.panels if panel.output.name == by), None)
    if shown is None:
        raise ConfigError("--name", "", f"must include {by} where there is held-back data.")
    wanted = list(dict.fromkeys((*model.sources, *model.targets, *data.run.key_columns)))
    pieces = tables(path, wanted, HELD, model.listed)
    table = pa.concat_tables(piece.select(wanted) for piece in pieces)
    argument = features_of(table, model, HELD)
    actual = {target: numbers(table, target, HELD) for target in model.targets}
    fine = ~without_numbers(argument)
    for item in actual.values():
        fine &= np.isfinite(item)
    keys = np.array([data.run.shown(key) for key in keys_of(table, data.run.key_columns)])
    results = _Errors(model.targets)
    scatters: list[Scatter] = []
    used = np.zeros(len(table), dtype=bool)
    for series in shown.series:
        mine = np.flatnonzero(fine & (keys == series.key) if data.run.key_columns else fine)
        used[mine] = True
        own = {name: entry[mine] for name, entry in argument.items()}
        value = np.full((len(series.ticks), len(model.targets)), np.nan)
        predicted: dict[str, NDArray[Any]] = {}
        for i, theta in enumerate(series.value):
            if i and np.array_equal(theta, series.value[i - 1]):
                value[i] = value[i - 1]
            elif np.isfinite(theta).all() and len(mine):
                predicted = model.predict(own, theta).columns
                for j, target in enumerate(model.targets):
                    missed = actual[target][mine] - predicted[f"predicted.{target}"]
                    value[i, j] = math.sqrt(float(np.square(missed).mean()))
        for j, target in enumerate(model.targets):
            results.add(target, series, value[:, j], actual[target][mine])
            if predicted:
                y, said = actual[target][mine], predicted[f"predicted.{target}"]
                some = np.unique(np.linspace(0, len(y) - 1, min(POINTS, len(y))).astype(int))
                scatters.append(Scatter(series.key, target, y[some], said[some]))
    return Holdout(results.panels(), tuple(scatters), len(table), int(np.count_nonzero(~used)))


def root_mean_square(models: Floats, x: Floats, y: Floats) -> Floats:
    """Error per event of every model, in the unit of y: (m, d), (n, d), (n,) -> (m,).

    NaN where there are no events. By moments, so that it takes one pass over the events.
    """
    if not len(y):
        return np.full(len(models), math.nan)
    centre = y.mean()
    moved = models.copy()
    moved[:, -1] -= centre  # the same errors, of smaller numbers
    rest = y - centre
    spread = float(rest @ rest)
    error = np.einsum("md,de,me->m", moved, x.T @ x, moved) - 2 * moved @ (x.T @ rest) + spread
    return np.asarray(np.sqrt(np.maximum(error, 0.0) / len(y)))


UNIT = "root mean square per event, in its unit"


def _scored(name: str, unit: str, most: float | None = None) -> ReleasedOutput:
    return ReleasedOutput(name, None, unit=unit, role="score", between=(0.0, most))


def _columns(run: ResultFolder) -> _Columns:
    model: Mapping[str, Any] | None = run.plan.get("model")
    if not model:
        raise ConfigError("--holdout", run.name, "is of no use here: this run released no models.")
    features, targets = tuple(model["features"]), tuple(model["targets"])
    bounds = [model["ranges"][name] for name in (*features, *targets)]
    low, high = (np.array([float(pair[end]) for pair in bounds]) for end in (0, 1))
    return _Columns(features, targets, low, high, run.key_columns)


def caption(found: Holdout) -> str:
    """One line for people."""
    left = f"; {found.left_out:,} left out" if found.left_out else ""
    return f"{found.events:,} held-back events, public by the user's word{left}"


def titles(found: Holdout) -> list[str]:
    """One a scatter: what, and whose."""
    several = len({scatter.key for scatter in found.scatters}) > 1
    return [
        f"{scatter.target}: predicted against actual"
        + (f", {scatter.key or '(empty)'}" if several else "")
        for scatter in found.scatters
    ]


def bounds(scatters: Sequence[Scatter]) -> tuple[float, float]:
    """Ends of both axes: all actual values, and what of the predictions lies within twice that."""
    actual = np.concatenate([scatter.actual for scatter in scatters]) if scatters else np.zeros(0)
    if not actual.size:
        return 0.0, 1.0
    low, high = float(actual.min()), float(actual.max())
    reach = (high - low) or 1.0
    predicted = np.concatenate([scatter.predicted for scatter in scatters])
    low = min(low, max(float(predicted.min()), low - reach))
    high = max(high, min(float(predicted.max()), high + reach))
    pad = 0.03 * (high - low)
    return low - pad, high + pad

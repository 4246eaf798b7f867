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
WORST = -1.0
"""R² below it is drawn as this: how bad a model of noise is says nothing."""


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
      panels: R^2, or the share of right classes, over time, one a target.
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
    results: dict[str, list[Series]] = {target: [] for target in columns.targets}
    scatters: list[Scatter] = []
    used = np.zeros(len(fine), dtype=bool)
    for series in shown.series:
        mine = fine if keys is None else fine & (keys == series.key)
        used |= mine
        for j, target in enumerate(columns.targets):
            y = argument[mine, p + j]
            models = series.value[:, j * (p + 1) : (j + 1) * (p + 1)]
            value = np.maximum(r_squared(models, x[mine], y), WORST)[:, None]
            results[target].append(Series.bare(series.key, series.ticks, value))
            some = np.unique(np.linspace(0, max(0, len(y) - 1), min(POINTS, len(y))).astype(int))
            scatters.append(Scatter(series.key, target, y[some], x[mine][some] @ models[-1]))
    panels = tuple(
        Panel(_scored(f"R² of {target} on held-back data"), tuple(lines), None)
        for target, lines in results.items()
    )
    return Holdout(panels, tuple(scatters), len(fine), int((~used).sum()))


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
    lines, used = [], np.zeros(len(table), dtype=bool)
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
    output = _scored(f"Share of right {target} on held-back data", 0.0)
    left = int(np.count_nonzero(np.logical_not(used)))
    return Holdout((Panel(output, tuple(lines), None),), (), len(table), left)


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
    """R^2 over time of models of a list column, by the drawn keys' models; see ``score``."""
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
    results: dict[str, list[Series]] = {target: [] for target in model.targets}
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
                    y = actual[target][mine]
                    spread = float(np.square(y - y.mean()).sum())
                    error = float(np.square(y - predicted[f"predicted.{target}"]).sum())
                    value[i, j] = max(1 - error / spread, WORST) if spread > 0 else np.nan
        for j, target in enumerate(model.targets):
            part = value[:, [j]]
            results[target].append(Series.bare(series.key, series.ticks, part))
            if predicted:
                y, said = actual[target][mine], predicted[f"predicted.{target}"]
                some = np.unique(np.linspace(0, len(y) - 1, min(POINTS, len(y))).astype(int))
                scatters.append(Scatter(series.key, target, y[some], said[some]))
    panels = tuple(
        Panel(_scored(f"R² of {target} on held-back data"), tuple(lines), None)
        for target, lines in results.items()
    )
    return Holdout(panels, tuple(scatters), len(table), int(np.count_nonzero(~used)))


def r_squared(models: Floats, x: Floats, y: Floats) -> Floats:
    """1 - squared error / spread of y, of every model: (m, d), (n, d), (n,) -> (m,).

    NaN where y does not vary. By moments, so that it takes one pass over the events.
    """
    centre = y.mean() if len(y) else 0.0
    moved = models.copy()
    moved[:, -1] -= centre  # the same errors, of smaller numbers
    rest = y - centre
    spread = float(rest @ rest)
    if not spread > 0:
        return np.full(len(models), math.nan)
    error = np.einsum("md,de,me->m", moved, x.T @ x, moved) - 2 * moved @ (x.T @ rest) + spread
    return np.asarray(1 - error / spread)


def _scored(name: str, low: float | None = None) -> ReleasedOutput:
    return ReleasedOutput(name, None, role="score", between=(low, 1.0))


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

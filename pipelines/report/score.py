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
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dpcore.config.section import nearest
from dpcore.errors import ConfigError
from dpcore.leaves.keys import key_text, shown_key
from pipelines.report.data import Panel, ReportData, Series
from pipelines.results.run import OWN, Output, Run

Floats = NDArray[np.float64]

POINTS = 2000
"""Events that are drawn, at most, spread evenly over the file."""

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
      panels: R^2 over time, one a target. scatters: one a drawn key and target.
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
    columns = _columns(data.run)
    table = _read(Path(path), columns)
    names = (*columns.features, *columns.targets)
    numbers = np.stack([_numbers(table, name) for name in names], axis=1)
    fine: NDArray[np.bool_] = np.all(np.isfinite(numbers), axis=1)
    p = len(columns.features)
    x = np.clip(numbers[:, :p], columns.low[:p], columns.high[:p])
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    keys = None
    if columns.keys:
        keys = _keys(table, columns.keys)
    shown = next((panel for panel in data.panels if panel.output.name == OWN), None)
    if shown is None:
        raise ConfigError("--name", "", f"must include {OWN} where there is held-back data.")
    found: dict[str, list[Series]] = {target: [] for target in columns.targets}
    scatters: list[Scatter] = []
    used = np.zeros(len(fine), dtype=bool)
    for series in shown.series:
        mine = fine if keys is None else fine & (keys == series.key)
        used |= mine
        for j, target in enumerate(columns.targets):
            y = numbers[mine, p + j]
            models = series.value[:, j * (p + 1) : (j + 1) * (p + 1)]
            value = np.maximum(r_squared(models, x[mine], y), WORST)[:, None]
            found[target].append(
                Series(series.key, series.ticks, value, np.full_like(value, np.nan))
            )
            some = np.unique(np.linspace(0, max(0, len(y) - 1), min(POINTS, len(y))).astype(int))
            scatters.append(Scatter(series.key, target, y[some], x[mine][some] @ models[-1]))
    panels = tuple(
        Panel(Output(f"R² of {target} on held-back data", None), tuple(lines), None)
        for target, lines in found.items()
    )
    return Holdout(panels, tuple(scatters), len(fine), int((~used).sum()))


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


def _columns(run: Run) -> _Columns:
    model: Mapping[str, Any] | None = run.plan.get("model")
    if not model:
        raise ConfigError("--holdout", run.name, "is of no use here: this run released no models.")
    features, targets = tuple(model["features"]), tuple(model["targets"])
    bounds = [model["ranges"][name] for name in (*features, *targets)]
    low, high = (np.array([float(pair[end]) for pair in bounds]) for end in (0, 1))
    return _Columns(features, targets, low, high, run.key_columns)


def _keys(table: pa.Table, columns: Sequence[str]) -> NDArray[np.object_]:
    """(n,) the key of each event, as a report shows it."""
    values = zip(*(map(str, table[name].to_pylist()) for name in columns), strict=True)
    if len(columns) == 1:
        return np.array([one for (one,) in values], dtype=object)
    return np.array([shown_key(key_text(several)) for several in values], dtype=object)


def _read(path: Path, columns: _Columns) -> pa.Table:
    wanted = [*columns.features, *columns.targets, *columns.keys]
    readers = {
        ".csv": pyarrow.csv.read_csv,
        ".parquet": pq.read_table,
        ".ndjson": _ndjson,
        ".jsonl": _ndjson,
    }
    if path.suffix.lower() not in readers:
        raise ConfigError("--holdout", str(path), f"must end in one of {', '.join(readers)}.")
    if not path.is_file():
        raise ConfigError("--holdout", str(path), "is no file.")
    try:
        table = readers[path.suffix.lower()](path)
    except (pa.ArrowInvalid, ValueError, OSError) as error:
        raise ConfigError(
            "--holdout", str(path), f"cannot be read ({type(error).__name__})."
        ) from None
    for name in wanted:
        if name not in table.schema.names:
            raise ConfigError(
                "--holdout", str(path), f"has no column {name}; {nearest(name, table.schema.names)}"
            )
    return table.select(list(dict.fromkeys(wanted)))


def _ndjson(path: Path) -> pa.Table:
    import pyarrow.json

    return pyarrow.json.read_json(path)


def _numbers(table: pa.Table, name: str) -> Floats:
    try:
        column = table[name].cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigError("--holdout", name, "must hold numbers.") from None
    return np.asarray(column.fill_null(math.nan).to_numpy(), dtype=np.float64)


def caption(found: Holdout) -> str:
    """One line for people."""
    left = f"; {found.left_out:,} left out" if found.left_out else ""
    return f"{found.events:,} held-back events, public by the user's word{left}"


def bounds(scatters: Sequence[Scatter]) -> tuple[float, float]:
    """Ends of both axes: all actual values, and what of the predictions lies within twice that."""
    actual = np.concatenate([one.actual for one in scatters]) if scatters else np.zeros(0)
    if not actual.size:
        return 0.0, 1.0
    low, high = float(actual.min()), float(actual.max())
    reach = (high - low) or 1.0
    predicted = np.concatenate([one.predicted for one in scatters])
    low = min(low, max(float(predicted.min()), low - reach))
    high = max(high, min(float(predicted.max()), high + reach))
    pad = 0.03 * (high - low)
    return low - pad, high + pad

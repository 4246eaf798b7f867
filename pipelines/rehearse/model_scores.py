"""How much models keep of the loss that they could explain, on events that may be looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import minimize

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.sparse_rows import MOST_DENSE, Expanded
from weir.dpcore.models.blocks.objective import RowLoss, Softmax
from weir.dpcore.models.kit.loss import Absolute, Logistic, PinballLoss, PredictionLoss, Squared
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.prediction import Predicted, labels_of
from weir.dpcore.models.predictor import Predictor
from weir.dpcore.models.words import loss_words
from weir.pipelines.rehearse.event_stats import EventStats
from weir.pipelines.results.events import without_numbers
from weir.pipelines.results.models import Models, models_at
from weir.pipelines.results.plan_file import model_of
from weir.pipelines.results.run import ResultFolder
from weir.transforms.columns.keys import KEY
from weir.transforms.columns.list_columns import to_rows

MOST_NUMBERS = 1 << 24
"""Numbers of features of a key that are looked at, at most: of more events some, evenly spread."""
MOST_KEYS = 256
"""Keys whose models are looked at, at most: of more those with most events."""
MOST_FITTED = 1 << 14
"""Coefficients of a fit without privacy, at most."""
LEAST_SHARE = 2.0**-50
"""Of a class that happened: its log loss stays finite."""
CORNER = 2.0**-10
"""Width at which the corner of a loss is smoothed for a fit without privacy."""
AS_GOOD = 0.1
"""Share of the explainable loss below which a constant would do as well."""
NO_MODEL = (
    "Models are not compared with a constant: none was released by the last tick. Give more events "
    "or ticks, or let the first block or run of model be of fewer events."
)


@dataclass(frozen=True)
class ModelScore:
    """Mean losses of one target, over the events of keys that have a model at the last tick.

    Attributes:
      target: its column. loss: in words; numbers are clipped to their range and scaled to [-1, 1].
      events, keys: that were looked at.
      constant: loss of the best constant of each key. model: of what was released.
      quiet: of the same config without noise; NaN: it cannot be planned.
      best: the least of a fit of each key without privacy and of ``quiet``; NaN: there is neither.
    """

    target: str
    loss: str
    events: int
    keys: int
    constant: float
    model: float
    quiet: float
    best: float

    @property
    def share(self) -> float:
        """Of the loss that a model can explain, what the released one does: 0 is a constant, 1 the
        best without noise. NaN: there is nothing to explain."""
        return self._share(self.model)

    @property
    def quiet_share(self) -> float:
        """That of the same config without noise."""
        return self._share(self.quiet)

    def _share(self, loss: float) -> float:
        explainable = self.constant - self.best
        if not explainable > 1e-9 * self.constant:
            return math.nan
        return (self.constant - loss) / explainable

    def to_json(self) -> dict[str, Any]:
        """For ``weir rehearse --json``."""
        fields = dict(vars(self)) | {"share": self.share, "quiet_share": self.quiet_share}
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
        }


def model_scores(
    released: Path, clean: Path | None, seen: EventStats
) -> tuple[tuple[ModelScore, ...], tuple[str, ...]]:
    """A score for each target, and sentences on what was left out; neither where the config has no
    model.

    Args:
      released: folder of the releases. clean: of the same without noise; None: there is none.
      seen: the events, which may be looked at.
    """
    some = [ReleasedModels.of(folder) for folder in (released, clean) if folder is not None]
    noisy = some[0]
    if noisy is None:
        return (), ()
    if not noisy.models:
        return (), (NO_MODEL,)
    section, quiet = noisy.section, (some[1:] or [None])[0]
    places = {key: own for key, own in noisy.places(seen).items() if key in noisy.models}
    if not places:
        return (), (noisy.nothing_left,)
    most = sorted(places, key=lambda key: (-len(places[key]), key))[:MOST_KEYS]
    columns = _features(seen.events, section)
    fine = ~without_numbers(columns)
    scores = []
    for target in section.targets:
        measure = TargetLoss.of(section, target)
        actual = measure.actual(seen.events[target])
        usable = fine & np.isfinite(actual)
        parts = []
        for key in most:
            mine = _spread(places[key][usable[places[key]]], section)
            if not len(mine):
                continue
            x, y = _rows_of(columns, mine, section), actual[mine]
            losses = (measure.constant(y), noisy.loss(measure, key, x, y),
                      math.nan if quiet is None else quiet.loss(measure, key, x, y))  # fmt: skip
            best = float(np.fmin(measure.fitted(x, y), losses[-1]))
            parts.append((len(mine), *losses, best))
        if parts:
            sizes, *each = np.array(parts).T
            means = [float(np.average(item, weights=sizes)) for item in each]
            scores.append(ModelScore(target, measure.words, int(sizes.sum()), len(parts), *means))
    if not scores:
        return (), (noisy.nothing_left,)
    if len(most) == len(places):
        return tuple(scores), ()
    return tuple(scores), (
        f"Of the models of {len(places):,} keys, those of the {len(most):,} keys with most events "
        "are compared with a constant.",
    )


@dataclass(frozen=True)
class ReleasedModels:
    """The models of the ``last`` tick of a folder, by key. section: of its config."""

    section: Predictor
    models: Models
    last: int

    @classmethod
    def of(cls, folder: Path) -> ReleasedModels | None:
        """None: the config has no model."""
        run = ResultFolder.open(folder)
        section = model_of(run.plan)
        if section is None:
            return None
        last = run.last_tick
        return cls(section, models_at(run, section.predicts_by, last), last)

    @property
    def over(self) -> int | None:
        """Ticks that the models are of; None: all."""
        over = getattr(self.section, "over", None)
        return over if isinstance(over, int) else None

    @property
    def nothing_left(self) -> str:
        """Why no model is looked at."""
        ticks = "" if self.over is None else f" in the last {self.over:,} ticks, which it is of"
        return (
            "Models are not compared with a constant: no key that has a model has events with all "
            f"its columns{ticks}."
        )

    def places(self, seen: EventStats) -> dict[str, Ints]:
        """Key as releases have it -> places of its events, of the ticks that the models are of."""
        since = -1 if self.over is None else self.last - self.over
        codes, here = seen.codes(KEY), np.flatnonzero(seen.ticks > since)
        if not len(here):
            return {}
        here = here[np.argsort(codes[here], kind="stable")]
        parts = np.split(here, np.flatnonzero(np.diff(codes[here])) + 1)
        if KEY not in seen.events.column_names:
            return {"": here}
        names = seen.events[KEY].take(pa.array([part[0] for part in parts])).to_pylist()
        results: dict[str, list[Ints]] = {}
        for name, part in zip(names, parts, strict=True):
            for key in seen.plan.keys.grouped(name):
                results.setdefault(key, []).append(part)
        return {key: np.concatenate(own) for key, own in results.items()}

    def loss(self, measure: TargetLoss, key: str, x: Mapping[str, Any], y: Floats) -> float:
        """Mean loss of a key's model; NaN without one. x: features. y: (n,), as ``actual`` says."""
        if key not in self.models:
            return math.nan
        return measure.of_predicted(self.section.predict(x, self.models[key]), y)


@dataclass(frozen=True)
class TargetLoss:
    """The loss of a model in one of its targets.

    Attributes:
      section: the model's. target: its column. loss: of scores.
    """

    section: Predictor
    target: str
    loss: RowLoss

    @classmethod
    def of(cls, section: Predictor, target: str) -> TargetLoss:
        """By the loss that the config names, or its default."""
        spec = section.loss_spec
        classes = len(section.declared.get(target, ()))
        return cls(section, target, Softmax(classes) if spec == "softmax" else parse_loss(spec))

    @cached_property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Column -> (low, high)."""
        return self.section.public_ranges

    @property
    def words(self) -> str:
        """For people."""
        return loss_words(self.section.loss_spec)

    @property
    def signed(self) -> bool:
        """Whether it reads labels of -1 and 1."""
        return isinstance(self.loss, PredictionLoss) and self.loss.labels

    def actual(self, column: Any) -> Floats:
        """(n,) as the loss takes them: places of classes, -1 and 1, or numbers that are clipped to
        their range, as learners do, and scaled; NaN where there is none."""
        declared = self.section.declared.get(self.target)
        if declared is not None:
            place = {item: float(i) for i, item in enumerate(declared)}
            at = np.array([place.get(item, math.nan) for item in column.to_pylist()])
            return 2 * at - 1 if self.signed else at
        values = np.asarray(column.cast(pa.float64()).fill_null(math.nan).to_numpy())
        low, high = self.ranges[self.target]
        if self.signed:
            labels = labels_of(values, (low, high))
            return np.where(np.isfinite(values), np.where(labels == high, 1.0, -1.0), math.nan)
        return np.clip((2 * values - low - high) / (high - low), -1.0, 1.0)

    def of_predicted(self, said: Predicted, y: Floats) -> float:
        """Mean loss of predictions; y: (n,)."""
        columns = said.columns
        shares = [item for name, item in columns.items() if name.startswith("share.")]
        if said.classes and len(shares) == len(said.classes):
            places = ((y + 1) / 2 if self.signed else y).astype(np.int64)
            happened = np.stack(shares, axis=1)[np.arange(len(y)), places]
            return float(np.mean(-np.log(np.maximum(happened, LEAST_SHARE))))
        scores = [item for name, item in columns.items() if name.startswith("score.")]
        if not scores:
            low, high = self.ranges[self.target]
            scores = [(2 * columns[f"predicted.{self.target}"] - low - high) / (high - low)]
        return self._mean(scores[-1][:, None], y)

    def fitted(self, x: Mapping[str, Any], y: Floats) -> float:
        """Mean loss of a linear model that is fitted without privacy; NaN: it is too large for the
        events."""
        names = self.section.features
        width = len(names) + self.section.intercept
        if len(names) > MOST_DENSE or len(y) < 2 * width:
            return math.nan
        if self.loss.outputs * width > MOST_FITTED:
            return math.nan
        points = np.ones((len(y), width))
        for at, name in enumerate(names):
            low, high = self.ranges[name]
            points[:, at] = np.clip((2 * x[name] - low - high) / (high - low), -1, 1)
        return self.least(points, y)

    def constant(self, y: Floats) -> float:
        """Least mean loss of one score for all."""
        if isinstance(self.loss, (Softmax, Logistic)):
            counts = np.unique(y, return_counts=True)[1]
            shares = counts / len(y)
            return float(-(shares * np.log(shares)).sum())
        best: float | None = None
        if isinstance(self.loss, Squared):
            best = float(y.mean())
        elif isinstance(self.loss, (PinballLoss, Absolute)):
            tau = getattr(self.loss, "tau", 0.5)
            best = float(np.quantile(y, tau, method="inverted_cdf"))
        if best is None:
            return self.least(np.ones((len(y), 1)), y)
        return self._mean(np.full((len(y), 1), best), y)

    def least(self, points: Floats, y: Floats) -> float:
        """Least mean loss of linear scores of points (n, D)."""
        shape = (self.loss.outputs, points.shape[1])
        smooth: Any = self.loss
        if getattr(smooth, "cornered", False):
            smooth = smooth.envelope(CORNER)

        def value(w: Floats) -> tuple[float, Floats]:
            scores = points @ w.reshape(shape).T
            slopes = smooth.derivatives(scores, y) / len(y)
            return self._mean(scores, y, smooth), (slopes.T @ points).ravel()

        start = np.zeros(shape[0] * shape[1])
        options: Any = {"maxiter": 1000, "maxfun": 1500, "ftol": 1e-12, "gtol": 1e-8}
        best = minimize(value, start, jac=True, method="L-BFGS-B", options=options).x
        return self._mean(points @ best.reshape(shape).T, y)

    def _mean(self, scores: Floats, y: Floats, loss: Any = None) -> float:
        """Mean loss of scores (n, outputs)."""
        loss = loss or self.loss
        if loss.outputs == 1:
            return float(loss.value(scores[:, 0], y).mean())
        most = scores.max(axis=1)
        total = np.log(np.exp(scores - most[:, None]).sum(axis=1)) + most
        return float((total - scores[np.arange(len(y)), y.astype(np.int64)]).mean())


def _features(events: pa.Table, section: Predictor) -> dict[str, Any]:
    """The columns that a model predicts from; a list column as ``SparseRows``."""
    listed = section.listed
    if listed is None:
        return {name: _numbers(events[name]) for name in section.features}
    return {listed.name: to_rows(events[listed.name].combine_chunks(), listed.size)}


def _rows_of(columns: Mapping[str, Any], mine: Ints, section: Predictor) -> dict[str, Any]:
    """Some events of those columns, as ``Predictor.predict`` takes them."""
    some = {name: column[mine] for name, column in columns.items()}
    if section.listed is None or section.listed.size > MOST_DENSE:
        return some
    expanded = Expanded(some, section.features)
    return {name: expanded[name] for name in section.features}


def _numbers(column: Any) -> Floats:
    return np.asarray(column.cast(pa.float64()).fill_null(math.nan).to_numpy())


def _spread(places: Ints, section: Predictor) -> Ints:
    """As many of them as may be looked at, evenly spread."""
    most = max(1000, MOST_NUMBERS // section.dimension)
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).astype(np.int64)]

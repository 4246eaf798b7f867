"""What a released model says of events: a column for each thing that it predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.models.kit.feature_map import FeatureMap
from weir.dpcore.models.kit.inputs import Classes, DenseInputs, Inputs, SparseInputs

Given = Mapping[str, NDArray[Any]]
"""Feature -> (n,) float64 in the user's units, NaN where an event lacks it."""


class Predicted(NamedTuple):
    """Predictions for n events. An event without a number for each feature has none.

    Attributes:
      columns: name -> (n,) float64, NaN where there is none; or places among ``classes``, int64,
        -1 where there is none. "predicted.TARGET" comes first.
      classes: what the places of the first column stand for; () where it holds numbers.
      ends: target that is a label without declared classes -> the lower and upper end of its range,
        which stand for them.
    """

    columns: dict[str, NDArray[Any]]
    classes: tuple[Any, ...] = ()
    ends: Mapping[str, tuple[float, float]] = {}


def linear(
    given: Given,
    features: Sequence[str],
    targets: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    model: Floats,
    loss: str | None,
) -> Predicted:
    """Predictions of a model in the user's units.

    Args:
      features, targets: columns. ranges: of each: features outside are moved to the nearer bound,
        as they were when the model was learned.
      model: (m (p + 1),), of each target in turn: the features' coefficients, then the constant.
      loss: name of one that reads the target as a label; None: the target is a number. Of a label
        the sign of a score is predicted, as the upper or lower end of the target's range;
        "logistic" gives the share of the upper one too.
    """
    x = np.stack([np.asarray(given[name], dtype=np.float64) for name in features], axis=1)
    void = np.logical_not(np.isfinite(x).all(axis=1))
    low, high = (np.array([ranges[name][end] for name in features]) for end in (0, 1))
    x[void] = 0.0
    x = np.clip(x, low, high)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    columns: dict[str, NDArray[Any]] = {}
    for target, weights in zip(targets, model.reshape(len(targets), -1), strict=True):
        score = np.where(void, np.nan, x @ weights)
        columns |= _said(target, score, ranges[target], loss)
    labels = {} if loss is None else {target: ranges[target] for target in targets}
    return Predicted(columns, ends=labels)


def sparse_linear(
    rows: Any,
    void: NDArray[np.bool_],
    target: str,
    ends: tuple[float, float],
    model: Floats,
    loss: str | None,
) -> Predicted:
    """``linear`` of the numbers of a wide list column.

    Args:
      rows: (n, p) sparse matrix in the user's units. void: (n,), events without a prediction.
      ends: range of the target. model: (p + 1,), the constant last.
    """
    score = np.where(void, np.nan, rows @ model[:-1] + model[-1])
    labels = {} if loss is None else {target: ends}
    return Predicted(_said(target, score, ends, loss), ends=labels)


def _said(
    target: str, score: Floats, ends: tuple[float, float], loss: str | None
) -> dict[str, NDArray[Any]]:
    """Columns of one target."""
    if loss is None:
        return {f"predicted.{target}": score}
    label = np.where(score >= 0, ends[1], ends[0])
    results: dict[str, NDArray[Any]] = {
        f"predicted.{target}": np.where(np.isnan(score), np.nan, label),
        f"score.{target}": score,
    }
    if loss == "logistic":
        results[f"share.{ends[1]:g}"] = shares(score[:, None])[:, 1]
    return results


def shares(scores: Floats) -> Floats:
    """Softmax: scores (n, m) -> (n, m), rows that add up to 1. One score is that of the second of
    two: (n, 1) -> (n, 2)."""
    if scores.shape[1] == 1:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    with np.errstate(invalid="ignore"):
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def labels_of(target: Floats, ends: tuple[float, float]) -> Floats:
    """Numbers as labels: the end of the range whose half each lies in, the middle in the upper."""
    low, high = ends
    return np.where(target >= (low + high) / 2, high, low)


def inputs_of(
    model: Any,
    norm: float,
    classes: Classes = (),
    dual: float | None = None,
    mapped: FeatureMap | None = None,
) -> Inputs:
    """From the columns of a model's section to rows, sparse ones where a list column is wide.

    Args:
      model: a section (``Predictor``). norm, classes, dual: see ``Inputs``. mapped: of features.
    """
    listed, target = model.listed, model.targets[0]
    if listed is None or listed.size <= MOST_DENSE:
        ranges = model.public_ranges
        pairs = tuple(ranges[name] for name in model.ranged)
        return DenseInputs(model.features, target, pairs, classes, norm, mapped, dual)
    ends = {name: (float(low), float(high)) for name, (low, high) in model.ranges.items()}
    names = listed.name, listed.size, ends[listed.name][1], listed.filled, target
    return SparseInputs(*names, None if classes else ends[target], classes, norm, dual)

"""What a model of blocks says of other events: rows as it learned from, scores, classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.blocks.objective import Scored
from weir.dpcore.models.kit.inputs import Inputs, class_text
from weir.dpcore.models.kit.rows import is_void
from weir.dpcore.models.prediction import Given, Predicted, shares


def predict(inputs: Inputs, objective: Scored, given: Given, theta: Floats) -> Predicted:
    """Predictions for events that are clipped, mapped and shortened as those it learned from.

    Args:
      given: the features. theta: (D,), scaled.

    Returns:
      Of classes the likelier one, and their shares unless the loss has none (hinge: the score of
      the second); of a number itself, in the user's units.
    """
    n = len(next(iter(given.values())))
    low, high = inputs.target_ends
    middle: Any = (low + high) / 2
    if inputs.classes:
        middle = 0.0 if inputs.texts else inputs.classes[0]
    # Rows have a target: any that is none of theirs to see.
    rows = inputs.bound({**given, inputs.target: np.full(n, middle)}, n).rows
    weights = theta.reshape(objective.outputs, objective.width)
    if isinstance(rows, SparseRows):
        void, features = np.isnan(rows.last), rows.features.csr
    else:
        void, features = is_void(rows), rows[:, :-1]
    scores = np.asarray(objective.points(features) @ weights.T)
    scores[void] = np.nan
    name = f"predicted.{inputs.target}"
    if not inputs.classes:
        return Predicted({name: (low + high) / 2 + scores[:, 0] * ((high - low) / 2)})
    likely = shares(scores)
    columns: dict[str, NDArray[Any]] = {
        name: np.where(void, -1, np.nan_to_num(likely, nan=-1.0).argmax(axis=1))
    }
    if objective.loss_name in ("logistic", "softmax"):
        classes: Any = inputs.classes
        names = [f"share.{class_text(one)}" for one in classes]
        columns |= {name: likely[:, place] for place, name in enumerate(names)}
    else:
        columns[f"score.{class_text(inputs.classes[1])}"] = scores[:, 0]
    return Predicted(columns, inputs.classes)

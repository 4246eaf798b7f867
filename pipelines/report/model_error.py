"""The error of models per event, in the unit of the target, from what a run released.

It is post-processing of releases and of public numbers, so it costs no budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.words import number
from weir.pipelines.results.run import ReleasedOutput, ResultFolder

Floats = NDArray[np.float64]

LOSS, SQUARES, EXPLAINED = "loss", "mse", "r2"
"""Releases that say how well models predict: summed losses, mean squares, shares explained."""
BASELINE = ("baseline", None)
"""Where a grid holds the baselines of an error."""
SPREAD = "if its values were spread evenly over their range"


@dataclass(frozen=True)
class ErrorPerEvent:
    """How an error per event follows from a release.

    Attributes:
      output: what it is shown as. source: the release. ratio: that of the shares explained, from
        which the baseline follows; None: the baseline is ``constant``.
      factor, power, scale: the error is scale * (factor * value) ** power.
      constant: error of the public baseline. words: what that is, and what the error assumes.
    """

    output: ReleasedOutput
    source: ReleasedOutput
    ratio: ReleasedOutput | None
    factor: float
    power: float
    scale: float
    constant: float
    words: str

    def of(self, value: Floats) -> Floats:
        """Errors of values, or of ends of their margins; any shape."""
        with np.errstate(invalid="ignore"):
            return self.scale * (self.factor * np.maximum(value, 0.0)) ** self.power

    def baseline(self, value: Floats, explained: Floats | None) -> Floats:
        """Errors of the baseline at the same places."""
        if explained is None:
            return np.where(np.isfinite(value), self.constant, np.nan)
        rest = np.where(explained < 1, 1 - explained, np.nan)
        return self.of(value / rest)


def error_per_event(run: ResultFolder, outputs: Sequence[ReleasedOutput]) -> ErrorPerEvent | None:
    """The error per event that the releases of a run give; None where they give none.

    A running loss is a sum over events whose number is not released: it says something of one event
    only where the config says how many to expect.
    """
    by_name = {output.name: output for output in outputs}
    squares, explained = by_name.get(SQUARES), by_name.get(EXPLAINED)
    if squares is not None:
        single = len(squares.labels) == 1
        targets = list((run.plan.get("model") or {}).get("targets") or ["the target"])
        shown = ReleasedOutput(
            f"error of {squares.labels[0] or targets[0]}" if single else "error",
            squares.over,
            ("",) if single else squares.labels,
            "root mean square per event, in its unit",
            role="score",
            between=(0.0, None),
            interval=True,
        )
        words = "dashed: that of the mean of the target" if explained is not None else ""
        return ErrorPerEvent(shown, squares, explained, 1.0, 0.5, 1.0, math.nan, words)
    return None if LOSS not in by_name else _of_loss(run.plan, by_name[LOSS])


def _of_loss(plan: Mapping[str, Any], source: ReleasedOutput) -> ErrorPerEvent | None:
    """The error per event of a running loss; None where nothing says how many events to expect, or
    the loss is no error in a unit."""
    config, model = plan.get("config") or {}, plan.get("model") or {}
    expected, loss = config.get("expect.events"), config.get("model.loss")
    if not expected or len(model.get("targets") or ()) != 1:
        return None
    (target,) = model["targets"]
    low, high = (float(end) for end in model["ranges"][target])
    half = (high - low) / 2
    assumed = f"with {number(expected)} events a tick, as expect.events says; "
    kinds = {
        "squared": (
            *("root mean square per event, in its unit", 2.0, 0.5, half, half / math.sqrt(3)),
            f"dashed: the middle of the range of {target}, {SPREAD}",
        ),
        "absolute": (
            *("mean absolute per event, in its unit", 1.0, 1.0, half, half / 2),
            f"dashed: the middle of the range of {target}, {SPREAD}",
        ),
        "logistic": (
            *("log loss per event", 1.0, 1.0, 1.0, math.log(2)),
            "dashed: one half for each class",
        ),
    }
    if loss not in kinds:
        return None
    unit, factor, power, scale, constant, words = kinds[loss]
    shown = ReleasedOutput(
        f"error of {target}",
        source.over,
        unit=unit,
        role="score",
        between=(0.0, None),
        interval=True,
        left_out=source.left_out,
    )
    return ErrorPerEvent(
        shown, source, None, factor / float(expected), power, scale, constant, assumed + words
    )

"""``weir plan`` of a regression: what is kept and released, with which noise, solved how."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dpcore.models.config import ModelConfig
from dpcore.plan import Plan
from dpcore.registry import MODELS
from pipelines.terminal import bytes_text, number, span

WORDS = {
    "theta": "coefficients in scaled units, of the events so far",
    "coefficients": "the same in the columns' own units",
    "band": "stddev of a prediction, from the noise",
    "mse": "mean squared error on those events",
    "r2": "share of the variance explained",
    "moments": "noisy sums of products of columns",
}
PROJECTED = "regression.projected"
EVENTS = 10_000
"""Events in the span at which the error of a model is predicted."""


def keeps_moments(plan: Plan) -> bool:
    """Whether a model is solved from running moments; else rows are kept and fitted again."""
    return bool(plan.program.leaf == "sum")


def facts(plan: Plan, model: ModelConfig) -> Iterator[tuple[str, str]]:
    """Name and words of what the plan chose."""
    program: Any = plan.program
    if keeps_moments(plan):
        gap = f"to a relative gap of {model.tolerance:g}"
        exact = model.solver == "accelerated"
        yield "solved", gap if exact else f"by {model.solver.replace('_', ' ')}"
        yield "kept", f"{program.dimension:,} running sums a key; no row"
        return
    yield "fitted by", model.solver.replace("_", " ")
    yield "kept", f"rows, up to {bytes_text(program.state_bytes())} a key"


def predicted(plan: Plan) -> float | None:
    """Stddev of a coefficient, scaled units, at EVENTS events spread evenly over their ranges.

    Their moments are a third of EVENTS along every feature, and noise of stddev s in a sum moves
    the solution by s over that. None where no sum is released.
    """
    spread = getattr(plan.program, "stddev", None)
    if spread is None or not keeps_moments(plan):
        return None
    worst = float(np.max(spread(plan.ticks_to_look_at())))
    return 3 * worst / EVENTS if math.isfinite(worst) else None


def rows_of(plan: Plan, facts: Mapping[str, Any], width: float) -> Iterator[tuple[str, ...]]:
    """Cells of the table of releases."""
    for release in facts["releases"]:
        worst, mark = release["stddev_worst"], ""
        if worst is None and release["name"] == "theta":
            worst, mark = predicted(plan), "*"
        yield (
            release["name"],
            WORDS.get(release["name"], ""),
            span(release["over"]),
            f"{release['dimension']:,}",
            "-" if worst is None else number(worst) + mark,
            "-" if worst is None else f"± {number(width * worst)}{mark}",
        )


def notes(plan: Plan, model: ModelConfig) -> Iterator[str]:
    """What the table of releases leaves open."""
    if plan.algorithm == PROJECTED and predicted(plan) is None:
        yield (
            "A model is lifted from what its features were projected to. It has no band: what the "
            "projection leaves out is no noise, and is not known."
        )
        return
    if keeps_moments(plan):
        yield (
            f"* at {EVENTS:,} events in the span, spread evenly over the ranges; with n events it "
            f"is {EVENTS:,} / n times this, and more where features hardly vary or go together. "
            "Every release comes with a band of its own."
        )
        return
    yield (
        "A model follows from all rows so far and stands until the next run; the noise is in the "
        "solver's steps, so that its distance to the best model has no band."
    )


def drops_bad_events(model: ModelConfig) -> bool:
    """Whether an event with a missing number counts as none, not as the middle of a range."""
    return is_regression(model) and not MODELS[model.algorithm].takes("rows")


def is_regression(model: ModelConfig) -> bool:
    """Whether it is one of these."""
    return model.algorithm.startswith("regression.")

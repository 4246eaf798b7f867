"""What a reader should know about a model before running it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dpcore.geometry.parse import parse_set
from dpcore.models.config import PROJECTION_FREE, ModelConfig
from dpcore.models.losses import parse_loss
from dpcore.models.regression.rows import EventRows
from dpcore.program import Program

WORTH = 1.5
"""Times less noise that a bound must save to be worth a sentence."""
_FIRST = np.zeros(1, dtype=np.int64)


def model_warnings(model: ModelConfig, program: Program) -> tuple[str, ...]:
    """Sentences for ``weir plan``. Everything here is public."""
    found: list[str] = []
    lost = parse_set(model.set, model.dimension).guarantee_lost
    if lost and model.algorithm == PROJECTION_FREE:
        found.append(lost)
    if releases_loss(program):
        dearer = 1 / math.sqrt(1 - model.weight) - 1
        found.append(
            f"The running loss is paid from the same budget: it takes {model.weight:.3g} of its "
            f"square, so that the noise of the gradients is {dearer:.1%} larger; model.clip.loss: "
            "0 releases none."
        )
    if parse_loss(model.loss).labels:
        low, high = model.ranges[model.targets[0]]
        found.append(
            f"This loss reads the target as a label: {(low + high) / 2:g}, the middle of its "
            "range, and above is +1, below is -1; a missing target counts as +1."
        )
    found.extend(length_notes(model, program))
    found.extend(getattr(program, "notes", ()))
    return tuple(found)


def length_notes(model: ModelConfig, program: Program) -> Iterator[str]:
    """What a bound on the length of events would save, where none is set."""
    rows = getattr(program, "rows", None)
    if model.clip.features is not None or not isinstance(rows, EventRows):
        return
    moments = rows.moments
    typical = math.sqrt(len(model.features) / 3 + model.intercept)
    shorter = replace(moments, reach=typical)
    saved = moments.sensitivity("replace_one") / shorter.sensitivity("replace_one")
    if saved >= WORTH:
        yield (
            f"Without model.clip.features the noise covers events of length {moments.reach:.3g}, "
            "every feature at an end of its range. Events spread evenly over their ranges have "
            f"length {typical:.3g}: a clip there has {saved:.2g} times less noise, and longer "
            "events count for less."
        )


def releases_loss(program: Program) -> bool:
    """Whether a running loss is among what is released."""
    return any(info.name == "loss" for info in program.describe(_FIRST))

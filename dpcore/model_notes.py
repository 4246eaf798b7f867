"""What a reader should know about a model before running it."""

from __future__ import annotations

import math

import numpy as np

from dpcore.geometry.parse import parse_set
from dpcore.losses import parse_loss
from dpcore.model_config import PROJECTION_FREE, ModelConfig
from dpcore.program import Program

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
    found.extend(getattr(program, "notes", ()))
    return tuple(found)


def releases_loss(program: Program) -> bool:
    """Whether a running loss is among what is released."""
    return any(info.name == "loss" for info in program.describe(_FIRST))

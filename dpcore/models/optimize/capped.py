"""Trees of phases whose steps are projected and capped, and runs with noise on gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.optimize.course import MOST_RUNS
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.one_pass_model import OnePassSection
from weir.dpcore.models.optimize.predicted import tree_error, tree_guess
from weir.dpcore.models.optimize.rehearsed import rehearsed
from weir.dpcore.models.optimize.sfw import REHEARSED_RUNS, Sfw, TreeRun, best_tree
from weir.dpcore.models.optimize.tree import NodeNoise
from weir.dpcore.pricing.terms import Terms

KAPPA = 0.125
"""Longest projected step over that of Frank-Wolfe, where the noise of differences falls alike."""


def noisy_run(
    diameter: float,
    noise: str,
    terms: Terms,
    glm: Glm,
    batch: int,
    phases: int,
    kappa: float = 0.0,
) -> TreeRun:
    """A run whose means have noise. kappa: see ``TreeRun``."""
    d, dual = glm.dimension, glm.dual
    budget = terms.epsilon, terms.delta
    root = NodeNoise.calibrated(glm.lipschitz, d, dual, noise, *budget)
    clip = glm.smoothness * diameter * (kappa or 1.0)
    right = NodeNoise.calibrated(clip, d, dual, noise, *budget)
    lengths = root.length(batch), right.length(batch // 2)
    noisy = math.hypot(lengths[0], math.sqrt(phases) * lengths[1])
    about = (glm, diameter, batch, phases, noisy)
    errors = (tree_error(*about), tree_guess(*about))
    return TreeRun(glm, diameter, batch, phases, root, right, (), False, *errors, kappa)


def capped(
    model: OnePassSection,
    convex_set: ConvexSet,
    radius: float,
    terms: Terms,
    noise: str,
    phases: int | None,
) -> Sfw:
    """Runs of projected, capped steps with noise on gradients; the squared loss is Huber's.

    Args:
      model: loss, records and clip, of rows that are bounded in l2. radius: l2 norm of a point of
        the set, at most. phases: R; None: by rule.
    """
    bounded: dict[str, Any] = {"loss": {"huber": 1.0}} if model.loss == "squared" else {}
    glms = model.model_copy(update=bounded).glms(convex_set, radius)
    make = partial(noisy_run, convex_set.diameter, noise, terms, kappa=KAPPA)
    runs: list[TreeRun] = []
    for k in range(MOST_RUNS):
        records = model.records << k
        deep = phases or max(1, min(7, records.bit_length() - 8))
        run = model.best_width(
            lambda width, n=records, r=deep: best_tree(  # type: ignore[misc]
                partial(make, glms(width)), n, r
            )
        )
        again = k % 2 == 0 and k < REHEARSED_RUNS
        guess = rehearsed(run, convex_set) if again else runs[-1].guess
        runs.append(replace(run, predicted=guess, guess=guess))
    return Sfw(convex_set, tuple(runs), model.records, None)


def capped_notes(loss: Any) -> Iterator[str]:
    """What holds for such steps."""
    yield (
        "No bound is claimed for projected steps: their excess risk is what a dry run on "
        "public, evenly spread features comes to."
    )
    if loss == "squared":
        yield (
            "The squared loss has its slope clipped where a prediction is further from the "
            "target than half of the target's range: as {huber: 1}."
        )

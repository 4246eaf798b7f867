"""A level whose fits are passes of stochastic gradient steps: public numbers, and their cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.level import FINENESS, TOO_LARGE, PerturbedLevel, no_precision
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.noise.gaussian import PublicNormals
from weir.dpcore.pricing.calibration import round_up

BATCH = 32
"""Rows of a batch, about: few calls, and a product of matrices in each."""
PASSES = 8
"""Where none are given. See benchmarks/studies/erm_sgd.py for what fewer and more leave."""
MOST_STEPS = 1 << 22
"""Of a fit."""


@dataclass(frozen=True)
class Stochastic(PerturbedLevel):
    """Fits of one size by P passes over B batches each, without replacement, a step a batch.

    w <- w - eta_t (B / N sum over the batch of grad l(w; z) + 2 lambda (w - w_g)) from w = w_g,
    t = 1, ..., T = P B, eta_t = min(1 / beta, 1 / (gamma t)); gamma = 2 lambda, beta the smoothness
    of a batch's function, 2 lambda included. The last w is released.

    **Formal guarantees**
      Unit: one event. A neighbour swaps ``changes`` rows of what is fitted for others, each in its
        place (blocks of records: which place a row has does not depend on any row), so that a pass
        meets each swap in one batch, by 2 L B / N.
      Sensitivity: a step with eta <= 2 / (beta + gamma) brings two points nearer by the factor
        1 - eta gamma, and a batch with a swapped row parts them by eta 2 L B / N more. Of that
        eta_t prod over s > t of (1 - eta_s gamma) is left at the end, which is 1 / (gamma T) where
        t >= beta / gamma, and less before. So each of the P passes adds at most 2 L B / (N gamma T)
        = 2 L / (N gamma P) whatever place the row has in it: L / (lambda N) in all, which is that
        of the exact minimiser, however many passes there are and however good the point is.
      Rounding: a gradient that is wrong by r and a step that is wrong by u part two runs by at most
        2 (r / gamma + T u); the centre is shortened to ``room``, at which that is at most
        ``FINENESS`` of the sensitivity, and as much is paid for. Of the lattice: ``PointNoise``.
      No amplification is claimed: batches are dealt by public permutations.
      Source: Wu, Li, Kumar, Chaudhuri, Jha, Naughton (2017), Algorithm 2, for gradients of the
        loss alone, batches, and any order; Watson et al. (2021), Algorithm 1.

    Attributes: see ``PerturbedLevel``;
      passes: P. batches: B. smoothness: beta. convexity: gamma.
    """

    passes: int
    batches: int
    smoothness: float
    convexity: float

    @property
    def total(self) -> int:
        """T."""
        return self.passes * self.batches

    def length(self, t: int) -> float:
        """eta_t, t from 1."""
        return min(1 / self.smoothness, 1 / (self.convexity * t))

    def batch(self, number: int, index: int) -> Ints:
        """Places of the rows in a batch of a pass, both from 0: a public matter."""
        first, stop = (self.most * i // self.batches for i in (index, index + 1))
        return dealt(self.most, number)[first:stop]

    @property
    def way(self) -> str:
        some = f"{self.passes:,} pass{'es' if self.passes > 1 else ''}"
        return f"{some} of {self.batches:,} stochastic steps"

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "size": self.size,
            "rows": self.most,
            "passes": self.passes,
            "batches": self.batches,
            "smoothness": self.smoothness.hex(),
            "convexity": self.convexity.hex(),
            **self.canonical_noise(),
        }


@lru_cache(maxsize=16)
def dealt(rows: int, number: int) -> Ints:
    """A public permutation of so many rows, another for every pass."""
    order = PublicNormals(b"stochastic passes").draw(number, rows, 1)[:, 0]
    result: Ints = np.argsort(order, kind="stable")
    result.setflags(write=False)
    return result


def stochastic_level(
    objective: Objective,
    size: int,
    rows: int,
    changes: int,
    budget: PrivacyLoss,
    share: Fraction,
    passes: int,
) -> Stochastic:
    """A level whose fits cost at most a share of a budget each.

    Args:
      objective: F. size: blocks of a fit. rows: of a fit, exactly: N. changes: rows that a
        neighbour swaps. passes: P.

    Raises:
      ConfigError: noise, steps or numbers that cannot be served.
    """
    batches = max(1, rows // BATCH)
    if passes * batches > MOST_STEPS:
        raise ConfigError(
            "model.passes", passes, f"are more than {MOST_STEPS:,} steps a fit; take fewer."
        )
    largest = -(-rows // batches)
    weight = largest * batches / rows
    convexity = 2 * objective.strength
    smoothness = round_up(weight * objective.smoothness + convexity)
    moved = changes * objective.moves(float(rows)) * (1 + 2.0**-30)  # steps are rounded numbers
    allowed = FINENESS * moved
    units = float(1 / share) * (1 + 2.0**-50)
    noise = PointNoise.calibrated(objective.dimension, moved, budget, units, allowed)
    room = _room(objective, weight, largest, passes * batches, allowed)
    return Stochastic(
        size,
        float(rows),
        rows,
        room,
        noise,
        passes=passes,
        batches=batches,
        smoothness=smoothness,
        convexity=convexity,
    )


def _room(objective: Objective, weight: float, rows: int, total: int, allowed: float) -> float:
    """Largest norm of a centre at which rounding parts two runs by at most ``allowed``.

    Every w is within L weight / gamma of the centre: a step moves w - w_g to (1 - eta gamma) times
    it, less eta times a gradient of length L weight at most.
    """
    gamma = 2 * objective.strength
    spread = weight * objective.lipschitz / gamma
    fixed = weight * objective.added(rows) * objective.lipschitz
    per = weight * objective.smoothness * objective.width + 2 * gamma  # of |w| + 1: see rounding
    # 2 (2^-50 (fixed + per s) / gamma + T 2^-51 (s + spread)) <= allowed, s = |w| + 1
    spare = allowed * 2.0**49 - fixed / gamma - total / 2 * spread
    size = spare / (per / gamma + total / 2)
    room = size - 1 - spread
    if not room >= 8 * (spread + 1):
        words = f"rows and so many passes {TOO_LARGE}."
        raise no_precision(objective, weight, rows, words)
    return math.ldexp(1.0, math.frexp(room)[1] - 1)

"""What fits of one size have in common, whatever finds the point: a lattice, noise and its cost."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.precision import refuse_coarse
from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.continual.unit import (
    NOISE_OF,
    draw_units,
    lattice_variances,
    loss_of_units,
    noise_scale_for,
    unit_variance,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.discrete_gaussian import MAX_VARIANCE
from weir.dpcore.noise.noise import Noise, label
from weir.dpcore.pricing.calibration import round_up

FINENESS = 2.0**-10
"""What a certificate, or rounding, adds to how far a record moves a fit."""
ROOM = 1 << 60
"""Noise stays below this many lattice steps, so that a model and its noise fit an int64."""


@dataclass(frozen=True)
class Noised(ABC):
    """A point of sensitivity ``sensitivity``, rounded to a lattice and released with noise.

    **Formal guarantees**
      Unit, relation: of what finds the point. Rounding to the lattice moves each of two points by
      at most sqrt(D) / 2 steps, which is in ``sensitivity`` (l2, in steps). Noise: of scale
      ``scale``, in steps. Guarantee: ``loss``.

    Attributes:
      size: blocks of a fit. divisor: N. most: rows of a fit, at most.
      room: most of the norm of the model that a fit is pulled to.
      resolution: step of the lattice. sensitivity, scale: see above. kind: of the noise.
    """

    size: int
    divisor: float
    most: int
    room: float
    resolution: float
    sensitivity: float
    kind: str
    scale: float

    def centre(self, w: Floats) -> Floats:
        """A released model, shortened to ``room``: (D,)."""
        size = float(np.sqrt(np.dot(w, w)))
        return w if size <= self.room else w * (self.room / size)

    def released(self, w: Floats, noise: Noise, labels: Digests, digest: Digests) -> Floats:
        """The point with noise, on the lattice: (D,). digest: (2,), of all data of the key."""
        ones = (1.0,) * len(w)
        drawn = draw_units(self.kind, noise, labels, digest[None, None], self.scale, ones)[0, 0]
        steps = np.rint(w * (1.0 / self.resolution))
        return np.asarray((steps.astype(np.int64) + drawn) * self.resolution + 0.0)

    def variance(self, dimension: int) -> float:
        """Of a coordinate of the noise of that many, in scaled units."""
        steps = unit_variance(self.kind, self.scale, (1.0,) * dimension)
        return steps * self.resolution * self.resolution

    @property
    def loss(self) -> PrivacyLoss:
        """What a fit costs a record in it."""
        return loss_of_units(self.kind, 1, self.sensitivity, self.scale)

    @property
    def cost(self) -> Fraction:
        """The same as a number that adds up: mu^2, rho or eps."""
        value = Fraction(self.loss.value)
        return value * value if self.kind == "gaussian" else value

    @property
    @abstractmethod
    def way(self) -> str:
        """How the point is found, for people."""

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""


class Scale(NamedTuple):
    """Noise of a level.

    Attributes: see ``Noised``.
    """

    resolution: float
    sensitivity: float
    kind: str
    scale: float


def scale_for(
    dimension: int, moved: float, added: float, budget: PrivacyLoss, share: Fraction
) -> Scale:
    """Lattice and noise of a point of D coordinates, which cost at most a share of a budget.

    Args:
      moved: how far a neighbour moves what the point stands for. added: how far two points may be
        from it, together.

    Raises:
      ConfigError: noise or numbers that cannot be served.
    """
    resolution = math.ldexp(1.0, math.frexp(moved * FINENESS / 4 / math.sqrt(dimension))[1] - 1)
    sensitivity = round_up((moved + added) / resolution + math.sqrt(dimension))
    kind = NOISE_OF[budget.kind]
    scale = round_up(noise_scale_for(float(1 / share) * (1 + 2.0**-50), sensitivity, budget))
    stddev = math.sqrt(unit_variance(kind, scale, (1.0,) * dimension))
    refuse_coarse("a model", kind, stddev)
    exact = lattice_variances(scale, (1.0,)) if kind == "discrete_gaussian" else (0,)
    if exact[0] > MAX_VARIANCE or not scale < ROOM / (64 + dimension):
        raise ConfigError("privacy.epsilon", None, "leaves too little; raise epsilon or delta.")
    return Scale(resolution, sensitivity, kind, scale)


def noise_labels(order: int, complete: int) -> Digests:
    """Names the noise of a fit among all of its key: its place among those of one block, and how
    many blocks are complete."""
    return label(order, complete)

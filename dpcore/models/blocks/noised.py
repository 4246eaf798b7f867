"""What fits of one size have in common, whatever finds the point: a lattice, noise and its cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.noise.noise import label

FINENESS = 2.0**-10
"""What a certificate, or rounding, adds to how far a record moves a fit."""


@dataclass(frozen=True)
class Noised(ABC):
    """A point with noise.

    **Formal guarantees**
      Unit, relation: of what finds the point. Sensitivity, guarantee: of ``noise``.

    Attributes:
      size: blocks of a fit. divisor: N. most: rows of a fit, at most.
      room: most of the norm of the model that a fit is pulled to. noise: of the point.
    """

    size: int
    divisor: float
    most: int
    room: float
    noise: PointNoise

    def centre(self, w: Floats) -> Floats:
        """A released model, shortened to ``room``: (D,)."""
        size = float(np.sqrt(np.dot(w, w)))
        return w if size <= self.room else w * (self.room / size)

    @property
    def loss(self) -> PrivacyLoss:
        """What a fit costs a record in it."""
        return self.noise.loss

    @property
    def cost(self) -> Fraction:
        """The same as a number that adds up: mu^2, rho or eps."""
        value = Fraction(self.loss.value)
        return value * value if self.noise.kind == "gaussian" else value

    @property
    @abstractmethod
    def way(self) -> str:
        """How the point is found, for people."""

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""

    def canonical_noise(self) -> Mapping[str, Any]:
        """Those of the lattice and the noise."""
        return {
            "room": self.room.hex(),
            "resolution": self.noise.resolution.hex(),
            "sensitivity": self.noise.sensitivity.hex(),
            "noise": [self.noise.kind, self.noise.scale.hex()],
        }


def noise_labels(order: int, complete: int) -> Digests:
    """Names the noise of a fit among all of its key: its place among those of one block, and how
    many blocks are complete."""
    return label(order, complete)

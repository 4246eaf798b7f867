"""Noise of a gradient that is a mean over a batch: its scale, its price and how it is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.precision import refuse_coarse
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.unit import (
    draw_units,
    lattice_variances,
    loss_of_units,
    noise_scale_for,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import Lattice
from weir.dpcore.models.optimize.predicted import length_of
from weir.dpcore.noise.discrete_gaussian import MAX_VARIANCE
from weir.dpcore.noise.generalised_gaussian import GeneralisedGaussian
from weir.dpcore.noise.noise import Noise
from weir.dpcore.pricing.calibration import budget_of, round_up

GENERALISED = "generalised_gaussian"
NODE_NOISES = ("gaussian", "discrete_gaussian", GENERALISED)


@dataclass(frozen=True)
class NodeNoise:
    """Noise on the lattice sum of a batch of vectors of lq norm at most ``clip``.

    **Formal guarantees**
      Unit: one event. Relation: replace_one.
      Sensitivity: 2 clip in lq, q >= 2, whatever the batch: the vectors are clipped and truncated
        toward zero to the lattice, and their sum is exact. In l2: d^(1/2 - 1/q) times that.
      Guarantee: of Gaussian noise mu = l2 sensitivity / sigma; of discrete Gaussian rho = l2^2 / (2
        sigma^2); of the generalised Gaussian what ``GeneralisedGaussian`` says of the lq one.

    Attributes:
      clip: of a vector, in the dual norm. dimension: d. dual: q. kind: of the noise.
      scale: in lattice steps. exponent: that is sampled (generalised Gaussian; else 2).
    """

    clip: float
    dimension: int
    dual: float
    kind: str
    scale: float
    exponent: float

    @classmethod
    def calibrated(
        cls, clip: float, dimension: int, dual: float, kind: str, epsilon: float, delta: float
    ) -> NodeNoise:
        """The least noise at which a release keeps the whole budget."""
        steps = 2 * clip / Lattice.fitting(clip).resolution
        budget = budget_for(kind, epsilon, delta)
        if kind == GENERALISED:
            made = GeneralisedGaussian.calibrated(dimension, dual, steps, budget.value)
            scale, exponent, spread = round_up(made.sigma), made.exponent, made.stddev
        else:
            longest = steps * _widening(dimension, dual)
            scale = round_up(noise_scale_for(1, longest, budget))
            exponent, spread = 2.0, scale
        refuse_coarse("a gradient", "gaussian" if kind == GENERALISED else kind, spread)
        exact = lattice_variances(scale, (1.0,)) if kind == "discrete_gaussian" else (0,)
        if exact[0] > MAX_VARIANCE:
            raise ConfigError("privacy.epsilon", None, "leaves too little; raise epsilon or delta.")
        return cls(clip, dimension, dual, kind, scale, exponent)

    @property
    def lattice(self) -> Lattice:
        """Of the vectors."""
        return Lattice.fitting(self.clip)

    @property
    def sensitivity(self) -> float:
        """Of the lattice sum in lq, in steps."""
        return 2 * self.clip / self.lattice.resolution

    @property
    def loss(self) -> PrivacyLoss:
        """What a release costs a record in it."""
        if self.kind == GENERALISED:
            return PrivacyLoss("zcdp", self._generalised.rho)
        longest = self.sensitivity * _widening(self.dimension, self.dual)
        return loss_of_units(self.kind, 1, longest, self.scale)

    @property
    def _generalised(self) -> GeneralisedGaussian:
        return GeneralisedGaussian(
            self.dimension, self.dual, self.exponent, self.sensitivity, self.scale
        )

    @property
    def stddev(self) -> float:
        """Of a coordinate of the noise in the sum, in units of the vectors."""
        steps = self._generalised.stddev if self.kind == GENERALISED else self.scale
        return steps * self.lattice.resolution

    def length(self, size: int) -> float:
        """E of the dual norm of the noise in a mean of so many vectors, at most (for generalised
        Gaussian noise: as if it were Gaussian, which sums of several nearly are)."""
        return self.stddev / size * length_of(self.dual, self.dimension)

    def mean(
        self, total: Ints, size: int, noise: Noise, labels: Digests, digest: Digests
    ) -> Floats:
        """The noisy mean: (d,). total: (d,) lattice sum. digest: (2,), of all data of the key."""
        where = digest[None, None]
        if self.kind == GENERALISED:
            drawn = noise.generalised_gaussian(labels, where, self.dimension, self.exponent)
            units = np.rint(drawn[0, 0] * self.scale).astype(np.int64)
        else:
            ones = (1.0,) * self.dimension
            units = draw_units(self.kind, noise, labels, where, self.scale, ones)[0, 0]
        mean = (total + units).astype(np.float64) * (self.lattice.resolution / size)
        return np.asarray(mean)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "clip": self.clip.hex(),
            "dual": self.dual.hex(),
            "noise": [self.kind, self.scale.hex(), self.exponent.hex()],
        }


def budget_for(kind: str, epsilon: float, delta: float) -> PrivacyLoss:
    """The whole budget in the currency of a noise.

    Raises:
      ConfigError: delta = 0, which such noise cannot serve.
    """
    if delta <= 0:
        raise ConfigError(
            "privacy.delta",
            delta,
            f"must be above 0 for {kind} noise; set 1e-6, or take optimize.sfw_polyhedral over an "
            "l1 ball, a simplex or a polytope, which serves delta = 0.",
        )
    return budget_of("discrete_gaussian" if kind == GENERALISED else kind, epsilon, delta)


def _widening(dimension: int, dual: float) -> float:
    """d^(1/2 - 1/q), most that an l2 norm is of an lq norm, q >= 2: rounded up."""
    if dimension == 1 or dual <= 2:
        return 1.0
    least = 0.0 if math.isinf(dual) else 1 / dual
    return math.pow(dimension, 0.5 - least) * (1 + 2.0**-40)

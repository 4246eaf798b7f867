"""Points on a grid, and noise on a point of a lattice: its scale, its draw and its cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.precision import refuse_coarse
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.unit import (
    NOISE_OF,
    draw_units,
    lattice_variances,
    loss_of_units,
    noise_scale_for,
    unit_variance,
)
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.noise import replay
from weir.dpcore.noise.discrete_gaussian import MAX_VARIANCE
from weir.dpcore.noise.noise import Noise
from weir.dpcore.pricing.calibration import round_up

GRID_BITS = 36
"""Iterates are whole multiples of the set's size times 2^-36: far below any noise, and coarse
enough that sums of 2^17 of them are exact."""


def row_dot(left: Floats, right: Floats) -> Floats:
    """(K, d), (K, d) -> (K,) inner products; a row's bits depend on that row alone.

    einsum goes along contiguous rows one after the other, in an order that depends on d only (``@``
    and BLAS do not, nor do sums over strided rows).
    """
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    return np.asarray(np.einsum("kd,kd->k", left, right))


def grid_of(convex_set: ConvexSet) -> float:
    """The public grid of iterates: a power of two, 2^-36 of the set's reach."""
    reach = convex_set.reach
    if not (math.isfinite(reach) and reach > 0):
        raise ConfigError("model.set", reach, "must be bounded, and more than the point 0.")
    return math.ldexp(1.0, math.frexp(reach)[1] - GRID_BITS)


def to_grid(points: Floats, grid: float) -> Floats:
    """Nearest multiples of a power of two; a new C-contiguous array."""
    out = np.multiply(points, 1.0 / grid, order="C")
    np.rint(out, out=out)
    out *= grid
    out += 0.0  # no negative zeros
    return out


def rounding_of(convex_set: ConvexSet, grid: float) -> float:
    """Largest l2 distance between a point and its rounded one."""
    return 0.5 * grid * math.sqrt(convex_set.dimension)


def centre_of(convex_set: ConvexSet, centre: tuple[float, ...]) -> Floats:
    """(d,) the public centre of the quadratics.

    Raises:
      ConfigError: it has another dimension.
    """
    if len(centre) != convex_set.dimension:
        raise ConfigError(
            "model.centre", list(centre), f"must have {convex_set.dimension} numbers, one a weight."
        )
    return np.asarray(centre, dtype=np.float64)


def start_of(convex_set: ConvexSet, centre: tuple[float, ...]) -> Floats:
    """(d,) x_1, public: the centre where one is given and the set holds it, the leader of no data;
    else the set's own start."""
    value = centre_of(convex_set, centre)
    inside = value.any() and convex_set.contains(value[None], 0.0)[0]
    return value if inside else np.asarray(convex_set.start(), dtype=np.float64)


FINENESS = 2.0**-12
"""Step of the lattice over the sensitivity and the root of the dimension."""
ROOM = 1 << 60
"""Noise stays below this many lattice steps, so that a point and its noise fit an int64."""


@dataclass(frozen=True)
class PointNoise:
    """Noise on a point of d coordinates that lies on a lattice.

    **Formal guarantees**
      Unit, relation: of what makes the point. Sensitivity: ``sensitivity`` in l2, in steps of the
      lattice, what rounding to it moves two points apart included. Guarantee: ``loss``.

    Attributes:
      kind: gaussian, discrete_gaussian or k_norm. dimension: d. resolution: step of the lattice.
      sensitivity: see above. scale: of the noise, in steps.
    """

    kind: str
    dimension: int
    resolution: float
    sensitivity: float
    scale: float

    @classmethod
    def calibrated(
        cls,
        dimension: int,
        moved: float,
        budget: PrivacyLoss,
        units: float = 1.0,
        added: float = 0.0,
        spare: float = 0.0,
        name: str = "a model",
    ) -> Self:
        """The least noise at which so many units of it cost a budget.

        Args:
          moved: how far a neighbour moves what the point stands for, in l2. added: how far two
            points may be from it, together. spare: steps for the rounding of doubles, next to the
            sqrt(d) of the lattice. name: of the point, for messages.

        Raises:
          ConfigError: noise that cannot be drawn.
        """
        resolution = math.ldexp(1.0, math.frexp(moved * FINENESS / math.sqrt(dimension))[1] - 1)
        sensitivity = round_up((moved + added) / resolution + math.sqrt(dimension) + spare)
        scale = round_up(noise_scale_for(units, sensitivity, budget))
        built = cls(NOISE_OF[budget.kind], dimension, resolution, sensitivity, scale)
        built.check(name)
        return built

    def check(
        self,
        name: str,
        field: str = "privacy.epsilon",
        words: str = "leaves too little; raise epsilon or delta.",
        remedy: str = "",
    ) -> None:
        """Raises ConfigError: noise that leaves out steps of the fixed-point grid, does not fit an
        integer together with its point, or is beyond the exact sampler.

        Args:
          name: of the point. field, words: what is refused, and how. remedy: for noise
            that leaves out steps; "": the usual ones.
        """
        refuse_coarse(name, self.kind, math.sqrt(self._unit), field, remedy)
        exact = lattice_variances(self.scale, (1.0,)) if self.kind == "discrete_gaussian" else (0,)
        # The tails of the norm of d numbers lie within 64 + d scales.
        if exact[0] > MAX_VARIANCE or not self.scale < ROOM / (64 + self.dimension):
            raise ConfigError(field, None, words)

    @property
    def _ones(self) -> tuple[float, ...]:
        return (1.0,) * self.dimension

    @property
    def _unit(self) -> float:
        return unit_variance(self.kind, self.scale, self._ones)

    @property
    def variance(self) -> float:
        """Of a coordinate of the noise, in the units of the point."""
        return self._unit * self.resolution * self.resolution

    @property
    def stddev(self) -> float:
        """Of a coordinate of the noise, in the units of the point."""
        return math.sqrt(self._unit) * self.resolution

    @property
    def moved(self) -> float:
        """Most that a record moves the rounded point in l2, in its units."""
        return self.sensitivity * self.resolution

    @property
    def loss(self) -> PrivacyLoss:
        """What one point costs a record in it."""
        return self.loss_of(1)

    def loss_of(self, units: float) -> PrivacyLoss:
        """What so many points cost it, adaptively."""
        return loss_of_units(self.kind, units, self.sensitivity, self.scale)

    def draw(self, noise: Noise, labels: Digests, digests: Digests) -> Ints:
        """Noise of K keys, in steps: (K, d). labels: (1, 2). digests: (K, 2), of all data of each
        key that the point depends on."""
        args = (labels, digests[None], self.scale, self._ones)
        return np.asarray(draw_units(self.kind, noise, *args)[0])

    def released(self, point: Floats, noise: Noise, labels: Digests, digest: Digests) -> Floats:
        """The point (d,) of one key with noise, on the lattice. digest: (2,)."""
        steps = np.rint(point * (1.0 / self.resolution)).astype(np.int64)
        noisy = self.noisy(steps[None], noise, labels, digest[None])[0]
        return np.asarray(noisy * self.resolution)

    def noisy(self, steps: Ints, noise: Noise, labels: Digests, digests: Digests) -> Ints:
        """Points of K keys with noise, all in steps: (K, d)."""
        drawn = self.draw(noise, labels, digests)
        return np.asarray(
            replay.released(
                "point",
                self.kind,
                steps,
                steps + drawn,
                sensitivity=self.sensitivity,
                scale=self.scale,
                where=labels,
            )
        )

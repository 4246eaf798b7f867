"""Trees of a run of stochastic Frank-Wolfe: stages, and the noise of their nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.unit import noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.lattice import Lattice
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.models.optimize.predicted import length_of
from weir.dpcore.noise import replay
from weir.dpcore.noise.generalised_gaussian import GeneralisedGaussian
from weir.dpcore.noise.noise import Noise
from weir.dpcore.pricing.calibration import budget_of, round_up

MOST_PHASES = 10


class Stage(NamedTuple):
    """A batch of records, then one step at the leaf that it leads to.

    Attributes:
      phase: r, the depth of its tree. depth: of the node whose batch this is; 0: the root.
      start, size: its records within the run. step: eta of the leaf's step.
      leaf: its place among those of the phase.
    """

    phase: int
    depth: int
    start: int
    size: int
    step: float
    leaf: int


def batch_for(records: int, phases: int) -> int:
    """b: records of a root's batch; 0 where the run is too short.

    Rounded down to a multiple of 2^R, so that b 2^-j are whole: with floors instead, a batch of a
    few records has up to 1.75 times the sensitivity that the formula says.
    """
    most = 4 * records // (phases * (phases + 5))  # n / (R + R (R + 1) / 4)
    return most >> phases << phases


@lru_cache(maxsize=256)
def stages_for(batch: int, phases: int) -> tuple[Stage, ...]:
    """All stages of a run, in order: each node's batch is fresh, fixed in advance and disjoint from
    all others.

    A left child inherits its parent's point and gradient. So what comes before leaf l > 0 of phase
    r is the one batch of the right child at depth r - (trailing zeros of l), and before leaf 0 that
    of the root.

    Raises:
      ConfigError: no phase, or a batch that is no positive multiple of 2^phases.
    """
    if not 1 <= phases <= MOST_PHASES:
        raise ConfigError("model.phases", phases, f"must lie between 1 and {MOST_PHASES}.")
    if batch < 1 << phases or batch % (1 << phases):
        raise ConfigError(
            "batch", batch, f"must be a multiple of {1 << phases}: give a run more records."
        )
    stages: list[Stage] = []
    start = 0
    for phase in range(1, phases + 1):
        for leaf in range(1 << phase):
            zeros = (leaf & -leaf).bit_length() - 1
            depth = phase - zeros if leaf else 0
            size = batch >> depth
            stages.append(Stage(phase, depth, start, size, 2 / ((1 << phase) + leaf + 1), leaf))
            start += size
    return tuple(stages)


def records_of(batch: int, phases: int) -> int:
    """Records that are read: b (R + R (R + 1) / 4)."""
    last = stages_for(batch, phases)[-1]
    return last.start + last.size


def needed(phases: int) -> int:
    """Fewest records of a run with so many phases."""
    return -(-(phases * (phases + 5) << phases) // 4)


def reached(phase: int, depth: int) -> float:
    """Most that the steps from a node to its right child at ``depth`` >= 1 take a point, over M.

    Steps x -> (1 - eta) x + eta v leave prod (1 - eta) of the point that they began at, and the
    rest is a mean of points of the set: so they take it at most (1 - prod (1 - eta)) M. With
    eta = 2 / (t + 1), t = n + l, n = 2^r, of s = 2^(r - j) leaves the product telescopes, and is
    least from leaf l = 0 on: n (n - 1) / ((n + s) (n + s - 1)). Steps from one vertex to the one
    that is furthest from it attain this. At depth 1 it is down to 5/9; the papers have 2^(1 - j),
    s steps of at most 2 M / n.
    """
    n, s = 1 << phase, 1 << (phase - depth)
    whole = (n + s) * (n + s - 1)
    return (whole - n * (n - 1)) / whole


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
            built = GeneralisedGaussian.calibrated(dimension, dual, steps, budget.value)
            scale, exponent, spread = round_up(built.sigma), built.exponent, built.stddev
            point = PointNoise("gaussian", dimension, 1.0, steps, spread)
        else:
            longest = steps * _widening(dimension, dual)
            scale, exponent = round_up(noise_scale_for(1, longest, budget)), 2.0
            point = PointNoise(kind, dimension, 1.0, longest, scale)
        point.check("a gradient")
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
        return self._point.loss

    @property
    def _point(self) -> PointNoise:
        longest = self.sensitivity * _widening(self.dimension, self.dual)
        shape = (self.kind, self.dimension, self.lattice.resolution)
        return PointNoise(*shape, longest, self.scale)

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
        if self.kind == GENERALISED:
            where = digest[None, None]
            drawn = noise.generalised_gaussian(labels, where, self.dimension, self.exponent)
            noisy = replay.released(
                "gradient",
                GENERALISED,
                total,
                total + np.rint(drawn[0, 0] * self.scale).astype(np.int64),
                sensitivity=self.sensitivity,
                scale=self.scale,
                where=labels,
                norm=self.dual,
                extra=(self._generalised.kappa,),
            )
        else:
            noisy = self._point.noisy(total[None], noise, labels, digest[None])[0]
        mean = noisy.astype(np.float64) * (self.lattice.resolution / size)
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
            f"must be above 0 for {kind} noise; set 1e-6, or take optimize.sfw_polyhedral "
            "with form: tree over an l1 ball, a simplex or a polytope, which serves delta = 0.",
        )
    return budget_of("discrete_gaussian" if kind == GENERALISED else kind, epsilon, delta)


def _widening(dimension: int, dual: float) -> float:
    """d^(1/2 - 1/q), most that an l2 norm is of an lq norm, q >= 2: rounded up."""
    if dimension == 1 or dual <= 2:
        return 1.0
    least = 0.0 if math.isinf(dual) else 1 / dual
    return math.pow(dimension, 0.5 - least) * (1 + 2.0**-40)

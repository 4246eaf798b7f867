"""Noise and steps of the fits of one size: certified minimisers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.accelerated import Accelerated, accelerated
from weir.dpcore.models.blocks.objective import Objective
from weir.dpcore.models.kit.point import PointNoise
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import kind_of
from weir.dpcore.pricing.calibration import round_up

FINENESS = 2.0**-10
"""What a certificate, or rounding, adds to how far a record moves a fit."""


@dataclass(frozen=True)
class FitLevel(ABC):
    """Fits of one size.

    Attributes:
      size: blocks of a fit. divisor: N. most: rows of a fit, at most.
    """

    size: int
    divisor: float
    most: int

    @property
    @abstractmethod
    def kind(self) -> LossKind:
        """The currency of what a fit costs."""

    @property
    @abstractmethod
    def cost(self) -> Fraction:
        """What a fit costs a record in it, as a number that adds up: mu^2, rho or eps."""

    @property
    def loss(self) -> PrivacyLoss:
        """The same as a loss."""
        value = float(self.cost)
        return PrivacyLoss(self.kind, math.sqrt(value) if self.kind == "gdp" else value)

    @property
    @abstractmethod
    def moved(self) -> float:
        """Most that a record moves what gets noise, in l2."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Of a coordinate of the noise in a model, about."""

    @property
    @abstractmethod
    def way(self) -> str:
        """How the point is found, for people."""

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""


@dataclass(frozen=True)
class PerturbedLevel(FitLevel):
    """A point with noise.

    **Formal guarantees**
      Unit, relation: of what finds the point. Sensitivity, guarantee: of ``noise``.

    Attributes: see ``FitLevel``;
      room: most of the norm of the model that a fit is pulled to. noise: of the point.
    """

    room: float
    noise: PointNoise

    def centre(self, w: Floats) -> Floats:
        """A released model, shortened to ``room``: (D,)."""
        size = float(np.sqrt(np.dot(w, w)))
        return w if size <= self.room else w * (self.room / size)

    @property
    def kind(self) -> LossKind:
        return kind_of(self.noise.kind)

    @property
    def loss(self) -> PrivacyLoss:
        return self.noise.loss

    @property
    def cost(self) -> Fraction:
        value = Fraction(self.loss.value)
        return value * value if self.noise.kind == "gaussian" else value

    @property
    def moved(self) -> float:
        return self.noise.moved

    @property
    def variance(self) -> float:
        return self.noise.variance

    def canonical_noise(self) -> Mapping[str, Any]:
        """Those of the lattice and the noise."""
        return {
            "room": self.room.hex(),
            "resolution": self.noise.resolution.hex(),
            "sensitivity": self.noise.sensitivity.hex(),
            "noise": [self.noise.kind, self.noise.scale.hex()],
        }


LARGE = 500.0
"""From here on e^eps is too near the largest double, and 1 is lost in it."""
TOO_LARGE = "leave the regulariser no double precision; take smaller blocks"


def no_precision(objective: Objective, weight: float, rows: int, words: str) -> ConfigError:
    """A refusal of fits that rounding moves by more than is paid for.

    Args:
      weight: of all rows together in N. rows: of a fit. words: of a refusal of so many.
    """
    if 4 * objective.strength > weight * objective.smoothness * objective.width:
        strong = "leaves the loss no double precision; take a smaller one."
        return ConfigError("model.regularise", objective.strength, strong)
    return ConfigError("model.block", rows, words)


class SampleNoise(Protocol):
    """Keyed noise, where it is asked for a sample."""

    def bits(self, labels: Digests, digests: Digests, count: int) -> Digests:
        """Uniform random words: (m, K, count) uint64."""


@dataclass(frozen=True)
class Level(PerturbedLevel):
    """Fits of one size by a certified minimiser.

    **Formal guarantees**
      Unit: one event. A neighbour swaps at most ``changes`` rows of what is fitted for others (a
        void one among them), or adds or removes as many: the gradients of the two F differ by at
        most 2 L ``changes`` / N. Or a user in one block, whose rows have a mean (``ByUsers``); in
        j blocks of the fit, j times as much (``Presence``).
      Certificate: a point with ||grad F|| <= tau is within tau / (2 lambda) of the minimiser, as F
        is 2 lambda strongly convex; so two of them are at most s + tau / lambda apart, s that of
        exact minimisers. ``minimiser`` takes a public number of steps after which that holds for
        every block, in double precision too: the centre is shortened to ``room``, which bounds what
        rounding can do. So the certificate cannot fail, and nothing stops early on data. It is
        looked at all the same: a point without it is a defect, and is not released; the centre is,
        with the same noise, for which no bound is claimed.
      Rounding, sensitivity, noise: ``PointNoise``.
      Sample: where ``of`` is set, a fit runs on a secret sample of exactly N of so many rows,
        without replacement and fresh for each fit (``sample``): eps0 of what runs on it costs
        ln(1 + (N / of) (e^eps0 - 1)), as a swapped row is in it with probability N / of.
        Source: Balle, Barthe, Gaboardi (2018), Theorem 10, for pure epsilon.

    Attributes: see ``PerturbedLevel``;
      tau: of the certificate. minimiser: what finds the point.
      of: rows that N are drawn from; 0: all are taken.
      users: whose rows have a weight of 1 together, at most; 0: each row has it.
    """

    tau: float
    minimiser: Accelerated
    of: int = 0
    users: int = 0

    @property
    def share(self) -> float:
        """Of the weights of all rows together in N, at most."""
        return (self.users or self.most) / self.divisor

    def sample(self, noise: SampleNoise, labels: Digests, digest: Digests) -> NDArray[np.bool_]:
        """Which of the rows are in the sample: (of,); those of the N smallest random words."""
        words = replay.released(
            "secret sample",
            "sample",
            np.zeros(0),
            noise.bits(labels, digest[None, None], self.of)[0, 0],
            sensitivity=0.0,
            scale=1.0,
            where=labels,
            extra=(self.divisor / self.of,),
        )
        chosen = np.zeros(self.of, dtype=bool)
        chosen[np.argsort(words, kind="stable")[: int(self.divisor)]] = True
        return chosen

    def certified(self, gradient: Floats, rounding: float) -> bool:
        """Whether a gradient that was computed to within ``rounding`` is at most tau."""
        size = float(np.sqrt(np.dot(gradient, gradient)))
        return size * (1 + 2.0**-40) + rounding <= self.tau

    @property
    def loss(self) -> PrivacyLoss:
        run = super().loss
        if not self.of:
            return run
        return PrivacyLoss("pure", amplified(run.value, self.divisor / self.of))

    @property
    def way(self) -> str:
        return f"{self.minimiser.steps:,} steps"

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "size": self.size,
            "divisor": self.divisor.hex(),
            "most": self.most,
            "tau": self.tau.hex(),
            "minimiser": canonical_value(self.minimiser),
            **self.canonical_noise(),
            **({"of": self.of} if self.of else {}),
            **({"users": self.users} if self.users else {}),
        }


def amplified(epsilon: float, rate: float) -> float:
    """What a pure epsilon on a sample costs: ln(1 + rate (e^eps - 1)), rounded up."""
    return _through(epsilon, rate) * (1 + 2.0**-40)


def _through(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^eps - 1)); from ``LARGE`` on eps + ln(rate), which it is to the last bit."""
    if epsilon > LARGE:
        return epsilon + math.log(rate)
    return math.log1p(rate * math.expm1(epsilon))


def sampled_level(
    objective: Objective, size: int, rows: int, sample: int, budget: PrivacyLoss, share: Fraction
) -> Level:
    """A level whose fits run on samples, and cost at most a share of a pure budget each.

    Args:
      objective: F. size: blocks of a fit. rows: of a fit, a public number. sample: of those.

    Raises:
      ConfigError: noise, steps or numbers that cannot be served.
    """
    part = float(share) * budget.value
    inner = _through(part, rows / sample) * (1 - 2.0**-30)
    inner = 1 / round_up(1 / inner)  # the same on every CPU, toward privacy
    whole = PrivacyLoss("pure", inner)
    built = level_for(objective, size, float(sample), sample, 1, whole, Fraction(1))
    return replace(built, of=rows)


def strength_for(objective: Objective, rows: float, budget: PrivacyLoss) -> float:
    """lambda of a fit that stands alone: 2.1 A^2 (c l^2)^(1/3) (n mu)^(-0.8), from public numbers.

    The excess of a noisy minimum is at most lambda R^2 + c A^2 L^2 / (2 lambda^2 n^2 mu^2), R the
    length of a good model: the first grows with lambda, the second is at its best at a multiple of
    (n mu)^(-2/3). The constants were fitted to 11 public tables.

    Args:
      rows: n, over the rows that a neighbour swaps. budget: of the fit.
    """
    mu, loss = mu_like(budget, objective.dimension), objective.loss
    steep = loss.smoothness * loss.slope(math.inf) ** 2
    return round_up(2.1 * objective.reach**2 * steep ** (1 / 3) * (rows * mu) ** -0.8)


def mu_like(budget: PrivacyLoss, dimension: int) -> float:
    """mu of a budget; of a pure one that of Gaussian noise with the variance of K-norm noise."""
    if budget.kind == "zcdp":
        return math.sqrt(2 * budget.value)
    return budget.value / (math.sqrt(dimension + 1) if budget.kind == "pure" else 1.0)


def level_for(
    objective: Objective,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    budget: PrivacyLoss,
    share: Fraction,
    users: int = 0,
) -> Level:
    """A level whose fits cost at most a share of a budget each.

    Args:
      objective: F. size, divisor, most, users: see ``Level``. changes: rows that a neighbour swaps.

    Raises:
      ConfigError: noise, steps or numbers that cannot be served.
    """
    moved = changes * objective.moves(divisor)
    tau = round_up(FINENESS * moved * objective.strength)
    weight = (users or most) / divisor
    convexity = 2 * objective.strength
    smoothness = round_up(weight * objective.smoothness + convexity)
    distance = weight * objective.lipschitz / convexity
    minimiser = accelerated(smoothness, convexity, distance, tau)
    allowed = tau * convexity / (8 * smoothness)  # errors of steps add up: see Accelerated
    room = _room(objective, most, weight, allowed, distance)
    units = float(1 / share) * (1 + 2.0**-50)
    added = tau / objective.strength
    noise = PointNoise.calibrated(objective.dimension, moved, budget, units, added)
    return Level(size, divisor, most, room, noise, tau=tau, minimiser=minimiser, users=users)


def _room(objective: Objective, most: int, weight: float, allowed: float, distance: float) -> float:
    """Largest norm of a centre at which rounding moves no gradient by more than is ``allowed``, at
    any point within 2 ``distance`` of it: see ``Objective.rounding``."""
    spare = allowed * 2.0**50 - weight * objective.added(most) * objective.lipschitz
    size = spare / (weight * objective.smoothness * objective.width + 4 * objective.strength)
    room = size - 1 - 2 * distance
    if room < 8 * (distance + 1):
        words = f"rows in a fit {TOO_LARGE}, or solver: sgd."
        raise no_precision(objective, weight, most, words)
    return math.ldexp(1.0, math.frexp(room)[1] - 1)

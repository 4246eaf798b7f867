"""Losses of a linear prediction, each with the constants that privacy and optimisation need.

A loss states here, once, its value and derivative, how steep it is for a reach of predictions
(``slope``), how fast its derivative changes (``smoothness``), its Moreau envelope and its scalar
form. What an algorithm rounds up it rounds itself.

Values and derivatives use only + - * /, comparisons and exact roundings (the exponential too), so
that the bits are the same on every CPU: what a learner sums must repeat in a retry.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError, positive
from weir.dpcore.noise.gaussian import exact_log
from weir.dpcore.noise.generalised_gaussian import exact_exp as exact_exp
from weir.dpcore.noise.generalised_gaussian import exact_exp_of

ScalarSlope = Callable[..., float]
"""(prediction, target) -> derivative, in plain floats."""


class PiecewiseLinearLoss(NamedTuple):
    """A loss whose slope is (prediction - at) / width, clipped to two bounds.

    Attributes:
      width: of the parabola; 0: a corner. below, above: bounds of the slope, as sizes.
      labels: ``at`` is the sign of the target, and the slope has the other sign or is 0 (hinge);
        else ``at`` is the target.
    """

    width: float
    below: float
    above: float
    labels: bool = False

    def scalar(self) -> ScalarSlope:
        """(prediction, target, more = 0) -> the slope s at prediction - more s, more >= 0."""
        width, below, above, labels = self

        def slope(prediction: float, target: float, more: float = 0.0) -> float:
            low, high = -below, above
            if labels:
                target = -1.0 if target < 0 else 1.0
                low, high = (low, 0.0) if target > 0 else (0.0, high)
            exact = (prediction - target) / (width + more)
            return 0.0 if math.isnan(exact) else min(max(exact, low), high)

        return slope


class PredictionLoss(ABC):
    """loss(prediction, target), convex in the prediction.

    A new one is a subclass and one entry of LOSSES.

    Attributes:
      name: as in the config. labels: whether only the target's sign counts: coefficients have no
        unit of the target then.
    """

    name: str
    labels: bool

    outputs: ClassVar[int] = 1
    """Scores of a row that it is of."""
    residuals: ClassVar[bool] = False
    """Whether its slope is the residual, up to a bound."""

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """Lipschitz constant of the derivative in the prediction; infinite at a corner."""

    @abstractmethod
    def slope(self, reach: float) -> float:
        """Lipschitz constant in predictions from -reach to reach, of targets within [-1, 1], to the
        nearest double; reach may be infinite."""

    @abstractmethod
    def value(self, prediction: Floats, target: Floats) -> Floats:
        """(n,), (n,) -> (n,), 0 or more."""

    @abstractmethod
    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """A subgradient in the prediction, 0 in the middle of a corner: (n,), (n,) -> (n,)."""

    def derivatives(self, scores: Floats, targets: Floats) -> Floats:
        """The same of a table of scores, where bits need not be the same on every CPU: (n, 1), (n,)
        -> (n, 1)."""
        return self.derivative(scores[:, 0], targets)[:, None]

    @property
    def cornered(self) -> bool:
        """Whether it has a corner, which needs smoothing before it may be stepped along."""
        return math.isinf(self.smoothness)

    @property
    def quadratic(self) -> bool:
        """Whether its slope is the residual without a bound: gradients follow from moments."""
        return self.residuals and math.isinf(self.slope(math.inf))

    def envelope(self, smoothing: float) -> PredictionLoss:
        """Its Moreau envelope, whose corner is a parabola ``smoothing`` wide.

        Raises:
          ConfigError: it has no corner.
        """
        raise ConfigError("model.loss", self.name, "has no corner that could be smoothed.")

    @property
    def pieces(self) -> PiecewiseLinearLoss | None:
        """Its slope as a line between two bounds; None: it has another shape."""
        return None

    def scalar(self) -> ScalarSlope:
        """The derivative of one prediction at a time: the bits of the vectorised one, which costs
        twenty times as much where every record meets another model."""
        if self.pieces is not None:
            return self.pieces.scalar()
        return lambda prediction, target: float(
            self.derivative(np.array([prediction]), np.array([target]))[0]
        )

    def canonical(self) -> list[Any]:
        """Its name and every public number."""
        whole = self if is_dataclass(self) else dict(sorted(vars(self).items()))
        return [self.name, canonical_value(whole)]


@dataclass(frozen=True)
class Squared(PredictionLoss):
    """(prediction - target)^2 / 2."""

    name: str = field(default="squared", init=False)
    labels: bool = field(default=False, init=False)

    smoothness: ClassVar[float] = 1.0
    residuals: ClassVar[bool] = True

    def slope(self, reach: float) -> float:
        return reach + 1.0

    def value(self, prediction: Floats, target: Floats) -> Floats:
        rest = prediction - target
        return 0.5 * rest * rest

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        return prediction - target

    @property
    def pieces(self) -> PiecewiseLinearLoss:
        return PiecewiseLinearLoss(1.0, math.inf, math.inf)


@dataclass(frozen=True)
class PinballLoss(PredictionLoss):
    """Pinball loss: its minimiser is the tau-quantile. tau = 1/2 is half the absolute error."""

    tau: float
    name: str = field(default="quantile", init=False)
    labels: bool = field(default=False, init=False)

    smoothness: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise ConfigError("model.loss.quantile", self.tau, "must lie strictly inside (0, 1).")

    def slope(self, reach: float) -> float:
        return max(self.tau, 1 - self.tau)

    def value(self, prediction: Floats, target: Floats) -> Floats:
        rest = target - prediction
        return np.maximum(self.tau * rest, (self.tau - 1) * rest)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        slope = np.where(prediction > target, 1 - self.tau, -self.tau)
        return np.where(prediction == target, 0.0, slope)

    def envelope(self, smoothing: float) -> MoreauEnvelope:
        return MoreauEnvelope(self.tau, 1 - self.tau, smoothing)

    @property
    def pieces(self) -> PiecewiseLinearLoss:
        return PiecewiseLinearLoss(0.0, self.tau, 1 - self.tau)


@dataclass(frozen=True)
class Absolute(PredictionLoss):
    """|prediction - target|: its minimiser is the median."""

    name: str = field(default="absolute", init=False)
    labels: bool = field(default=False, init=False)

    smoothness: ClassVar[float] = math.inf

    def slope(self, reach: float) -> float:
        return 1.0

    def value(self, prediction: Floats, target: Floats) -> Floats:
        return np.abs(prediction - target)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        return np.sign(prediction - target)

    def envelope(self, smoothing: float) -> MoreauEnvelope:
        return MoreauEnvelope(1.0, 1.0, smoothing)

    @property
    def pieces(self) -> PiecewiseLinearLoss:
        return PiecewiseLinearLoss(0.0, 1.0, 1.0)


@dataclass(frozen=True)
class MoreauEnvelope(PredictionLoss):
    """The Moreau envelope of a pinball or absolute loss: its corner is a parabola ``smoothing``
    wide. It lies below the loss, by at most smoothing slope^2 / 2.

    Attributes:
      below, above: slopes of the loss left (as a size) and right of the target. smoothing: g.
    """

    below: float
    above: float
    smoothing: float
    name: str = field(default="envelope", init=False)
    labels: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        positive(smoothing=self.smoothing)

    @property
    def smoothness(self) -> float:
        return 1 / self.smoothing

    def slope(self, reach: float) -> float:
        return max(self.below, self.above)

    def value(self, prediction: Floats, target: Floats) -> Floats:
        slope = self.derivative(prediction, target)
        return slope * (prediction - target) - 0.5 * self.smoothing * slope * slope

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        return np.clip((prediction - target) / self.smoothing, -self.below, self.above)

    @property
    def pieces(self) -> PiecewiseLinearLoss:
        return PiecewiseLinearLoss(self.smoothing, self.below, self.above)


@dataclass(frozen=True)
class Huber(PredictionLoss):
    """Squared up to a distance h, then straight: h |rest| - h^2 / 2."""

    width: float
    name: str = field(default="huber", init=False)
    labels: bool = field(default=False, init=False)

    smoothness: ClassVar[float] = 1.0
    residuals: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_positive("model.loss.huber", self.width)

    def slope(self, reach: float) -> float:
        return min(self.width, reach + 1.0)

    def value(self, prediction: Floats, target: Floats) -> Floats:
        rest = np.abs(prediction - target)
        inner = np.minimum(rest, self.width)
        return inner * (rest - 0.5 * inner)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        return np.clip(prediction - target, -self.width, self.width)

    @property
    def pieces(self) -> PiecewiseLinearLoss:
        return PiecewiseLinearLoss(1.0, self.width, self.width)


@dataclass(frozen=True)
class Logistic(PredictionLoss):
    """ln(1 + exp(-y prediction)), y = sign of the target (0 counts as +1)."""

    name: str = field(default="logistic", init=False)
    labels: bool = field(default=True, init=False)

    smoothness: ClassVar[float] = 0.25

    def slope(self, reach: float) -> float:
        return 1 / (1 + math.exp(-min(reach, 700.0)))

    def value(self, prediction: Floats, target: Floats) -> Floats:
        margin = sign_of(target) * prediction
        return np.maximum(-margin, 0.0) + exact_log(1.0 + exact_exp(-np.abs(margin)))

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """-y / (1 + exp(y prediction))."""
        sign = sign_of(target)
        margin = sign * prediction
        small = exact_exp(-np.abs(margin))
        return -sign * np.where(margin > 0, small, 1.0) / (1.0 + small)

    def derivatives(self, scores: Floats, targets: Floats) -> Floats:
        """The same in one call: 1 / (1 + e^-s) - (1 + y) / 2."""
        return np.asarray(0.5 * (np.tanh(0.5 * scores) - sign_of(targets)[:, None]))

    def scalar(self) -> ScalarSlope:
        return _logistic


def _logistic(prediction: float, target: float) -> float:
    sign = -1.0 if target < 0 else 1.0
    margin = sign * prediction
    small = exact_exp_of(-math.fabs(margin))
    return -sign * (small if margin > 0 else 1.0) / (1.0 + small)


@dataclass(frozen=True)
class Hinge(PredictionLoss):
    """max(0, 1 - y prediction), its corner smoothed over ``smoothing``; y = sign of the target."""

    smoothing: float = 0.5
    name: str = field(default="hinge", init=False)
    labels: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        _check_positive("model.loss.hinge", self.smoothing)

    @property
    def smoothness(self) -> float:
        return 1 / self.smoothing

    def slope(self, reach: float) -> float:
        # Coarser than needed where the corner is wider than 1 + reach: (1 + reach) / smoothing.
        return 1.0

    def value(self, prediction: Floats, target: Floats) -> Floats:
        short = np.maximum(1.0 - sign_of(target) * prediction, 0.0)
        inner = np.minimum(short, self.smoothing)
        return (short - 0.5 * inner) * (inner / self.smoothing)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        sign = sign_of(target)
        return -sign * np.clip((1.0 - sign * prediction) / self.smoothing, 0.0, 1.0)

    def envelope(self, smoothing: float) -> Hinge:
        """That of the hinge itself: the Huberised hinge."""
        return Hinge(smoothing)

    @property
    def pieces(self) -> PiecewiseLinearLoss:
        return PiecewiseLinearLoss(self.smoothing, 1.0, 1.0, True)


def sign_of(target: Floats) -> Floats:
    """Labels in {-1, 1}; 0 counts as +1."""
    return np.where(target < 0, -1.0, 1.0)


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(name, value, "must be a finite number above 0.")

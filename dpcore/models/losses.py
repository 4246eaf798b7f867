"""Losses of a linear prediction: their value and derivative, each event by itself.

Only + - * /, comparisons and exact roundings are used (the exponential too), so the bits are the
same on every CPU: what a learner sums must repeat in a retry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.gaussian import exact_log
from weir.dpcore.noise.generalised_gaussian import exact_exp as exact_exp


@runtime_checkable
class PredictionLoss(Protocol):
    """loss(prediction, target), convex in the prediction.

    A new one is one small class, and one entry of LOSSES.
    """

    @property
    def name(self) -> str:
        """As in the config."""

    @property
    def labels(self) -> bool:
        """Whether only the target's sign counts: coefficients have no unit of the target then."""

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the derivative in the prediction; infinite at a corner."""

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """(n,), (n,) -> (n,), 0 or more."""

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """A subgradient in the prediction: (n,), (n,) -> (n,)."""


@dataclass(frozen=True)
class Squared:
    """(prediction - target)^2 / 2."""

    name: str = field(default="squared", init=False)
    labels: bool = field(default=False, init=False)

    @property
    def smoothness(self) -> float:
        """See PredictionLoss."""
        return 1.0

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        rest = prediction - target
        return 0.5 * rest * rest

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        return prediction - target


@dataclass(frozen=True)
class Quantile:
    """Pinball loss: its minimiser is the tau-quantile. tau = 1/2 is half the absolute error."""

    tau: float
    name: str = field(default="quantile", init=False)
    labels: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise ConfigError("model.loss.quantile", self.tau, "must lie strictly inside (0, 1).")

    @property
    def smoothness(self) -> float:
        """See PredictionLoss."""
        return math.inf

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        rest = target - prediction
        return np.maximum(self.tau * rest, (self.tau - 1) * rest)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss; 0 where both are equal."""
        slope = np.where(prediction > target, 1 - self.tau, -self.tau)
        return np.where(prediction == target, 0.0, slope)


@dataclass(frozen=True)
class Absolute:
    """|prediction - target|: its minimiser is the median."""

    name: str = field(default="absolute", init=False)
    labels: bool = field(default=False, init=False)

    @property
    def smoothness(self) -> float:
        """See PredictionLoss."""
        return math.inf

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        return np.abs(prediction - target)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss; 0 where both are equal."""
        return np.sign(prediction - target)


@dataclass(frozen=True)
class Huber:
    """Squared up to a distance h, then straight: h |rest| - h^2 / 2."""

    width: float
    name: str = field(default="huber", init=False)
    labels: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        _check_positive("model.loss.huber", self.width)

    @property
    def smoothness(self) -> float:
        """See PredictionLoss."""
        return 1.0

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        rest = np.abs(prediction - target)
        inner = np.minimum(rest, self.width)
        return inner * (rest - 0.5 * inner)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        return np.clip(prediction - target, -self.width, self.width)


@dataclass(frozen=True)
class Logistic:
    """ln(1 + exp(-y prediction)), y = sign of the target (0 counts as +1)."""

    name: str = field(default="logistic", init=False)
    labels: bool = field(default=True, init=False)

    @property
    def smoothness(self) -> float:
        """See PredictionLoss."""
        return 0.25

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        margin = sign_of(target) * prediction
        return np.maximum(-margin, 0.0) + exact_log(1.0 + exact_exp(-np.abs(margin)))

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss: -y / (1 + exp(y prediction))."""
        sign = sign_of(target)
        margin = sign * prediction
        small = exact_exp(-np.abs(margin))
        return -sign * np.where(margin > 0, small, 1.0) / (1.0 + small)


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - y prediction), its corner smoothed over ``smoothing``; y = sign of the target."""

    smoothing: float = 0.5
    name: str = field(default="hinge", init=False)
    labels: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        _check_positive("model.loss.hinge", self.smoothing)

    @property
    def smoothness(self) -> float:
        """See PredictionLoss."""
        return 1 / self.smoothing

    def value(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        short = np.maximum(1.0 - sign_of(target) * prediction, 0.0)
        inner = np.minimum(short, self.smoothing)
        return (short - 0.5 * inner) * (inner / self.smoothing)

    def derivative(self, prediction: Floats, target: Floats) -> Floats:
        """See PredictionLoss."""
        sign = sign_of(target)
        return -sign * np.clip((1.0 - sign * prediction) / self.smoothing, 0.0, 1.0)


def sign_of(target: Floats) -> Floats:
    """Labels in {-1, 1}; 0 counts as +1."""
    return np.where(target < 0, -1.0, 1.0)


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(name, value, "must be a finite number above 0.")


@dataclass(frozen=True)
class LossInfo:
    """One loss of the config.

    Attributes:
      make: the parameter (None where the config has none) -> the loss.
      about: in a few words. parameter: its name for people; None: it has none.
      needed: whether the parameter must be given.
    """

    make: Callable[[float | None], PredictionLoss]
    about: str
    parameter: str | None = None
    needed: bool = False


LOSSES: dict[str, LossInfo] = {
    "squared": LossInfo(lambda _: Squared(), "half the squared error: the mean"),
    "absolute": LossInfo(lambda _: Absolute(), "absolute error: the median"),
    "quantile": LossInfo(
        lambda tau: Quantile(tau or 0.0), "pinball loss: the tau-quantile", "tau", True
    ),
    "huber": LossInfo(
        lambda width: Huber(1.0 if width is None else width),
        "squared near the target, straight far away",
        "width",
    ),
    "logistic": LossInfo(lambda _: Logistic(), "log loss of labels: the target's sign"),
    "hinge": LossInfo(
        lambda smoothing: Hinge(0.5 if smoothing is None else smoothing),
        "hinge loss of labels with a smoothed corner",
        "smoothing",
    ),
}


def parse_loss(spec: str | Mapping[str, Any], field: str = "model.loss") -> PredictionLoss:
    """``squared``, or ``{quantile: 0.9}``.

    Raises:
      ConfigError: no such loss, or a parameter that it does not take.
    """
    if isinstance(spec, str):
        name, parameter = spec, None
    elif isinstance(spec, Mapping) and len(spec) == 1:
        ((name, parameter),) = spec.items()
    else:
        raise ConfigError(field, spec, "must be a name, like squared, or {quantile: 0.9}.")
    if name not in LOSSES:
        raise ConfigError(field, name, f"must be one of {sorted(LOSSES)}.")
    info = LOSSES[name]
    if parameter is None:
        if info.needed:
            raise ConfigError(field, name, f"needs its {info.parameter}: {{{name}: 0.5}}.")
        return info.make(None)
    if info.parameter is None:
        raise ConfigError(f"{field}.{name}", parameter, f"is not taken; write loss: {name}.")
    if isinstance(parameter, bool) or not isinstance(parameter, int | float):
        raise ConfigError(f"{field}.{name}", parameter, f"{info.parameter} must be a number.")
    return info.make(float(parameter))

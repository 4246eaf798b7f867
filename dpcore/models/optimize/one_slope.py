"""Derivatives of one prediction at a time, in plain floats: the bits of the vectorised ones, which
cost twenty times as much where every record meets another model."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weir.dpcore.models.losses import Hinge, Huber, Logistic, PredictionLoss, Squared
from weir.dpcore.models.optimize.glm import Envelope
from weir.dpcore.noise.generalised_gaussian import exact_exp_of

Slope = Callable[[float, float], float]
"""(prediction, target) -> derivative."""


def one_slope(loss: PredictionLoss) -> Slope:
    """The derivative of a loss, of two floats."""
    if isinstance(loss, Logistic):
        return _logistic
    if isinstance(loss, Squared):
        return lambda prediction, target: prediction - target
    if isinstance(loss, Huber):
        width = loss.width
        return lambda prediction, target: min(max(prediction - target, -width), width)
    if isinstance(loss, Hinge):
        smoothing = loss.smoothing

        def hinge(prediction: float, target: float) -> float:
            sign = -1.0 if target < 0 else 1.0
            return -sign * min(max((1.0 - sign * prediction) / smoothing, 0.0), 1.0)

        return hinge
    if isinstance(loss, Envelope):
        below, above, g = loss.below, loss.above, loss.smoothing
        return lambda prediction, target: min(max((prediction - target) / g, -below), above)

    def other(prediction: float, target: float) -> float:
        return float(loss.derivative(np.array([prediction]), np.array([target]))[0])

    return other


def _logistic(prediction: float, target: float) -> float:
    sign = -1.0 if target < 0 else 1.0
    margin = sign * prediction
    small = exact_exp_of(-math.fabs(margin))
    return -sign * (small if margin > 0 else 1.0) / (1.0 + small)

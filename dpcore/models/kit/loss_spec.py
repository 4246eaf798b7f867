"""Losses as a config writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.loss import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    PinballLoss,
    PredictionLoss,
    Squared,
)


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
        lambda tau: PinballLoss(tau or 0.0), "pinball loss: the tau-quantile", "tau", True
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

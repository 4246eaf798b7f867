"""A priced mechanism, and the limits on what may be planned."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import kind_of

MOST_STATE = 1 << 28
"""Bytes of state per key: every tick reads and writes all of it."""


@dataclass(frozen=True)
class Alternative:
    """One priced way to serve the plan.

    Attributes:
      mechanism: its name in the config. noise: gaussian, discrete_gaussian or k_norm.
      chosen: whether the plan uses it.
      score: worst predicted error relative to the best alternative (1.0 = best); inf when it cannot
        serve.
      state_bytes: per key.
      epsilon_10w: loss against everything released within ten windows (None: cannot serve).
      stddev: "name over=N" -> worst stddev, the user's unit.
      note: why it cannot serve, or what to know about it.
    """

    mechanism: str
    noise: str
    chosen: bool
    score: float
    state_bytes: int
    epsilon_10w: float | None
    stddev: dict[str, float]
    note: str = ""


def budget_of(noise: str, epsilon: float, delta: float) -> PrivacyLoss:
    """The whole budget in the currency of a noise."""
    from weir.dpcore.accounting import calibrate

    kind = kind_of(noise)
    if kind == "gdp":
        return PrivacyLoss(kind, calibrate.gdp_mu(epsilon, delta))
    if kind == "zcdp":
        return PrivacyLoss(kind, calibrate.zcdp_rho(epsilon, delta))
    return PrivacyLoss(kind, epsilon)


def share(budget: PrivacyLoss, fraction: float) -> PrivacyLoss:
    """A fraction of a budget: mu in squares, rho and epsilon straight; rounded down."""
    value = budget.value * (math.sqrt(fraction) if budget.kind == "gdp" else fraction)
    return PrivacyLoss(budget.kind, value * (1 - 1e-12))


def within_memory(name: str, state: int) -> None:
    """Raises ConfigError when a key's state would be too large to be stepped at all."""
    if state > MOST_STATE:
        raise ConfigError(
            "mechanism.continual_sum",
            name,
            f"would keep {state / 2**20:,.0f} MiB of state per key, above {MOST_STATE >> 20} MiB; "
            "take another mechanism, a shorter `over` or window, or a longer clock.period.",
        )


def round_up(value: float, bits: int = 30) -> float:
    """The next larger number with ``bits`` significant bits.

    Calibrations go through the machine's exp and log, which differ in the last bit between kinds of
    CPU; plans must not. Larger scales mean more noise: the rounding is toward privacy.
    """
    if value == 0 or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(mantissa * 2**bits), exponent - bits)

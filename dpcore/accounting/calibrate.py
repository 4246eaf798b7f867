"""Conversions between Gaussian DP, zCDP and (epsilon, delta), rounded toward more privacy.

Results shape a plan's digest, so they are made the same everywhere: each search bisects doubles
to the last bit, steps back by far more than the rounding error of the formula (1e-13 relative),
and keeps 40 bits. A budget (mu, rho) gives up 2^-36 of itself and a price (epsilon, delta) at
most 2^-38, so the price of a calibrated budget is never above the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import erfcx, log_ndtr

from weir.dpcore.errors import ConfigError

BITS: Final = 40
"""Significant bits of every result."""

BUDGET_SLACK: Final = 2.0**-36
"""Relative amount by which a calibrated mu or rho stays below the solution."""

PRICE_SLACK: Final = 2.0**-39
"""Relative amount by which a priced epsilon or delta stays above the solution."""

LOG_SLACK: Final = 2.0**-45
"""A logarithm of delta is this exact; searches aim lower by as much. It matters near delta = 1."""

_SQRT2: Final = math.sqrt(2.0)
_LOG_SQRT_2PI: Final = 0.5 * math.log(2.0 * math.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


# ---- Gaussian DP -------------------------------------------------------------------------------


def gdp_delta(mu: float, epsilon: float) -> float:
    """Smallest delta of mu-Gaussian DP at epsilon >= 0, rounded up.

    delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

    Raises:
      ConfigError: mu is negative or NaN; epsilon is negative, infinite or NaN.

    Source: Dong, Roth, Su (2019), Corollary 2.13; Balle, Wang (2018), Theorem 8.
    """
    return _delta("mu", mu, epsilon, _gdp_log_delta)


@lru_cache(maxsize=4096)
def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which mu-Gaussian DP implies (epsilon, delta), rounded up.

    Raises:
      ConfigError: delta is not in (0, 1); mu is negative or NaN.
    """
    return _epsilon("mu", mu, delta, _gdp_log_delta)


@lru_cache(maxsize=4096)
def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest mu such that mu-Gaussian DP implies (epsilon, delta), rounded down.

    Raises:
      ConfigError: epsilon is not finite and positive; delta is not in (0, 1).
    """
    return _budget(epsilon, delta, _gdp_log_delta)


def _gdp_log_delta(mu: float, epsilon: float) -> float:
    """Logarithm of delta(epsilon), with no cancellation and no underflow.

    With a = epsilon/mu - mu/2, b = epsilon/mu + mu/2 (so b^2 - a^2 = 2 epsilon) and the Mills
    ratio R(x) = Phi(-x) / phi(x): delta = phi(a) (R(a) - R(b)) = phi(a) * integral of (1 - x
    R(x)) over [a, b].
    """
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_phi = -a * a / 2 - _LOG_SQRT_2PI
    if a > 1e15:  # nothing below can bring it back into the range of any delta
        return log_phi
    if mu < 0.5:  # R(a) - R(b) would cancel: integrate -R' instead, over an interval of length mu
        points = a + (_NODES + 1) * (mu / 2)
        area = sum(float(w) * _mills_slope(float(x)) for w, x in zip(_WEIGHTS, points, strict=True))
        return log_phi + math.log(area * (mu / 2))
    if a > -8:
        first, second = float(erfcx(a / _SQRT2)), float(erfcx(b / _SQRT2))
        # Where they agree to the last bit the second is left out: delta is rounded up.
        difference = first - second if first > second else first
        return log_phi + math.log(difference * math.sqrt(math.pi / 2))
    # delta is close to 1 here: Phi(-a) minus a small number.
    first = float(log_ndtr(-a))
    second = log_phi + math.log(float(erfcx(b / _SQRT2)) * math.sqrt(math.pi / 2))
    return first + math.log1p(-math.exp(second - first))


def _mills_slope(x: float) -> float:
    """1 - x R(x) = -R'(x), R the Mills ratio; by its asymptotic series past 30."""
    if x < 30:
        return 1 - x * math.sqrt(math.pi / 2) * float(erfcx(x / _SQRT2))
    inverse = 1 / (x * x)
    series = 0.0
    for odd in (15, 13, 11, 9, 7, 5, 3):
        series = inverse * odd * (1 - series)
    return inverse * (1 - series)


# ---- zero-concentrated DP ----------------------------------------------------------------------


def zcdp_delta(rho: float, epsilon: float) -> float:
    """A delta that rho-zCDP implies at epsilon >= 0, rounded up.

    delta = min over a > 1 of exp((a-1)(a rho - epsilon)) (1 - 1/a)^a / (a-1).

    Raises:
      ConfigError: rho is negative or NaN; epsilon is negative, infinite or NaN.

    Source: Canonne, Kamath, Steinke (2020), Corollary 13.
    """
    return _delta("rho", rho, epsilon, _zcdp_log_delta)


@lru_cache(maxsize=4096)
def zcdp_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon at which the formula of ``zcdp_delta`` gives at most delta, rounded up.

    Raises:
      ConfigError: delta is not in (0, 1); rho is negative or NaN.
    """
    return _epsilon("rho", rho, delta, _zcdp_log_delta)


@lru_cache(maxsize=4096)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho such that rho-zCDP implies (epsilon, delta), rounded down.

    Raises:
      ConfigError: epsilon is not finite and positive; delta is not in (0, 1).
    """
    return _budget(epsilon, delta, _zcdp_log_delta)


def _zcdp_log_delta(rho: float, epsilon: float) -> float:
    """Logarithm of the bound at its best order 1 + t; any order is a bound, so t may be inexact.

    The logarithm is convex in t with derivative (2t + 1) rho - epsilon + ln(t / (1 + t)).
    """

    def rising(t: float) -> bool:
        return (2 * t + 1) * rho - epsilon - math.log1p(1 / t) >= 0

    low = high = 1.0
    while rising(low) and low > 1e-300:
        low /= 4
    while not rising(high) and high < 1e300:
        high *= 4
    for _ in range(64):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high or high - low <= 1e-9 * high:
            break
        low, high = (low, middle) if rising(middle) else (middle, high)
    t = high
    return t * ((1 + t) * rho - epsilon) - t * math.log1p(1 / t) - math.log1p(t)


# ---- searches ----------------------------------------------------------------------------------

LogDelta = Callable[[float, float], float]
"""(loss, epsilon) -> ln delta, of one kind of loss."""


def _delta(name: str, loss: float, epsilon: float, log_delta: LogDelta) -> float:
    """The delta of a loss at epsilon, rounded up."""
    _check_loss(name, loss)
    _check_epsilon(epsilon, zero=True)
    if loss == 0 or math.isinf(loss):
        return 0.0 if loss == 0 else 1.0
    return min(1.0, _up(math.exp(log_delta(loss, epsilon))))


def _epsilon(name: str, loss: float, delta: float, log_delta: LogDelta) -> float:
    """The epsilon of a loss at delta, rounded up."""
    _check_loss(name, loss)
    _check_delta(delta)
    if loss == 0 or math.isinf(loss):
        return loss
    most = math.log(delta) - LOG_SLACK
    return _smallest(lambda epsilon: log_delta(loss, epsilon) <= most)


def _budget(epsilon: float, delta: float, log_delta: LogDelta) -> float:
    """The largest loss within (epsilon, delta), rounded down."""
    _check_epsilon(epsilon)
    _check_delta(delta)
    most = math.log(delta) - LOG_SLACK
    return _largest(lambda loss: log_delta(loss, epsilon) <= most)


def _largest(private_enough: Callable[[float], bool]) -> float:
    """Largest budget that is private enough (true below, false above), rounded down."""
    low = 1.0
    while not private_enough(low):
        low /= 2
        if low < 1e-150:
            raise ConfigError(
                "privacy.epsilon", None, "is too small to calibrate any noise; raise it."
            )
    high = 2 * low
    while private_enough(high):
        low, high = high, 2 * high
    low, _ = _bisect(low, high, lambda x: not private_enough(x))
    # Rounds down: a smaller budget is more private.
    return _round(low * (1 - BUDGET_SLACK), math.floor)


def _smallest(private_enough: Callable[[float], bool]) -> float:
    """Smallest price that is private enough (false below, true above), rounded up; may be 0."""
    if private_enough(0.0):
        return 0.0
    high = 1.0
    while not private_enough(high):
        high *= 2
        if math.isinf(high):
            return math.inf
    low = high / 2
    while private_enough(low) and low > 1e-300:
        low, high = low / 2, low
    _, high = _bisect(low, high, private_enough)
    return _up(high)


def _bisect(low: float, high: float, above: Callable[[float], bool]) -> tuple[float, float]:
    """Adjacent doubles around the point where ``above`` turns true: above(high), not above(low)."""
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return low, high
        low, high = (low, middle) if above(middle) else (middle, high)


def _up(value: float) -> float:
    """Rounds a price up: a larger epsilon or delta claims less."""
    return _round(value * (1 + PRICE_SLACK), math.ceil)


def _round(value: float, toward: Callable[[float], int]) -> float:
    """Keeps ``BITS`` significant bits."""
    if value == 0 or math.isinf(value):
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(toward(math.ldexp(mantissa, BITS)), exponent - BITS)


# ---- checks ------------------------------------------------------------------------------------


def _check_epsilon(epsilon: float, zero: bool = False) -> None:
    if not (math.isfinite(epsilon) and (epsilon > 0 or (zero and epsilon == 0))):
        raise ConfigError("privacy.epsilon", epsilon, "must be a finite number above 0.")


def _check_delta(delta: float) -> None:
    if delta == 0:
        raise ConfigError(
            "privacy.delta",
            delta,
            "must be above 0 for Gaussian noise; mechanisms with K-norm noise serve delta = 0.",
        )
    if not 0 < delta < 1:
        raise ConfigError("privacy.delta", delta, "must be above 0 and below 1, for example 1e-6.")


def _check_loss(name: str, value: float) -> None:
    if not value >= 0:
        raise ConfigError(name, value, "must be 0 or more.")

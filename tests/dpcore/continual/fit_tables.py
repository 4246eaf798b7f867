"""Fits the coefficients of the tables: on public numbers only, never while a stream runs.

``python -m tests.dpcore.continual.fit_tables`` prints the tables again
(in a minute or two). A fit minimises a worst-tick error, sqrt(squares of c)
* sqrt(squares of b), over rational b(x) whose poles and zeros interlace; that makes c positive and
non-increasing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from weir.dpcore.continual.rational import Rational

Floats = NDArray[np.float64]
Objective = Callable[["Parts"], float]

BITS = 20
"""Significant bits kept of a coefficient; fewer below 2^-33, so that 1 - p stays exact."""
GAIN = 1.001
"""One buffer more is taken as long as it divides the error by at least this."""
MOST = 5
FOREVER = 2**40
SEEN = ((2**10, 1.0), (2**14, 1.0), (2**20, 1.0), (2**24, 1.25))
"""The perpetual form: ticks, and how many times the common ratio to the best error each has."""
FINEST = 2.0**-36
"""No pole of the perpetual form goes below: 1 - p must be exact and keep p to 17 bits."""
_PERPETUAL_START = (1.8, 3.1, 2.2, 2.1, 3.2, 3.0, 3.2, 1.9, 1.8, 4.7)
"""Ratios, in octaves, between successive q_1, p_1, q_2, ...: a good place to start."""


class Parts:
    """Partial fractions of b and c in float64, from ln p and ln q (see ``rational``)."""

    def __init__(self, log_zeros: Floats, log_poles: Floats) -> None:
        self.noise = _residues(log_zeros, log_poles)
        self.noise_logs = _log_complement(log_poles)
        constant = np.exp(np.sum(log_poles) - np.sum(log_zeros))
        self.record = np.append(constant, -_residues(log_poles, log_zeros) / np.exp(log_zeros))
        self.record_logs = np.append(0.0, _log_complement(log_zeros))
        self.finest = float(log_poles[-1])

    def noise_squares(self, count: float) -> float:
        """sum_{k < count} b_k^2."""
        return 1.0 + _geometric(self.noise, self.noise_logs, count - 1.0)

    def record_squares(self, count: float) -> float:
        """sum_{k < count} c_k^2."""
        return _geometric(self.record, self.record_logs, count)

    def sliding_squares(self, lag: float) -> float:
        """sum over all k of (c_k - c_{k-lag})^2."""
        logs = self.record_logs[1:]
        beyond = _geometric(self.record[1:] * np.expm1(lag * logs), logs, math.inf)
        return self.record_squares(lag) + beyond


class Fit(NamedTuple):
    """What a search found: ln of the error, and the steps between ln q_1, ln p_1, ln q_2, ..."""

    error: float
    steps: Floats

    def form(self) -> Rational:
        """The coefficients, rounded."""
        log_zeros, log_poles = _unpack(self.steps)
        return Rational(_rounded(np.exp(log_poles)), _rounded(np.exp(log_zeros)))


def fit(error: Objective, buffers: int, span: float, near: Fit | None = None) -> Fit:
    """Minimises ``error`` over ``buffers`` poles and zeros, starting between 1 / span and 1."""
    even = np.full(2 * buffers, math.log(math.log(3 * span) / (2 * buffers)))
    starts = [even, even + 0.4]
    if near is not None and near.steps.size == even.size:
        starts.insert(0, near.steps)

    return min((_descend(error, start) for start in starts), key=lambda found: found.error)


def _descend(error: Objective, start: Floats) -> Fit:
    """BFGS, then Nelder and Mead, from ``start``."""

    def objective(steps: Floats) -> float:
        with np.errstate(all="ignore"):
            value = error(Parts(*_unpack(steps)))
        return value if math.isfinite(value) else 1e9

    quick: Any = {"gtol": 1e-9, "maxiter": 500}
    rough = minimize(objective, start, method="BFGS", options=quick)
    patient: Any = {"maxiter": 6000, "xatol": 1e-7, "fatol": 1e-14, "adaptive": True}
    fine = minimize(objective, rough.x, method="Nelder-Mead", options=patient)
    return Fit(float(fine.fun), np.asarray(fine.x))


def window_error(window: int) -> Objective:
    """ln of the worst-tick error of running totals, each record protected for ``window`` ticks."""
    return lambda parts: math.log(parts.record_squares(window) * parts.noise_squares(math.inf)) / 2


def sliding_error(over: int) -> Objective:
    """ln of the worst-tick error of sums over the last ``over`` ticks, protected for ever."""
    return lambda parts: math.log(parts.sliding_squares(over) * parts.noise_squares(math.inf)) / 2


def perpetual_error(sharpness: float) -> Objective:
    """Soft maximum over SEEN of ln (error, protected for FOREVER / best error for t ticks)."""
    best = [(t, math.log(optimum(t) * allowed)) for t, allowed in SEEN]

    def error(parts: Parts) -> float:
        record = math.log(parts.record_squares(FOREVER))
        each = [(record + math.log(parts.noise_squares(t))) / 2 - opt for t, opt in best]
        worst = max(each)
        soft = math.log(sum(math.exp(sharpness * (one - worst)) for one in each)) / sharpness
        return worst + soft + max(0.0, math.log(FINEST) - parts.finest)

    return error


def optimum(ticks: int) -> float:
    """Best error of Toeplitz noise for a known number of ticks: sum of (binom(2k, k) / 4^k)^2."""
    k = np.arange(1, ticks, dtype=np.float64)
    return 1.0 + float(np.sum(np.cumprod((2 * k - 1) / (2 * k)) ** 2))


def fits(error: Objective, ticks: int, near: Sequence[Fit] = ()) -> tuple[Fit, ...]:
    """Fits with 1, 2, ... buffers, as long as one more is a GAIN.

    Args:
      error: what is minimised. ticks: its window, >= 2.
      near: fits for a similar window, in the same order: places to start from.
    """
    out: list[Fit] = []
    for buffers in range(1, MOST + 1):
        start = near[buffers - 1] if buffers <= len(near) else None
        more = fit(error, buffers, float(ticks), start)
        if out and out[-1].error - more.error < math.log(GAIN):
            break
        out.append(more)
    return tuple(out)


def fit_perpetual() -> Fit:
    """Fit for running totals protected for FOREVER."""
    out = Fit(math.inf, np.log(np.asarray(_PERPETUAL_START) * math.log(2)))
    for sharpness in (20.0, 200.0, 2000.0, 2000.0):
        out = _descend(perpetual_error(sharpness), out.steps)
    return out


def log_error(error: Objective, form: Rational) -> float:
    """``error`` of coefficients."""
    return error(Parts(np.log(np.asarray(form.zeros)), np.log(np.asarray(form.poles))))


def _unpack(steps: Floats) -> tuple[Floats, Floats]:
    """Free numbers -> (ln q, ln p) with 0 > ln q_1 > ln p_1 > ln q_2 > ..."""
    logs = -np.cumsum(np.exp(np.clip(steps, -12.0, 6.0)))
    return logs[0::2], logs[1::2]


def _rounded(gaps: Floats) -> tuple[float, ...]:
    mantissa, exponent = np.frexp(gaps)
    top = 1.0 - 2.0**-BITS
    bits = np.minimum(BITS, 53 + exponent)
    rounded = np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits)
    return tuple(float(gap) for gap in np.minimum(rounded, top))


def _log_complement(logs: Floats) -> Floats:
    return np.asarray(np.log(-np.expm1(logs)), dtype=np.float64)


def _residues(numerator: Floats, denominator: Floats) -> Floats:
    top = np.prod(np.expm1(numerator[:, None] - denominator[None, :]), axis=0)
    below = np.expm1(denominator[:, None] - denominator[None, :])
    np.fill_diagonal(below, 1.0)
    scale = np.exp(denominator)
    return np.asarray(scale * top / np.prod(below, axis=0), dtype=np.float64)


def _geometric(weights: Floats, logs: Floats, count: float) -> float:
    pair = logs[:, None] + logs[None, :]
    flat = pair == 0.0
    below = np.expm1(np.where(flat, -1.0, pair))
    above = -1.0 if math.isinf(count) else np.expm1(np.where(flat, 0.0, count * pair))
    series = np.where(flat, count, above / below)
    return float(np.sum(weights[:, None] * weights[None, :] * series))


def _listed(form: Rational) -> list[list[str]]:
    """Poles and zeros of a form, as the file has them."""
    return [[_short(gap) for gap in gaps] for gaps in (form.poles, form.zeros)]


def _short(value: float) -> str:
    mantissa, _, exponent = value.hex().partition("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"


def main() -> None:
    """Prints ``dpcore/continual/tables.json``."""
    tables: dict[str, dict[str, list[list[list[str]]]]] = {"windows": {}, "sliding": {}}
    for name, top, error in (("windows", 28, window_error), ("sliding", 20, sliding_error)):
        near: tuple[Fit, ...] = ()
        for exponent in range(1, top + 1):
            near = fits(error(2**exponent), 2**exponent, near)
            chosen = near[1:] if len(near) > 2 else near[-1:]
            tables[name][f"2^{exponent}"] = [_listed(fit.form()) for fit in chosen]
    tables["perpetual"] = {"": [_listed(fit_perpetual().form())]}
    print(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()

"""Columns of E T_c D, the matrix of running totals on a clock that ends: products and variances.

E holds the gains of the rows, T_c is lower-triangular Toeplitz with the coefficients c of a
``Rational``, D holds one over the scales of the columns (``ended``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.rational import Rational
from weir.dpcore.errors import ConfigError

Knots = tuple[int, ...]
Values = tuple[float, ...]
MOST_CELLS = 1 << 25
"""Lags times ticks that a user's sensitivity may look at: 256 MB."""
MARGIN = 2.0**-28
"""Relative margin of squared sensitivities: more than float64 loses over 2^20 ticks."""
EVERY = 16
"""Knots are at every tick up to so many from either end; beyond, 1/16 of that distance apart."""
BLOCK = 64


def between(knots: Sequence[int], values: Sequence[float], ticks: Ints) -> Floats:
    """Values at ticks (m,), linear between knots and constant beyond: (m,)."""
    x, y = np.asarray(knots, dtype=np.float64), np.asarray(values)
    if x.size == 1:
        return np.full(ticks.shape, y[0])
    at = np.clip(np.searchsorted(x, ticks, side="right") - 1, 0, x.size - 2)
    share = (np.minimum(ticks, knots[-1]) - x[at]) / (x[at + 1] - x[at])
    return np.asarray(y[at] + (y[at + 1] - y[at]) * share)


def knots_of(n: int) -> Knots:
    """Ticks of a clock of n ticks at which gains and scales are given."""
    left, at = {0, n - 1}, 0
    while at <= n // 2:
        left |= {at, n - 1 - at}
        at += max(1, at // EVERY)
    return tuple(sorted(left))


class Products:
    """Inner products of the columns of E T_c, without scales.

    Args:
      form: c. gains: (n,) e.
    """

    def __init__(self, form: Rational, gains: Floats) -> None:
        self.n = len(gains)
        self._weights = [float(weight) for weight in form.record_weights]
        self._ratios = [float(ratio) for ratio in form.record_ratios]
        squares = (gains * gains)[::-1]
        self._sums = {
            (p, q): filtered(x * self._ratios[q], squares)[::-1]
            for p, x in enumerate(self._ratios)
            for q in range(p, len(self._ratios))
        }

    def at(self, lag: int, rows: int | None = None) -> Floats:
        """Products of columns t - lag and t within so many rows from t on (None: all): (n,)."""
        out = np.zeros(self.n)
        for (p, q), sums in self._sums.items():
            x, y = self._ratios[p], self._ratios[q]
            weight = self._weights[p] * self._weights[q]
            weight *= x**lag if p == q else x**lag + y**lag
            out += weight * sums
            if rows is not None and rows < self.n:
                out[: self.n - rows] -= weight * (x * y) ** rows * sums[rows:]
        return out


def filtered(ratio: float, values: Floats) -> Floats:
    """y_t = values_t + ratio y_{t-1}: (n,) -> (n,)."""
    n = len(values)
    if n <= BLOCK:
        out = np.asarray(values, dtype=np.float64).tolist()
        for t in range(1, n):
            out[t] += ratio * out[t - 1]
        return np.asarray(out, dtype=np.float64)
    blocks = -(-n // BLOCK)
    padded = np.zeros((blocks, BLOCK))
    padded.reshape(-1)[:n] = values
    powers = ratio ** np.arange(BLOCK + 1)
    lag = np.arange(BLOCK)[:, None] - np.arange(BLOCK)[None, :]
    within = padded @ np.where(lag >= 0, powers[np.maximum(lag, 0)], 0.0).T
    carried = filtered(float(powers[BLOCK]), within[:, -1])
    within[1:] += carried[:-1, None] * powers[None, 1:]
    return np.asarray(within.reshape(-1)[:n])


def every(values: Floats, gap: int) -> Floats:
    """Sums of every ``gap``-th value from each place on: (n,) -> (n,)."""
    padded = np.zeros(-(-len(values) // gap) * gap)
    padded[: len(values)] = values
    sums = np.cumsum(padded.reshape(-1, gap)[::-1], axis=0)[::-1]
    return np.asarray(sums.reshape(-1)[: len(values)])


def contributions(products: Products, r: Floats, lags: Ints, gap: int) -> Floats:
    """F(1), F(2), ...: the most that up to so many contributions of a key move, squared.

    Args:
      products: of unscaled columns. r: (n,) scales.
      lags: (j,) fewest ticks from a contribution to the first, second, .. j-th after it; rising.
      gap: fewest ticks from one contribution to the next.

    Returns:
      (i + 1,) for i of the lags inside the clock; rounded up.

    Raises:
      ConfigError: there are too many of them for so long a clock.
    """
    n = products.n
    phi = products.at(0) / (r * r)
    best, most = phi.copy(), [float(phi.max())]
    lags = lags[lags < n]
    if lags.size == 0:
        return np.asarray(most) * (1 + MARGIN)
    looked = _looked_at(lags, n)
    if len(looked) * n > MOST_CELLS:
        raise too_many(lags.size + 1, n)
    falling = bool((np.diff(r) <= 0).all())
    bounds = np.zeros((len(looked), n))
    for row, lag in enumerate(looked):
        # c falls, so a lag stands for all up to the next; r of the earlier column is what is least.
        width = 1 if falling else (looked[row + 1] if row + 1 < len(looked) else n) - lag
        least = _trailing_minimum(r[: n - lag], width)
        bounds[row, lag:] = products.at(lag)[lag:] / (r[lag:] * least)
    largest = np.maximum.accumulate(bounds[::-1])[::-1]
    place = {lag: row for row, lag in enumerate(looked)}
    for lag in lags.tolist():
        phi = phi.copy()
        phi[:lag] = -np.inf
        phi[lag:] += 2 * largest[place[lag]][lag:]
        top = np.maximum.accumulate(best)
        best = np.full(n, -np.inf)
        best[gap:] = top[:-gap]
        best += phi
        most.append(max(most[-1], float(best.max())))
    return np.asarray(most) * (1 + MARGIN)


def too_many(count: int, n: int) -> ConfigError:
    """The error for contributions that would take too much to look at."""
    return ConfigError(
        "privacy.contributions.ticks",
        count,
        f"are too many contributions on a clock of {n:,} ticks for ended; take blt.",
    )


def _looked_at(lags: Ints, n: int) -> list[int]:
    """The lags, and beyond the last of them some that are a quarter more each."""
    looked, at = set(lags.tolist()), int(lags[-1])
    while at < n - 1:
        at = min(max(at + 1, at * 5 // 4), n - 1)
        looked.add(at)
    return sorted(looked)


def _trailing_minimum(values: Floats, width: int) -> Floats:
    """The least of the last ``width`` values at every place: (n,) -> (n,)."""
    out, covered = np.array(values), 1
    while covered < min(width, len(values)):
        step = min(covered, width - covered)
        out[step:] = np.minimum(out[step:], out[:-step])
        covered += step
    return out


@lru_cache(maxsize=16)
def variances(
    form: Rational, n: int, knots: Knots, gains: Values, scales: Values, over: int | None
) -> Floats:
    """Var z_t, or Var(z_t - z_{t - over}), for t = 0 .. n - 1, in units of sigma^2: (n,)."""
    ticks = np.arange(n)
    e, r = between(knots, gains, ticks), between(knots, scales, ticks)
    v = 1 / (e * e)
    d = np.append(r[:-1] - r[1:], 0.0)
    theta, omega = form.theta, form.omega
    m = range(len(theta))

    def past(ratio: float, values: Floats) -> Floats:
        """h_{t+1} = ratio h_t + values_t, h_0 = 0."""
        return np.concatenate([[0.0], filtered(ratio, values)[:-1]])

    of_y = [np.zeros(n) for _ in m]
    for i in m:
        for j in m[i:]:
            covariance = past(theta[i] * theta[j], v)
            of_y[j] += omega[i] * covariance
            if i != j:
                of_y[i] += omega[j] * covariance
    var_y = sum((omega[j] * of_y[j] for j in m), v)
    of_q = [past(theta[j], d * (theta[j] * of_y[j] + v)) for j in m]
    q_y = sum((omega[j] * of_q[j] for j in m), np.zeros(n))
    var_q = np.concatenate([[0.0], np.cumsum(2 * d * q_y + d * d * var_y)[:-1]])
    total = np.asarray(r * r * var_y + 2 * r * q_y + var_q)
    if over is None or over >= n:
        return total
    s = slice(0, n - over)
    out = total.copy()
    both = (r * q_y + var_q + d * (r * var_y + q_y))[s]
    for j in m:
        decay = filtered(theta[j], d[::-1])[::-1]  # sum over i of d_{t+i} theta^i
        later = np.concatenate([decay[1:], [0.0]])
        cut = np.concatenate([decay[over:], [0.0]]) * theta[j] ** (over - 1)
        response = r[over:] * theta[j] ** (over - 1) + later[s] - cut[: n - over]
        with_u = theta[j] * (r * of_y[j] + of_q[j]) + r * v
        both = both + with_u[s] * omega[j] * response
    out[over:] += total[s] - 2 * both
    return out

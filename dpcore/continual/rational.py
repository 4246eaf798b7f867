"""Rational generating functions of noise, and their coefficients after each release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.contributions import Pattern, apart, of_distances, over_keys
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import WeirError

ONE = Decimal(1)
DIGITS = Context(prec=60, rounding=ROUND_HALF_EVEN)
"""Calibration runs in 60-digit decimals: nothing cancels, and every machine gets the same bits."""


@dataclass(frozen=True)
class Rational:
    """b(x) = prod_j (1 - lambda_j x) / prod_j (1 - theta_j x), and c(x) = 1 / ((1 - x) b(x)).

    b gives the noise of a running total, z_t = sum_k b_k xi_{t-k}; c gives what one record moves,
    C = B^-1 M with M the running sum. Both are sums of exponentials with positive weights,

      b_0 = 1, b_k = sum_j omega_j theta_j^(k-1) for k >= 1;    c_k = a_0 + sum_j a_j lambda_j^k,

    because 0 < lambda_1 < theta_1 < lambda_2 < theta_2 < ... < 1 (checked). Hence c is positive and
    non-increasing, and b is positive.

    Attributes:
      poles: p_j = 1 - theta_j, decreasing; 1 - p_j exact in float64, for the stream runs on it.
      zeros: q_j = 1 - lambda_j, decreasing, one a pole. No pole: b = [1], independent noise.

    Raises:
      WeirError: the order above is broken, or a pole is not exact.
    """

    poles: tuple[float, ...]
    zeros: tuple[float, ...]

    def __post_init__(self) -> None:
        pairs = zip(self.zeros, self.poles, strict=True)
        order = [1.0, *(gap for pair in pairs for gap in pair), 0.0]
        if any(left <= right for left, right in zip(order, order[1:], strict=False)):
            raise WeirError(f"poles and zeros must interlace in (0, 1), got {order[1:-1]}.")
        if any(1.0 - (1.0 - pole) != pole for pole in self.poles):
            raise WeirError(f"1 - pole must be exact in float64, got poles={self.poles}.")

    @cached_property
    def theta(self) -> tuple[float, ...]:
        """Decay of each buffer, exact: (m,)."""
        return tuple(1.0 - pole for pole in self.poles)

    @cached_property
    def omega(self) -> tuple[float, ...]:
        """Weight of each buffer, correctly rounded: (m,)."""
        return tuple(float(weight) for weight in self._omega)

    @cached_property
    def _omega(self) -> tuple[Decimal, ...]:
        return _residues(self.zeros, self.poles)

    @cached_property
    def record_weights(self) -> tuple[Decimal, ...]:
        """(a_0, a_1, ..., a_m): c_k is the sum of a_j times the k-th power of its ratio."""
        with localcontext(DIGITS):
            p, q = _decimals(self.poles), _decimals(self.zeros)
            constant = math.prod(p, start=ONE) / math.prod(q, start=ONE)
            residues = _residues(self.poles, self.zeros)
            return (constant, *(-r / gap for r, gap in zip(residues, q, strict=True)))

    @property
    def record_ratios(self) -> tuple[Decimal, ...]:
        """(1, lambda_1, ..., lambda_m), exact."""
        return (ONE, *self._lambda)

    @cached_property
    def _theta(self) -> tuple[Decimal, ...]:
        return _complements(self.poles)

    @cached_property
    def _lambda(self) -> tuple[Decimal, ...]:
        return _complements(self.zeros)

    def noise_squares(self, count: int | None, lag: int | None = None) -> Decimal:
        """sum_{k < count} (b_k - b_{k-lag})^2; count None: all k; lag None: of b alone."""
        if count is not None and count <= 0:
            return Decimal(0)
        with localcontext(DIGITS):
            if lag is None or (count is not None and count <= lag):
                after = None if count is None else count - 1
                return ONE + _geometric(self._omega, self._theta, after)
            after = None if count is None else count - lag - 1
            pairs = list(zip(self._omega, self._theta, strict=True))
            first = sum((w * x ** (lag - 1) for w, x in pairs), -ONE)
            tail = _geometric([w * (x**lag - ONE) for w, x in pairs], self._theta, after)
            return self.noise_squares(lag) + first * first + tail

    def record_squares(self, count: int | None, lag: int | None = None) -> Decimal:
        """sum_{k < count} (c_k - c_{k-lag})^2; count None: all k (infinite without a lag)."""
        with localcontext(DIGITS):
            if lag is None or (count is not None and count <= lag):
                if count is None:
                    return Decimal("Infinity")
                return _geometric(self.record_weights, self.record_ratios, count)
            after = None if count is None else count - lag
            pairs = zip(self.record_weights[1:], self._lambda, strict=True)
            tail = _geometric([w * (x**lag - ONE) for w, x in pairs], self._lambda, after)
            return self.record_squares(lag) + tail

    def noise_squares_at(self, counts: NDArray[Any], lag: int | None = None) -> Floats:
        """``noise_squares`` for many counts >= 1 at once, in float64: (m,) -> (m,)."""
        logs = np.log1p(-np.asarray(self.poles))
        omega = np.asarray(self.omega)
        if lag is None:
            return 1.0 + _geometric_at(omega, logs, counts - 1.0)
        low = self.noise_squares_at(np.minimum(counts, lag))
        first = float(np.sum(omega * np.exp((lag - 1) * logs))) - 1.0
        after = np.maximum(counts - lag - 1.0, 0.0)
        tail = _geometric_at(omega * np.expm1(lag * logs), logs, after)
        return np.asarray(np.where(counts > lag, low + first**2 + tail, low))

    def noise_coefficients(self, n: int) -> Floats:
        """b_0 .. b_{n-1}, float64."""
        powers = np.exp(np.arange(-1, n - 1)[:, None] * np.log1p(-np.asarray(self.poles))[None, :])
        out = (powers * np.asarray(self.omega)).sum(axis=1)
        out[:1] = 1.0
        return np.asarray(out, dtype=np.float64)

    def record_coefficients(self, n: int) -> Floats:
        """c_0 .. c_{n-1}, float64."""
        weights = np.asarray([float(w) for w in self.record_weights])
        logs = np.log1p(-np.asarray(self.zeros))
        powers = np.exp(np.arange(n)[:, None] * logs[None, :])
        return np.asarray(weights[0] + (powers * weights[1:]).sum(axis=1), dtype=np.float64)


def round_up(value: Decimal) -> float:
    """The smallest float that is not below a decimal >= 0."""
    near = float(value)
    if value.is_finite() and Decimal(near) < value:
        return math.nextafter(near, math.inf)
    return near


def _decimals(values: Sequence[float]) -> tuple[Decimal, ...]:
    return tuple(Decimal(value) for value in values)


def _complements(gaps: Sequence[float]) -> tuple[Decimal, ...]:
    with localcontext(DIGITS):
        return tuple(ONE - gap for gap in _decimals(gaps))


def _residues(numerator: Sequence[float], denominator: Sequence[float]) -> tuple[Decimal, ...]:
    """For each x = denominator_j: prod_i (numerator_i - x) / prod_{i != j} (denominator_i - x)."""
    with localcontext(DIGITS):
        above, below = _decimals(numerator), _decimals(denominator)
        out = []
        for j, at in enumerate(below):
            top = math.prod((value - at for value in above), start=ONE)
            others = (value - at for i, value in enumerate(below) if i != j)
            out.append(top / math.prod(others, start=ONE))
        return tuple(out)


def _geometric(weights: Sequence[Decimal], ratios: Sequence[Decimal], count: int | None) -> Decimal:
    """sum_{0 <= k < count} (sum_j weights_j ratios_j^k)^2, by (1 - x^count) / (1 - x) of pairs."""
    powers = [Decimal(0) if count is None else x**count for x in ratios]
    total = Decimal(0)
    for i, left in enumerate(ratios):
        for j, right in enumerate(ratios):
            x = left * right
            if x == 1:
                series = Decimal("Infinity") if count is None else Decimal(count)
            else:
                series = (ONE - powers[i] * powers[j]) / (ONE - x)
            total += weights[i] * weights[j] * series
    return total


def _geometric_at(weights: Floats, logs: Floats, counts: NDArray[Any]) -> Floats:
    """As ``_geometric`` for ratios exp(logs) < 1 and many counts, by expm1: (m,) -> (m,)."""
    pair = logs[:, None] + logs[None, :]
    scaled = weights[:, None] * weights[None, :] / np.expm1(pair)
    series = np.expm1(counts[:, None, None] * pair) * scaled
    return np.asarray(series.sum(axis=(1, 2)), dtype=np.float64)


MANY_DIGITS = Context(prec=120, rounding=ROUND_HALF_EVEN)
"""Powers of ratios near 1 cancel twice: half of the digits are left where they do."""

MARGIN = 2.0**-36
"""Of A(0): far more than the rounding errors of a lag."""
MOST = 1 << 22
"""Contributions over several periods whose distances are looked at."""


@lru_cache(maxsize=1 << 16)
def repeated_squares(form: Rational, count: int, spacing: int, rows: int) -> Decimal:
    """F(j): squared norm of the sum of the columns 0, g, ..., (j - 1) g of C, rows 0 .. H - 1.

    From row (n - 1) g to row n g - 1 the sum is that of n columns, whose exponentials add up to
    others: sum over p of a_p (1 + x_p^g + ... + x_p^((n-1) g)) x_p^k. Their squares are added up
    over k and over n in closed form, so neither H nor j costs anything.

    Args:
      form: whose c it is. count: j. spacing: g. rows: H.
    """
    if rows <= 0:
        return Decimal(0)
    j = min(count, 1 + (rows - 1) // spacing)
    with localcontext(MANY_DIGITS):
        weights, ratios = form.record_weights, form.record_ratios
        steps = [x**spacing for x in ratios]
        powers = [y**j for y in steps]
        total = Decimal(0)
        for p, x in enumerate(ratios):
            for q, z in enumerate(ratios):
                inner = _before(steps[p], steps[q], powers[p], powers[q], j)
                last = _sum(steps[p], powers[p], j) * _sum(steps[q], powers[q], j)
                series = inner * _series(x * z, spacing)
                series += last * _series(x * z, rows - (j - 1) * spacing)
                total += weights[p] * weights[q] * series
        return total


def _series(x: Decimal, count: int) -> Decimal:
    """1 + x + ... + x^(count - 1)."""
    return _sum(x, x**count, count)


def _sum(y: Decimal, power: Decimal, j: int) -> Decimal:
    """1 + y + ... + y^(j - 1), power = y^j."""
    return Decimal(j) if y == 1 else (ONE - power) / (ONE - y)


def _before(y: Decimal, z: Decimal, y_j: Decimal, z_j: Decimal, j: int) -> Decimal:
    """sum over n = 1 .. j - 1 of (1 + ... + y^(n-1)) (1 + ... + z^(n-1)); y_j = y^j, z_j = z^j."""
    if y == 1 and z == 1:
        return Decimal((j - 1) * j * (2 * j - 1)) / 6
    if y == 1:
        return _before(z, y, z_j, y_j, j)
    if z == 1:  # sum of n (1 - y^n) / (1 - y)
        rising = y * (ONE - j * y_j / y + (j - 1) * y_j) / (ONE - y) ** 2
        return (Decimal((j - 1) * j) / 2 - rising) / (ONE - y)

    def after(x: Decimal, power: Decimal) -> Decimal:
        """x + ... + x^(j - 1)."""
        return (x - power) / (ONE - x)

    both = Decimal(j - 1) - after(y, y_j) - after(z, z_j) + after(y * z, y_j * z_j)
    return both / ((ONE - y) * (ONE - z))


@lru_cache(maxsize=4096)
def user_units(form: Rational, rows: int | None, pattern: Pattern) -> float:
    """Units of noise that a user's contributions of a period move within so many rows of it.

    ``over_keys`` of F. C is Toeplitz, positive and non-increasing: of any j ticks the first ones as
    close together as they may be move the most (``toeplitz_participation``).
    """
    if rows is None:
        return math.inf

    def of_key(count: int) -> float:
        return round_up(repeated_squares(form, count, pattern.spacing, rows))

    return over_keys(of_key, pattern)


@lru_cache(maxsize=1024)
def user_units_of_periods(
    form: Rational, periods: int, rows: int | None, pattern: Pattern
) -> float:
    """Units that contributions of so many periods move within so many rows: by their distances.

    Keys as in one period: k at a tick, or N of which each contributes once a period. Inner products
    of columns fall with their distance, and adding rows only adds to them.
    """
    each, times = pattern.spread
    count = periods * each
    if rows is None or count > MOST:
        return math.inf
    item = pattern.single() if each == 1 else pattern
    lags = np.concatenate([[0], apart(np.arange(1, count), item)]).astype(np.int64)
    products = _products(form, lags, rows)
    products += MARGIN * products[0]
    return times * of_distances(products)


def _products(form: Rational, lags: Ints, rows: int) -> Floats:
    """A(d) = sum over k < H - d of c_k c_{k+d}, float64: (n,) -> (n,)."""
    weights, logs = exponentials(form)
    left = np.maximum(rows - lags, 0).astype(np.float64)
    out = np.zeros(lags.size)
    for weight, log in zip(weights, logs, strict=True):
        inner = np.zeros(lags.size)
        for other, slope in zip(weights, logs, strict=True):
            inner += other * series_at(log + slope, left)
        out += weight * np.exp(lags * log) * inner
    return out


def exponentials(form: Rational) -> tuple[Floats, Floats]:
    """Weights of c and logarithms of its ratios, the first of which is 1."""
    weights = np.asarray([float(weight) for weight in form.record_weights])
    return weights, np.concatenate([[0.0], np.log1p(-np.asarray(form.zeros))])


def series_at(log: float, counts: Floats) -> Floats:
    """1 + x + ... + x^(count - 1), x = exp(log) <= 1: (n,) -> (n,)."""
    if log == 0:
        return counts
    return np.asarray(np.expm1(counts * log) / math.expm1(log))

"""What several contributions of one key move, where columns are sums of exponentials."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import lru_cache

import numpy as np

from weir.dpcore.accounting.contributions import apart, of_distances, over_keys
from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.rational import ONE, Rational, round_up

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
    return Decimal(count) if x == 1 else (ONE - x**count) / (ONE - x)


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
    each, times = (1, pattern.cells) if pattern.key_ticks == 1 else (pattern.ticks, pattern.keys)
    count = periods * each
    if rows is None or count > MOST:
        return math.inf
    one = pattern.single() if each == 1 else pattern
    lags = np.concatenate([[0], apart(np.arange(1, count), one)]).astype(np.int64)
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

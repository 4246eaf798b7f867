"""What several contributions of one key move in a sliding sum, whose columns change sign."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from weir.dpcore.accounting.contributions import apart, of_distances, over_keys
from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.rational import Rational, round_up
from weir.dpcore.continual.repeated import MARGIN, MOST, exponentials, repeated_squares, series_at

LONGEST = 1 << 18
"""Lags that are looked at. Where the window is longer, A(0) bounds them all."""


@lru_cache(maxsize=4096)
def user_units(form: Rational, rows: int | None, over: int, pattern: Pattern) -> float:
    """Units of noise that a user's contributions of a period move within so many rows of it.

    e_k = c_k - c_{k-N} is negative from N on, so contributions of either sign may add up, and which
    ticks are worst depends on the form. Over all rows the inner product of columns d apart is
    A(d) = sum of e_k e_{k+d}, and ``of_distances`` bounds a key's contributions, whatever their
    signs; fewer rows hold less. Up to N rows e is c, and the earliest ticks are the worst.
    """

    def of_key(count: int) -> float:
        if count == 1:
            return round_up(form.record_squares(rows, over))
        lags = np.arange(count, dtype=np.int64) * pattern.spacing
        bound = of_distances(envelope(form, over, lags))
        if rows is None or rows > over:
            return bound
        return min(bound, round_up(repeated_squares(form, count, pattern.spacing, rows)))

    return over_keys(of_key, pattern)


@lru_cache(maxsize=1024)
def user_units_of_periods(form: Rational, periods: int, over: int, pattern: Pattern) -> float:
    """Units that contributions of so many periods move, ever: by their distances."""
    each, times = (1, pattern.cells) if pattern.key_ticks == 1 else (pattern.ticks, pattern.keys)
    count = periods * each
    if count > MOST:
        return np.inf
    one = pattern.single() if each == 1 else pattern
    lags = np.concatenate([[0], apart(np.arange(1, count), one)]).astype(np.int64)
    return times * of_distances(envelope(form, over, lags))


def envelope(form: Rational, over: int, lags: Ints) -> Floats:
    """A(0), and max |A(x)| over x >= d for the lags d after it, rounded up: (n,) -> (n,).

    Lags up to twice N are looked at one by one; from N on A is a sum of decaying exponentials, and
    the sum of their sizes at a lag bounds all that follow.
    """
    first = float(products(form, over, np.zeros(1, dtype=np.int64))[0])
    if 2 * over > LONGEST:
        return np.full(lags.size, first * (1 + MARGIN))
    seen = np.abs(products(form, over, np.arange(2 * over + 1)))
    beyond = _bound(form, over, np.maximum(lags, 2 * over))
    largest = np.maximum.accumulate(seen[::-1])[::-1]
    found = np.maximum(largest[np.minimum(lags, 2 * over)] * (lags <= 2 * over), beyond)
    found[0] = first
    return np.asarray(np.minimum(found, first) + MARGIN * first)


def products(form: Rational, over: int, lags: Ints) -> Floats:
    """A(d) = sum over all k of e_k e_{k+d}, e_k = c_k - c_{k-N}, float64: (n,) -> (n,).

    The first N rows are c, the others a sum of exponentials without the constant: e_k = sum of t_l
    x_l^(k-N), t_l = a_l (x_l^N - 1). Heads meet heads N - d times, and tails min(d, N) times.
    """
    weights, logs = exponentials(form)
    tails = weights[1:] * np.expm1(over * logs[1:])
    heads = np.maximum(over - lags, 0).astype(np.float64)
    mixed = np.minimum(lags, over).astype(np.float64)
    gap = np.maximum(lags - over, 0)
    out = np.zeros(lags.size)
    for weight, log in zip(weights, logs, strict=True):
        met = np.zeros(lags.size)
        for other, slope in zip(weights, logs, strict=True):
            met += other * np.exp(lags * slope) * series_at(log + slope, heads)
        behind = np.zeros(lags.size)
        for tail, slope in zip(tails, logs[1:], strict=True):
            behind += tail * np.exp(gap * slope) * series_at(log + slope, mixed)
        out += weight * (met * (heads > 0) + np.exp(heads * log) * behind)
    for tail, log in zip(tails, logs[1:], strict=True):
        for other, slope in zip(tails, logs[1:], strict=True):
            out += tail * other * np.exp(lags * slope) / -np.expm1(log + slope)
    return out


def _bound(form: Rational, over: int, lags: Ints) -> Floats:
    """A bound on |A| at lags >= N and all that follow: (n,) -> (n,)."""
    weights, logs = exponentials(form)
    tails = weights[1:] * np.expm1(over * logs[1:])
    out = np.zeros(lags.size)
    for tail, slope in zip(tails, logs[1:], strict=True):
        size = 0.0
        for weight, log in zip(weights, logs, strict=True):
            size += weight * float(series_at(log + slope, np.asarray([float(over)]))[0])
        for other, log in zip(tails, logs[1:], strict=True):
            size += other * float(np.exp(over * slope) / -np.expm1(log + slope))
        out += abs(tail * size) * np.exp((lags - over) * slope)
    return out

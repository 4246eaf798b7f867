"""Gains and scales of a clock that ends, from a table, and what units move under them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from weir.dpcore.accounting.contributions import Pattern, apart, over_keys
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.columns import (
    MARGIN,
    Knots,
    Products,
    Values,
    between,
    contributions,
    every,
    knots_of,
    variances,
)
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.tables import ENDED, EndedRow
from weir.dpcore.errors import ConfigError


def fit(
    n: int, window: int | None, pattern: Pattern | None
) -> tuple[Rational, Knots, Values, Values]:
    """Form, knots, gains and scales of a clock, from the table: nothing is optimised here.

    For a record the parameters of the gains are interpolated in ln n, and the form is the nearest
    one's. For users, rows of the nearest clocks are tried, and the least worst error is taken.
    """
    records = [row for row in ENDED if row.contributions == 1]
    sizes = np.log([row.ticks for row in records])
    p = [
        float(np.interp(math.log(n), sizes, column))
        for column in zip(*(row.gains for row in records), strict=True)
    ]
    form = records[int(np.abs(sizes - math.log(n)).argmin())].form
    plain = _fitted(form, p, n, window, pattern)
    if pattern is None or pattern.key_ticks == 1:
        return plain

    def far(row: EndedRow) -> tuple[float, float]:
        ratios = (
            row.ticks / n,
            row.contributions / pattern.key_ticks,
            row.spacing / pattern.spacing,
        )
        logs = [abs(math.log(ratio)) for ratio in ratios]
        return logs[0], logs[1] + logs[2]

    rows = sorted((row for row in ENDED if row.contributions > 1), key=far)
    near = 2 * USER_ROWS if n <= MOST_TRIED else 1
    tried = [plain, *(_fitted(row.form, row.gains, n, window, pattern) for row in rows[:near])]
    return min(tried, key=lambda parts: _worst(parts, n, pattern))


USER_ROWS = 5
"""Rows of the table for users of a clock."""
MOST_TRIED = 1 << 13
"""Ticks of a clock above which one row is taken as it is."""
ClockFit = tuple[Rational, Knots, Values, Values]


def _worst(parts: ClockFit, n: int, pattern: Pattern) -> float:
    """The largest variance of a fit, times what a user moves."""
    form, knots, gains, scales = parts
    units = units_of(form, n, knots, gains, scales, None, pattern)
    return units * float(variances(form, n, knots, gains, scales, None).max())


def _fitted(
    form: Rational, p: Sequence[float], n: int, window: int | None, pattern: Pattern | None
) -> ClockFit:
    """Gains and scales of a clock at knots.

    The logarithm of the gains is p_0 x + p_1 x^2 + p_2 x^3 + p_3 ln x + p_4 ln(1 - x) at
    x = (t + 1/2) / n. Scales are norms of columns: of a record, or of a user's contributions
    around the tick.
    """
    knots = knots_of(n)
    x = (np.asarray(knots) + 0.5) / n
    logs = p[0] * x + p[1] * x**2 + p[2] * x**3 + p[3] * np.log(x) + p[4] * np.log1p(-x)
    gains = _singles(np.exp(logs))
    products = _products(form, n, knots, gains)
    scales = np.sqrt(_scale_squares(products, window, pattern)[list(knots)])
    return form, knots, gains, _singles(scales)


def _singles(values: Floats) -> Values:
    """Rounded to 24 bits, so that the mathematical library of a machine decides no bit."""
    return tuple(np.asarray(values, dtype=np.float32).astype(np.float64).tolist())


def _scale_squares(products: Products, window: int | None, pattern: Pattern | None) -> Floats:
    """Squares of the scale of every tick: the norm of the sum of the unscaled columns of a user
    whose contributions lie around it, of a record of its own column within the window."""
    n = products.n
    if pattern is None:
        return products.at(0, window)
    gap = pattern.spacing
    count = min(pattern.key_ticks, 1 + (n - 1) // gap)
    out = np.zeros(n)
    for lag in range(count):
        # Columns a and a + lag of the pattern, for every a that it has.
        pairs = every(products.at(lag * gap), gap)
        first, beyond = lag * gap, min(count * gap, n)
        out[: n - first] += (1 if lag == 0 else 2) * pairs[first:n]
        out[: n - beyond] -= (1 if lag == 0 else 2) * pairs[beyond:n]
    last = n - 1 - (count - 1) * gap
    at = np.clip(np.arange(n) - (count - 1) * gap // 2, 0, last)
    return np.asarray(out[at])


@lru_cache(maxsize=8)
def _products(form: Rational, n: int, knots: Knots, gains: Values) -> Products:
    return Products(form, between(knots, gains, np.arange(n)))


@lru_cache(maxsize=1024)
def units_of(
    form: Rational,
    n: int,
    knots: Knots,
    gains: Values,
    scales: Values,
    ticks: int | None,
    pattern: Pattern | None,
) -> float:
    """Units of noise that a record, or a user's contributions of a period, move within so many
    ticks; of a user within any: what follows its last tick may be all that a record is seen in."""
    products = _products(form, n, knots, gains)
    r = between(knots, scales, np.arange(n))
    if pattern is None:
        if ticks is not None and ticks <= 0:
            return 0.0
        return float((products.at(0, ticks) / (r * r)).max()) * (1 + MARGIN)
    lags = pattern.spacing * np.arange(1, pattern.longest_key)
    most = contributions(products, r, lags, pattern.spacing)
    return over_keys(lambda count: float(most[min(count, len(most)) - 1]), pattern)


@lru_cache(maxsize=256)
def units_of_periods(
    form: Rational,
    n: int,
    knots: Knots,
    gains: Values,
    scales: Values,
    periods: int,
    pattern: Pattern,
) -> float:
    """Units that contributions of so many periods move; infinite if they are too many to look at.
    Keys as in one period: k at a tick, or N of which each contributes once a period."""
    each, times = pattern.spread
    item = pattern.single() if each == 1 else pattern
    lags = apart(np.arange(1, min(periods * each, n)), item)
    products = _products(form, n, knots, gains)
    r = between(knots, scales, np.arange(n))
    try:
        return times * float(contributions(products, r, lags, 1)[-1])
    except ConfigError:
        return math.inf

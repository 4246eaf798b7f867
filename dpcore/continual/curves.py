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

ClockFit = tuple[Rational, Knots, Values, Values]
WORK = 1 << 22
"""Ticks times contributions of all rows of the table that are tried for a user."""


@lru_cache(maxsize=256)
def fit(n: int, window: int | None, pattern: Pattern | None) -> ClockFit:
    """Form, knots, gains and scales of a clock, from the table: nothing is optimised here.

    For a record the parameters of the gains are interpolated in ln n, and the form is the nearest
    one's. For users the nearest rows are priced, and the least worst error is taken. A row of less
    than half of the ticks lends its gains alone: its form is too short, and that of a record is
    taken.
    """
    records = [row for row in ENDED if row.contributions == 1]
    sizes = np.log([row.ticks for row in records])
    p = [
        float(np.interp(math.log(n), sizes, column))
        for column in zip(*(row.gains for row in records), strict=True)
    ]
    form = records[int(np.abs(sizes - math.log(n)).argmin())].form
    if pattern is None or pattern.key_ticks == 1:
        return fitted(form, p, n, window, pattern)
    spacing = pattern.spacing
    count = min(pattern.key_ticks, 1 + (n - 1) // spacing)

    def far(row: EndedRow) -> float:
        covered = row.contributions * row.spacing / row.ticks / (count * spacing / n)
        ratios = (row.ticks / n, row.contributions / count, covered)
        return sum(abs(math.log(ratio)) for ratio in ratios)

    rows = sorted((row for row in ENDED if row.contributions > 1), key=far)
    tried = rows[: max(WORK // (n * pattern.longest_key), 1)]
    pairs = [(row.form if 2 * row.ticks >= n else form, row.gains) for row in tried]
    if len(pairs) > 1:
        pairs.append((form, tuple(p)))
    fits = [fitted(own, gains, n, window, pattern) for own, gains in pairs]
    return min(fits, key=lambda parts: _worst(parts, n, pattern)) if len(fits) > 1 else fits[0]


def _worst(parts: ClockFit, n: int, pattern: Pattern) -> float:
    """The largest variance of a fit, times what a user moves."""
    form, knots, gains, scales = parts
    units = units_of(form, n, knots, gains, scales, None, pattern)
    return units * float(variances(form, n, knots, gains, scales, None).max())


def fitted(
    form: Rational, p: Sequence[float], n: int, window: int | None, pattern: Pattern | None
) -> ClockFit:
    """Gains and scales of a clock at knots, under a form and parameters of the gains.

    Scales are norms of columns: of a record, or of a user's contributions around the tick.
    """
    knots = knots_of(n)
    gains = _singles(np.exp(logs_of(p, knots, n)))
    products = _products(form, n, knots, gains)
    scales = np.sqrt(scale_squares(products, window, pattern)[list(knots)])
    return form, knots, gains, _singles(scales)


def logs_of(p: Sequence[float], knots: Knots, n: int) -> Floats:
    """Logarithms of the gains at knots (m,): p_0 x + p_1 x^2 + p_2 x^3 + p_3 ln x + p_4 ln(1 - x)
    at x = (t + 1/2) / n."""
    x = (np.asarray(knots) + 0.5) / n
    return np.asarray(p[0] * x + p[1] * x**2 + p[2] * x**3 + p[3] * np.log(x) + p[4] * np.log1p(-x))


def _singles(values: Floats) -> Values:
    """Rounded to 24 bits, so that the mathematical library of a machine decides no bit."""
    return tuple(np.asarray(values, dtype=np.float32).astype(np.float64).tolist())


def scale_squares(products: Products, window: int | None, pattern: Pattern | None) -> Floats:
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

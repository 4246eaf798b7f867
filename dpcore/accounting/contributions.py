"""Sensitivity to all contributions of a user in one period or in several.

Sensitivity when one privacy unit contributes at several ticks.

**Formal guarantees.** A unit contributes at most p vectors x_j, each of l2 norm at most Delta, at
ticks i_j at least g apart. A release of C x + noise with C >= 0 then has l2 sensitivity at most
Delta times the factor returned here: || sum_j C[:, i_j] x_j || <= Delta || sum_j C[:, i_j] ||,
since no inner product of columns of C is negative. All x_j equal attains it.

Sensitivity of a user: from one key's contributions to those of all keys, and to several periods.

**Formal guarantees.** A user contributes to cells (key, tick) as a ``Pattern`` allows, a vector of
l2 norm at most Delta each; F(j) bounds, over Delta^2, the squared change of one key's rows by
contributions at j ticks. Keys have rows, and noise, of their own: squared changes add up over them.
Everything here is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError, at_least_one


@dataclass(frozen=True)
class Pattern:
    """Cells (a key and a tick) that a user may contribute to in one period. Public.

    Attributes:
      span: S, ticks of the longest period; None: one that never ends.
      shortest: ticks of the shortest whole period.
      ticks: m, most ticks with a contribution. spacing: g, fewest ticks from one to the next.
      keys: k, most keys of a tick. key_ticks: r, most ticks of a key. period_keys: K, most keys of
        the period; None: any. cells: N, most cells; never more than m k and K r.
    """

    span: int | None
    shortest: int | None
    ticks: int
    spacing: int
    keys: int
    key_ticks: int
    period_keys: int | None
    cells: int

    @property
    def touched(self) -> int:
        """Most keys of a period."""
        return self.cells if self.period_keys is None else min(self.cells, self.period_keys)

    def once(self) -> Pattern:
        """Where only the first cell of each key in a period counts."""
        return replace(self, key_ticks=1, cells=self.touched)

    def rows(self, ticks: int | None, periods: int = 1) -> int | None:
        """H: rows from the first tick of a period on, within ``ticks`` from its last; None: all.

        A period of S ticks that is followed for W ticks from its last on meets S + W - 1 rows, and
        n periods in a row n S + W - 1.
        """
        if ticks is None or self.span is None:
            return None
        return max(periods * self.span + ticks - 1, 0)

    def single(self) -> Pattern:
        """A single cell of those."""
        return replace(self, ticks=1, keys=1, key_ticks=1, period_keys=1, cells=1)

    @property
    def longest_key(self) -> int:
        """Most ticks of any key whose rows are looked at."""
        return self.key_ticks

    @property
    def apart_units(self) -> float:
        """Squared change where every tick has a unit of its own."""
        return self.cells

    @property
    def spread(self) -> tuple[int, float]:
        """Ticks of a key in a period, and how many keys have so many: their squares add up."""
        return (1, self.cells) if self.key_ticks == 1 else (self.ticks, self.keys)


@dataclass(frozen=True)
class MergedPattern(Pattern):
    """Cells of a user in several groupings of keys, some of which meet in a coarser key.

    The fields of ``Pattern`` are of the finest keys. Squares of changes add up over groupings; what
    each adds is proved in ``dpcore.accounting.groupings``.

    Attributes:
      finest: squared factor of what the finest grouping moves; 0: there is none.
      coarse: the same of all coarser ones together, times what ``coarse_ticks`` contributions of
        one key move.
      single_cell: the same of a single cell. coarse_ticks: ticks of a coarser key.
    """

    finest: float
    coarse: float
    single_cell: float
    coarse_ticks: int

    @property
    def plain(self) -> Pattern:
        """Of the finest grouping alone."""
        own = (self.span, self.shortest, self.ticks, self.spacing, self.keys, self.key_ticks)
        return Pattern(*own, self.period_keys, self.cells)

    def once(self) -> Pattern:
        raise AssertionError("what counts once is merged with a pattern of its own.")

    def single(self) -> Pattern:
        """A single cell of the finest grouping, and the keys that it is in."""
        return replace(
            self, ticks=1, keys=1, key_ticks=1, period_keys=1, cells=1,
            coarse=self.single_cell, coarse_ticks=1,
        )  # fmt: skip

    @property
    def longest_key(self) -> int:
        """Most ticks of any key whose rows are looked at."""
        return max(self.key_ticks, self.coarse_ticks)

    @property
    def apart_units(self) -> float:
        """Squared change where every tick has a unit of its own."""
        return (self.finest * self.cells + self.coarse * self.coarse_ticks) * (1 + 2.0**-36)

    @property
    def spread(self) -> tuple[int, float]:
        """Ticks of a key in a period, and how many keys have so many: their squares add up."""
        if self.coarse_ticks == 1 and self.key_ticks == 1:
            return 1, self.finest * self.cells + self.coarse
        return self.ticks, self.finest * self.keys + self.coarse


def toeplitz_participation(c: NDArray[np.float64], p: int, g: int, horizon: int) -> float:
    """Largest || sum_j C[:, i_j] ||_2 over admissible tick sets, rows 0 .. horizon - 1; rounded up.

    C is lower-triangular Toeplitz with coefficients c. For c non-negative and non-increasing the
    worst set is 0, g, 2g, ...: the inner product of columns a < b inside n rows is
    sum over m < n - b of c[m + b - a] c[m], which only falls when b or b - a grows, and in any
    admissible set the j-th tick is at least j g and the i-th and j-th at least |i - j| g apart.

    Args:
      c: (m,) coefficients, m >= horizon.
      p: most contributions of a unit.
      g: fewest ticks between two of them (1: at most one a tick).
      horizon: number of rows, from the first contribution on, against which the unit is protected.

    Raises:
      ConfigError: c is negative, increases, is not finite or is shorter than the horizon (the
        worst set is then another one, and this formula would be wrong).

    Source: Kalinin, Lampert (2024), "Banded square root matrix factorization for differentially
      private model training", Theorem 2; proof above.
    """
    at_least_one(p=p, g=g, horizon=horizon)
    c = np.asarray(c, dtype=np.float64)
    if c.ndim != 1 or c.size < horizon:
        raise ConfigError("c", c.shape, f"must have at least horizon = {horizon} coefficients.")
    c = c[:horizon]
    if not np.isfinite(c).all() or (c < 0).any() or (np.diff(c) > 0).any():
        raise ConfigError("c", "coefficients", "must be finite, non-negative and non-increasing.")
    column = np.zeros(horizon)
    for start in range(0, min(horizon, p * g), g):
        column[start:] += c[: horizon - start]
    # Rounds up: p additions and the sum of squares each lose at most 2^-53 relative.
    return math.sqrt(math.fsum((column * column).tolist())) * (1 + (p + 4) * 2.0**-52)


def shared_counts(levels: int, p: int, g: int) -> tuple[int, ...]:
    """Per level of a dyadic tree, from the leaves up: most contributions of a unit in one node.

    A node of level l holds 2^l ticks, and of these at most ceil(2^l / g) are g apart. Exact.
    """
    at_least_one(levels=levels, p=p, g=g)
    return tuple(min(p, -(-(1 << level) // g)) for level in range(levels))


MOST_WORK = 1 << 24
"""Steps that the exact maximum may take; beyond, an upper bound is used."""
FINE = 64
"""Up to so many ticks of a key each number of them is looked at; beyond, one in ``STEP``."""
STEP = 1.02


def over_keys(of_key: Callable[[int], float], pattern: Pattern) -> float:
    """The largest sum of F(n_key) over a user's keys.

    With no cap but m ticks and k keys a tick it is k F(m): the sum over keys is one over pairs of
    ticks of their inner product, none of which is negative, times the number of keys with
    contributions at both, at most k; and k keys at the earliest ticks attain it. Caps on the ticks
    of a key, on the keys or on the cells of a period: max of sum F(n_i), sum n_i <= N, n_i <= r, at
    most K parts, as each key moves at most F of its number.

    Args:
      of_key: F, for 1 .. m; not decreasing, and k F(m) holds as said.
      pattern: which cells there may be, in one grouping or in several.
    """
    if isinstance(pattern, MergedPattern):
        own = pattern.finest * over_keys(of_key, pattern.plain) if pattern.finest else 0.0
        return (own + pattern.coarse * of_key(pattern.coarse_ticks)) * (1 + 2.0**-36)
    whole = pattern.key_ticks == pattern.ticks
    results = []
    if whole:
        results.append(pattern.keys * of_key(pattern.ticks))
    if not whole or pattern.cells < pattern.ticks * pattern.keys:
        results.append(shared(of_key, pattern.key_ticks, pattern.cells, pattern.period_keys))
    return min(results) * (1 + 2.0**-36)


def shared(of_key: Callable[[int], float], most: int, cells: int, keys: int | None) -> float:
    """max of sum F(n_i), sum n_i <= cells, n_i <= most, at most so many keys (None: any)."""
    if most == 1:
        return cells * of_key(1)
    most = min(most, cells)
    values = _values(of_key, most)
    if keys is not None and keys >= cells:
        keys = None
    if cells * most * (keys or 1) > MOST_WORK:
        # Cells as if they could be shared out evenly; or every key as full as it may be.
        even = cells * float((values[1:] / np.arange(1, most + 1)).max())
        return even if keys is None else min(even, keys * float(values[most]))
    best = np.zeros(cells + 1)
    if keys is None:
        backwards = values[:0:-1]
        for n in range(1, cells + 1):
            last = min(n, most)
            best[n] = (best[n - last : n] + backwards[most - last :]).max()
        return float(best[cells])
    for _ in range(keys):
        more = best.copy()
        for n in range(1, most + 1):
            np.maximum(more[n:], best[: cells + 1 - n] + values[n], out=more[n:])
        best = more
    return float(best.max())


def _values(of_key: Callable[[int], float], most: int) -> Floats:
    """F(0) = 0, F(1), ..., F(most), of many the next that is looked at: F does not fall."""
    at, looked = 1, []
    while at < most:
        looked.append(at)
        at = at + 1 if at < FINE else max(at + 1, int(at * STEP))
    looked.append(most)
    known = np.asarray([of_key(j) for j in looked])
    place = np.searchsorted(np.asarray(looked), np.arange(1, most + 1))
    return np.concatenate([[0.0], known[place]])


def of_distances(products: Floats) -> float:
    """n A(0) + 2 sum over 0 < j < n of (n - j) env(d_j): n contributions of any signs.

    A contribution and the j-th after it are at least d_j ticks apart, and columns that are d apart
    have inner products of at most env(d) = max |A(x)| over x >= d, in size.

    Args:
      products: (n,) A(0), then env(d_1), ..., env(d_{n-1}); not negative.
    """
    n = products.size
    weights = 2.0 * np.arange(n, 0, -1)
    weights[0] = n
    return float((weights * products).sum()) * (1 + n * 2.0**-52)


def apart(numbers: Ints, pattern: Pattern) -> Ints:
    """Fewest ticks from a contribution to the j-th after it, over several periods.

    Caps begin again in each period, so that the last contribution of one and the first of the next
    may be in neighbouring ticks: fewer than m later there is one such step, the others are
    ``spacing``. From m on, j + 1 contributions meet P = ceil((j + 1) / m) periods or more: P - 2
    whole ones lie between the first and the last, and what these have no room for lies at the end
    of the first and the beginning of the last, in as many ticks at least.

    Args:
      numbers: (n,) j >= 1. pattern: of one period, which has an end.

    Returns:
      (n,) ticks.
    """
    m, shortest = pattern.ticks, pattern.shortest or 0
    between = np.maximum(-(-(numbers + 1) // m) - 2, 0)
    beyond = between * shortest + (numbers + 1 - between * m) - 1
    near = (numbers - 1) * pattern.spacing + 1
    return np.asarray(np.where(numbers < m, near, beyond), dtype=np.int64)


def tree_squares(levels: int, count: int, spacing: int) -> tuple[int, ...]:
    """Per level of a dyadic tree: largest sum of squares of how often its nodes are met.

    Of ``count`` contributions a node takes as many as fit: a sum of squares under a cap is largest
    when as many nodes as possible are full.
    """
    return tuple(
        (count // most) * most * most + (count % most) ** 2
        for most in shared_counts(levels, count, spacing)
    )

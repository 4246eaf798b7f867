"""Clipping, rounding to the fixed-point grid, and exact sums.

The lattice: contributions as whole numbers of a power-of-two step, summed exactly.

**Formal guarantees.** Truncation toward zero never lengthens a vector, so l2 bounds survive it.
Sums of whole numbers below 2^62 are exact and the same in any order, so a bundle that is run
again, or cut differently, gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints, accumulate, in_one_piece
from weir.dpcore.errors import ConfigError, positive
from weir.dpcore.native import kernels


class ClippedValues(NamedTuple):
    """Bounded values, and how many were changed (for the operator only).

    Attributes:
      values: same shape as the input.
      clipped: how many finite values (rows, for ``clip_l2``) were outside.
      non_finite: how many were NaN, infinite or missing.
    """

    values: Floats
    clipped: int
    non_finite: int


def clip_values(values: Floats, low: float, high: float, fill: float = 0.0) -> ClippedValues:
    """Clips numbers to the public interval [low, high].

    Args:
      values: (n,) float64; NaN where missing. Not changed.
      low, high: finite, low <= high.
      fill: what a non-finite number counts as, before its clip. For values that are summed after
        subtracting a centre, the centre makes it the zero contribution.

    Returns:
      Every value in [low, high]; exact (no arithmetic on the values).

    Raises:
      ConfigError: the interval is empty or not finite.
    """
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ConfigError("clip", [low, high], "must be two finite numbers, low <= high.")
    if not np.isfinite(fill):
        raise ConfigError("fill", fill, "must be finite.")
    bad = ~np.isfinite(values)
    non_finite = int(np.count_nonzero(bad))
    bounded = np.clip(values, low, high)
    changed = int(np.count_nonzero(bounded != values))
    if non_finite:  # each of them differs from its clip and was counted as changed
        changed -= non_finite
        bounded[bad] = min(max(fill, low), high)
    return ClippedValues(bounded, changed, non_finite)


def clip_l2(rows: Floats, bound: float) -> ClippedValues:
    """Shortens each row to l2 norm at most ``bound``: joint clipping of all its columns.

    The exact norm of every result is at most ``bound``, and at most that of its input: the factor
    is reduced by more than the rounding error of the norm. A row's result depends on that row
    alone, bit for bit: columns are added in order, never by a blocked reduction. Rows with a
    non-finite entry become zero.

    Args:
      rows: (n, d) float64. Not changed.
      bound: finite, above 0.

    Raises:
      ConfigError: bound is not finite and positive.
    """
    positive(bound=bound)
    n, d = rows.shape
    out = np.array(rows, dtype=np.float64, order="C", copy=True)
    bad = np.zeros(n, dtype=bool)
    largest = np.zeros(n)
    for j in range(d):
        size = np.abs(out[:, j])
        bad |= ~np.isfinite(size)
        np.maximum(largest, size, out=largest)
    non_finite = int(np.count_nonzero(bad))
    if non_finite:
        out[bad] = 0.0
        largest[bad] = 0.0
    # Scaled by a power of two, exact, so that squares neither overflow nor vanish.
    exponent = np.frexp(largest)[1]
    square = np.zeros(n)
    for j in range(d):
        scaled = np.ldexp(out[:, j], -exponent)
        square += scaled * scaled
    scaled_norm = np.sqrt(square)
    with np.errstate(over="ignore"):
        norm = np.ldexp(scaled_norm, exponent)
    clipped = int(np.count_nonzero(norm > bound))
    if d == 1:  # the norm is exact
        return ClippedValues(np.clip(out, -bound, bound), clipped, non_finite)
    target = bound * (1 - (d + 8) * 2.0**-52)  # more than all rounding errors below the bound
    long = np.flatnonzero(norm > target)
    if long.size:
        unit = np.ldexp(out[long], -exponent[long, None])
        out[long] = unit * (target / scaled_norm[long])[:, None]
    return ClippedValues(out, clipped, non_finite)


CAPACITY = 1 << 62
"""Leaves stay below this in absolute value, so that one more addition cannot overflow int64."""

EXACT = 1 << 53
"""Whole numbers up to this are exact in float64, and so are their sums up to it."""


def resolution_for(bound: float, bits: int = 20) -> float:
    """Lattice step for contributions up to ``bound``: 2^(ceil(log2 bound) - bits).

    Raises:
      ConfigError: bound is not positive, or so extreme that the step or its inverse overflows.
    """
    positive(bound=bound)
    mantissa, exponent = math.frexp(bound)  # bound = mantissa 2^exponent, 0.5 <= mantissa < 1
    exponent -= (mantissa == 0.5) + bits
    if abs(exponent) > 1000:
        raise ConfigError("clip", bound, "is too extreme; rescale the column.")
    return math.ldexp(1.0, exponent)


def check_capacity(largest: int, events: int, field: str = "clip") -> None:
    """Refuses a plan whose leaves could overflow.

    Args:
      largest: largest absolute contribution of one event to a coordinate, in lattice steps.
      events: public cap on events per tick and key (more are dropped by a public rule, counted).
      field: the setting to blame.

    Raises:
      ConfigError: events * largest >= 2^62.
    """
    if largest * events >= CAPACITY:
        raise ConfigError(
            field,
            largest,
            f"{events} events a tick of up to {largest} grid steps each could overflow; "
            f"at most {(CAPACITY - 1) // max(largest, 1)} events fit.",
        )


@dataclass(frozen=True)
class Lattice:
    """Whole multiples of ``resolution``, a power of two in the user's unit."""

    resolution: float

    def __post_init__(self) -> None:
        positive(resolution=self.resolution)
        if math.frexp(self.resolution)[0] != 0.5 or math.isinf(1 / self.resolution):
            raise ConfigError("resolution", self.resolution, "must be a power of two.")

    @classmethod
    def fitting(cls, bound: float, bits: int = 20) -> Lattice:
        """The lattice on which ``bound`` is at most 2^bits steps."""
        return cls(resolution_for(bound, bits))

    def steps(self, bound: float) -> int:
        """A public bound in lattice steps, truncated toward zero like the values. Exact."""
        return int(bound / self.resolution)

    def truncate(self, values: Floats) -> Ints:
        """Nearest lattice point toward zero. values: any shape, |value / resolution| < 2^62."""
        return np.asarray(values * (1.0 / self.resolution)).astype(np.int64)

    def check_capacity(self, bound: float, events: int, field: str = "clip") -> None:
        """``check_capacity`` for a bound in the user's unit."""
        check_capacity(abs(self.steps(bound)), events, field)


class LatticeRows(NamedTuple):
    """What n events add to one group of coordinates.

    Attributes:
      start: first coordinate of the group.
      coordinate: None: every event adds to coordinate ``start``. Or (n,) int64: event i adds to
        start + coordinate[i], to nothing where that is -1 (one-hot).
      amount: (n,) int64, or float64 of whole numbers below 2^62; or one int that every event adds.
    """

    start: int
    coordinate: Ints | None
    amount: Floats | Ints | int


def repeated(rows: Any, times: int) -> Any:
    """What events add if each counts so many times: groups of ``LatticeRows``, or anything once."""
    if times == 1:
        return rows
    return tuple(row._replace(amount=row.amount * times) for row in rows)


def sum_cells(cells: Ints, rows: Sequence[LatticeRows], n_cells: int, dimension: int) -> Ints:
    """Exact sums per cell.

    Args:
      cells: (n,) in [0, n_cells).
      rows: groups of coordinates; they may overlap.
      n_cells, dimension: shape of the result.

    Returns:
      (n_cells, dimension) int64. Exact as long as no sum reaches 2^62 (``check_capacity``).

    Raises:
      ValueError: a cell or a coordinate is outside, or an amount is not a number.
    """
    out = np.zeros((n_cells, dimension), dtype=np.int64)
    if cells.size == 0:
        return out
    for start, coordinate, amount in rows:
        if coordinate is None:
            out[:, start] += _sum(cells, amount, n_cells)
            continue
        # Slot 0 of each cell takes the events that add nothing.
        slots = max(int(coordinate.max()), 0) + 2
        if coordinate.min() < -1 or start + slots - 1 > dimension:
            raise ValueError("a coordinate is outside the vector.")
        index = cells * slots
        index += coordinate
        index += 1
        sums = _sum(index, amount, n_cells * slots).reshape(n_cells, slots)
        out[:, start : start + slots - 1] += sums[:, 1:]
    return out


def _sum(index: Ints, amount: Floats | Ints | int, length: int) -> Ints:
    """Exact sums of amounts by index: (length,) int64."""
    if isinstance(amount, int | np.integer):
        return _checked(np.bincount(index, minlength=length), length) * int(amount)
    largest = max(abs(amount.max().item()), abs(amount.min().item()))
    if not largest < CAPACITY:
        raise ValueError("an amount is not a whole number below 2^62.")
    fits = len(index) if largest == 0 else EXACT // int(largest)
    if fits >= len(index):  # every partial sum in float64 is a whole number up to 2^53: exact
        return _weighted(index, amount, length)
    if fits >= 1 << 16:
        out = np.zeros(length, dtype=np.int64)
        for at in range(0, len(index), fits):
            out += _weighted(index[at : at + fits], amount[at : at + fits], length)
        return out
    # Huge steps: two halves of 31 bits. amount = high 2^31 + low, 0 <= low < 2^31.
    whole = amount.astype(np.int64)
    high, low = whole >> 31, whole & ((1 << 31) - 1)
    return (_sum(index, high, length) << 31) + _sum(index, low, length)


def _weighted(index: Ints, amount: Floats | Ints, length: int) -> Ints:
    sums = np.bincount(index, weights=amount, minlength=length)  # float64
    return _checked(sums.astype(np.int64), length)


def _checked(sums: Ints, length: int) -> Ints:
    if len(sums) != length:
        raise ValueError("a cell is outside the block.")
    return sums


LIMB = 62
"""Bits in the low limb of an exact running sum."""


def add_wide(total: Ints, leaves: Ints) -> Ints:
    """Exact running sums in two limbs.

    Args:
      total: (K, d, 2), before the stride.
      leaves: (n, K, d), |leaf| < 2^62.

    Returns:
      (n, K, d, 2).
    """
    out = np.empty((*leaves.shape, 2), dtype=np.int64)
    mask = np.int64((1 << LIMB) - 1)
    largest = 0  # one leaf fits next to a low limb in any case
    if len(leaves) > 1 and leaves.size:
        largest = max(int(leaves.max()), -int(leaves.min()))
    if largest * len(leaves) < 1 << LIMB:  # the sum of the stride fits next to a low limb
        low = leaves.copy()
        low[:1] += total[..., 0]
        accumulate(np.add, low)
        np.right_shift(low, LIMB, out=out[..., 1])
        out[..., 1] += total[..., 1]
        np.bitwise_and(low, mask, out=out[..., 0])
        return out
    low, high = total[..., 0].copy(), total[..., 1].copy()
    for t in range(leaves.shape[0]):
        low += leaves[t]
        high += low >> LIMB
        low &= mask
        out[t, ..., 0], out[t, ..., 1] = low, high
    return out


def shift_wide(wide: Ints, by: Ints) -> Ints:
    """Adds int64 (|by| < 2^62) to exact sums in two limbs: same shape as ``wide``."""
    low = wide[..., 0] + by
    mask = np.int64((1 << LIMB) - 1)
    return np.stack([low & mask, wide[..., 1] + (low >> LIMB)], axis=-1)


def wide_to_float(wide: Ints) -> Floats:
    """(..., 2) limbs -> (...) float64: exact up to 2^53, else rounded once a limb."""
    # The low limb is centred first: -1 is (2^62 - 1, -1), and 2^62 - 1 is no float64.
    carry = wide[..., 0] >> (LIMB - 1)
    low, high = wide[..., 0] - (carry << LIMB), wide[..., 1] + carry
    return np.asarray(high.astype(np.float64) * 2.0**LIMB + low, dtype=np.float64)


def total_of(exact: Ints, drawn: Ints, noisy: Ints) -> Floats:
    """Noisy running totals as floats: ``wide_to_float(shift_wide(exact, drawn))``.

    Args:
      exact: (..., 2) limbs. drawn: (...) noise, below 2^61. noisy: (...), their sum modulo 2^64.
    """
    high, near = exact[..., 1], 1 << (LIMB - 1)
    small = noisy.size > 0 and int(high.min()) >= -1 and int(high.max()) <= 0  # no wrap yet
    if small and -near <= int(noisy.min()) and int(noisy.max()) < near:
        return noisy.astype(np.float64)  # the low limb is all there is
    return wide_to_float(shift_wide(exact, drawn))


class RunningSums(NamedTuple):
    """Exact sums over a stride, and what is released of them.

    Attributes:
      total: (K, d, 2), after it.
      noisy: (n, K, d), with noise, modulo 2^64: differences of these are exact; or empty.
      shown: (n, K, d) float64, with noise; or empty.
    """

    total: Ints
    noisy: Ints
    shown: Floats


def running_sums(
    total: Ints, leaves: Ints, drawn: Ints, *, noisy: bool, shown: bool
) -> RunningSums:
    """``add_wide``, ``wide_modulo`` and ``total_of`` in one pass.

    Args:
      total, leaves: as of ``add_wide``. drawn: (n, K, d) noise, below 2^61.
      noisy, shown: which of them is asked for.
    """
    none = np.zeros(0, dtype=np.int64), np.zeros(0)
    if kernels is None or not leaves.size:
        exact = add_wide(total, leaves)
        with np.errstate(over="ignore"):
            modulo = wide_modulo(exact) + drawn
        floats = total_of(exact, drawn, modulo) if shown else none[1]
        return RunningSums(exact[-1].copy(), modulo if noisy else none[0], floats)
    after = np.array(total, order="C")
    modulo = np.empty(leaves.shape, dtype=np.int64) if noisy else none[0]
    floats = np.empty(leaves.shape) if shown else none[1]
    kernels.running(after, in_one_piece(leaves), in_one_piece(drawn), modulo, floats)
    return RunningSums(after, modulo, floats)


def wide_modulo(wide: Ints) -> Ints:
    """(..., 2) limbs -> (...) int64, the value modulo 2^64 (differences of these are exact)."""
    with np.errstate(over="ignore"):
        return np.asarray((wide[..., 1] << LIMB) + wide[..., 0], dtype=np.int64)

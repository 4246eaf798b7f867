"""The lattice: contributions as whole numbers of a power-of-two step, summed exactly.

**Formal guarantees.** Truncation toward zero never lengthens a vector, so l2 bounds survive it.
Sums of whole numbers below 2^62 are exact and the same in any order, so a bundle that is run
again, or cut differently, gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError, positive

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
            f"{events} events a tick of up to {largest} lattice steps each could overflow; "
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


class Rows(NamedTuple):
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


def sum_cells(cells: Ints, rows: Sequence[Rows], n_cells: int, dimension: int) -> Ints:
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
            raise ValueError("a coordinate is outside the leaf.")
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

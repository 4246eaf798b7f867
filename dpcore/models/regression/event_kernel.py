"""What kernels are told of events: ``rows.py`` says what they do, and does it without them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints, in_one_piece
from weir.dpcore.errors import WeirError
from weir.dpcore.models.moments import Moments
from weir.dpcore.native import kernels
from weir.dpcore.program import Bounded, Runs

SHRINK = 1 - 2.0**-48
"""More than the rounding of a norm and of a product with it."""
WIDEST = 1 << 11
"""Numbers in a row that kernels take: they hold a block of rows and the products of all columns."""

LANES = 8
"""Numbers in the widest registers that are used."""


def square_of(bound: float, bits: int) -> int:
    """Largest squared norm of whole numbers, floor((bound 2^bits)^2), exactly."""
    return int(Fraction(bound) ** 2 * 4**bits)


def too_long() -> WeirError:
    """Something here is broken."""
    return WeirError("an event is longer than its bound after it was shortened.")


class EventKernel(NamedTuple):
    """The kernels for events of one shape.

    Attributes:
      names: (c,) of the columns, features first.
      ends: (c, 5) float64: low, high, middle, steps in one unit, most steps (inf: no end).
      shape: (3,) int64: numbers in x, in (x, y), and whether x ends with the constant.
      bounds: (5,) float64: the constant; of x and of y the largest squared norm, and what over a
        longer one's norm is its factor.
      kind: (3,) int64: how many rows add up exactly, whether squares of targets are kept, and how
        many numbers a register of the processor may hold, which no bit hangs on.
    """

    names: tuple[str, ...]
    ends: Floats
    shape: Ints
    bounds: Floats
    kind: Ints

    @classmethod
    def of(
        cls, names: tuple[str, ...], ends: Floats, intercept: bool, moments: Moments
    ) -> EventKernel | None:
        """None where there are no kernels, or rows are too wide for them."""
        if kernels is None or moments.width > WIDEST:
            return None
        shape = [moments.features, moments.width, int(intercept)]
        bounds = [float(np.ldexp(1.0, moments.bits))]
        for bound in (moments.reach, moments.height):
            longest = float(square_of(bound, moments.bits))
            bounds += [longest, float(np.ldexp(bound, moments.bits)) * SHRINK]
        return cls(
            names,
            np.ascontiguousarray(ends),
            np.array(shape, dtype=np.int64),
            np.array(bounds),
            np.array([moments.together, moments.with_squares, LANES], dtype=np.int64),
        )

    def rows(self, columns: Mapping[str, NDArray[Any]], n_events: int, room: Floats) -> Bounded:
        """Bounds events.

        Args:
          room: (width, >= n_events) in one piece, written to, an event a column.

        Returns:
          ``room.T`` cut to the events, and counts.
        """
        assert kernels is not None
        counts = np.zeros(2, dtype=np.int64)
        value = self._given(columns, n_events)
        if not kernels.event_rows(value, self.ends, self.shape, self.bounds, counts, room):
            raise too_long()
        return Bounded(room[:, :n_events].T, *counts.tolist())

    def sums(
        self, columns: Mapping[str, NDArray[Any]], n_events: int, runs: Runs, out: Ints
    ) -> Bounded:
        """Bounds the events of runs, and adds up their products.

        Args:
          out: (cells, D), added to.

        Returns:
          No rows, and counts.
        """
        assert kernels is not None
        counts = np.zeros(2, dtype=np.int64)
        value = self._given(columns, n_events)
        about = self.ends, self.shape, self.bounds, counts
        if not kernels.event_sums(value, *about, *runs, out, self.kind):
            raise too_long()
        return Bounded(None, *counts.tolist())

    def _given(
        self, columns: Mapping[str, NDArray[Any]], n_events: int
    ) -> tuple[NDArray[np.float64], ...]:
        value = tuple(in_one_piece(np.asarray(columns[n], dtype=np.float64)) for n in self.names)
        if any(column.shape != (n_events,) for column in value):
            raise ValueError(f"columns are not of {n_events} events each.")
        return value

"""Cells of users: what counts once of all events that one user has in a key and tick.

Behind the cap a batch holds whole cells, the rows of each in one piece. What a cell adds sits on
its first row, and is 0 on the others, so that row i of what is bounded still belongs to event i.

**Same bits.** Sums within a cell are of whole numbers below 2^61 in all: exact, whatever the order
of its rows. An average is one division of such a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import WeirError
from weir.dpcore.leaves.lattice import resolution_for

CELL, NEW = "@cell", "@new"
"""Columns behind the cap: the number of a row's cell within its batch; whether the user has no
earlier cell of the same key in the period."""

BITS = 20
"""Of the lattice of a cell's result. Its rows have as many more as their number has, so that what
rounding them adds up to is below one step of the result."""


class Cells(NamedTuple):
    """Cells of a batch.

    Attributes:
      starts: (m,) first row of each. counts: (m,) rows of each. new: (m,) bool, whether it is the
        first of its user and key in the period.
    """

    starts: Ints
    counts: Ints
    new: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], n_events: int, most: int) -> Cells:
        """Cells as the columns of a batch have them.

        Args:
          columns: ``@cell`` (n,) int64 and ``@new`` (n,) bool among them. most: rows of a cell.

        Raises:
          WeirError: a cell in two pieces, or of more rows: sums of it would be of no use.
        """
        cells = np.asarray(columns[CELL])
        starts = np.flatnonzero(np.concatenate([[n_events > 0], cells[1:] != cells[:-1]]))
        own = cells[starts]
        if not (own[1:] > own[:-1]).all() and len(np.unique(own)) < len(own):
            raise WeirError("a user's events of a cell are not in one piece.")
        counts = np.diff(starts, append=n_events)
        if len(counts) and counts.max() > most:
            raise WeirError(f"a user has more events in a cell than their cap, {most}.")
        return cls(starts, counts, np.asarray(columns[NEW], dtype=bool)[starts])

    def totals(self, values: Floats, bound: float, most: int) -> Floats:
        """Each cell's sum: (n,) -> (m,). What is not finite counts as 0.

        A value counts for 2^(61 - b) steps of 2^-(20 + b) of the bound at most, b the bits of the
        number of rows: 512 times the bound, or far more where there are fewer than 65,536.
        """
        finite = np.where(np.isfinite(values), values, 0.0)
        return self._sums(finite, bound, most)

    def averages(self, values: Floats, low: float, high: float, most: int) -> Floats:
        """Each cell's mean of values in [low, high]: (n,) -> (m,), in [low, high]."""
        centre = (low + high) / 2
        half = max(abs(low - centre), abs(high - centre))
        sums = self._sums(values - centre, half, most)
        return np.asarray(np.clip(sums / self.counts + centre, low, high))

    def _sums(self, values: Floats, bound: float, most: int) -> Floats:
        bits = most.bit_length()
        step = resolution_for(bound, BITS + bits)
        largest = float(1 << (61 - bits))
        with np.errstate(over="ignore"):
            whole = np.rint(values * (1.0 / step))
        whole = np.clip(whole, -largest, largest).astype(np.int64)
        if not len(self.starts):
            return np.zeros(0)
        return np.add.reduceat(whole, self.starts).astype(np.float64) * step

    def once(self, coordinate: Ints) -> Ints:
        """Coordinates (n,), -1 where a row before it in its cell has the same: each counts once."""
        out = np.full(len(coordinate), -1, dtype=np.int64)
        some = np.flatnonzero(coordinate >= 0)
        if some.size:
            cell = np.repeat(np.arange(len(self.starts)), self.counts)[some]
            code = cell * (int(coordinate.max()) + 1) + coordinate[some]
            first = some[np.unique(code, return_index=True)[1]]
            out[first] = coordinate[first]
        return out

    def on_first_rows(self, amount: Floats | int, n_events: int) -> Floats:
        """What each cell adds (m,), on its first row: (n,)."""
        out = np.zeros(n_events)
        out[self.starts] = amount
        return out

"""Channels: bounded numbers that an event, or a user's cell, adds to an exact sum.

Cells of users: what counts once of all events that one user has in a key and tick.

Behind the cap a batch holds whole cells, the rows of each in one piece. What a cell adds sits on
its first row, and is 0 on the others, so that row i of what is bounded still belongs to event i.

**Same bits.** Sums within a cell are of whole numbers of at most 2^61 in all: exact, whatever the
order of its rows. An average is one division of such a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.joint import ChannelGroup
from weir.dpcore.algorithm import Takes
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import WeirError
from weir.dpcore.leaves.lattice import resolution_for

CELL, NEW, GAP = "@cell", "@new", "@gap"
"""Columns behind the cap: the number of a row's cell within its batch; whether the user has no
earlier cell of the same key in the period; ticks since the user's last cell of the same key, 0
where that is longer ago than anybody asks."""

BITS = 20
"""Of the lattice of a cell's result. Its rows have as many more as their number has, so that what
rounding them adds up to is below one step of the result."""


class UserCells(NamedTuple):
    """Cells of a batch.

    Attributes:
      starts: (m,) first row of each. counts: (m,) rows of each. new: (m,) bool, whether it is the
        first of its user and key in the period. gaps: (m,) ticks since the last one of its user and
        key, 0 where it is long ago; None: nobody asks.
    """

    starts: Ints
    counts: Ints
    new: NDArray[np.bool_]
    gaps: Ints | None = None

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]], n_events: int, most: int) -> UserCells:
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
            raise WeirError(f"a user has more events in a cell than their bound, {most}.")
        gaps = np.asarray(columns[GAP])[starts] if GAP in columns else None
        return cls(starts, counts, np.asarray(columns[NEW], dtype=bool)[starts], gaps)

    def totals(self, values: Floats, bound: float, most: int) -> Floats:
        """Each cell's sum: (n,) -> (m,). What is not finite counts as 0.

        A value counts for 2^(61 - b) steps of 2^-(20 + b) of the bound at most, b the bits of the
        number of rows: 512 times the bound, or far more where there are fewer than 65,536. In a
        coarser key, where n cells have met, it is for an n-th of that.
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
        largest: Any = float(1 << (61 - bits))
        if self.counts.max(initial=0) > most:
            largest = largest / np.repeat(-(-self.counts // most), self.counts)
        with np.errstate(over="ignore"):
            whole = np.rint(values * (1.0 / step))
        whole = np.clip(whole, -largest, largest).astype(np.int64)
        if not len(self.starts):
            return np.zeros(0)
        return np.add.reduceat(whole, self.starts).astype(np.float64) * step

    def any(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of each row (n,), whether some row of its cell is among ``rows`` (n,)."""
        if not len(self.starts):
            return rows
        return np.repeat(np.logical_or.reduceat(rows, self.starts), self.counts)

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

    def first_of_new(self, coordinate: Ints | None) -> Ints:
        """Coordinates (n,) of the first row of each cell that is new, -1 elsewhere."""
        assert coordinate is not None
        out = np.full(len(coordinate), -1, dtype=np.int64)
        first = self.starts[self.new]
        out[first] = coordinate[first]
        return out

    def by_gap(self, span: int, n_events: int) -> Ints:
        """Coordinates (n,) of first rows: 0 for a gap of one tick, span - 1 for one of ``span`` and
        more; -1 on the others."""
        if self.gaps is None:
            raise WeirError("nothing says when users had their last cells.")
        out = np.full(n_events, -1, dtype=np.int64)
        out[self.starts] = np.where(self.gaps == 0, span, np.minimum(self.gaps, span)) - 1
        return out

    def on_first_rows(self, amount: Floats | int, n_events: int) -> Floats:
        """What each cell adds (m,), on its first row: (n,)."""
        out = np.zeros(n_events)
        out[self.starts] = amount
        return out


ChannelKind = Literal["count", "value", "square", "bins", "sizes", "parts", "signs"]
BY_SIZE = ("sizes", "parts", "signs")
"""Kinds of a learned clip, by bins of |x|: how many, their sum in steps of their bin's edge / 2^20,
and how many are above 0 less how many are below."""
Presence = Literal["present", "absent"]
"""Of events that have a finite number in a column, or of the others."""


class Contribution(NamedTuple):
    """What events add to one channel, on the lattice.

    Attributes:
      coordinate: (n,) int64 offset inside the channel, -1 = nothing; or None where the channel has
        one coordinate.
      amount: (n,) float64 of whole numbers, or one int that every event adds.
    """

    coordinate: Ints | None
    amount: Floats | int


class ChannelGate(NamedTuple):
    """Which events count in a channel.

    Attributes:
      where: public predicate that they satisfy; None: any does. column, presence: a number that
        they have or lack. cells: whether no event of the user's cell has it.
    """

    where: str | None = None
    column: str | None = None
    presence: Presence | None = None
    cells: bool = False


@dataclass(frozen=True)
class Channel:
    """One group of coordinates.

    count: 1 per event. value: clip(x) - centre. square: (clip(x) - centre)^2 - half^2 / 2, which
    halves the sensitivity of the bare square. bins: 1 in the bin that x falls in. Of users, x is
    their own average or sum, and a user is in each bin of a cell once.

    Attributes:
      kind: see above.
      column: which number it reads; None for count.
      low, high: public clip of the column, in the user's unit.
      centre: subtracted before summing (public).
      edges: of the bins; () otherwise.
      resolution: one lattice step in the user's unit (for square: the unit squared); a power of
        two.
      takes: what counts. events: of a user in a cell at most; 1 where the unit is an event.
      where: predicate of the events that count; None: all do.
      presence: which of them count by the column; None: all, a value that is no number as 0. A
        user of a cell is absent if none of their events there has a number.
      full: whether a user counts only in cells that hold as many of their events as they may.
      span: of active users the longest span that is asked for: a cell is counted in one of so many
        coordinates, by the ticks since the last one of its user and key.
    """

    kind: ChannelKind
    column: str | None = None
    low: float = 0.0
    high: float = 0.0
    centre: float = 0.0
    edges: tuple[float, ...] = ()
    resolution: float = 1.0
    takes: Takes = "events"
    events: int = 1
    where: str | None = None
    presence: Presence | None = None
    full: bool = False
    span: int = 1

    @classmethod
    def make(
        cls,
        kind: ChannelKind,
        column: str | None = None,
        clip: tuple[float, float] = (0.0, 0.0),
        centre: float = 0.0,
        edges: tuple[float, ...] = (),
        takes: Takes = "events",
        events: int = 1,
        where: str | None = None,
        presence: Presence | None = None,
        full: bool = False,
        span: int = 1,
    ) -> Channel:
        """A channel with the resolution that fits its bound."""
        bare = cls(kind, column, *clip, centre, edges, 1.0, takes, events, where)
        bare = replace(bare, presence=presence, full=full, span=span)
        if kind in BY_SIZE:
            return bare
        return replace(bare, resolution=resolution_for(bare.bound))

    @property
    def half(self) -> float:
        """Largest distance of a clipped value from the centre, the user's unit."""
        return max(abs(self.low - self.centre), abs(self.high - self.centre))

    @property
    def size(self) -> int:
        """How many coordinates."""
        return len(self.edges) - 1 if self.edges else self.span

    @property
    def width(self) -> int:
        """How many numbers of it are released."""
        if self.kind in BY_SIZE:  # the sum and its clip stand in the place of one
            return 2 if self.kind == "sizes" else 0
        return 1 if self.takes == "active" else self.size

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest contribution of an event that is there."""
        if self.kind == "value":
            return self.low - self.centre, self.high - self.centre
        if self.kind == "square":
            return -(self.half**2) / 2, self.half**2 / 2
        return (0.0 if self.full else 1.0), 1.0

    @property
    def bound(self) -> float:
        """Largest absolute contribution of one event, or of one user to a cell."""
        return max(abs(limit) for limit in self.limits)

    @property
    def times(self) -> int:
        """How often that comes in one cell of a user, in one coordinate."""
        return self.events if self.takes == "events" else 1

    @property
    def gate(self) -> ChannelGate:
        """Which events count in it."""
        if self.presence is None:
            return ChannelGate(self.where)
        cells = self.takes != "events" and self.presence == "absent"
        return ChannelGate(self.where, self.column, self.presence, cells)

    def group(self, start: int) -> ChannelGroup:
        """For the accountant: bounds in lattice steps, those that ``contribution`` enforces."""
        low, high = (int(np.trunc(limit / self.resolution)) for limit in self.limits)
        gate = self.where or ""
        if self.takes == "active":
            return ChannelGroup(start, self.size, 0, high, True)
        if self.kind == "bins":
            distinct = self.takes != "events"
            return ChannelGroup(start, self.size, 0, high, True, self.events, distinct, gate)
        common = ChannelGroup(start, self.size, low, high, events=self.times, gate=gate)
        if self.presence is None:
            return common
        # A cell of a user may hold events of both kinds; the user is of one.
        column = f"{self.takes} {self.column}"
        return replace(common, column=column, absent=self.presence == "absent")

    def of_users(self, cells: UserCells, contribution: Contribution, n_events: int) -> Contribution:
        """What users add, each where it counts. contribution: ``contribution`` of values (m,), one
        a cell;
        of (n,) for bins."""
        if self.takes == "active":
            return Contribution(cells.by_gap(self.span, n_events), contribution.amount)
        if self.kind == "sizes":
            return Contribution(cells.first_of_new(contribution.coordinate), contribution.amount)
        if contribution.coordinate is not None:
            return Contribution(cells.once(contribution.coordinate), contribution.amount)
        amount = contribution.amount
        if self.takes == "newcomers":
            amount = np.where(cells.new, amount, 0)
        if self.full:
            amount = np.where(cells.counts == self.events, amount, 0)
        return Contribution(None, cells.on_first_rows(amount, n_events))

    def contribution(self, values: NDArray[np.float64] | None) -> Contribution:
        """Lattice contributions of events. values: (n,) float64 finite and clipped (bins: raw)."""
        step = self.resolution
        if self.kind == "count" or values is None:
            return Contribution(None, round(1.0 / step))
        if self.kind in BY_SIZE:
            return self._by_size(values)
        if self.kind == "bins":
            edges = np.asarray(self.edges)
            index = np.searchsorted(edges, values, side="right") - 1
            index[values == edges[-1]] = (
                self.size - 1
            )  # the last bin is closed, as in numpy.histogram
            index[(index < 0) | (index >= self.size) | np.isnan(values)] = -1
            return Contribution(index.astype(np.int64), round(1.0 / step))
        amount = values - self.centre
        if self.kind == "square":
            amount = amount * amount - self.half**2 / 2
        amount *= 1.0 / step
        # To the nearest step: truncation would pull every event the same way, and sums of millions
        # of events by more than the noise. Rounding may pass the bound: the bound is enforced.
        np.rint(amount, out=amount)
        low, high = (np.trunc(limit / step) for limit in self.limits)
        np.clip(amount, low, high, out=amount)
        return Contribution(None, amount)

    def _by_size(self, values: NDArray[np.float64]) -> Contribution:
        """By bins of |x|; nothing of 0 and of what is no finite number."""
        edges = np.asarray(self.edges[1:])
        size = np.minimum(np.abs(values), edges[-1])
        index = np.minimum(np.searchsorted(edges, size), len(edges) - 1).astype(np.int64)
        index[~np.isfinite(values) | (values == 0)] = -1
        if self.kind == "sizes":
            return Contribution(index, 1)
        sign = np.where(np.isfinite(values), np.sign(values), 0.0)
        if self.kind == "signs":
            return Contribution(index, sign)
        steps = np.trunc(np.nan_to_num(size) / edges[index] * 2.0**20)
        return Contribution(index, sign * np.minimum(steps, 2.0**20))

    def canonical(self) -> Mapping[str, Any]:
        """Public numbers that shape a release."""
        return {
            "kind": self.kind,
            "column": self.column,
            "low": float(self.low).hex(),
            "high": float(self.high).hex(),
            "centre": float(self.centre).hex(),
            "edges": [float(edge).hex() for edge in self.edges],
            "resolution": float(self.resolution).hex(),
            **({} if self.events == 1 else {"events": self.events}),
            **({} if self.takes == "events" else {"takes": self.takes}),
            **({} if self.where is None else {"where": self.where}),
            **({} if self.presence is None else {"presence": self.presence}),
            **({"full": True} if self.full else {}),
            **({} if self.span == 1 else {"span": self.span}),
        }

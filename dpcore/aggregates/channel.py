"""Channels: bounded numbers that an event, or a user's cell, adds to an exact sum.

Cells of users: what counts once of all events that one user has in a key and tick.

Behind the cap a batch holds whole cells, the rows of each in one piece. What a cell adds sits on
its first row, and is 0 on the others, so that row i of what is bounded still belongs to event i.

**Same bits.** Sums within a cell are of whole numbers below 2^61 in all: exact, whatever the order
of its rows. An average is one division of such a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
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


ChannelKind = Literal["count", "value", "square", "bins"]


class Contribution(NamedTuple):
    """What events add to one channel, on the lattice.

    Attributes:
      coordinate: (n,) int64 offset inside the channel, -1 = nothing; or None where the channel has
        one coordinate.
      amount: (n,) float64 of whole numbers, or one int that every event adds.
    """

    coordinate: Ints | None
    amount: Floats | int


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
    span: int = 1

    @classmethod
    def make(
        cls,
        kind: ChannelKind,
        column: str | None = None,
        clip: tuple[float, float] = (0.0, 0.0),
        centre: float = 0.0,
        edges: tuple[float, ...] = (),
        whole: bool = False,
        takes: Takes = "events",
        events: int = 1,
        where: str | None = None,
        span: int = 1,
    ) -> Channel:
        """A channel with the resolution that fits its bound (``whole``: counts on the integers)."""
        bare = cls(kind, column, *clip, centre, edges, 1.0, takes, events, where, span)
        if whole and kind in ("count", "bins"):
            return bare
        return replace(bare, resolution=resolution_for(bare.bound))

    @property
    def half(self) -> float:
        """Largest distance of a clipped value from the centre, the user's unit."""
        return max(abs(self.low - self.centre), abs(self.high - self.centre))

    @property
    def size(self) -> int:
        """How many coordinates."""
        return len(self.edges) - 1 if self.kind == "bins" else self.span

    @property
    def width(self) -> int:
        """How many numbers of it are released."""
        return 1 if self.takes == "active" else self.size

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest contribution of an event that is there."""
        if self.kind == "value":
            return self.low - self.centre, self.high - self.centre
        if self.kind == "square":
            return -(self.half**2) / 2, self.half**2 / 2
        return 1.0, 1.0

    @property
    def bound(self) -> float:
        """Largest absolute contribution of one event, or of one user to a cell."""
        return max(abs(limit) for limit in self.limits)

    @property
    def times(self) -> int:
        """How often that comes in one cell of a user, in one coordinate."""
        return self.events if self.takes == "events" else 1

    def group(self, start: int) -> ChannelGroup:
        """For the accountant: bounds in lattice steps, those that ``contribution`` enforces."""
        low, high = (int(np.trunc(limit / self.resolution)) for limit in self.limits)
        gate = self.where or ""
        if self.takes == "active":
            return ChannelGroup(start, self.size, 0, high, True)
        if self.kind == "bins":
            distinct = self.takes != "events"
            return ChannelGroup(start, self.size, 0, high, True, self.events, distinct, gate)
        return ChannelGroup(start, self.size, low, high, events=self.times, gate=gate)

    def of_users(self, cells: UserCells, contribution: Contribution, n_events: int) -> Contribution:
        """What users add, each where it counts. contribution: ``contribution`` of values (m,), one
        a cell;
        of (n,) for bins."""
        if self.takes == "active":
            return Contribution(cells.by_gap(self.span, n_events), contribution.amount)
        if contribution.coordinate is not None:
            return Contribution(cells.once(contribution.coordinate), contribution.amount)
        amount = (
            np.where(cells.new, contribution.amount, 0)
            if self.takes == "newcomers"
            else contribution.amount
        )
        return Contribution(None, cells.on_first_rows(amount, n_events))

    def contribution(self, values: NDArray[np.float64] | None) -> Contribution:
        """Lattice contributions of events. values: (n,) float64 finite and clipped (bins: raw)."""
        step = self.resolution
        if self.kind == "count" or values is None:
            return Contribution(None, round(1.0 / step))
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
            **({} if self.span == 1 else {"span": self.span}),
        }


@dataclass
class Layout:
    """Channels as outputs ask for them: equal ones are one.

    Attributes:
      whole: counts live on the integers (discrete noise).
      centred: (where, column, low, high) whose middle is taken off: a sum over a column and clip
        whose mean is asked too is (centred sum) + centre * count, one channel less.
      events: of a user in a cell at most; 1 where the unit is an event.
      channels: so far, in the order of a leaf.
      where: predicate of the events that count in channels that are asked for; None: all do.
      span: the longest span of ticks for which active users are asked.
    """

    whole: bool
    centred: Set[tuple[str | None, str, float, float]]
    events: int = 1
    channels: list[Channel] = field(default_factory=list)
    where: str | None = None
    span: int = 1

    def under(self, where: str | None) -> Layout:
        """The same channels, to be asked for those of the events that satisfy a predicate."""
        return replace(self, where=where)

    def add(self, kind: ChannelKind, **fields: Any) -> int:
        """Index of a channel; fields: as of ``Channel.make``."""
        channel = Channel.make(kind, events=self.events, where=self.where, **fields)
        if channel not in self.channels:
            self.channels.append(channel)
        return self.channels.index(channel)

    def count(self, takes: Takes = "events") -> int:
        """Index of the number of events, or of users."""
        span = self.span if takes == "active" else 1
        return self.add("count", whole=self.whole, takes=takes, span=span)

    def value(
        self, column: str, low: float, high: float, takes: Takes = "events"
    ) -> tuple[int, float]:
        """Index of the sum of a clipped column, of each user's average or total of it; and what is
        taken off each value."""
        centred = takes == "users" or (
            takes == "events" and (self.where, column, low, high) in self.centred
        )
        centre = (low + high) / 2 if centred else 0.0
        at = self.add("value", column=column, clip=(low, high), centre=centre, takes=takes)
        return at, centre

    def square(self, column: str, low: float, high: float, takes: Takes = "events") -> int:
        """Index of the sum of squares of a centred column, or of each user's average of it."""
        centre = (low + high) / 2
        return self.add("square", column=column, clip=(low, high), centre=centre, takes=takes)

    def bins(self, column: str, edges: tuple[float, ...], takes: Takes = "events") -> int:
        """Index of the counts of events, or of users, by a column's value."""
        return self.add("bins", column=column, edges=edges, whole=self.whole, takes=takes)

"""A channel: one group of coordinates of a leaf, and what an event may contribute to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.joint import ChannelGroup
from weir.dpcore.aggregates.cells import Cells
from weir.dpcore.algorithm import Takes
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.lattice import resolution_for

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
    ) -> Channel:
        """A channel with the resolution that fits its bound (``whole``: counts on the integers)."""
        bare = cls(kind, column, clip[0], clip[1], centre, edges)
        counted = kind in ("count", "bins")
        resolution = 1.0 if counted and whole else resolution_for(bare.bound)
        low, high = clip
        return cls(kind, column, low, high, centre, edges, resolution, takes, events, where)

    @property
    def half(self) -> float:
        """Largest distance of a clipped value from the centre, the user's unit."""
        return max(abs(self.low - self.centre), abs(self.high - self.centre))

    @property
    def size(self) -> int:
        """How many coordinates."""
        return len(self.edges) - 1 if self.kind == "bins" else 1

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
        if self.kind == "bins":
            distinct = self.takes != "events"
            return ChannelGroup(start, self.size, 0, high, True, self.events, distinct, gate)
        return ChannelGroup(start, self.size, low, high, events=self.times, gate=gate)

    def of_users(self, cells: Cells, one: Contribution, n_events: int) -> Contribution:
        """What users add, each where it counts. one: ``contribution`` of values (m,), one a cell;
        of (n,) for bins."""
        if one.coordinate is not None:
            return Contribution(cells.once(one.coordinate), one.amount)
        amount = np.where(cells.new, one.amount, 0) if self.takes == "newcomers" else one.amount
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
        }

"""Events clipped, rounded and summed in one pass, where every one counts in every channel.

``Predicated``, ``Channel.contribution`` and ``lattice.sum_cells`` take several passes to the same
bits, and take all channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.aggregates.channel import Channel, ChannelGate
from weir.dpcore.arrays import Ints, in_one_piece
from weir.dpcore.leaves.lattice import EXACT
from weir.dpcore.native import kernels
from weir.dpcore.program import Bounded, EventCells

KINDS = {"count": 0, "value": 1, "square": 2}
MOST_COLUMNS = 64
CHANNEL = np.dtype(
    [
        *((name, "<i8") for name in ("kind", "column", "counts_moved", "counts_void")),
        *((name, "<f8") for name in ("low", "high", "centre", "offset", "unit", "least", "most")),
    ]
)
"""What the kernel reads of a channel (``native/sums.c``)."""


class EventSums(NamedTuple):
    """The kernel for the channels of a leaf.

    Attributes:
      columns: that it reads, in order. channels: (D,) of ``CHANNEL``.
    """

    columns: tuple[str, ...]
    channels: NDArray[Any]

    @classmethod
    def of(cls, channels: Sequence[Channel]) -> EventSums | None:
        """None where there are no kernels, or a channel is not for them."""
        columns = tuple(dict.fromkeys(c.column for c in channels if c.column is not None))
        if kernels is None or len(columns) > MOST_COLUMNS or not all(map(_is_plain, channels)):
            return None
        table = np.zeros(len(channels), CHANNEL)
        moved, void = set[Any](), set[str | None]()
        for row, channel in zip(table, channels, strict=True):
            least, most = (float(np.trunc(limit / channel.resolution)) for limit in channel.limits)
            unit = 1.0 / channel.resolution
            if channel.kind == "count":
                row["most"] = round(unit)
                continue
            clip = channel.column, channel.low, channel.high
            row["kind"], row["column"] = KINDS[channel.kind], columns.index(str(channel.column))
            row["counts_moved"] = clip not in moved
            row["counts_void"] = channel.column not in void
            row["low"], row["high"], row["centre"] = channel.low, channel.high, channel.centre
            row["offset"], row["unit"] = channel.half**2 / 2, unit
            row["least"], row["most"] = least, most
            moved.add(clip)
            void.add(channel.column)
        largest = max(float(np.abs(table[name]).max()) for name in ("least", "most"))
        return cls(columns, table) if largest <= EXACT else None

    def add(self, columns: Mapping[str, NDArray[Any]], cells: EventCells, grid: Ints) -> Bounded:
        """See ``Program.add_events``."""
        assert kernels is not None
        values = tuple(in_one_piece(columns[name]) for name in self.columns)
        shape, counts = np.array([cells.first, grid.shape[1]]), np.zeros(2, dtype=np.int64)
        named = [in_one_piece(one) for one in (cells.ticks, cells.codes, cells.rows)]
        kernels.add_events(values, *named, self.channels, shape, counts, grid)
        return Bounded((), *counts.tolist())


def _is_plain(channel: Channel) -> bool:
    """Whether each event adds a number to its one coordinate."""
    everything = channel.gate == ChannelGate() and channel.takes == "events"
    return everything and channel.kind in KINDS and not channel.edges and not channel.full

"""Values of channels: what is missing or not finite is 0, then the clip, once a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.aggregates.cells import Cells
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.arrays import Floats
from weir.dpcore.leaves.clip import clip_values


@dataclass
class Clips:
    """Clipped values of a batch.

    Attributes:
      columns: of the batch. cells: of its users; None where the unit is an event.
      clipped, non_finite: values that were moved, and that were no numbers, so far.
    """

    columns: Mapping[str, NDArray[Any]]
    cells: Cells | None
    clipped: int = 0
    non_finite: int = 0
    _kept: dict[tuple[str, float, float, bool], Floats] = field(default_factory=dict)
    _counted: set[str] = field(default_factory=set)

    def of(self, channel: Channel) -> Floats | None:
        """(n,) a value an event, or (m,) one a cell of a user; raw for bins, None for a count."""
        if channel.column is None:
            return None
        raw = np.asarray(self.columns[channel.column], dtype=np.float64)
        if channel.kind == "bins":
            return raw
        if channel.takes == "events":
            return self._clipped(channel, raw)
        assert self.cells is not None
        low, high, most = channel.low, channel.high, channel.events
        if channel.takes == "totals":
            return self._clipped(channel, raw, most)
        return self.cells.averages(self._clipped(channel, raw), low, high, most)

    def _clipped(self, channel: Channel, raw: Floats, total_of: int = 0) -> Floats:
        """Clipped values, or totals of cells of so many rows."""
        assert channel.column is not None
        low, high = channel.low, channel.high
        spot = (channel.column, low, high, bool(total_of))
        if spot not in self._kept:
            bad = np.count_nonzero(~np.isfinite(raw)) if total_of else 0
            if total_of:
                assert self.cells is not None
                raw = self.cells.totals(raw, max(abs(low), abs(high)), total_of)
            self._kept[spot], over, found = clip_values(raw, low, high)
            self.clipped += over
            if channel.column not in self._counted:
                self.non_finite += int(bad) + found
                self._counted.add(channel.column)
        return self._kept[spot]

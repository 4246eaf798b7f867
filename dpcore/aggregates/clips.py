"""Values of channels: what is missing or not finite is 0, then the clip, once a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.aggregates.cells import Cells
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.clip import clip_values


@dataclass
class Clips:
    """Clipped values of a batch.

    Attributes:
      columns: of the batch. cells: of its users; None where the unit is an event.
      clipped: values that were moved, so far.
      missing: column -> (m,) events in which it is no number, each once however many channels read
        it. Infinity is one to bins, which hold it.
    """

    columns: Mapping[str, NDArray[Any]]
    cells: Cells | None
    clipped: int = 0
    missing: dict[str, Ints] = field(default_factory=dict)
    _kept: dict[tuple[str, float, float, bool], Floats] = field(default_factory=dict)
    _looked: set[tuple[str, Any]] = field(default_factory=set)

    def of(self, channel: Channel) -> Floats | None:
        """(n,) a value an event, or (m,) one a cell of a user; raw for bins, None for a count."""
        if channel.column is None:
            return None
        raw = np.asarray(self.columns[channel.column], dtype=np.float64)
        if channel.kind == "bins":
            self._note(channel.column, raw, np.isnan)
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
            whole = raw
            if total_of:
                assert self.cells is not None
                raw = self.cells.totals(raw, max(abs(low), abs(high)), total_of)
            self._kept[spot], over, bad = clip_values(raw, low, high)
            self.clipped += over
            if bad or total_of:
                self._note(channel.column, whole, _not_finite)
        return self._kept[spot]

    def _note(self, column: str, raw: Floats, void: Callable[[Floats], Any]) -> None:
        """Remembers which values of a column are no numbers, by what tells them."""
        if (column, void) not in self._looked:
            self._looked.add((column, void))
            bad = np.flatnonzero(void(raw))
            self.missing[column] = np.union1d(bad, self.missing.get(column, bad[:0]))


def _not_finite(values: Floats) -> Any:
    return ~np.isfinite(values)

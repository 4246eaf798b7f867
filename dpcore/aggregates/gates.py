"""Events that an aggregate's own predicate lets in, and what they add: of the others nothing.

What an event adds to a channel behind a gate is what it adds without, or nothing at all. So nothing
that bounds it grows: see ``dpcore.accounting.joint`` for what a neighbour changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.aggregates.cells import CELL, Cells
from weir.dpcore.aggregates.channel import Channel, Contribution
from weir.dpcore.aggregates.clips import Clips
from weir.dpcore.arrays import Ints

GATE = "@where "
"""With the text of a predicate, the name of a column: 1 where an event satisfies it, else 0."""


class Gated(NamedTuple):
    """Events of a batch that count in the channels of a gate.

    Attributes:
      rows: (m,) which of them; None: all. n_events: of the batch. clips: of those that count.
    """

    rows: Ints | None
    n_events: int
    clips: Clips

    @classmethod
    def of(
        cls, columns: Mapping[str, NDArray[Any]], n_events: int, where: str | None, most: int
    ) -> Gated:
        """Those that satisfy a predicate. most: events of a user in a cell.

        Cells of users are those of the events that count: what a user adds is bounded alike.
        """
        rows, n = None, n_events
        if where is not None:
            rows = np.flatnonzero(np.asarray(columns[GATE + where]) == 1)
            n = len(rows)
            columns = {name: column[rows] for name, column in columns.items()}
        cells = Cells.of(columns, n, most) if CELL in columns else None
        return cls(rows, n_events, Clips(columns, cells))

    def contribution(self, channel: Channel) -> tuple[Contribution, int]:
        """What the events of the batch add, nothing where they do not count; and how many of those
        that do have a number that lies in no bin."""
        values = self.clips.of(channel)
        found = channel.contribution(values)
        outside = 0
        if found.coordinate is not None and values is not None:
            outside = int(np.count_nonzero(found.coordinate < 0))
            outside -= int(np.count_nonzero(np.isnan(values))) if outside else 0
        if channel.takes != "events":
            assert self.clips.cells is not None
            n = self.n_events if self.rows is None else len(self.rows)
            found = channel.of_users(self.clips.cells, found, n)
        return (found if self.rows is None else self._spread(found, self.rows)), outside

    @property
    def missing(self) -> Mapping[str, Ints]:
        """Column -> events of the batch that count and in which it is no number."""
        own = self.clips.missing
        return own if self.rows is None else {name: self.rows[at] for name, at in own.items()}

    def _spread(self, found: Contribution, rows: Ints) -> Contribution:
        """Of the events that count -> of all."""
        if found.coordinate is not None:
            coordinate = np.full(self.n_events, -1, dtype=np.int64)
            coordinate[rows] = found.coordinate
            return found._replace(coordinate=coordinate, amount=self._amount(found, rows))
        amount = np.zeros(self.n_events)
        amount[rows] = found.amount
        return Contribution(None, amount)

    def _amount(self, found: Contribution, rows: Ints) -> Any:
        if isinstance(found.amount, int):
            return found.amount
        amount = np.zeros(self.n_events)
        amount[rows] = found.amount
        return amount

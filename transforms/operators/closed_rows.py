"""Which events of closed ticks a shard of users has had: what comes again is a copy, not overdue.

After a crash messages come again that the stored state has, and their ticks may be closed by then.
So of each event with an id 16 bytes are remembered for a while after its tick was closed: a sum of
its keyed hashes, those of user, tick and id, and of user and key. Only an event behind its tick is
looked up. What becomes of releases does not depend on it: neither counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.leaves.clock import Clock
from weir.transforms.columns.names import HIGH, LOW
from weir.transforms.operators.timed_cells import Bag
from weir.transforms.operators.users import HAS_ID, PAIR_HIGH, PAIR_LOW, words
from weir.transforms.runtime.codec import pack, unpack
from weir.transforms.runtime.stream_time import StreamTime

ROWS = b"R"
"""Kind of bytes."""
SECONDS = 600
"""For so long, at least, events are remembered: messages that a crash repeats come again within
some intervals of checkpoints, and an ack deadline."""
BAGS = 2
_ODD = np.uint64(0x9E3779B97F4A7C15)


def width_of(clock: Clock, stream: StreamTime) -> int:
    """Ticks for which events are remembered, at least; and at most twice as many."""
    return max(1, -(-int(SECONDS * 1e6 * stream.speed) // clock.period))


class ClosedRows:
    """What a shard remembers: a turn of ``width`` ticks and the one before it, a bag each.

    Args:
      bags: of the shard, ``BAGS`` of them. layout: of the plan. width: see ``width_of``.
    """

    def __init__(self, bags: Sequence[Bag], layout: bytes, width: int) -> None:
        self._bags, self._layout, self._width = bags, layout, width

    def add(self, batch: pa.RecordBatch, following: int) -> None:
        """Remembers events. following: the next tick to close, at the time when they are added."""
        marks = _marks(batch)
        if len(marks):
            bag = self._bags[following // self._width % BAGS]
            bag.add(pack(ROWS, [marks.reshape(-1)], self._layout))

    def turn(self, following: int, stop: int) -> None:
        """Ticks from ``following`` to before ``stop`` are closed: forgets what is too old."""
        before, now = following // self._width, stop // self._width
        for turn in range(max(before + 1, now - BAGS + 1), now + 1):
            self._bags[turn % BAGS].clear()

    def known(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """(n,) which of some events are copies of remembered ones; none without an id is."""
        stored = [unpack(ROWS, data, self._layout)[0] for bag in self._bags for data in bag.read()]
        result = np.zeros(batch.num_rows, dtype=bool)
        if stored:
            with_id = batch.column(HAS_ID).to_numpy(zero_copy_only=False)
            result[with_id] = np.isin(_whole(_marks(batch)), _whole(np.concatenate(stored)))
        return result


def _marks(batch: pa.RecordBatch) -> NDArray[np.uint64]:
    """(m, 2) of the events with an id."""
    with_id = batch.column(HAS_ID).to_numpy(zero_copy_only=False)
    marks: NDArray[np.uint64] = words(batch, HIGH, LOW) + _ODD * words(batch, PAIR_HIGH, PAIR_LOW)
    return np.ascontiguousarray(marks[with_id])


def _whole(marks: NDArray[np.uint64]) -> NDArray[np.void]:
    """Pairs of words as one value each."""
    return np.ascontiguousarray(marks).reshape(-1, 2).view("V16").reshape(-1)


__all__ = ["BAGS", "ClosedRows", "width_of"]

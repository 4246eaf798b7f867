"""Which records of an id count: the rule by which a set of ids is asked and added to.

**What one event decides.** Whether a record counts is a function of the records of its own id: of
the batches that they come in, and of their ticks. With a horizon of h ticks a record counts again
where its tick is more than h ahead of that of the last one that counted; without one it never
does. Ids are forgotten only when the clock is more than h ahead of their tick: a later copy that is
not overdue has a tick that the rule would let count anyway, so being forgotten changes nothing. And
*when* an id is forgotten follows from its own tick and the public clock, whatever is beside it
(``transforms.select.timed_cells``), so that copies that are overdue tell nothing of others either.
Hence the records of one id, there or not, change what counts of that id and of nothing else.

**Under replace_one** the content of an event must not decide in which cell (key, tick) it counts:
the sensitivity is that of a change within one cell. Of copies in one batch the one of the first
cell is kept, by tick and key, whatever else they hold. Of copies that come in several batches the
first counts. Content does not order batches, but it is not without a say there: a longer record may
move the boundary between two bundles, and one that ``where`` turns away never comes here. So
the statement compares streams in which all records of an event are of one cell, the same in both:
then every choice ends in that cell, and v turns into v' there (or into nothing, where ``where`` is
priced). Of an id with records of several cells, a content can move the event from one cell to
another: that is ``replace_anywhere``, and priced there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from dpcore.leaves.timed_set import Entries, Ticks, TimedSet, entries, sort_hashes
from transforms.leaves.columns import HIGH, LOW
from transforms.runtime.dead_letters import SOURCE

CELL = ("@tick", "@key")
"""Columns that say where an event counts."""
Ints = NDArray[np.int64]
NO_TICK = np.uint8
"""Type of the ticks of ids that are never forgotten: they are all 0."""


def remember(
    batch: pa.RecordBatch, known: TimedSet, horizon: int | None
) -> tuple[NDArray[np.bool_], Entries]:
    """Which rows count, and what is to be added to what is known.

    Args:
      batch: events with HIGH, LOW and ``@tick``.
      known: ids that were seen, with the tick of the last event of each that counted.
      horizon: ticks behind which an id counts again; None: never, and no ticks are kept.

    Returns:
      (n,) bool, and the ids of the rows that count, sorted by (high, low).
    """
    high = batch.column(HIGH).to_numpy()
    low = batch.column(LOW).to_numpy()
    n = batch.num_rows
    order = sort_hashes(high, low)
    first = np.ones(n, dtype=bool)
    sorted_high, sorted_low = high[order], low[order]
    first[1:] = (sorted_high[1:] != sorted_high[:-1]) | (sorted_low[1:] != sorted_low[:-1])
    if not first.all():
        order = first_cell_first(batch, order, first)
        sorted_high, sorted_low = sorted_high[first], sorted_low[first]
    picked = order[first]
    found = known.find(sorted_high, sorted_low)
    counts = ~found.there
    ticks: Ticks = np.zeros(len(picked), dtype=NO_TICK)
    if horizon is not None:
        ticks = batch.column("@tick").to_numpy()[picked]
        counts |= ticks > found.ticks + horizon
    fresh = np.zeros(n, dtype=bool)
    fresh[picked[counts]] = True
    new = entries(sorted_high, sorted_low, ticks)
    return fresh, new if counts.all() else new.take(counts)


def first_cell_first(batch: pa.RecordBatch, order: Ints, first: NDArray[np.bool_]) -> Ints:
    """Within copies of one id the row of the smallest tick comes first, then of the smallest key,
    then of the smallest content: so the cell that counts does not depend on what copies hold."""
    group = np.cumsum(first) - 1
    crowded = np.flatnonzero(np.bincount(group)[group] > 1)
    rows = order[crowded]
    copies = batch.take(pa.array(rows))
    names = [n for n in copies.schema.names if n not in (HIGH, LOW, "@arrival")]
    cell = [n for n in CELL if n in names]
    last = [n for n in (SOURCE, "@position") if n in names]
    names = [*cell, *(n for n in names if n not in (*cell, *last)), *last]
    content = [rank(copies.column(name)) for name in names]
    order = order.copy()
    order[crowded] = rows[np.lexsort((*reversed(content), group[crowded]))]
    return order


def rank(column: pa.Array) -> Ints:
    """(n,) numbers that order the values of a column: any order, but a function of the values."""
    if pa.types.is_dictionary(column.type) and not column.null_count:
        ranks: Ints = rank(column.dictionary)[column.indices.to_numpy()]
        return ranks
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not column.null_count and pa.types.is_primitive(column.type):
        bits = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        found: NDArray[Any] = bits.to_numpy(zero_copy_only=False)
        return found.view(np.int64) if found.itemsize == 8 else found.astype(np.int64)
    order = pa.compute.rank(column, sort_keys="ascending", tiebreaker="min")
    return np.asarray(order.to_numpy(), dtype=np.int64)

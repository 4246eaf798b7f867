"""Which ids were seen: sorted arrays of 128-bit hashes, merged a batch at a time.

**What one event decides.** Whether a record counts is a function of the records of its own id: of
the batches that they come in, and of their ticks. With a horizon of h ticks a record counts again
where its tick is more than h ahead of that of the last one that counted; without one it never
does. ``forget`` drops ids only when the clock is more than h ahead of their tick: a later copy that
is not overdue has a tick that the rule would let count anyway, so *when* an id is dropped, which
the ids beside it have a say in, changes nothing. Hence the records of one id, there or not, change
what counts of that id and of nothing else.

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

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from transforms.leaves.columns import HIGH, LOW
from transforms.runtime.dead_letters import SOURCE

CELL = ("@tick", "@key")
"""Columns that say where an event counts."""

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


class Seen(NamedTuple):
    """Ids of one shard, sorted by (high, low).

    Attributes:
      high, low: (n,) uint64 words of the hash.
      ticks: (n,) int64, tick of the event; empty where ids are never forgotten.
    """

    high: Words
    low: Words
    ticks: Ints


NO_TICKS = np.zeros(0, dtype=np.int64)
NOTHING = Seen(np.zeros(0, np.uint64), np.zeros(0, np.uint64), NO_TICKS)


def remember(
    batch: pa.RecordBatch, known: Seen, horizon: int | None
) -> tuple[NDArray[np.bool_], Seen]:
    """Which rows count, and what is known afterwards: nothing is forgotten here.

    Args:
      batch: events with HIGH, LOW and ``@tick``.
      known: ids that were seen, with the tick of the last event of each that counted.
      horizon: ticks behind which an id counts again; None: never, and no ticks are kept.
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
    ticks = batch.column("@tick").to_numpy()[picked] if horizon is not None else NO_TICKS
    is_new, merged = merge(known, Seen(sorted_high, sorted_low, ticks), horizon)
    fresh = np.zeros(n, dtype=bool)
    fresh[picked[is_new]] = True
    return fresh, merged


def forget(known: Seen, before: int) -> Seen:
    """Drops ids of events of ticks below ``before``, which the public clock decides.

    Never by another event's time: one event far ahead would make every later copy of other events
    count again, and a single event must change no more than itself.
    """
    alive = known.ticks >= before
    if alive.all():
        return known
    return Seen(known.high[alive], known.low[alive], known.ticks[alive])


def merge(known: Seen, new: Seen, horizon: int | None) -> tuple[NDArray[np.bool_], Seen]:
    """Two sorted sets as one, and which members of the second count: (n,) bool.

    Those are the ones that the first does not hold, or holds with a tick more than ``horizon``
    before: these take the place of the older ones.
    """
    before = len(known.high)
    if not before:
        return np.ones(len(new.high), dtype=bool), new
    high = np.concatenate([known.high, new.high])
    low = np.concatenate([known.low, new.low])
    order = np.argsort(high, kind="stable")  # merges two sorted runs; known ones come first
    twice = high[order[1:]] == high[order[:-1]]
    if np.any(low[order[1:]][twice] != low[order[:-1]][twice]):  # next to impossible
        order = np.lexsort((low, high))
        twice = high[order[1:]] == high[order[:-1]]
        twice &= low[order[1:]] == low[order[:-1]]
    is_new = np.ones(len(new.high), dtype=bool)
    old, again = order[:-1][twice], order[1:][twice]
    is_new[again - before] = False
    kept = order
    if twice.any():
        kept = order[np.concatenate([[True], ~twice])]
    ticks = np.concatenate([known.ticks, new.ticks])
    if horizon is not None and len(old):
        later = ticks[again] > ticks[old] + horizon
        is_new[again[later] - before] = True
        ticks[old[later]] = ticks[again[later]]
    return is_new, Seen(high[kept], low[kept], ticks[kept] if len(ticks) else NO_TICKS)


def sort_hashes(high: Words, low: Words) -> Ints:
    """Order by (high, low); ties on high alone are next to impossible but handled."""
    order = np.argsort(high)
    ties = np.flatnonzero(high[order][1:] == high[order][:-1])
    if len(ties) and np.any(low[order[ties]] != low[order[ties + 1]]):
        return np.lexsort((low, high))
    return order


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

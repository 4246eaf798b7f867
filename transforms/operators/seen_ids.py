"""Which records of an id count: the rule by which a set of ids is asked and added to.

**What one event decides.** Whether a record counts is a function of the records of its own id: of
the batches that they come in, and of their ticks. With a horizon of h ticks a record counts again
where its tick is more than h ahead of that of the last one that counted; without one it never
does. Ids are forgotten only when the clock is more than h ahead of their tick: a later copy that is
not overdue has a tick that the rule would let count anyway, so being forgotten changes nothing. And
*when* an id is forgotten follows from its own tick and the public clock, whatever is next to it
(``operators.timed_cells``), so that copies that are overdue tell nothing of others either.
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

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from weir.dpcore.leaves.hash_sets import Entries, Ticks, TimedSet, entries, sort_hashes
from weir.transforms.columns.list_columns import is_list, words_of
from weir.transforms.columns.names import HIGH, LOW
from weir.transforms.runtime.dead_letters import SOURCE

CELL = ("@tick", "@key")
"""Columns that say where an event counts."""
Ints = NDArray[np.int64]
NO_TICK = np.uint8
"""Type of the ticks of ids that are never forgotten: they are all 0."""


class Looked(NamedTuple):
    """A batch, looked at alone: copies of an id in it next to each other.

    Attributes:
      batch: events with HIGH, LOW and ``@tick``.
      order: (n,) int32, rows by (high, low); of copies the one that counts first comes first.
      first: (n,) bool, where in that order an id begins.
    """

    batch: pa.RecordBatch
    order: NDArray[np.int32]
    first: NDArray[np.bool_]


def look(batch: pa.RecordBatch) -> Looked:
    """What needs nothing of other batches, so that any thread may do it."""
    high = batch.column(HIGH).to_numpy()
    low = batch.column(LOW).to_numpy()
    order = sort_hashes(high, low)
    first = np.ones(batch.num_rows, dtype=bool)
    sorted_high, sorted_low = high[order], low[order]
    first[1:] = (sorted_high[1:] != sorted_high[:-1]) | (sorted_low[1:] != sorted_low[:-1])
    if not first.all():
        order = first_cell_first(batch, order, first)
    return Looked(batch, order.astype(np.int32), first)


def remember(
    looked: Looked, known: TimedSet, horizon: int | None
) -> tuple[NDArray[np.bool_], Entries]:
    """Which rows count, and what is to be added to what is known.

    Args:
      looked: at a batch.
      known: ids that were seen, with the tick of the last event of each that counted.
      horizon: ticks behind which an id counts again; None: never, and no ticks are kept.

    Returns:
      (n,) bool, and the ids of the rows that count, sorted by (high, low).
    """
    batch, order, first = looked
    picked = order[first]
    high = batch.column(HIGH).to_numpy()[picked]
    low = batch.column(LOW).to_numpy()[picked]
    result = known.find(high, low)
    counts = ~result.there
    ticks: Ticks = np.zeros(len(picked), dtype=NO_TICK)
    if horizon is not None:
        ticks = batch.column("@tick").to_numpy()[picked]
        counts |= ticks > result.ticks + horizon
    fresh = np.zeros(batch.num_rows, dtype=bool)
    fresh[picked[counts]] = True
    new = entries(high, low, ticks)
    return fresh, new if counts.all() else new.take(counts)


def first_cell_first(batch: pa.RecordBatch, order: Ints, first: NDArray[np.bool_]) -> Ints:
    """Within copies of one id the row of the smallest tick comes first, then of the smallest key,
    then of the smallest content: so the cell that counts does not depend on what copies hold."""
    return chosen_first(batch.schema.names, batch.column, order, first)


def chosen_first(
    names: Sequence[str],
    column_of: Callable[[str], pa.Array],
    order: Ints,
    first: NDArray[np.bool_],
) -> Ints:
    """``first_cell_first`` of rows whose columns are made when they are asked for.

    Args:
      names: of the columns. column_of: (n,) values of one.
      order: (n,) rows, copies next to each other. first: (n,) where in it an id begins.
    """
    names = [n for n in names if n not in (HIGH, LOW, "@arrival")]
    cell = [n for n in CELL if n in names]
    last = [n for n in (SOURCE, "@position") if n in names]
    names = [*cell, *(n for n in names if n not in (*cell, *last)), *last]
    order = order.copy()
    starts = np.flatnonzero(first)
    sizes = np.diff(starts, append=len(first))
    _order_pairs(column_of, order, starts[sizes == 2], names)
    many = sizes > 2
    if many.any():
        group = np.repeat(np.flatnonzero(many), sizes[many])
        crowded = np.flatnonzero(np.repeat(many, sizes))
        rows = order[crowded]
        content = [rank(column_of(name).take(pa.array(rows))) for name in names]
        order[crowded] = rows[np.lexsort((*reversed(content), group))]
    return order


def _order_pairs(
    column_of: Callable[[str], pa.Array], order: Ints, at: Ints, names: Sequence[str]
) -> None:
    """Orders rows at + 0 and at + 1 of ``order``, column after column while they are alike."""
    for name in names:
        if not len(at):
            return
        rows = pa.array(np.concatenate([order[at], order[at + 1]]))
        ranks = rank(column_of(name).take(rows))
        item, other = ranks[: len(at)], ranks[len(at) :]
        wrong = at[item > other]
        order[wrong], order[wrong + 1] = order[wrong + 1], order[wrong]
        at = at[item == other]


def rank(column: pa.Array) -> Ints:
    """(n,) numbers that order the values of a column: any order, but a function of the values."""
    if pa.types.is_dictionary(column.type) and not column.null_count:
        ranks: Ints = rank(column.dictionary)[column.indices.to_numpy()]
        return ranks
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not column.null_count and pa.types.is_primitive(column.type):
        bits = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        result: NDArray[Any] = bits.to_numpy(zero_copy_only=False)
        return result.view(np.int64) if result.itemsize == 8 else result.astype(np.int64)
    if is_list(column.type):
        column = words_of(column)
    order = pa.compute.rank(column, sort_keys="ascending", tiebreaker="min")
    return np.asarray(order.to_numpy(), dtype=np.int64)

"""Events of users, gathered into cells: at most so many of a cell, whatever the order they come in.

**Within a cell** (a user, a key and a tick) the events of the smallest hashes of (user, tick, id)
stay. Copies of one id are one event, the one of the smallest content; events without an id count as
often as they come. "The smallest of a set" is a semilattice: the smallest of a union are among
those of its parts, so events may be pruned early, in any cuts, and repeats of an id vanish with no
memory of ids. Only cells are ever pruned early, never keys: where a cap on the ticks or keys of a
period is set, a key dropped early may be the one that the rule keeps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.order import changes, order_of

Rows = NDArray[np.int64]


class Hashed(NamedTuple):
    """Events of known users, in any order.

    Attributes:
      users, pairs, rows: (n, 2) uint64, see ``dpcore.people.hashes``.
      ticks: (n,) int64. has_id: (n,) bool.
      contents: (n, w) uint64, by which the copies of an id are told apart.
    """

    users: Digests
    pairs: Digests
    rows: Digests
    ticks: Ints
    has_id: NDArray[np.bool_]
    contents: NDArray[np.uint64]


class Cells(NamedTuple):
    """Cells, sorted by (user, tick, hash of user, period and key).

    Attributes:
      users, pairs: (c, 2) uint64. ticks: (c,) int64. sizes: (c,) int64, events of each.
    """

    users: Digests
    pairs: Digests
    ticks: Ints
    sizes: Ints


class Gathered(NamedTuple):
    """What became of some events.

    Attributes:
      cells: theirs.
      rows: (r,) int64, which events stay: cell by cell, by hash within it.
      copies: how many were copies of an id in their cell. beyond: how many its cap left no room.
    """

    cells: Cells
    rows: Rows
    copies: int
    beyond: int


def gather(events: Hashed, most: int) -> Gathered:
    """Sorts events into cells, and keeps ``most`` of each."""
    n = len(events.ticks)
    if not n:
        words = np.zeros((0, 2), dtype=np.uint64)
        nothing = np.zeros(0, dtype=np.int64)
        return Gathered(Cells(words, words, nothing, nothing), nothing, 0, 0)
    order, code = _ordered(events)
    cell = np.zeros(n, dtype=np.int64)
    same = np.flatnonzero(code[1:] == code[:-1])
    new = np.ones(n - 1, dtype=bool)
    new[same] = (events.pairs[order[same]] != events.pairs[order[same + 1]]).any(axis=1)
    np.cumsum(new, out=cell[1:])
    order, kept, copies, beyond = _pruned(events, order, cell, most)
    if copies or beyond:
        order, cell = order[kept], cell[kept]
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    first = order[starts]
    sizes = np.diff(starts, append=len(order))
    users, pairs = events.users.take(first, axis=0), events.pairs.take(first, axis=0)
    cells = Cells(users, pairs, events.ticks[first], sizes)
    return Gathered(cells, order, copies, beyond)


def _ordered(events: Hashed) -> tuple[Rows, NDArray[np.uint64]]:
    """Events by (user, tick, hash of user, period and key), and a number of each one's (user, tick)
    in that order."""
    users = events.users
    order = order_of((users[:, 0], users[:, 1]))
    ticks = events.ticks - events.ticks.min()
    span = int(ticks.max()) + 1
    if span.bit_length() + len(ticks).bit_length() > 62:  # numbers of ticks, not ticks, fit
        found, ticks = np.unique(ticks, return_inverse=True)
        span = len(found)
    code = np.cumsum(changes(users.take(order, axis=0))) - 1
    code *= span
    code += ticks[order]
    # The first bits of the hash of a pair stand behind the number of its user and tick: with them
    # next to nothing is left to be told apart.
    bits = np.uint64(max(1, int(code[-1] + span).bit_length()))
    pairs = events.pairs.take(order, axis=0)
    packed = code.view(np.uint64) << (np.uint64(64) - bits)
    packed |= pairs[:, 0] >> bits
    within = order_of((packed, pairs[:, 0], pairs[:, 1]))
    return order[within], code[within].view(np.uint64)


def _pruned(
    events: Hashed, order: Rows, cell: Ints, most: int
) -> tuple[Rows, NDArray[np.bool_], int, int]:
    """Events sorted by hash within their cells, and which of them stay.

    Args:
      order: (n,) events, cell by cell. cell: (n,) number of the cell of each.
    """
    kept = np.ones(len(order), dtype=bool)
    crowded = np.flatnonzero(np.bincount(cell)[cell] > 1)
    if not len(crowded):
        return order, kept, 0, 0
    some, of = order[crowded], cell[crowded]
    hashes, has_id = events.rows[some], events.has_id[some]
    content = [events.contents[some, at] for at in range(events.contents.shape[1])]
    sort = np.lexsort((*reversed(content), has_id, hashes[:, 1], hashes[:, 0], of))
    some, of, hashes, has_id = some[sort], of[sort], hashes[sort], has_id[sort]
    again = np.zeros(len(some), dtype=bool)
    again[1:] = (of[1:] == of[:-1]) & (hashes[1:] == hashes[:-1]).all(axis=1)
    again[1:] &= has_id[1:] & has_id[:-1]
    rank = ranks(~again, of)
    beyond = ~again & (rank >= most)
    order = order.copy()
    order[crowded] = some
    kept[crowded] = ~(again | beyond)
    return order, kept, int(again.sum()), int(beyond.sum())


def ranks(counted: NDArray[np.bool_], groups: Ints) -> Ints:
    """(n,) how many before it in its group count. groups: (n,), those of one group together."""
    if not len(groups):
        return np.zeros(0, dtype=np.int64)
    before: Ints = np.cumsum(counted) - counted
    first = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    sizes = np.diff(first, append=len(groups))
    found: Ints = before - np.repeat(before[first], sizes)
    return found


def ranges(starts: Ints, sizes: Ints) -> Ints:
    """start, start + 1, ..., so many of each, one after the other; no size is 0."""
    if not len(starts):
        return np.zeros(0, dtype=np.int64)
    steps = np.ones(int(sizes.sum()), dtype=np.int64)
    ends = np.cumsum(sizes)[:-1]
    steps[0] = starts[0]
    steps[ends] = starts[1:] - (starts[:-1] + sizes[:-1] - 1)
    return np.cumsum(steps)

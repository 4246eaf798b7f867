"""Cells of users in coarser groupings of keys: which cells meet, and which are new to their key.

Contribution bounds hold for keys of the finest grouping, and choose by their hashes alone. What
stays of a user in a tick lies in one key of every other grouping, several cells in one: where a
user counts once a key and tick, those cells are one there. Whether they are the first of the user
and key in the period is remembered as for keys of the finest grouping, in the same set, under
hashes of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.hash_sets import Entries, TimedSet, changes, sort_hashes, together
from weir.dpcore.users.cells import CapKeys, name_hashes, pair_hashes


class CoarseCells(NamedTuple):
    """What cells of the finest grouping are in the others.

    Attributes:
      step: (c,) int64, number of each one's user and tick.
      new: of each coarser grouping (c,) bool, whether no cell of this user and key stayed in an
        earlier tick of the period.
      pairs: what to remember of users and keys of each of these groupings, for the next tick.
    """

    step: Ints
    new: tuple[NDArray[np.bool_], ...]
    pairs: tuple[Entries, ...]

    def repeated(self, sizes: Ints) -> CoarseCells:
        """Of events: (c,) of each cell."""
        return CoarseCells(
            np.repeat(self.step, sizes),
            tuple(np.repeat(new, sizes) for new in self.new),
            self.pairs,
        )


COARSE: Final = -2
"""Periods are counted down from here in hashes of coarser keys: no name of a key of the finest
grouping, whatever it is, then shares one with them."""


def coarse_pairs(
    users: Digests,
    periods: Ints,
    names: Sequence[str],
    codes: Ints,
    grouped: Callable[[str], tuple[str, ...]],
    coarser: Sequence[int],
    keys: CapKeys,
) -> tuple[Digests, ...]:
    """(n, 2) hashes of user, period and key, of each coarser grouping.

    Args:
      names: (m,) keys of the finest grouping. codes: (n,) which of them each event has.
      grouped: a key -> its keys in every grouping. coarser: places of the groupings asked for.
    """
    in_groups = [grouped(name) for name in names]
    results = []
    for at in coarser:
        named = name_hashes([own[at].encode() for own in in_groups], keys)
        results.append(pair_hashes(users, COARSE - periods, named.take(codes, axis=0), keys))
    return tuple(results)


def coarse_cells(
    spent: TimedSet,
    users: Digests,
    ticks: Ints,
    periods: Ints,
    pairs: Sequence[Digests],
    following: int,
) -> CoarseCells:
    """Of cells that stay, sorted by user and tick.

    Args:
      spent: pairs of the period of the first of these ticks, before it.
      users: (c, 2). ticks, periods: (c,). pairs: of each coarser grouping (c, 2) hashes.
      following: the period of the next tick.
    """
    other = changes(users)
    other[1:] |= ticks[1:] != ticks[:-1]
    step = np.cumsum(other) - 1
    new, entries = [], []
    for hashes in pairs:
        order = sort_hashes(hashes[:, 0], hashes[:, 1])  # stable: ticks of a user stay in order
        ordered, own = hashes.take(order, axis=0), ticks[order]
        first = changes(ordered)
        begin = np.flatnonzero(first)
        known = spent.find(ordered[begin, 0], ordered[begin, 1]).there
        of = np.cumsum(first) - 1
        fresh = (own == own[begin][of]) & ~known[of]
        result = np.empty(len(ticks), dtype=bool)
        result[order] = fresh
        new.append(result)
        last = np.append(begin[1:], len(own))[: len(begin)] - 1
        last = last[periods[order][last] == following]
        notes = np.ones((len(last), 1), dtype=np.uint32)
        entries.append(Entries(ordered[last, 0], ordered[last, 1], own[last], notes))
    return CoarseCells(step, tuple(new), tuple(entries))


def joined(entries: Sequence[Entries]) -> Entries:
    """Entries of different hashes as one run."""
    whole = together(entries)
    return whole.take(sort_hashes(whole.high, whole.low))


def meeting(step: Ints, keys: Ints) -> tuple[Ints, Ints]:
    """Order in which cells of one user, tick and coarser key are together, and the number of each
    in that order: (n,) each.

    Args:
      step: (n,) numbers of users and ticks, as ``CoarseCells`` has them. keys: (n,) of each event
        in the grouping.
    """
    order = np.lexsort((keys, step))
    ordered: Any = step[order], keys[order]
    other = np.ones(len(order), dtype=bool)
    other[1:] = (np.diff(ordered[0]) != 0) | (np.diff(ordered[1]) != 0)
    return order, np.cumsum(other) - 1

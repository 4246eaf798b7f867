"""When users had their last counted cell of a key, for those of the last N ticks.

It survives the end of a period, in which bounds begin again: who came before it is still active. A
user's cells alone decide what is remembered of the user.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.hash_sets import Entries, TimedSet, changes, entries, sort_hashes

BYTES: Final = 25
"""Of each user and key, about: a hash of 16, a tick of 4, and a quarter that is not yet merged or
forgotten (``benchmarks/studies/active_users.py``)."""


def gaps_of(seen: TimedSet, hashes: Digests, ticks: Ints, span: int) -> tuple[Ints, Entries]:
    """How long ago each cell's user had the last one of its key.

    Args:
      seen: before the first of the ticks. hashes: (c, 2) of user and key. ticks: (c,) int64, those
        of one user in order. Each user, key and tick is there once.
      span: ticks that are looked back, N.

    Returns:
      (c,) int64 ticks since the last cell, 0 where there was none within ``span``; and what to
      remember: of each user and key the last tick.
    """
    order = sort_hashes(hashes[:, 0], hashes[:, 1])
    hashes, own = hashes.take(order, axis=0), ticks[order]
    first = changes(hashes)
    before = np.empty_like(own)
    before[1:] = own[:-1]
    known = seen.find(hashes[first, 0], hashes[first, 1])
    before[first] = np.where(known.there, known.ticks, own[first] - span - 1)
    gap = own - before
    gap[gap > span] = 0
    result = np.empty_like(gap)
    result[order] = gap
    last = np.append(first[1:], True)[: len(own)]
    narrow = np.uint32 if not len(own) or own.max() < 1 << 32 else np.int64
    return result, entries(hashes[last, 0], hashes[last, 1], own[last].astype(narrow))


def active_since(stop: int, span: int) -> int:
    """The first tick that still matters to ticks from ``stop`` on."""
    return stop - span


def forgets(following: int, stop: int, span: int) -> bool:
    """Whether closing ticks [following, stop) is when who is no longer active is forgotten.

    It is four times in a span, by the public clock alone.
    """
    every = -(-span // 4)
    return stop // every > following // every

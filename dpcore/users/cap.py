"""Cap: which cells of a user count, when ticks are closed. Vectorised over users.

**The rule at the close of tick t, for each user.**
(a) A user whose ``ticks`` are used up, or whose last is less than ``spacing`` ago, adds nothing.
(b) Keys that have used up ``ticks_per_key`` add nothing, nor new keys beyond ``period_keys``.
(c) Of the rest the ``keys`` smallest hashes of (user, period, key) stay, within ``total``.
(d) Of a cell the ``events`` smallest hashes of (user, tick, id) stay (``dpcore.users.cells``).
(e) If anything stays, the tick is used.
All of it begins again in each period. With ``order: hash`` the order is that of hashes instead of
time (``dpcore.users.hash_order``): for data that end, of which a whole period is closed at once.

**What it guarantees.**
1. *What stays of a user-period is a function of that user's events in that period.* Nothing is
   shared between users: no ids, no filter, no sketch. So a user-period that is there or not
   changes what stays of that user-period and nothing else.
2. *In any order and any cuts.* Events of a tick are a set, and ticks are closed in order; how many
   are closed together, in how many shards, does not matter. In the order of hashes it would.
3. *Caps hold on every input*: at most ``ticks`` ticks a period, ``spacing`` apart, with at
   most ``keys`` keys each, and so on. That is what noise is calibrated for.

**What it costs.** Rounds: each takes the next tick that each user may still use, of all users at
once. There are as many as the ticks that one user tries in what is closed together. Of a user 16
bytes and 20 of counts are remembered, of a user and key 16 and 12, until the period ends; keys only
where something asks for them (``keeps_pairs``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints
from weir.dpcore.leaves.hash_sets import Entries, TimedSet, entries
from weir.dpcore.users.cells import Hashed, SortedCells, gather, ranges
from weir.dpcore.users.closing import PAIR_NOTES, STAYS, USER_NOTES, WHY, Closing, UsedBounds
from weir.dpcore.users.coarse import CoarseCells, coarse_cells, joined
from weir.dpcore.users.hash_order import HashClosing
from weir.dpcore.users.last_seen import gaps_of
from weir.dpcore.users.unit import ContributionBounds, UserUnit

NOBODY: Final = TimedSet()
"""Nobody was seen yet."""
_WORDS: Final = np.zeros(0, dtype=np.uint64)
NOTHING: Final = entries(_WORDS, _WORDS, np.zeros(0, dtype=np.int64))
"""Nothing to remember."""


class CappedCells(NamedTuple):
    """What became of cells.

    Attributes:
      why: (c,) int8, places in WHY. new: (c,) bool, no earlier cell of this user and key stayed in
        its period; where the cell itself stays.
      period: of the next tick. users, pairs: what to remember, for that period.
    """

    why: NDArray[np.int8]
    new: NDArray[np.bool_]
    period: int
    users: Entries
    pairs: Entries

    def after(self, spent: UsedBounds) -> UsedBounds:
        """What is spent from now on. At the end of its period everything is forgotten here."""
        if spent.period != self.period:
            spent = UsedBounds.nothing(self.period)
        return UsedBounds(self.period, spent.users.add(self.users), spent.pairs.add(self.pairs))


class KeptEvents(NamedTuple):
    """Events that stay.

    Attributes:
      rows: (r,) int64, which; those of a cell together, by their hashes.
      cell: (r,) int64, number of each one's cell among those that stay.
      new: (r,) bool, see ``CappedCells``.
      dropped: cap -> events that it left no room; ``copies``: of an id in its cell.
      capped: what became of the cells.
      gap: (r,) int64, ticks since the last cell of its user and key that stayed, 0 where that is
        longer ago than is asked; None: nobody asks.
      seen: what to remember of these; nothing where nobody asks.
      coarse: of each event, where its cell meets others in coarser groupings; None: nobody asks.
    """

    rows: Ints
    cell: Ints
    new: NDArray[np.bool_]
    dropped: dict[str, int]
    capped: CappedCells
    gap: Ints | None
    seen: Entries
    coarse: CoarseCells | None = None


def keeps_pairs(caps: ContributionBounds, reads_new: bool) -> bool:
    """Whether keys of users have to be remembered: a cap asks for them, or who reads ``new``."""
    return reads_new or caps.ticks_per_key is not None or caps.period_keys is not None


def cap_events(
    spent: UsedBounds,
    events: Hashed,
    stop: int,
    person: UserUnit,
    pairs: bool = True,
    seen: TimedSet = NOBODY,
    span: int = 0,
) -> KeptEvents:
    """Closes ticks: the rule, from events to events.

    Args:
      spent: before the first of them. events: all of the ticks that are closed, each before
        ``stop`` and in no period before ``spent.period``.
      stop: the next tick.
      pairs: whether keys are remembered; else nothing counts as new.
      seen: who had a cell in the last ``span`` ticks; asked where events have ``lasting`` hashes.
    """
    gathered = gather(events, person.caps.events)
    cells = gathered.cells
    capped = cap_tick(spent, cells, stop, person, pairs)
    stays = capped.why == STAYS
    starts = np.cumsum(cells.sizes) - cells.sizes
    sizes = cells.sizes[stays]
    counts = np.bincount(capped.why, weights=cells.sizes, minlength=len(WHY)).astype(np.int64)
    dropped = dict(zip(WHY[1:], counts[1:].tolist(), strict=True))
    dropped |= {"events": gathered.beyond, "copies": gathered.copies}
    gap, remembered = None, NOTHING
    if events.lasting is not None:
        hashes = events.lasting.take(gathered.rows[starts[stays]], axis=0)
        gap, remembered = gaps_of(seen, hashes, cells.ticks[stays], span)
        gap = np.repeat(gap, sizes)
    coarse = None
    if events.coarse is not None:
        first, own = gathered.rows[starts[stays]], cells.ticks[stays]
        hashes_of = [hashes.take(first, axis=0) for hashes in events.coarse]
        shape = (cells.users[stays], own, person.periods.of(own), hashes_of, capped.period)
        coarse = coarse_cells(spent.pairs, *shape).repeated(sizes)
        capped = capped._replace(pairs=joined([capped.pairs, *coarse.pairs]))
    return KeptEvents(
        gathered.rows[ranges(starts[stays], sizes)],
        np.repeat(np.arange(len(sizes)), sizes),
        np.repeat(capped.new[stays], sizes),
        {why: n for why, n in dropped.items() if n},
        capped,
        gap,
        remembered,
        coarse,
    )


def cap_tick(
    spent: UsedBounds, cells: SortedCells, stop: int, person: UserUnit, pairs: bool = True
) -> CappedCells:
    """The rule over cells of one tick, or of several that are closed together; see above.

    Args:
      spent: before the first of them. cells: of ticks before ``stop``. stop: the next tick.
      pairs: whether keys are remembered.
    """
    following = int(person.periods.of(np.array([stop], dtype=np.int64))[0])
    if not len(cells.ticks):
        return CappedCells(
            np.zeros(0, dtype=np.int8), np.zeros(0, dtype=bool), following, *_nothing()
        )
    run = (HashClosing if person.caps.by_hash else Closing)(spent, cells, person)
    run.close()
    users = run.users_of(following)
    if not pairs:
        return CappedCells(run.why, np.zeros_like(run.new), following, users, _nothing()[1])
    return CappedCells(run.why, run.new, following, users, run.pairs_of(following))


def _nothing() -> tuple[Entries, Entries]:
    words, ticks = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    return (
        Entries(words, words, ticks, np.zeros((0, USER_NOTES), np.uint32)),
        Entries(words, words, ticks, np.zeros((0, PAIR_NOTES), np.uint32)),
    )

"""Cap: which cells of a user count, when ticks are closed. Vectorised over users.

**The rule at the close of tick t, for each user.**
(a) A user whose ``ticks`` are used up, or whose last is less than ``spacing`` ago, adds nothing.
(b) Keys that have used up ``ticks_per_key`` add nothing, nor new keys beyond ``period_keys``.
(c) Of the rest the ``keys`` smallest hashes of (user, period, key) stay, within ``total``.
(d) Of a cell the ``events`` smallest hashes of (user, tick, id) stay (``dpcore.users.cells``).
(e) If anything stays, the tick is used.
All of it begins again in each period.

**What it guarantees.**
1. *What stays of a user-period is a function of that user's events in that period.* Nothing is
   shared between users: no ids, no filter, no sketch. So a user-period that is there or not
   changes what stays of that user-period and nothing else.
2. *In any order and any cuts.* Events of a tick are a set, and ticks are closed in order; how many
   are closed together, in how many shards, does not matter.
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

from weir.dpcore.arrays import Digests, Ints
from weir.dpcore.leaves.hash_sets import Entries, TimedSet, changes, entries, sort_hashes
from weir.dpcore.users.cells import Hashed, SortedCells, gather, ranges, ranks
from weir.dpcore.users.coarse import CoarseCells, coarse_cells, joined
from weir.dpcore.users.last_seen import gaps_of
from weir.dpcore.users.unit import ContributionBounds, UserUnit

USED, CELLS, KEYS = range(3)
"""What is noted of a user: ticks, cells and keys that were used. Of a pair: ticks."""
USER_NOTES, PAIR_NOTES = 3, 1

WHY: Final = ("", "ticks", "spacing", "ticks_per_key", "period_keys", "keys", "total")
"""Caps by which a cell is dropped; the first: it stays."""
_STAYS, _TICKS, _SPACING, _OF_KEY, _PERIOD_KEYS, _KEYS, _TOTAL = range(len(WHY))
_NEVER: Final = -(1 << 62)
_NO_CAP: Final = 1 << 62
NOBODY: Final = TimedSet()
"""Nobody was seen yet."""
_WORDS: Final = np.zeros(0, dtype=np.uint64)
NOTHING: Final = entries(_WORDS, _WORDS, np.zeros(0, dtype=np.int64))
"""Nothing to remember."""


class UsedBounds(NamedTuple):
    """What users have used up in the period of the next tick; of no other period is anything known.

    Attributes:
      period: its number. users: of each the last tick used, and (ticks, cells, keys).
      pairs: of each (user, period, key) that was kept the last tick, and how many.
    """

    period: int
    users: TimedSet
    pairs: TimedSet

    @classmethod
    def nothing(cls, period: int) -> UsedBounds:
        """At the start of a period."""
        return cls(period, TimedSet((), USER_NOTES), TimedSet((), PAIR_NOTES))


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
    stays = capped.why == _STAYS
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
    run = _Run(spent, cells, person)
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


class _Run:
    """One close: user-periods, their steps (one is a tick of one), and the cells of each step."""

    def __init__(self, spent: UsedBounds, cells: SortedCells, person: UserUnit) -> None:
        self._caps, ticks = person.caps, cells.ticks
        periods = person.periods.of(ticks)
        other = changes(cells.users)
        other[1:] |= periods[1:] != periods[:-1]
        ones = np.flatnonzero(other)
        self._users, self._periods = cells.users.take(ones, axis=0), periods[ones]
        owner = np.cumsum(other) - 1
        self._owner = owner
        step = other.copy()
        step[1:] |= ticks[1:] != ticks[:-1]
        self._at = np.flatnonzero(step)
        self._sizes = np.diff(self._at, append=len(ticks))
        self._ticks = ticks[self._at]
        # Where a step is among those of its user-period, so that spacing finds the next at once.
        self._base, self._span = int(ticks.min()), int(ticks.max() - ticks.min()) + 1
        self._codes = owner[self._at] * (self._span + 1) + (self._ticks - self._base)
        self._begin = np.searchsorted(owner[self._at], np.arange(len(self._users)))
        self._end = np.append(self._begin[1:], len(self._at))
        self._recall_users(spent)
        self._recall_pairs(spent, cells.pairs, periods)
        self.why = np.full(len(ticks), _TICKS, dtype=np.int8)
        self.new = np.zeros(len(ticks), dtype=bool)

    def _recall_users(self, spent: UsedBounds) -> None:
        n = len(self._users)
        self._last = np.full(n, _NEVER)
        self._noted = np.zeros((n, USER_NOTES), dtype=np.int64)
        self._changed = np.zeros(n, dtype=bool)
        known = np.flatnonzero(self._periods == spent.period)
        result = spent.users.find(self._users[known, 0], self._users[known, 1])
        self._last[known[result.there]] = result.ticks[result.there]
        self._noted[known] = result.notes

    def _recall_pairs(self, spent: UsedBounds, pairs: Digests, periods: Ints) -> None:
        order = sort_hashes(pairs[:, 0], pairs[:, 1])
        ordered = pairs.take(order, axis=0)
        other = changes(ordered)
        self._pair = np.empty(len(order), dtype=np.int64)
        self._pair[order] = np.cumsum(other) - 1
        firsts = np.flatnonzero(other)
        self._pairs, self._pair_periods = ordered.take(firsts, axis=0), periods[order[firsts]]
        # The period is in the hash of a pair: one of another period is not found.
        result = spent.pairs.find(self._pairs[:, 0], self._pairs[:, 1])
        self._times, self._pair_known = result.notes[:, 0].astype(np.int64), result.there
        self._pair_last = np.full(len(self._pairs), _NEVER)

    def close(self) -> None:
        """Users whom no cap touches all at once; of the others round by round the next step that
        each may use."""
        caps, last, noted = self._caps, self._last, self._noted
        total = _NO_CAP if caps.total is None else caps.total
        easy = self._untouched(total)
        self._take_all(easy)
        place, live = np.where(easy, self._end, self._begin), np.flatnonzero(~easy)
        skipped = np.zeros(len(self._at) + 1, dtype=np.int64)
        while True:
            live = live[(noted[live, USED] < caps.ticks) & (noted[live, CELLS] < total)]
            earliest = np.clip(last[live] + caps.spacing - self._base, 0, self._span)
            wanted = np.searchsorted(self._codes, live * (self._span + 1) + earliest)
            ahead = np.maximum(place[live], wanted)
            np.add.at(skipped, place[live], 1)
            np.add.at(skipped, ahead, -1)
            place[live] = ahead
            live = live[ahead < self._end[live]]
            if not len(live):
                break
            self._step(live, place[live], total)
            place[live] += 1
        spaced = np.repeat(np.cumsum(skipped[:-1]) > 0, self._sizes)
        self.why[spaced] = _SPACING
        full = np.flatnonzero((noted[:, CELLS] >= total) & (noted[:, USED] < caps.ticks))
        for_total = np.zeros(len(self._at) + 1, dtype=np.int64)
        np.add.at(for_total, place[full], 1)
        np.add.at(for_total, self._end[full], -1)
        self.why[np.repeat(np.cumsum(for_total[:-1]) > 0, self._sizes)] = _TOTAL

    def _untouched(self, total: int) -> NDArray[np.bool_]:
        """(n,) user-periods of which everything stays, whatever is looked at first."""
        caps, noted, begin, ticks = self._caps, self._noted, self._begin, self._ticks
        steps = self._end - begin
        cells = np.bincount(self._owner, minlength=len(steps))
        easy: NDArray[np.bool_] = noted[:, USED] + steps <= caps.ticks
        easy &= noted[:, CELLS] + cells <= total
        easy &= ticks[begin] >= self._last + caps.spacing
        owner = self._owner[self._at]
        if caps.spacing > 1:
            near = np.flatnonzero(np.diff(ticks) < caps.spacing)
            easy[owner[near[owner[near] == owner[near + 1]]]] = False
        easy[owner[self._sizes > caps.keys]] = False
        if caps.ticks_per_key is not None:
            worn = self._times + np.bincount(self._pair) > caps.ticks_per_key
            easy[self._owner[worn[self._pair]]] = False
        if caps.period_keys is not None:
            of = np.empty(len(self._pairs), dtype=np.int64)
            of[self._pair] = self._owner
            fresh = np.bincount(of[~self._pair_known], minlength=len(steps))
            easy &= noted[:, KEYS] + fresh <= caps.period_keys
        return easy

    def _take_all(self, easy: NDArray[np.bool_]) -> None:
        """All cells of some user-periods stay."""
        cells = np.flatnonzero(easy[self._owner])
        pair, owner = self._pair[cells], self._owner[cells]
        first = np.full(len(self._pairs), -1, dtype=np.int64)
        first[pair[::-1]] = cells[::-1]
        new = first[(first >= 0) & ~self._pair_known]
        self.why[cells], self.new[new] = _STAYS, True
        self._pair_known[pair] = True
        self._times += np.bincount(pair, minlength=len(self._pairs))
        self._pair_last[pair] = np.repeat(self._ticks, self._sizes)[
            cells
        ]  # the last is written last
        n = len(easy)
        self._noted[:, USED] += np.where(easy, self._end - self._begin, 0)
        self._noted[:, CELLS] += np.bincount(owner, minlength=n)
        self._noted[:, KEYS] += np.bincount(self._owner[new], minlength=n)
        self._last[easy] = self._ticks[self._end[easy] - 1]
        self._changed |= easy

    def _step(self, live: Ints, step: Ints, total: int) -> None:
        """(b), (c) and (e) for one step of each of some user-periods."""
        caps, sizes = self._caps, self._sizes[step]
        cells = ranges(self._at[step], sizes)
        owner = np.repeat(np.arange(len(live)), sizes)
        noted, pair = self._noted[live], self._pair[cells]
        new = ~self._pair_known[pair]
        why = np.full(len(cells), _STAYS, dtype=np.int8)
        if caps.ticks_per_key is not None:
            why[self._times[pair] >= caps.ticks_per_key] = _OF_KEY
        if caps.period_keys is not None:
            fresh = new & (why == _STAYS)
            room = caps.period_keys - noted[owner, KEYS]
            why[fresh & (ranks(fresh, owner) >= room)] = _PERIOD_KEYS
        stays = why == _STAYS
        rank = ranks(stays, owner)
        why[stays & (rank >= total - noted[owner, CELLS])] = _TOTAL
        why[stays & (rank >= caps.keys)] = _KEYS
        stays = why == _STAYS
        self.why[cells], self.new[cells] = why, new & stays
        counts = np.bincount(owner[stays], minlength=len(live))
        noted[:, CELLS] += counts
        noted[:, KEYS] += np.bincount(owner[stays & new], minlength=len(live))
        noted[:, USED] += counts > 0
        self._noted[live] = noted
        used, ticks = live[counts > 0], self._ticks[step]
        self._last[used], self._changed[used] = ticks[counts > 0], True
        self._times[pair[stays]] += 1
        self._pair_known[pair[stays]] = True
        self._pair_last[pair[stays]] = ticks[owner[stays]]

    def users_of(self, period: int) -> Entries:
        """What to remember of the users of a period that used a tick here."""
        some = self._changed & (self._periods == period)
        notes = self._noted[some].astype(np.uint32)
        return Entries(self._users[some, 0], self._users[some, 1], self._last[some], notes)

    def pairs_of(self, period: int) -> Entries:
        """What to remember of pairs that were kept here."""
        some = (self._pair_last != _NEVER) & (self._pair_periods == period)
        notes = self._times[some, None].astype(np.uint32)
        return Entries(self._pairs[some, 0], self._pairs[some, 1], self._pair_last[some], notes)

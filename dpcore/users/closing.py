"""Ticks of users that are closed together: what each user-period has used up, and its cells."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Ints, extremes
from weir.dpcore.leaves.hash_sets import Entries, TimedSet, changes, sort_hashes
from weir.dpcore.users.cells import SortedCells, ranges, ranks
from weir.dpcore.users.unit import UserUnit

USED, CELLS, KEYS = range(3)
"""What is noted of a user: ticks, cells and keys that were used. Of a pair: ticks."""
USER_NOTES, PAIR_NOTES = 3, 1

WHY: Final = ("", "ticks", "spacing", "ticks_per_key", "period_keys", "keys", "total")
"""Caps by which a cell is dropped; the first: it stays."""
STAYS, TICKS, SPACING, OF_KEY, PERIOD_KEYS, KEY_LIMIT, TOTAL = range(len(WHY))
_NEVER: Final = -(1 << 62)
NO_CAP: Final = 1 << 62


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


class Closing:
    """One close: user-periods, their steps (one is a tick of one), and the cells of each step."""

    def __init__(self, spent: UsedBounds, cells: SortedCells, person: UserUnit) -> None:
        self._caps, ticks = person.caps, cells.ticks
        self._total = NO_CAP if person.caps.total is None else person.caps.total
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
        self._step_of = np.cumsum(step) - 1
        self._ticks = ticks[self._at]
        # Where a step is among those of its user-period, so that spacing finds the next at once.
        self._base, last = extremes(ticks)
        self._span = last - self._base + 1
        self._codes = owner[self._at] * (self._span + 1) + (self._ticks - self._base)
        self._begin = np.searchsorted(owner[self._at], np.arange(len(self._users)))
        self._end = np.append(self._begin[1:], len(self._at))
        self._recall_users(spent)
        self._recall_pairs(spent, cells.pairs, periods)
        self.why = np.full(len(ticks), TICKS, dtype=np.int8)
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
        """Users whom no bound touches all at once, and of the others what the order lets in."""
        easy = self._untouched()
        self._take(np.flatnonzero(easy[self._owner]))
        self._choose(easy)

    def _choose(self, easy: NDArray[np.bool_]) -> None:
        """In order of time: round by round the next step that each of the others may use."""
        caps, last, noted, total = self._caps, self._last, self._noted, self._total
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
            self._step(live, place[live])
            place[live] += 1
        spaced = np.repeat(np.cumsum(skipped[:-1]) > 0, self._sizes)
        self.why[spaced] = SPACING
        full = np.flatnonzero((noted[:, CELLS] >= total) & (noted[:, USED] < caps.ticks))
        for_total = np.zeros(len(self._at) + 1, dtype=np.int64)
        np.add.at(for_total, place[full], 1)
        np.add.at(for_total, self._end[full], -1)
        self.why[np.repeat(np.cumsum(for_total[:-1]) > 0, self._sizes)] = TOTAL

    def _untouched(self) -> NDArray[np.bool_]:
        """(n,) user-periods of which everything stays, whatever is looked at first."""
        caps, noted, begin, ticks = self._caps, self._noted, self._begin, self._ticks
        steps = self._end - begin
        cells = np.bincount(self._owner, minlength=len(steps))
        easy: NDArray[np.bool_] = noted[:, USED] + steps <= caps.ticks
        easy &= noted[:, CELLS] + cells <= self._total
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

    def _take(self, cells: Ints) -> None:
        """Some cells stay, of which a user-period has all that it will have. cells: increasing."""
        pair, owner, n = self._pair[cells], self._owner[cells], len(self._users)
        first = np.full(len(self._pairs), -1, dtype=np.int64)
        first[pair[::-1]] = cells[::-1]
        new = first[(first >= 0) & ~self._pair_known]
        self.why[cells], self.new[new] = STAYS, True
        self._pair_known[pair] = True
        self._times += np.bincount(pair, minlength=len(self._pairs))
        step = self._step_of[cells]
        ticks = self._ticks[step]
        self._pair_last[pair] = ticks  # the last is written last
        used = np.flatnonzero(np.diff(step, prepend=-1))
        self._noted[:, USED] += np.bincount(owner[used], minlength=n)
        self._noted[:, CELLS] += np.bincount(owner, minlength=n)
        self._noted[:, KEYS] += np.bincount(self._owner[new], minlength=n)
        self._last[owner] = ticks
        self._changed[owner] = True

    def _step(self, live: Ints, step: Ints) -> None:
        """(b), (c) and (e) for one step of each of some user-periods."""
        caps, sizes = self._caps, self._sizes[step]
        cells = ranges(self._at[step], sizes)
        owner = np.repeat(np.arange(len(live)), sizes)
        noted, pair = self._noted[live], self._pair[cells]
        new = ~self._pair_known[pair]
        why = np.full(len(cells), STAYS, dtype=np.int8)
        if caps.ticks_per_key is not None:
            why[self._times[pair] >= caps.ticks_per_key] = OF_KEY
        if caps.period_keys is not None:
            fresh = new & (why == STAYS)
            room = caps.period_keys - noted[owner, KEYS]
            why[fresh & (ranks(fresh, owner) >= room)] = PERIOD_KEYS
        stays = why == STAYS
        rank = ranks(stays, owner)
        why[stays & (rank >= self._total - noted[owner, CELLS])] = TOTAL
        why[stays & (rank >= caps.keys)] = KEY_LIMIT
        stays = why == STAYS
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

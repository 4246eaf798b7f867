"""Contribution bounds that keep the cells of the smallest hashes: for data that end.

**The rule, for each user and period.** Cells are taken in the order of their hashes, a keyed hash
of (user, tick, period and key). A cell stays unless a bound is full by those that stayed before it:
``ticks``, ``spacing``, ``keys``, ``ticks_per_key``, ``period_keys``, ``total``. Of a cell that
stays the ``events`` smallest hashes of (user, tick, id) stay, as in order of time.

**Formal guarantees.** The sensitivity is that of the order of time.
1. *What stays of a user-period is a function of that user's events in that period*, and of the
   secret: every hash has the user in it, and nothing is shared between users. So a user-period that
   is there or not, or has other events, changes what stays of that user-period and nothing else.
2. *The bounds hold on every input*: a cell that would pass one does not stay. What stays of two
   neighbours thus differs in cells of one user-period that keep all bounds (in those of two such
   sets under ``replace_one``), which is all that the accountant assumes (``UserUnit.pattern``).
   Noise is calibrated for any such cells: which of them, and why, does not matter.
3. *The order of records does not matter*, nor does anything that a record holds beyond user, tick
   and key: cells are a set, and their hashes have no value in them.
4. Releases of a tick follow from events of the whole period, later ones too. So the whole period is
   there before its first release, and the guarantee is of data that are fixed before: not of a
   stream whose users act on releases. Rows of the whole period are protected
   (``Pattern.rows``), whichever of its ticks an event is in.

Without the secret nobody can choose a key or a tick that stays. Over all secrets each of a user's
cells is as likely to stay as any other where only ``total`` is binding, so no tick counts less than
another: in order of time the last do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints
from weir.dpcore.users.cells import SortedCells, ranges, ranks
from weir.dpcore.users.closing import (
    CELLS,
    KEY_LIMIT,
    KEYS,
    NO_CAP,
    OF_KEY,
    PERIOD_KEYS,
    SPACING,
    STAYS,
    TICKS,
    TOTAL,
    USED,
    Closing,
    UsedBounds,
)
from weir.dpcore.users.unit import UserUnit


class HashClosing(Closing):
    """One close in the order of hashes."""

    def __init__(self, spent: UsedBounds, cells: SortedCells, person: UserUnit) -> None:
        super().__init__(spent, cells, person)
        assert cells.hashes is not None
        self._hashes = cells.hashes

    def _choose(self, easy: NDArray[np.bool_]) -> None:
        """Round by round, of all users at once: cells that no bound can keep out any more, up to
        the first of each user that is not known to stay; then those go that a full bound keeps
        out. Each round takes one cell of a user or more."""
        rest = np.flatnonzero(~easy[self._owner])
        low, high = self._hashes[rest, 1], self._hashes[rest, 0]
        rest = rest[np.lexsort((low, high, self._owner[rest]))]
        state, stays = _Bounds(self), np.zeros(len(self._owner), dtype=bool)
        while True:
            why = state.full(rest)
            self.why[rest] = why
            rest = rest[why == STAYS]
            if not len(rest):
                break
            sure = state.fits_with_all_before(rest)
            sure &= ranks(~sure, self._owner[rest]) == 0
            state.add(rest[sure])
            stays[rest[sure]] = True
            rest = rest[~sure]
        self._take(np.flatnonzero(stays))


class _Bounds:
    """What user-periods have used up while their cells are looked at.

    Only counts grow and only ticks and keys are added, so that what a full bound keeps out is out
    for good, and what fits next to all cells before it fits next to those of them that stay.
    """

    def __init__(self, run: Closing) -> None:
        self._run, self._caps = run, run._caps
        self._noted, self._times = run._noted.copy(), run._times.copy()
        self._known = run._pair_known.copy()
        self._of_step = np.zeros(len(run._at), dtype=np.int64)
        owner = run._owner[run._at]
        self._near = run._ticks < run._last[owner] + self._caps.spacing

    def full(self, cells: Ints) -> NDArray[np.int8]:
        """(c,) places in WHY: the bound that keeps a cell out, or that none does."""
        run, caps = self._run, self._caps
        owner, step, pair = run._owner[cells], run._step_of[cells], run._pair[cells]
        unused = self._of_step[step] == 0
        why = np.full(len(cells), STAYS, dtype=np.int8)
        why[self._of_step[step] >= caps.keys] = KEY_LIMIT
        if caps.period_keys is not None:
            more = self._noted[owner, KEYS] >= caps.period_keys
            why[more & ~self._known[pair]] = PERIOD_KEYS
        if caps.ticks_per_key is not None:
            why[self._times[pair] >= caps.ticks_per_key] = OF_KEY
        why[unused & self._near[step]] = SPACING
        why[unused & (self._noted[owner, USED] >= caps.ticks)] = TICKS
        why[self._noted[owner, CELLS] >= run._total] = TOTAL
        return why

    def fits_with_all_before(self, cells: Ints) -> NDArray[np.bool_]:
        """(c,) whether a cell fits if all before it, of its user, stay.

        cells: those of a user together, in order.
        """
        run, caps = self._run, self._caps
        owner, step, pair = run._owner[cells], run._step_of[cells], run._pair[cells]
        place = _places(step)
        fits: NDArray[np.bool_] = self._of_step[step] + place < caps.keys
        fits &= self._noted[owner, CELLS] + ranks(np.ones_like(fits), owner) < run._total
        other = (self._of_step[step] == 0) & (place == 0)
        ticks = ranks(other, owner) + other
        fits &= self._noted[owner, USED] + ticks <= caps.ticks
        if caps.spacing > 1:
            fits &= ticks <= 1
        if caps.ticks_per_key is not None or caps.period_keys is not None:
            place = _places(pair)
            fits &= self._times[pair] + place < (caps.ticks_per_key or NO_CAP)
            other = ~self._known[pair] & (place == 0)
            keys = self._noted[owner, KEYS] + ranks(other, owner) + other
            fits &= keys <= (caps.period_keys or NO_CAP)
        return fits

    def add(self, cells: Ints) -> None:
        """Some cells stay."""
        run, n = self._run, len(self._noted)
        owner, step, pair = run._owner[cells], run._step_of[cells], run._pair[cells]
        steps, firsts = np.unique(step, return_index=True)
        other = self._of_step[steps] == 0
        self._noted[:, USED] += np.bincount(owner[firsts[other]], minlength=n)
        self._noted[:, CELLS] += np.bincount(owner, minlength=n)
        pairs, firsts = np.unique(pair, return_index=True)
        new = firsts[~self._known[pairs]]
        self._noted[:, KEYS] += np.bincount(owner[new], minlength=n)
        self._known[pairs] = True
        self._times += np.bincount(pair, minlength=len(self._times))
        self._of_step += np.bincount(step, minlength=len(self._of_step))
        if self._caps.spacing > 1:
            self._block(steps[other])

    def _block(self, steps: Ints) -> None:
        """No other tick may be used so near to some that are."""
        run, spacing = self._run, self._caps.spacing
        owner = run._owner[run._at[steps]]
        first = np.searchsorted(run._codes, run._codes[steps] - spacing, side="right")
        stop = np.searchsorted(run._codes, run._codes[steps] + spacing)
        first, stop = np.maximum(first, run._begin[owner]), np.minimum(stop, run._end[owner])
        self._near[ranges(first, stop - first)] = True


def _places(groups: Ints) -> Ints:
    """(n,) how many of its group stand before each."""
    order = np.argsort(groups, kind="stable")
    result = np.empty_like(groups)
    result[order] = ranks(np.ones(len(groups), dtype=bool), groups[order])
    return result

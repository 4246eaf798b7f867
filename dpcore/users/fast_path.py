"""Users whom no cap touches: told without the hashes by which caps choose.

Where nothing has been spent, a user's events of a period all stay if they are no more, and no
closer, than every cap lets in, and no two are of one cell. Then there is nothing to choose, so
nothing has to be ordered by hashes; of most data that is nearly everybody. It is the same rule
(``dpcore.users.cap``), looked at first.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints
from weir.dpcore.leaves.hash_sets import changes
from weir.dpcore.native import kernels
from weir.dpcore.users.unit import ContributionBounds

Marks = NDArray[np.uint8]
Keys = NDArray[np.int32]
Words = NDArray[np.uint64]

ASKED, STAYS, NEW = range(3)
"""Of an event: its user's caps have to be asked; it stays; it stays, and is the first of its user
and key in the period."""

MOST: Final = 256
"""Events of one user; who has more is asked."""
LAST: Final = (1 << 31) - 1
"""The last tick that is looked at: behind it everybody is asked."""
_NO_CAP: Final = 1 << 62


def within_bounds(
    high: Words, low: Words, keys: Keys, ticks: Ints, periods: Ints | None, caps: ContributionBounds
) -> Marks:
    """Marks of events, (n,) uint8.

    Args:
      high, low: (n,) hashes of users, all events of each. keys: (n,) numbers of keys, 0 or more.
      ticks: (n,) int64. periods: (n,) of ticks; None: all are of one. caps: of a user and period.
    """
    out: Marks = np.zeros(len(ticks), dtype=np.uint8)
    if not len(ticks) or int(ticks.max()) > LAST:
        return out
    bits = max(1, (len(ticks) - 1).bit_length())
    limits = np.array(
        [
            caps.ticks,
            caps.keys,
            caps.spacing,
            caps.ticks_per_key or _NO_CAP,
            caps.period_keys or _NO_CAP,
            caps.total or _NO_CAP,
            bits,
        ],
        dtype=np.int64,
    )
    packed = high >> np.uint64(bits)
    packed <<= np.uint64(bits)
    packed |= np.arange(len(ticks), dtype=np.uint64)
    packed.sort()
    if kernels is None:
        _look(packed, high, low, keys, ticks, periods, limits, out)
        return out
    nothing = np.zeros(0, dtype=np.int64)
    columns = [np.ascontiguousarray(column) for column in (high, low, keys, ticks)]
    kernels.untouched(packed, *columns, nothing if periods is None else periods, limits, out)
    return out


def _look(
    packed: Words,
    high: Words,
    low: Words,
    keys: Keys,
    ticks: Ints,
    periods: Ints | None,
    limits: Ints,
    out: Marks,
) -> None:
    """What the kernel does. Groups are users in a period, events sorted by tick and key.

    Args:
      packed: (n,) sorted, the first bits of a user's hash and the row of an event behind them.
    """
    most, crowd, spacing, of_key, period_keys, total, bits = limits.tolist()
    order = (packed & np.uint64((1 << bits) - 1)).view(np.int64)
    other = np.ones(len(order), dtype=bool)
    other[1:] = (packed[1:] ^ packed[:-1]) >> np.uint64(bits) != 0
    user = np.cumsum(other) - 1
    mixed = changes(np.stack([high[order], low[order]], axis=1)) & ~other
    rows = order[np.lexsort((keys[order], ticks[order], user))]
    if periods is not None:
        other |= np.diff(periods[rows], prepend=0) != 0
    group = np.cumsum(other) - 1
    tick, key, groups = ticks[rows], keys[rows], int(group[-1]) + 1
    alone = np.bincount(user) == 1
    fits = (np.bincount(group) <= total) & (np.bincount(user)[user[other]] <= MOST)

    def refuse(where: NDArray[Any]) -> None:
        fits[group[where]] = False

    refuse(np.isin(user, user[mixed]))
    fresh = other.copy()  # the first of its tick
    fresh[1:] |= tick[1:] != tick[:-1]
    step = np.cumsum(fresh) - 1
    fits &= np.bincount(group[fresh], minlength=groups) <= most
    refuse(np.bincount(step)[step] > crowd)
    refuse(np.append(False, ~fresh[1:] & (key[1:] == key[:-1])))
    refuse(np.append(False, fresh[1:] & ~other[1:] & (np.diff(tick) < spacing)))
    by_key = np.lexsort((tick, key, group))
    first = other.copy()  # groups lie where they lay
    first[1:] |= key[by_key][1:] != key[by_key][:-1]
    refuse(by_key[first][np.bincount(np.cumsum(first) - 1) > of_key])
    fits &= np.bincount(group[by_key[first]], minlength=groups) <= period_keys
    fits |= alone[user[other]]
    new = np.zeros(len(rows), dtype=bool)
    new[by_key[first]] = True
    stays = fits[group]
    out[rows[stays]] = np.where(new, NEW, STAYS)[stays]

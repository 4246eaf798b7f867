"""Orders of many 64-bit words at once: by sorting them, not places that point to them.

The place of a word takes the bits that the sort needs least, so that one sort of plain numbers,
which processors are quick at, gives the order; the few that it cannot tell apart are sorted again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Ints

Words = NDArray[np.uint64]


def order_of(columns: Sequence[Words]) -> Ints:
    """The stable order by several columns, the first one first: (n,) int64.

    Quick where the first column, but for its last log2(n) bits, tells most rows apart or those that
    it does not tell apart are alike.

    Args:
      columns: (n,) uint64 each.
    """
    n = len(columns[0])
    bits = np.uint64(max(1, (n - 1).bit_length()))
    packed = columns[0] >> bits
    packed <<= bits
    packed |= np.arange(n, dtype=np.uint64)
    packed.sort()
    order = (packed & np.uint64((1 << int(bits)) - 1)).view(np.int64)
    packed >>= bits
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    if not len(tied):
        return order
    before, after = order[tied], order[tied + 1]
    wrong = np.zeros(len(tied), dtype=bool)
    for column in reversed(columns):
        one, other = column[before], column[after]
        wrong = (one > other) | ((one == other) & wrong)
    if not wrong.any():
        return order
    group = np.zeros(n, dtype=np.int64)
    np.cumsum(packed[1:] != packed[:-1], out=group[1:])
    again = np.zeros(int(group[-1]) + 1, dtype=bool)
    again[group[tied[wrong]]] = True
    rows = np.flatnonzero(again[group])
    some = order[rows]
    keys = [column[some] for column in reversed(columns)]
    order[rows] = some[np.lexsort((*keys, group[rows]))]
    return order


def changes(ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """(n,) whether a row of (n, 2) words is another than the one before; the first is."""
    new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:, 0], ordered[:-1, 0], out=new[1:])
    new[1:] |= ordered[1:, 1] != ordered[:-1, 1]
    return new

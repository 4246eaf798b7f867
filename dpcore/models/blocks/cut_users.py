"""Blocks of ticks in which the records of a user weigh as much as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from weir.dpcore.arrays import Ints
from weir.dpcore.leaves.rows import RowLeaf, grouped
from weir.dpcore.models.blocks.cut import Cut
from weir.dpcore.models.kit.kept import BlockRows, Dense, Prefix, void


@dataclass(frozen=True)
class ByUsers:
    """Blocks of a number of ticks. Each row has the weight 1 / (rows of its user in its block).

    **Formal guarantees**
      Unit: a user in a period. The rows of a user in a block add the mean of their gradients, of
      norm at most L, to N grad F, and nothing if they are all void. The hash of a row is its
      user's, the same in all ticks of a block; of more than ``users`` users of a key and block
      those of the smallest hashes stay, with all of their rows. A cap on users in a tick, by the
      same hashes and the same number, drops nobody who stays: who is among the smallest of a block
      is so among those of each of its ticks. So a user-period that is there or not either changes
      the mean of one user, or lets in one user for another, or adds one: N grad F moves by at
      most 2 L, as where one record is swapped. N is a public constant.

    Attributes:
      ticks: of a block. divisor: N. users: that are kept of a block, at most.
      each: rows of one of them, at most, by the caps on what a user adds.
    """

    ticks: int
    divisor: float
    users: int
    each: int

    by_count: ClassVar[bool] = False

    @property
    def most(self) -> int:
        """See Blocks."""
        return self.users * self.each

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        """See Blocks."""
        return tuple(t for t in range(first, stop) if (t + 1) % self.ticks == 0)

    def take(self, waiting: Prefix, leaves: Sequence[RowLeaf], tick: int, seen: Ints) -> Cut:
        """See Blocks. Rows begin with how many share their weight."""
        rows, block = self.wait(waiting, leaves), tick // self.ticks
        before = np.full(len(rows.counts), block, dtype=np.int64)
        shared = np.concatenate([sharing(rows)[:, None], cast(Dense, rows.rows)], axis=1)
        complete = BlockRows(rows.counts, shared, np.full(len(shared), block, dtype=np.int64))
        return Cut(complete, rows.emptied, before, before + 1)

    def wait(self, waiting: Prefix, leaves: Sequence[RowLeaf]) -> Prefix:
        """See Blocks."""
        return waiting.with_rows(leaves, self.users, users=True)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "ticks": self.ticks,
            "divisor": self.divisor.hex(),
            "users": self.users,
            "each": self.each,
        }


def sharing(rows: Prefix) -> Dense:
    """(N,) rows of each one's user that are not void; 1 where there is none."""
    order, starts = grouped(rows.keys, rows.hashes)
    if not len(order):
        return np.zeros(0, dtype=np.int32)
    said = (~void(rows.rows)[order]).astype(np.int64)
    counts = np.maximum(np.add.reduceat(said, starts), 1)
    found = np.empty(len(order), dtype=np.int32)
    found[order] = np.repeat(counts, np.diff(starts, append=len(order)))
    return found

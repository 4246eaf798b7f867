"""How the records of a key are cut into blocks. The cut is public, and so is the divisor N."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from weir.dpcore.arrays import Ints
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.kit.kept import BlockRows, Prefix, some

WHOLE = 1 << 62
"""More rows than any key has."""


class Cut(NamedTuple):
    """What a tick completes.

    Attributes:
      rows: of the blocks that became complete. waiting: rows of those that are not.
      before, after: (K,) int64, complete blocks of each key before and after.
    """

    rows: BlockRows
    waiting: Prefix
    before: Ints
    after: Ints


class Blocks(Protocol):
    """A cut of a key's records into blocks.

    Attributes:
      divisor: N of one block. most: rows of a block, at most.
      users: whose rows weigh as much as one together, of a block, at most; 0: each row by itself.
    """

    @property
    def divisor(self) -> float: ...

    @property
    def most(self) -> int: ...

    @property
    def users(self) -> int: ...

    @property
    def by_count(self) -> bool:
        """Whether blocks are of records, so that no record may vanish."""

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks of [first, stop) that may complete a block."""

    def take(self, waiting: Prefix, leaves: Sequence[RowLeaf], tick: int, seen: Ints) -> Cut:
        """At a due tick: rows that waited, and leaves of the ticks since, up to and with this.

        seen: (K,), rows of each key before these.
        """

    def wait(self, waiting: Prefix, leaves: Sequence[RowLeaf]) -> Prefix:
        """Rows of ticks that complete nothing."""

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""


@dataclass(frozen=True)
class ByTicks:
    """Blocks of a number of ticks of the clock.

    **Formal guarantees**: which block a record is in follows from its tick. N is a public constant,
    not the number of rows, which stays private. A limit keeps the rows of the smallest keyed hashes
    of a block, so that whatever the relation, a neighbour swaps at most one row of one block for
    another, or adds or removes one (``Prefix``); two, where key and tick may change.

    Attributes:
      ticks: of a block. divisor: N. most: rows that are kept of a block.
    """

    ticks: int
    divisor: float
    most: int

    by_count: ClassVar[bool] = False
    users: ClassVar[int] = 0

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        """See Blocks."""
        return tuple(t for t in range(first, stop) if (t + 1) % self.ticks == 0)

    def take(self, waiting: Prefix, leaves: Sequence[RowLeaf], tick: int, seen: Ints) -> Cut:
        """See Blocks."""
        rows, block = waiting.with_rows(leaves, self.most), tick // self.ticks
        blocks = np.full(len(rows.hashes), block, dtype=np.int64)
        before = np.full(len(rows.counts), block, dtype=np.int64)
        complete = BlockRows(rows.counts, rows.rows, blocks)
        return Cut(complete, rows.emptied, before, before + 1)

    def wait(self, waiting: Prefix, leaves: Sequence[RowLeaf]) -> Prefix:
        """See Blocks."""
        return waiting.with_rows(leaves, self.most)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"ticks": self.ticks, "divisor": self.divisor.hex(), "most": self.most}


@dataclass(frozen=True)
class ByCount:
    """Blocks of a number of records, in the order (tick, keyed hash of the id).

    **Formal guarantees**: under replace_one an event keeps key, tick and id, so that content moves
    no record to another place: never the event time within the tick, and a void row keeps its place
    too. Where a cap bites, hashes of ids decide, not content. So a neighbour swaps one row of one
    block for another. N is the number of records of a block, exactly.

    Attributes:
      records: of a block.
    """

    records: int

    by_count: ClassVar[bool] = True
    users: ClassVar[int] = 0

    @property
    def divisor(self) -> float:
        """See Blocks."""
        return float(self.records)

    @property
    def most(self) -> int:
        """See Blocks."""
        return self.records

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        """See Blocks: any tick may."""
        return tuple(range(first, stop))

    def take(self, waiting: Prefix, leaves: Sequence[RowLeaf], tick: int, seen: Ints) -> Cut:
        """See Blocks."""
        rows = self.wait(waiting, leaves)
        waited = seen - seen // self.records * self.records
        before = seen // self.records
        total = seen - waited + rows.counts
        after = total // self.records
        starts = np.cumsum(rows.counts) - rows.counts
        keys = rows.keys
        place = np.arange(len(keys), dtype=np.int64) - starts[keys] + (seen - waited)[keys]
        blocks = place // self.records
        done = blocks < after[keys]
        counts = np.bincount(keys[done], minlength=len(rows.counts))
        left = Prefix(rows.counts - counts, some(rows.rows, ~done), rows.hashes[~done])
        complete = BlockRows(counts, some(rows.rows, done), blocks[done])
        return Cut(complete, left, before, after)

    def wait(self, waiting: Prefix, leaves: Sequence[RowLeaf]) -> Prefix:
        """See Blocks."""
        for leaf in leaves:
            waiting = waiting.with_rows([by_hash(leaf)], WHOLE)
        return waiting

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"records": self.records}


def by_hash(leaf: RowLeaf) -> RowLeaf:
    """The rows of each key in order of their hashes: event times have no say."""
    order = np.lexsort((leaf.id_hash[:, 1], leaf.id_hash[:, 0], leaf.keys))
    return RowLeaf(leaf.offsets, leaf.rows[order], leaf.event_time[order], leaf.id_hash[order])

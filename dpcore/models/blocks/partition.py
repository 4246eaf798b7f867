"""How records of a key are partitioned into blocks: by ticks, by count, or by ticks with users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np

from weir.dpcore.arrays import Ints
from weir.dpcore.config import durations
from weir.dpcore.config.ticks import show_ticks
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.rows import RowLeaf, grouped
from weir.dpcore.models.fields import MOST_ROWS
from weir.dpcore.models.kit.kept import BlockRows, Dense, Prefix, some, void
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.users.unit import UserUnit

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
        return tuple(t for t in range(first, stop) if (t + 1) % self.ticks == 0)

    def take(self, waiting: Prefix, leaves: Sequence[RowLeaf], tick: int, seen: Ints) -> Cut:
        rows, block = waiting.with_rows(leaves, self.most), tick // self.ticks
        blocks = np.full(len(rows.hashes), block, dtype=np.int64)
        before = np.full(len(rows.counts), block, dtype=np.int64)
        complete = BlockRows(rows.counts, rows.rows, blocks)
        return Cut(complete, rows.emptied, before, before + 1)

    def wait(self, waiting: Prefix, leaves: Sequence[RowLeaf]) -> Prefix:
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
        return float(self.records)

    @property
    def most(self) -> int:
        return self.records

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        """See Blocks: any tick may."""
        return tuple(range(first, stop))

    def take(self, waiting: Prefix, leaves: Sequence[RowLeaf], tick: int, seen: Ints) -> Cut:
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
        return self.users * self.each

    def due(self, first: int, stop: int) -> tuple[int, ...]:
        return tuple(t for t in range(first, stop) if (t + 1) % self.ticks == 0)

    def take(self, waiting: Prefix, leaves: Sequence[RowLeaf], tick: int, seen: Ints) -> Cut:
        """See Blocks. Rows begin with how many share their weight."""
        rows, block = self.wait(waiting, leaves), tick // self.ticks
        before = np.full(len(rows.counts), block, dtype=np.int64)
        shared = np.concatenate([sharing(rows)[:, None], cast(Dense, rows.rows)], axis=1)
        complete = BlockRows(rows.counts, shared, np.full(len(shared), block, dtype=np.int64))
        return Cut(complete, rows.emptied, before, before + 1)

    def wait(self, waiting: Prefix, leaves: Sequence[RowLeaf]) -> Prefix:
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
    result = np.empty(len(order), dtype=np.int32)
    result[order] = np.repeat(counts, np.diff(starts, append=len(order)))
    return result


SPARE = 16
"""Rows of a block of ticks beyond twice those that are expected, where no cap is given."""


def cut_for(block: int | str, cap: int | None, users: float | None, terms: Terms) -> Blocks:
    """The cut into blocks.

    Args:
      block: a number of records, or a duration. cap: rows (where they are the unit, users) of a
        block of ticks; None: a default. users: that are expected in a block; None: nobody said.

    Raises:
      ConfigError: blocks of records where a record could vanish, or has no place of its own; blocks
        of ticks that are no whole number, or of which nobody says how many events they have.
    """
    if terms.person is None and users is not None:
        raise ConfigError("model.users", users, "belongs to privacy.unit: user; remove it.")
    if isinstance(block, int):
        check_places(
            terms, "blocks of a number of records; or write a duration, like model.block: 7d."
        )
        return ByCount(block)
    length = durations.duration(block)
    ticks, rest = terms.clock.ticks_in(length)
    if rest or not ticks:
        shown = show_ticks(terms.clock, 1)
        raise ConfigError(
            "model.block", block, f"must be a whole number of ticks, which are {shown}."
        )
    if terms.person is not None:
        return _of_users(ticks, cap, users, terms.person, terms.users)
    if terms.events is None:
        raise ConfigError(
            "expect.events",
            None,
            "is needed where blocks are of ticks: sums over a block are divided by the public "
            "number of events that are expected in it, as how many came is private.",
        )
    divisor = max(1.0, terms.events * ticks)
    return ByTicks(ticks, divisor, cap or min(MOST_ROWS, int(2 * divisor) + SPARE))


def _of_users(
    ticks: int, cap: int | None, users: float | None, person: UserUnit, in_a_tick: float | None
) -> ByUsers:
    if users is None and in_a_tick is None:
        raise ConfigError(
            "model.users",
            None,
            "is needed where blocks are of users: how many a block has, about. Sums over a block "
            "are divided by it, as how many came is private. (Or expect.users, of a tick; that "
            "takes users to come once a block.)",
        )
    divisor = max(1.0, float(users) if users is not None else (in_a_tick or 0.0) * ticks)
    caps, shortest = person.caps, person.periods.shortest
    met = 1 if shortest is None else (ticks - 1) // shortest + 2
    each = caps.events * min(ticks, caps.key_ticks * met)
    most = cap or max(1, min(MOST_ROWS // each, int(2 * divisor) + SPARE))
    return ByUsers(ticks, divisor, most, each)


def check_places(terms: Terms, what: str) -> None:
    """Where each record has a place of its own, no other may vanish or be added.

    Args:
      what: that is for, and what else there is.

    Raises:
      ConfigError: a record could, or has no place.
    """
    if terms.person is not None:
        raise ConfigError(
            "privacy.unit",
            terms.unit,
            "must be event: a user who was not there would move every later record into another "
            f"block. That is for {what}",
        )
    asked = {
        "privacy.relation": (
            terms.relation != "replace_one",
            terms.relation,
            "must be replace_one: an event more would move every later one into other blocks",
        ),
        "schema.id": (
            not terms.has_id,
            None,
            "is needed: the id says which place an event has among those of its tick",
        ),
        "where": (
            terms.may_vanish,
            "or schema.arrival",
            "must not be set: an event that vanishes would move every later one",
        ),
    }
    for name, (wrong, value, why) in asked.items():
        if wrong:
            if terms.clock.once:
                what = what.partition(";")[0].rstrip(".") + "."
            raise ConfigError(name, value, f"{why}. That is for {what}")

"""What a shard of users stores: which ticks are closed, what users have used up, what waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from weir.dpcore.errors import in_words
from weir.dpcore.leaves.hash_sets import Entries, TimedSet
from weir.dpcore.users.cap import NOBODY, CappedCells
from weir.dpcore.users.closing import PAIR_NOTES, USER_NOTES, UsedBounds
from weir.dpcore.users.last_seen import active_since, forgets
from weir.transforms.operators.hash_partition import joined
from weir.transforms.operators.progress import bag_of, bags_due
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.timed_cells import RING, Bag, Cell, Held, TimedCells
from weir.transforms.operators.users import decode, encode
from weir.transforms.runtime.codec import pack, unpack

CLOSED = b"C"
"""Kind of bytes."""
WIDTH = 1 << 32
"""Ticks of the one slice that a period is: its ticks are stored in four bytes."""
NEAR = 8
"""Bags of near ticks, by their number; two more are for far ones."""
BAGS = NEAR + 2


class Closed(NamedTuple):
    """How far a shard is. The clock alone decides it, whatever the shard has seen.

    Attributes:
      following: the next tick to close. announced: the last that heartbeats told of.
      period: of ``following``, as what is spent is stored for it.
    """

    following: int = 0
    announced: int = -1
    period: int = 0

    def encode(self, layout: bytes) -> bytes:
        """As bytes."""
        return pack(CLOSED, [np.array(self, dtype=np.int64)], layout)

    @classmethod
    @in_words
    def decode(cls, data: bytes | None, layout: bytes) -> Closed:
        """The inverse; nothing stored: at the first tick.

        Raises:
          CodecError: damaged bytes, or of another plan.
        """
        return cls() if data is None else cls(*unpack(CLOSED, data, layout)[0].tolist())


class UserCaches(NamedTuple):
    """What this process has at hand of users, of their keys, and of who was seen last when."""

    users: StateCache[Held]
    pairs: StateCache[Held]
    seen: StateCache[Held]

    @classmethod
    def of(cls, run: str) -> UserCaches:
        """Those of a run."""
        return cls(*(StateCache.of(f"{run}/{name}") for name in cls._fields))


class SpentCells:
    """What is spent, between cells and memory: a close appends what changed, a period's end clears.
    When users were seen last outlasts it, and is written again four times in its span, without
    those who are no longer active.

    Args:
      shard, shards, layout: as ``TimedCells`` has them. users, pairs, seen: a cell and a bag of
        each. span: ticks in which users are active; 0: nobody asks.
    """

    def __init__(
        self,
        shard: int,
        shards: int,
        layout: bytes,
        users: tuple[Cell, Bag],
        pairs: tuple[Cell, Bag],
        seen: tuple[Cell, Bag],
        shelves: UserCaches,
        span: int = 0,
    ) -> None:
        def cells(stored: tuple[Cell, Bag], shelf: StateCache[Held], noted: int) -> TimedCells:
            ring = [stored[1]] * RING
            return TimedCells(shard, shards, WIDTH, layout, stored[0], ring, shelf, noted)

        self._users = cells(users, shelves.users, USER_NOTES)
        self._pairs = cells(pairs, shelves.pairs, PAIR_NOTES)
        self._seen = cells(seen, shelves.seen, 0) if span else None
        self._span = span

    def spent(self, period: int) -> UsedBounds:
        """What is known; all of it is of this period."""
        return UsedBounds(period, self._users.known, self._pairs.known)

    @property
    def seen(self) -> TimedSet:
        """When users were seen last."""
        return NOBODY if self._seen is None else self._seen.known

    def note(self, seen: Entries, following: int, stop: int) -> None:
        """Stores who was seen in the ticks [following, stop), and forgets by the public clock."""
        if self._seen is None:
            return
        self._seen.add(seen)
        if not forgets(following, stop, self._span):
            return
        active = TimedSet.of(self._seen.known.since(active_since(stop, self._span)).runs)
        self._seen.clear()
        for run in active.runs:
            self._seen.add(run)

    def write(self, capped: CappedCells, period: int) -> None:
        """Stores what changed. Behind its last tick a period is forgotten in the same bundle."""
        if capped.period != period:
            self.forget()
        self._users.add(capped.users)
        self._pairs.add(capped.pairs)

    def forget(self) -> None:
        """Nothing is spent any more."""
        self._users.clear()
        self._pairs.clear()


class WaitingRows:
    """Events that wait until their tick is closed.

    Near ticks lie in bags by their number, so that closing one reads what is of it and of the few
    that share its bag; far ones in two bags that are read when a turn of ticks begins
    (``transforms.operators.progress``).

    Args:
      bags: ``BAGS`` of them. layout: of the plan.
      ordered: False where all ticks are closed together: one bag will do.
    """

    def __init__(self, bags: Sequence[Bag], layout: bytes, ordered: bool) -> None:
        self._bags, self._layout, self._ordered = bags, layout, ordered

    def add(self, batch: pa.RecordBatch, following: int) -> None:
        """Stores events of ticks from ``following`` on."""
        if not batch.num_rows:
            return
        if not self._ordered:
            self._bags[0].add(encode(batch, self._layout))
            return
        ticks = batch.column("@tick").to_numpy()
        result, of = np.unique(ticks, return_inverse=True)
        places = np.array([self._place(tick, following) for tick in result.tolist()])
        if (places == places[0]).all():
            self._bags[places[0]].add(encode(batch, self._layout))
            return
        for place in np.unique(places).tolist():
            part = batch.filter(pa.array(places[of] == place))
            self._bags[place].add(encode(part, self._layout))

    def take(self, following: int, stop: int) -> pa.RecordBatch | None:
        """Events of ticks before ``stop``, which are gone from here; None if there are none."""
        due: list[pa.RecordBatch] = []
        for place in self._due(following, stop):
            held = [decode(data, self._layout) for data in self._bags[place].read()]
            if not held:
                continue
            self._bags[place].clear()
            whole = joined(held)
            over = whole.column("@tick").to_numpy() < stop
            if over.all():
                due.append(whole)
                continue
            self.add(whole.filter(pa.array(~over)), stop)
            if over.any():
                due.append(whole.filter(pa.array(over)))
        return joined(due) if due else None

    def _place(self, tick: int, following: int) -> int:
        far = bag_of(tick, following)
        return NEAR + far - 1 if far else tick % NEAR

    def _due(self, following: int, stop: int) -> Iterator[int]:
        """Bags that may hold a tick before ``stop``, or one that belongs nearer from then on.

        Far ones first: what comes nearer is put where it is looked for next.
        """
        if not self._ordered:
            yield 0
            return
        for far in range(bags_due(following, stop) - 1, 0, -1):
            yield NEAR + far - 1
        yield from sorted({tick % NEAR for tick in range(following, min(stop, following + NEAR))})

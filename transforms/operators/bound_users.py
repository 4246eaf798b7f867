"""Contribution bounds of users where all data is there from the start: ticks are closed at once.

Nothing is spent before and nothing has to be remembered. Users whom no bound touches
(``dpcore.users.fast_path``) pass without the hashes by which bounds choose; for the others those
are made now, and the rule is the same as on a stream (``transforms.beam.bound_users``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests
from weir.dpcore.leaves.hashes import id_hashes
from weir.dpcore.plan import Plan
from weir.dpcore.program import takes_rows
from weir.dpcore.users.cap import cap_events, keeps_pairs
from weir.dpcore.users.cells import CapKeys, name_hashes
from weir.dpcore.users.closing import UsedBounds
from weir.dpcore.users.fast_path import ASKED, NEW, Marks, within_bounds
from weir.transforms.columns.keys import KEY
from weir.transforms.columns.names import CELL, HIGH, LOW, UNIT_HIGH, UNIT_LOW
from weir.transforms.columns.names import NEW as NEWCOMER
from weir.transforms.operators.hash_partition import joined
from weir.transforms.operators.key_numbers import KeyNumbers
from weir.transforms.operators.users import (
    HAS_ID,
    PLACE,
    batches,
    completed,
    count,
    hashes_of,
    in_groups,
    of_users,
    with_row_hashes,
    without_hashes,
)
from weir.transforms.runtime.dead_letters import Reject
from weir.transforms.runtime.prefetch import in_turn

PARTS: Final = 256
"""By the last byte of the hash of a user."""
GROUPS: Final = 4
"""Of parts: what was sifted is forgotten group by group, as they are looked at."""
TOGETHER: Final = 1 << 19
"""Events that are sifted at a time."""
WORKED_ON: Final = 1 << 17
"""Events that are worked on at a time, if they are of several parts."""


R = TypeVar("R")


class Sifted(NamedTuple):
    """Some events, part by part.

    Attributes:
      groups: they, GROUPS batches; of a group that has left, None.
      bounds: (PARTS + 1,) where each part begins in all of them, and where the last ends.
    """

    groups: list[pa.RecordBatch | None]
    bounds: NDArray[np.int64]


class Sieve:
    """Batches -> what is sifted, as soon as there are enough to be sifted together.

    Args:
      by: column of uint64, hashes by which events belong to parts.
    """

    def __init__(self, by: str) -> None:
        self._by = by
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def process(self, batch: pa.RecordBatch) -> Iterator[Sifted]:
        """Takes a batch of one row or more."""
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= TOGETHER:
            yield from self.finish()

    def finish(self) -> Iterator[Sifted]:
        """What was not enough; then nothing is held."""
        if not self._held:
            return
        whole = joined(self._held)
        self._held, self._rows = [], 0
        part = whole.column(self._by).to_numpy().astype(np.uint8)
        bounds = np.zeros(PARTS + 1, dtype=np.int64)
        np.cumsum(np.bincount(part, minlength=PARTS), out=bounds[1:])
        order = np.argsort(part, kind="stable")
        ends = bounds[:: PARTS // GROUPS].tolist()
        yield Sifted([whole.take(pa.array(order[a:b])) for a, b in pairwise(ends)], bounds)


def parts_of(sifted: Sequence[Sifted]) -> Iterator[Callable[[], pa.RecordBatch]]:
    """All events, those of a part in one batch; small parts together. Each is made when it is
    called for, and forgotten in ``sifted`` when its group is."""
    for group, first in enumerate(range(0, PARTS, PARTS // GROUPS) if sifted else ()):
        held = []
        for item in sifted:
            bounds = item.bounds[first : first + PARTS // GROUPS + 1]
            held.append((item.groups[group], bounds - bounds[0]))
            item.groups[group] = None
        sizes = np.sum([np.diff(bounds) for _, bounds in held], axis=0).tolist()
        yield from [partial(_part, held, *run) for run in runs(sizes, WORKED_ON)]


def _part(
    held: Sequence[tuple[pa.RecordBatch, NDArray[np.int64]]], first: int, stop: int
) -> pa.RecordBatch:
    """Parts [first, stop) of a group."""
    pieces = [batch.slice(at[first], at[stop] - at[first]) for batch, at in held]
    return joined([piece for piece in pieces if piece.num_rows])


def runs(sizes: Sequence[int], enough: int) -> Iterator[tuple[int, int]]:
    """Runs [first, stop) of parts: of ``enough`` events at most, or a single part; none empty."""
    first, held = 0, 0
    for stop, size in enumerate(itertools.chain(sizes, [enough])):
        if held and (held + size > enough or stop == len(sizes)):
            yield first, stop
            first, held = stop, 0
        held += size


class SiftUsers:
    """Record batches with ``@unit`` -> the same, sifted by the hashes of users. User and id leave
    here; their hashes stay.

    Args:
      keys: of hashes. names: numbers of keys that were met. reject: takes dead letters of events
        without a user.
    """

    def __init__(self, keys: CapKeys, names: KeyNumbers, reject: Reject) -> None:
        self._keys, self._names, self._reject = keys, names, reject
        self._sieve = Sieve(UNIT_LOW)

    def process(self, batch: pa.RecordBatch) -> Iterator[Sifted]:
        """Takes a batch."""
        known, letters = of_users(batch, self._keys)
        if letters is not None:
            self._reject(letters)
        if known.num_rows:
            yield from self._sieve.process(bare(known, self._keys, self._names))

    def finish(self) -> Iterator[Sifted]:
        """What was not enough."""
        return self._sieve.finish()


class BoundUsers:
    """Events that the bounds of their users let in, once all are sifted.

    Args:
      plan: with a person. secret: 32 bytes; only keys of hashes are derived from it.
    """

    def __init__(self, plan: Plan, secret: bytes) -> None:
        assert plan.person is not None
        self._plan, self._person, self._program = plan, plan.person, plan.program
        self._keys, self._names = CapKeys.derive(secret, plan.digest), KeyNumbers()

    @property
    def names(self) -> pa.Array:
        """Of all keys that were met."""
        return self._names.texts

    def sift(self, reject: Reject) -> SiftUsers:
        """What sifts some of the events; threads have one each.

        reject: takes dead letters of events without a user.
        """
        return SiftUsers(self._keys, self._names, reject)

    def let_in(self, sifted: Sequence[Sifted], then: Callable[[pa.RecordBatch], R]) -> Iterator[R]:
        """Closes every tick. Users whom a bound may touch are looked at, many of them together.

        Args:
          sifted: all events. then: what is made of a batch, in several threads.
        """

        asked: list[pa.RecordBatch] = []

        def look(part: Callable[[], pa.RecordBatch]) -> tuple[pa.RecordBatch | None, list[R]]:
            some, passed = self._looked_at(part())
            return some, [] if passed is None else [then(passed)]

        def choose(some: list[pa.RecordBatch]) -> tuple[None, list[R]]:
            return None, list(map(then, self._chosen(joined(some))))

        def work() -> Iterator[Callable[[], tuple[pa.RecordBatch | None, list[R]]]]:
            for part in parts_of(sifted):
                yield partial(look, part)
                if sum(item.num_rows for item in asked) >= WORKED_ON:
                    some = asked[:]
                    asked.clear()  # now: more comes while this is worked on
                    yield partial(choose, some)

        for some, results in in_turn(lambda task: task(), work()):
            yield from results
            if some is not None:
                asked.append(some)
        if asked:
            yield from choose(asked)[1]

    def _looked_at(
        self, part: pa.RecordBatch
    ) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
        """Events of users whom a bound may touch, and those of all others; None where none is."""
        events, some = self._with_ticks(part), None
        marks = self._marks(events)
        asked = marks == ASKED
        if asked.any():
            some = events.filter(pa.array(asked))
            events, marks = events.filter(pa.array(~asked)), marks[~asked]
        return some, self._passed(events, marks == NEW) if events.num_rows else None

    def _with_ticks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        times = batch.column("@time").view(pa.int64()).to_numpy()
        return batch.append_column("@tick", pa.array(self._plan.clock.tick_of(times)))

    def _marks(self, part: pa.RecordBatch) -> Marks:
        """Of all events of some users, which of them have to be asked: all, where it matters when a
        user came before, or which cells of theirs meet."""
        if self._program.reads_gaps or self._program.merges_cells:
            return np.full(part.num_rows, ASKED, dtype=np.uint8)
        ticks = part.column("@tick").to_numpy()
        high, low = (part.column(name).to_numpy() for name in (UNIT_HIGH, UNIT_LOW))
        keys = np.zeros(len(ticks), dtype=np.int32)
        if KEY in part.schema.names:
            keys = part.column(KEY).to_numpy()
        periods = None if self._person.periods.per is None else self._person.periods.of(ticks)
        return within_bounds(high, low, keys, ticks, periods, self._person.caps)

    def _passed(self, batch: pa.RecordBatch, new: Any) -> pa.RecordBatch:
        """Events of users whom no cap touches; each is a cell of its own."""
        if takes_rows(self._program):
            batch = with_row_hashes(batch, self._program, self._keys)
        batch = self._named(without_hashes(batch, self._program))
        cells = pa.array(np.arange(batch.num_rows))
        return pa.RecordBatch.from_arrays(
            [*batch.columns, cells, pa.array(new)], names=[*batch.schema.names, CELL, NEWCOMER]
        )

    def _chosen(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Of the events of other users those that their caps let in."""
        person, program = self._person, self._program
        ticks = batch.column("@tick").to_numpy()
        named: Digests | None = None
        if KEY in batch.schema.names:
            named = self._names.hashes_of(batch.column(KEY))
        if program.merges_cells:
            batch = self._named(batch)
        batch = in_groups(batch, self._plan, self._keys)
        whole = completed(batch, named, program, person, self._keys)
        first = int(person.periods.of(ticks[:1] * 0)[0])
        retained = cap_events(
            UsedBounds.nothing(first),
            hashes_of(whole, program),
            int(ticks.max()) + 1,
            person,
            keeps_pairs(person.caps, program.reads_new),
            span=program.reads_gaps,
        )
        count(retained.dropped)
        for item in batches(without_hashes(whole, program), retained, program.coarser):
            yield item if program.merges_cells else self._named(item)

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Names in place of numbers."""
        if KEY not in batch.schema.names:
            return batch
        names = self._names.decoded(batch.column(KEY))
        return batch.set_column(batch.schema.get_field_index(KEY), KEY, names)


def bare(batch: pa.RecordBatch, keys: CapKeys, names: KeyNumbers) -> pa.RecordBatch:
    """Events of known users as they are sifted: names of keys as numbers, ids as hashes, and what
    their ticks follow from."""
    batch = batch.drop_columns([*PLACE, "@tick"])
    result = dict(zip(batch.schema.names, batch.columns, strict=True))
    if KEY in result:
        entries = name_hashes(result[KEY].dictionary, keys)
        result[KEY] = names.coded(result[KEY], entries)
    if "@id" in result:
        hashes, null = id_hashes(result.pop("@id"), keys.ids)
        result[HIGH] = pa.array(np.ascontiguousarray(hashes[:, 0]))
        result[LOW] = pa.array(np.ascontiguousarray(hashes[:, 1]))
        result[HAS_ID] = pa.array(~null)
    return pa.RecordBatch.from_arrays(list(result.values()), names=list(result))

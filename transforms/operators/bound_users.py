"""Contribution bounds of users where all data is there from the start: ticks are closed at once.

Nothing is spent before and nothing has to be remembered. Users whom no bound touches
(``dpcore.users.fast_path``) pass without the hashes by which bounds choose; for the others those
are made now, and the rule is the same as on a stream (``transforms.beam.bound_users``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

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

PARTS: Final = 256
"""By the last byte of the hash of a user."""
TOGETHER: Final = 1 << 19
"""Events that are sifted at a time."""
WORKED_ON: Final = 1 << 17
"""Events that are worked on at a time, if they are of several parts."""


class Sifted(NamedTuple):
    """Some events, part by part.

    Attributes:
      batch: they. bounds: (PARTS + 1,) where each part begins, and where the last ends.
    """

    batch: pa.RecordBatch
    bounds: NDArray[np.int64]

    def between(self, first: int, stop: int) -> pa.RecordBatch:
        """Events of parts [first, stop)."""
        low, high = self.bounds[[first, stop]].tolist()
        return self.batch.slice(low, high - low)


class Sieve:
    """Gathers batches until there are enough to be sifted together.

    Args:
      by: column of uint64, hashes by which events belong to parts.
    """

    def __init__(self, by: str) -> None:
        self._by = by
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._sifted: list[Sifted] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes a batch of one row or more."""
        self._held.append(batch)
        self._rows += batch.num_rows
        if self._rows >= TOGETHER:
            self._sift()

    def empty(self) -> list[Sifted]:
        """All that came since it was last empty."""
        if self._held:
            self._sift()
        result, self._sifted = self._sifted, []
        return result

    def _sift(self) -> None:
        whole = joined(self._held)
        self._held, self._rows = [], 0
        part = whole.column(self._by).to_numpy().astype(np.uint8)
        bounds = np.zeros(PARTS + 1, dtype=np.int64)
        np.cumsum(np.bincount(part, minlength=PARTS), out=bounds[1:])
        order = pa.array(np.argsort(part, kind="stable"))
        self._sifted.append(Sifted(whole.take(order), bounds))


def parts_of(sifted: Sequence[Sifted]) -> Iterator[pa.RecordBatch]:
    """All events, those of a part in one batch; small parts together."""
    sizes = np.sum([np.diff(item.bounds) for item in sifted], axis=0)
    for first, stop in runs(sizes.tolist(), WORKED_ON):
        pieces = [item.between(first, stop) for item in sifted]
        yield joined([piece for piece in pieces if piece.num_rows])


def runs(sizes: Sequence[int], enough: int) -> Iterator[tuple[int, int]]:
    """Runs [first, stop) of parts: of ``enough`` events at most, or a single part; none empty."""
    first, held = 0, 0
    for stop, size in enumerate(itertools.chain(sizes, [enough])):
        if held and (held + size > enough or stop == len(sizes)):
            yield first, stop
            first, held = stop, 0
        held += size


class BoundUsers:
    """Record batches with ``@unit`` -> at the end, events that their users' bounds let in.

    User and id leave here; their hashes stay.

    Args:
      plan: with a person. secret: 32 bytes; only keys of hashes are derived from it.
      reject: takes dead letters of events without a user.
    """

    def __init__(self, plan: Plan, secret: bytes, reject: Reject) -> None:
        assert plan.person is not None
        self._plan, self._person, self._program = plan, plan.person, plan.program
        self._keys, self._reject = CapKeys.derive(secret, plan.digest), reject
        self._sieve, self._names = Sieve(UNIT_LOW), KeyNumbers()

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a batch; nothing comes before the end."""
        known, letters = of_users(batch, self._keys)
        if letters is not None:
            self._reject(letters)
        if known.num_rows:
            self._sieve.add(bare(known, self._keys, self._names))
        return iter(())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Closes every tick. Users whom a bound may touch are looked at, many of them together."""
        asked: list[pa.RecordBatch] = []
        for part in parts_of(self._sieve.empty()):
            marks = self._marks(part)
            some = marks == ASKED
            if some.any():
                asked.append(part.filter(pa.array(some)))
                part, marks = part.filter(pa.array(~some)), marks[~some]
            if part.num_rows:
                yield self._passed(part, marks == NEW)
            if sum(item.num_rows for item in asked) >= WORKED_ON:
                yield from self._chosen(joined(asked))
                asked = []
        if asked:
            yield from self._chosen(joined(asked))

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
    """Events of known users as they are sifted: names of keys as numbers, ids as hashes."""
    batch = batch.drop_columns(list(PLACE))
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

"""The caps of users where every step is in this process and all data is there from the start.

Events travel as they are, a name in their place (``transforms.runtime.aside``), and every tick is
closed at once, so that nothing is spent before and nothing has to be remembered. Users whom no cap
touches (``dpcore.users.fast_path``) pass without the hashes by which caps choose; for the others
those are made now, and the rule is the same as on a stream (``transforms.select.cap``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.arrays import Digests
from weir.dpcore.leaves.hashes import id_hashes
from weir.dpcore.plan import Plan
from weir.dpcore.program import takes_rows
from weir.dpcore.users.cap import UsedBounds, cap_events, keeps_pairs
from weir.dpcore.users.cells import CapKeys, name_hashes
from weir.dpcore.users.fast_path import ASKED, NEW, Marks, within_bounds
from weir.transforms.leaves.columns import CELL, HIGH, LOW, UNIT_HIGH, UNIT_LOW
from weir.transforms.leaves.columns import NEW as NEWCOMER
from weir.transforms.runtime.aside import Aside
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.runtime.windowing import stamped
from weir.transforms.select.capped import batches, count, without_hashes
from weir.transforms.select.keys import KEY
from weir.transforms.select.names import Names
from weir.transforms.select.sift import WORKED_ON, Sieve, Sifted, parts_of
from weir.transforms.select.spread import joined
from weir.transforms.select.users import (
    HAS_ID,
    PLACE,
    completed,
    hashes_of,
    of_users,
    with_row_hashes,
)

Kept = Aside[list[Sifted], Names]
"""Events of a run in this process, and the names of their keys."""


def opened(run: str) -> Kept:
    """What this process keeps aside of a run."""
    return Aside.of(run, Names)


class ToUsersHere(beam.DoFn):
    """Record batches with ``@unit`` -> the name of what a bundle gathered.

    User and id leave here; their hashes travel on. Tagged output: dead letters of events that are
    nobody's.
    """

    def __init__(self, secret: SecretRef, plan: Plan, run: str) -> None:
        self._secret, self._digest, self._run = secret, plan.digest, run
        self._sieve = Sieve(UNIT_LOW)
        self._keys: CapKeys | None = None
        self._aside: Kept | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sieve": None, "_keys": None, "_aside": None}

    def setup(self) -> None:
        """Derives the keys, and finds what this process keeps aside."""
        self._keys = CapKeys.derive(self._secret.resolve(), self._digest)
        self._aside = opened(self._run)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._sieve = Sieve(UNIT_LOW)

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TaggedOutput[str, Any]]:
        """Takes a batch."""
        assert self._keys is not None and self._aside is not None
        self._stamp = stamp
        known, letters = of_users(batch, self._keys)
        if letters is not None:
            yield letters
        if known.num_rows:
            self._sieve.add(bare(known, self._keys, self._aside.shared))

    def finish_bundle(self) -> Iterator[Any]:
        """Sends on what is there."""
        assert self._aside is not None
        sifted = self._sieve.empty()
        if sifted:
            yield stamped((0, self._aside.put(sifted)), Timestamp.of(self._stamp))


def bare(batch: pa.RecordBatch, keys: CapKeys, names: Names) -> pa.RecordBatch:
    """Events of known users as they are sifted: names of keys as numbers, ids as hashes."""
    batch = batch.drop_columns(list(PLACE))
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    if KEY in found:
        entries = name_hashes(found[KEY].dictionary, keys)
        found[KEY] = names.coded(found[KEY], entries)
    if "@id" in found:
        hashes, null = id_hashes(found.pop("@id"), keys.ids)
        found[HIGH] = pa.array(np.ascontiguousarray(hashes[:, 0]))
        found[LOW] = pa.array(np.ascontiguousarray(hashes[:, 1]))
        found[HAS_ID] = pa.array(~null)
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


class CloseHere(beam.DoFn):
    """(any, names of what bundles gathered) -> events that stay.

    Args:
      secret: keys of hashes are derived from it. plan: with a person. run: what is kept aside.
    """

    def __init__(self, secret: SecretRef, plan: Plan, run: str) -> None:
        assert plan.person is not None
        self._secret, self._digest, self._run = secret, plan.digest, run
        self._person, self._program = plan.person, plan.program
        self._keys: CapKeys | None = None
        self._aside: Kept | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_keys": None, "_aside": None}

    def setup(self) -> None:
        """Derives the keys, and finds what this process keeps aside."""
        self._keys = CapKeys.derive(self._secret.resolve(), self._digest)
        self._aside = opened(self._run)

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[pa.RecordBatch]:
        """Closes every tick. Users who have to be asked are, many of them together."""
        assert self._aside is not None
        sifted = [one for name in element[1] for one in self._aside.take(name)]
        asked: list[pa.RecordBatch] = []
        for part in parts_of(sifted):
            marks = self._marks(part)
            some = marks == ASKED
            if some.any():
                asked.append(part.filter(pa.array(some)))
                part, marks = part.filter(pa.array(~some)), marks[~some]
            if part.num_rows:
                yield self._passed(part, marks == NEW)
            if sum(one.num_rows for one in asked) >= WORKED_ON:
                yield from self._chosen(joined(asked))
                asked = []
        if asked:
            yield from self._chosen(joined(asked))

    def _marks(self, part: pa.RecordBatch) -> Marks:
        """Of all events of some users, which of them have to be asked."""
        ticks = part.column("@tick").to_numpy()
        high, low = (part.column(name).to_numpy() for name in (UNIT_HIGH, UNIT_LOW))
        keys = np.zeros(len(ticks), dtype=np.int32)
        if KEY in part.schema.names:
            keys = part.column(KEY).to_numpy()
        periods = None if self._person.periods.per is None else self._person.periods.of(ticks)
        return within_bounds(high, low, keys, ticks, periods, self._person.caps)

    def _passed(self, batch: pa.RecordBatch, new: Any) -> pa.RecordBatch:
        """Events of users whom no cap touches; each is a cell of its own."""
        assert self._keys is not None
        if takes_rows(self._program):
            batch = with_row_hashes(batch, self._program, self._keys)
        batch = self._named(without_hashes(batch, self._program))
        cells = pa.array(np.arange(batch.num_rows))
        return pa.RecordBatch.from_arrays(
            [*batch.columns, cells, pa.array(new)], names=[*batch.schema.names, CELL, NEWCOMER]
        )

    def _chosen(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Of the events of other users those that their caps let in."""
        assert self._keys is not None and self._aside is not None
        person, program = self._person, self._program
        ticks = batch.column("@tick").to_numpy()
        named: Digests | None = None
        if KEY in batch.schema.names:
            named = self._aside.shared.hashes_of(batch.column(KEY))
        whole = completed(batch, named, program, person, self._keys)
        first = int(person.periods.of(ticks[:1] * 0)[0])
        kept = cap_events(
            UsedBounds.nothing(first),
            hashes_of(whole, program),
            int(ticks.max()) + 1,
            person,
            keeps_pairs(person.caps, program.reads_new),
        )
        count(kept.dropped)
        for one in batches(without_hashes(whole, program), kept):
            yield self._named(one)

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Names in place of numbers."""
        assert self._aside is not None
        if KEY not in batch.schema.names:
            return batch
        names = self._aside.shared.decoded(batch.column(KEY))
        return batch.set_column(batch.schema.get_field_index(KEY), KEY, names)

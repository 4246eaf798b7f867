"""Events on their way to the caps of users: hashes in place of who, which key and which id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp

from dpcore.leaves.id_hash import Digests
from dpcore.people.cells import Hashed
from dpcore.people.hashes import (
    CapKeys,
    contents_of,
    name_hashes,
    pair_hashes,
    row_hashes,
    user_hashes,
)
from dpcore.people.person import Person
from dpcore.plan import Plan
from dpcore.program import Program
from transforms.leaves.bound import columns_of
from transforms.leaves.columns import HIGH, LOW, UNIT_HIGH, UNIT_LOW
from transforms.runtime.aside import Aside
from transforms.runtime.coders import batch_from_bytes, batch_to_bytes, pack, unpack
from transforms.runtime.dead_letters import DEAD, SOURCE, count_dead, dead_letters
from transforms.runtime.secret import SecretRef
from transforms.runtime.windowing import stamped
from transforms.select.keys import KEY
from transforms.select.names import Names
from transforms.select.spread import SPREAD, Spread, hashed, whole

LONGER = 1 << 17
"""Events that are split over the shards at a time where no part is encoded: fewer and larger."""
EVENTS = b"U"
"""Kind of bytes."""
PAIR_HIGH, PAIR_LOW, HAS_ID = "@pair_high", "@pair_low", "@has_id"
PLACE = (SOURCE, "@position")
"""Columns that only dead letters need."""


class ToUsers(beam.DoFn):
    """Record batches with ``@unit`` -> (shard, events), a few big ones a bundle.

    User and id leave here; their hashes travel on. Tagged output: dead letters of events that are
    nobody's.
    """

    def __init__(
        self, secret: SecretRef, plan: Plan, shards: int, aside: str | None = None
    ) -> None:
        assert plan.person is not None
        self._secret, self._digest, self._shards = secret, plan.digest, shards
        self._person, self._program = plan.person, plan.program
        self._way = Way(bytes.fromhex(plan.layout), aside)
        self._keys: CapKeys | None = None
        self._spread = self._empty()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_keys": None, "_spread": None}

    def setup(self) -> None:
        """Derives the keys."""
        self._keys = CapKeys.derive(self._secret.resolve(), self._digest)
        self._way.open()

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._spread = self._empty()

    def _empty(self) -> Spread:
        together = SPREAD if self._way.travels else LONGER

        def encode(batches: list[pa.RecordBatch]) -> bytes:
            return self._way.encode(whole(batches))

        return Spread(self._shards, UNIT_LOW, encode, 2, together)

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Takes a batch, and sends on when enough is there."""
        assert self._keys is not None
        self._stamp = stamp
        users = user_hashes(batch.column("@unit"), self._keys)
        named = hashed(batch, "@unit", (UNIT_HIGH, UNIT_LOW), users.hashes)
        if users.null.any():
            nobodys = named.select(PLACE).filter(pa.array(users.null))
            positions = nobodys.column("@position").to_numpy()
            letters = dead_letters(nobodys.column(SOURCE), positions, "no_user")
            count_dead(letters)
            yield TaggedOutput(DEAD, letters)
            named = named.filter(pa.array(~users.null))
        if named.num_rows:
            yield from self._spread.add(
                prepared(named, self._program, self._person, self._keys, self._way)
            )

    def finish_bundle(self) -> Iterator[Any]:
        """Sends on what is left."""
        for value in self._spread.flush():
            yield stamped(value, Timestamp.of(self._stamp))


def prepared(
    batch: pa.RecordBatch, program: Program, person: Person, keys: CapKeys, way: Way
) -> pa.RecordBatch:
    """Events of known users, with every hash that caps choose by; ids leave.

    Args:
      batch: with the hashes of users. program: what reads them. way: how they go on.
    """
    names, users = batch.schema.names, words(batch, UNIT_HIGH, UNIT_LOW)
    ticks = batch.column("@tick").to_numpy()
    times = batch.column("@time").view(pa.int64()).to_numpy()
    named: Digests | None = None
    if KEY in names:
        entries = name_hashes(batch.column(KEY).dictionary, keys)
        named = entries.take(batch.column(KEY).indices.to_numpy(), axis=0)
        batch = way.named(batch, entries)
    pairs = pair_hashes(users, person.periods.of(ticks), named, keys)
    ids = batch.column("@id") if "@id" in names else None
    rows, has_id = row_hashes(users, ticks, times, contents(batch, program), ids, keys)
    if ids is not None:
        batch = batch.drop_columns(["@id"])
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    for column, values in (
        (PAIR_HIGH, pairs[:, 0]),
        (PAIR_LOW, pairs[:, 1]),
        (HIGH, rows[:, 0]),
        (LOW, rows[:, 1]),
        (HAS_ID, has_id),
    ):
        found[column] = pa.array(np.ascontiguousarray(values))
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def contents(batch: pa.RecordBatch, program: Program) -> Any:
    """What events say, bit by bit."""
    times = batch.column("@time").view(pa.int64()).to_numpy()
    return contents_of(times, list(columns_of(batch, program).values()))


def words(batch: pa.RecordBatch, high: str, low: str) -> Any:
    """Two columns of a hash as (n, 2)."""
    return np.stack([batch.column(high).to_numpy(), batch.column(low).to_numpy()], axis=1)


def hashes_of(batch: pa.RecordBatch, program: Program) -> Hashed:
    """A prepared batch as caps take it."""
    return Hashed(
        words(batch, UNIT_HIGH, UNIT_LOW),
        words(batch, PAIR_HIGH, PAIR_LOW),
        words(batch, HIGH, LOW),
        batch.column("@tick").to_numpy(),
        batch.column(HAS_ID).to_numpy(zero_copy_only=False),
        contents(batch, program),
    )


class Way:
    """How prepared events travel and wait: as bytes, or where every step is in this process (see
    ``transforms.runtime.aside``) as a name of them.

    Args:
      layout: the plan's. aside: name of the run; None: as bytes.
    """

    def __init__(self, layout: bytes, aside: str | None = None) -> None:
        self._layout, self._name = layout, aside
        self._aside: Aside[pa.RecordBatch, Names] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_aside": None}

    @property
    def travels(self) -> bool:
        """Whether events are bytes on their way."""
        return self._name is None

    def open(self) -> None:
        """Finds what this process keeps aside."""
        self._aside = None if self._name is None else Aside.of(self._name, Names)

    def named(self, batch: pa.RecordBatch, hashes: Digests) -> pa.RecordBatch:
        """A batch as it is spread over shards: aside, names of keys are numbers.

        Args:
          hashes: (m, 2) of the entries of the dictionary of keys.
        """
        if self._aside is None or KEY not in batch.schema.names:
            return batch
        return _replaced(batch, self._aside.shared.coded(batch.column(KEY), hashes))

    def renamed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The inverse."""
        if self._aside is None or KEY not in batch.schema.names:
            return batch
        return _replaced(batch, self._aside.shared.decoded(batch.column(KEY)))

    def encode(self, batch: pa.RecordBatch) -> bytes:
        """A batch -> what stands for it."""
        return encode(batch, self._layout) if self._aside is None else self._aside.put(batch)

    def decode(self, data: bytes) -> pa.RecordBatch:
        """The inverse; what is kept aside is read once.

        Raises:
          CodecError: damaged bytes, or of another plan; not there.
        """
        return decode(data, self._layout) if self._aside is None else self._aside.take(data)


def _replaced(batch: pa.RecordBatch, keys: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(KEY), KEY, keys)


def encode(batch: pa.RecordBatch, layout: bytes) -> bytes:
    """Prepared events as bytes, with a checksum. A third of them is ticks and places, which a
    compression makes vanish: what waits is in memory several times where a runner moves it."""
    return pack(EVENTS, [np.frombuffer(batch_to_bytes(batch, "zstd"), dtype=np.uint8)], layout)


def decode(data: bytes, layout: bytes) -> pa.RecordBatch:
    """The inverse.

    Raises:
      CodecError: damaged bytes, or of another plan.
    """
    return batch_from_bytes(unpack(EVENTS, data, layout)[0].data)

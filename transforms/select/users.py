"""Events on their way to the caps of users: hashes in place of who, which key and which id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.arrays import Digests
from weir.dpcore.leaves.hashes import IdHashes
from weir.dpcore.plan import Plan
from weir.dpcore.program import Program
from weir.dpcore.users.cells import (
    CapKeys,
    Hashed,
    contents_of,
    name_hashes,
    pair_hashes,
    row_hashes,
    user_hashes,
)
from weir.dpcore.users.unit import UserUnit
from weir.transforms.leaves.bound import columns_of
from weir.transforms.leaves.columns import HIGH, LOW, UNIT_HIGH, UNIT_LOW
from weir.transforms.runtime.coders import batch_from_bytes, batch_to_bytes, pack, unpack
from weir.transforms.runtime.dead_letters import DEAD, SOURCE, count_dead, dead_letters
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.runtime.windowing import stamped
from weir.transforms.select.keys import KEY
from weir.transforms.select.spread import Spread, hashed, whole

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

    def __init__(self, secret: SecretRef, plan: Plan, shards: int) -> None:
        assert plan.person is not None
        self._secret, self._digest, self._shards = secret, plan.digest, shards
        self._person, self._program = plan.person, plan.program
        self._layout = bytes.fromhex(plan.layout)
        self._keys: CapKeys | None = None
        self._spread = self._empty()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_keys": None, "_spread": None}

    def setup(self) -> None:
        """Derives the keys."""
        self._keys = CapKeys.derive(self._secret.resolve(), self._digest)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._spread = self._empty()

    def _empty(self) -> Spread:
        def packed(batches: list[pa.RecordBatch]) -> bytes:
            return encode(whole(batches), self._layout)

        return Spread(self._shards, UNIT_LOW, packed, 2)

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Takes a batch, and sends on when enough is there."""
        assert self._keys is not None
        self._stamp = stamp
        known, letters = of_users(batch, self._keys)
        if letters is not None:
            yield letters
        if known.num_rows:
            yield from self._spread.add(prepared(known, self._program, self._person, self._keys))

    def finish_bundle(self) -> Iterator[Any]:
        """Sends on what is left."""
        for value in self._spread.flush():
            yield stamped(value, Timestamp.of(self._stamp))


def of_users(
    batch: pa.RecordBatch, keys: CapKeys
) -> tuple[pa.RecordBatch, TaggedOutput[str, pa.RecordBatch] | None]:
    """Events with the hashes of their users; and dead letters of those that are nobody's."""
    users = user_hashes(batch.column("@unit"), keys)
    named = hashed(batch, "@unit", (UNIT_HIGH, UNIT_LOW), users.hashes)
    if not users.null.any():
        return named, None
    nobodys = named.select(PLACE).filter(pa.array(users.null))
    positions = nobodys.column("@position").to_numpy()
    letters = dead_letters(nobodys.column(SOURCE), positions, "no_user")
    count_dead(letters)
    return named.filter(pa.array(~users.null)), TaggedOutput(DEAD, letters)


def prepared(
    batch: pa.RecordBatch, program: Program, person: UserUnit, keys: CapKeys
) -> pa.RecordBatch:
    """Events of known users, with every hash that caps choose by; ids leave.

    Args:
      batch: with the hashes of users. program: what reads them.
    """
    named: Digests | None = None
    if KEY in batch.schema.names:
        entries = name_hashes(batch.column(KEY).dictionary, keys)
        named = entries.take(batch.column(KEY).indices.to_numpy(), axis=0)
    return completed(batch, named, program, person, keys)


def completed(
    batch: pa.RecordBatch, named: Digests | None, program: Program, person: UserUnit, keys: CapKeys
) -> pa.RecordBatch:
    """The same. named: (n, 2) hashes of their keys; None: there is one key."""
    users, ticks = words(batch, UNIT_HIGH, UNIT_LOW), batch.column("@tick").to_numpy()
    pairs = pair_hashes(users, person.periods.of(ticks), named, keys)
    return _with(
        with_row_hashes(batch, program, keys), {PAIR_HIGH: pairs[:, 0], PAIR_LOW: pairs[:, 1]}
    )


def with_row_hashes(batch: pa.RecordBatch, program: Program, keys: CapKeys) -> pa.RecordBatch:
    """Events with the hashes by which those of a cell are chosen, in place of their ids.

    Args:
      batch: with the hashes of users, and with ids, or with hashes of ids where a row has one.
    """
    names, users = batch.schema.names, words(batch, UNIT_HIGH, UNIT_LOW)
    ticks = batch.column("@tick").to_numpy()
    times = batch.column("@time").view(pa.int64()).to_numpy()
    ids: Any = None
    if "@id" in names:
        ids = batch.column("@id")
    elif HAS_ID in names:
        given = batch.column(HAS_ID).to_numpy(zero_copy_only=False)
        ids = IdHashes(words(batch, HIGH, LOW), ~given)
    rows, has_id = row_hashes(users, ticks, times, contents(batch, program), ids, keys)
    if "@id" in names:
        batch = batch.drop_columns(["@id"])
    return _with(batch, {HIGH: rows[:, 0], LOW: rows[:, 1], HAS_ID: has_id})


def _with(batch: pa.RecordBatch, columns: dict[str, Any]) -> pa.RecordBatch:
    """A batch with more columns, or with others in their places."""
    found = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, values in columns.items():
        found[name] = pa.array(np.ascontiguousarray(values))
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

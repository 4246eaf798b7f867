"""Deduplicate: an event that is delivered twice counts once.

Ids become keyed 128-bit hashes (the key is derived from the secret in ``setup``; without it nobody
can choose ids that collide). Eight shards remember them, each as sorted arrays in one state cell,
within a stated horizon (``transforms.select.seen_ids`` has the rule, and what it means for
neighbours). Of copies that arrive together the one of the first cell with the smallest content is
kept, whatever their order; of copies that arrive apart, the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from dpcore.leaves.clock import Clock
from dpcore.leaves.id_hash import id_hashes
from dpcore.leaves.row_hash import dedupe_key
from transforms.leaves.columns import HIGH, LOW
from transforms.runtime.coders import batch_from_bytes, batch_to_bytes, pack, unpack
from transforms.runtime.dead_letters import DEAD, SOURCE, count_dead, dead_letters
from transforms.runtime.secret import SecretRef
from transforms.runtime.windowing import stamped, to_timestamp
from transforms.select.seen_ids import NOTHING, Seen, Words, forget, remember

STEP_NAME = "Deduplicate"
SEEN_STATE = "seen"
TIMER = "forget"
# Runners find stored state by these names: they never change (tests hold them to a file).

SHARDS = 8
KIND = b"D"
ROWS = 1 << 22
"""Events that a bundle gathers before it sends them to their shards."""


class ToShards(beam.DoFn):
    """Record batches with ``@id`` -> (shard, batch as bytes), a few big ones per bundle.

    The id leaves here; its hash travels on. Events without an id pass by on the main output of
    ``ready``.
    """

    def __init__(self, secret: SecretRef, name: str) -> None:
        self._secret, self._name = secret, name
        self._key = b""
        self._held: list[list[pa.RecordBatch]] = []
        self._rows = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_key": b"", "_held": [], "_rows": 0}

    def setup(self) -> None:
        """Derives the key."""
        self._key = dedupe_key(self._secret.resolve(), self._name)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._rows = [[] for _ in range(SHARDS)], 0

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Splits a batch over the shards."""
        self._stamp = stamp
        hashes, null = id_hashes(batch.column("@id"), self._key)
        prepared = prepare(batch, hashes)
        if null.any():
            yield strip(prepared.filter(pa.array(null)), False)
            prepared, hashes = prepared.filter(pa.array(~null)), hashes[~null]
        shard = (hashes[:, 1] % SHARDS).astype(np.uint8)
        order = np.argsort(shard, kind="stable")
        bounds = np.searchsorted(shard[order], np.arange(SHARDS + 1))
        spread = prepared.take(pa.array(order))
        for place in range(SHARDS):
            size = int(bounds[place + 1] - bounds[place])
            if size:
                self._held[place].append(spread.slice(int(bounds[place]), size))
        self._rows += len(order)
        if self._rows >= ROWS:
            for value in self._flush():
                yield TaggedOutput("shards", value)

    def finish_bundle(self) -> Iterator[TaggedOutput[str, Any]]:
        """Sends on what is left."""
        for value in self._flush():
            yield TaggedOutput("shards", stamped(value, Timestamp.of(self._stamp)))

    def _flush(self) -> Iterator[tuple[int, bytes]]:
        for shard, batches in enumerate(self._held):
            if batches:
                yield shard, batch_to_bytes(joined(batches))
        self._held, self._rows = [[] for _ in range(SHARDS)], 0


def prepare(batch: pa.RecordBatch, hashes: Words) -> pa.RecordBatch:
    """Replaces the id by its hash, and the batch's source by a column."""
    columns = {
        name: column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name != "@id"
    }
    columns[HIGH] = pa.array(np.ascontiguousarray(hashes[:, 0]))
    columns[LOW] = pa.array(np.ascontiguousarray(hashes[:, 1]))
    if SOURCE not in columns:
        source = (batch.schema.metadata or {}).get(b"source", b"").decode()
        zeros = pa.array(np.zeros(batch.num_rows, dtype=np.int32))
        columns[SOURCE] = pa.DictionaryArray.from_arrays(zeros, pa.array([source], pa.string()))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def strip(batch: pa.RecordBatch, keep_hash: bool) -> pa.RecordBatch:
    """Takes away what only deduplication needed; row leaves need the hashes too."""
    return batch.drop_columns([SOURCE] if keep_hash else [HIGH, LOW, SOURCE])


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Several batches of the same columns as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]


class DropSeen(beam.DoFn):
    """(shard, batch) -> the events whose id is new; duplicates on the tagged output.

    Args:
      clock: the public clock. horizon: ticks behind which an id counts again, and may be forgotten
        once the watermark is past them; None: for the whole run.
      layout: the plan's layout, hex.
      keep_hash: leave the hashes of ids in the batches.
    """

    SEEN = userstate.ReadModifyWriteStateSpec(SEEN_STATE, coders.BytesCoder())
    FORGET = userstate.TimerSpec(TIMER, TimeDomain.WATERMARK)

    def __init__(self, clock: Clock, horizon: int | None, layout: str, keep_hash: bool) -> None:
        self._clock, self._horizon = clock, horizon
        self._layout, self._keep_hash = bytes.fromhex(layout), keep_hash

    def process(
        self,
        element: tuple[int, bytes],
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(FORGET),  # noqa: B008
    ) -> Iterator[Any]:
        """One state read and one write for a whole batch."""
        batch = batch_from_bytes(element[1])
        stored = seen.read()
        known = NOTHING if stored is None else Seen(*unpack(KIND, stored, self._layout))
        fresh, known = remember(batch, known, self._horizon)
        seen.write(pack(KIND, known, self._layout))
        self._remind(known, timer)
        if fresh.all():
            yield strip(batch, self._keep_hash)
            return
        yield strip(batch, self._keep_hash).filter(pa.array(fresh))
        dropped = batch.select([SOURCE, "@position"]).filter(pa.array(~fresh))
        positions = dropped.column("@position").to_numpy()
        letters = dead_letters(dropped.column(SOURCE), positions, "duplicate")
        count_dead(letters)
        yield TaggedOutput(DEAD, letters)

    @userstate.on_timer(FORGET)
    def on_forget(
        self,
        fired: Any = beam.DoFn.TimestampParam,
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(FORGET),  # noqa: B008
    ) -> None:
        """Forgets what the public clock has left behind."""
        stored = seen.read()
        if stored is None or self._horizon is None:
            return
        now = (fired.micros - self._clock.start) // self._clock.period
        known = forget(Seen(*unpack(KIND, stored, self._layout)), now - self._horizon)
        if not len(known.high):
            seen.clear()
            return
        seen.write(pack(KIND, known, self._layout))
        self._remind(known, timer)

    def _remind(self, known: Seen, timer: Any) -> None:
        """Sets the timer for when a quarter of a horizon's ids, from the oldest on, are due."""
        if self._horizon is not None and len(known.ticks):
            due = int(known.ticks.min()) + self._horizon + max(1, self._horizon // 4)
            timer.set(to_timestamp(self._clock.tick_start(due)))


class Deduplicate(beam.PTransform[Any, Any]):
    """Drops events whose id was seen within the horizon. Keeps no order.

    Returns a tuple of PCollections: ``.events`` and ``.dead``.

    Args:
      secret: reference; only a key of its own is derived from it here.
      clock: the public clock, by which ids are forgotten.
      layout: the plan's layout, hex: state belongs to it.
      horizon: ticks (``Circumstances.id_horizon``, which the statement tells), or None for the
        whole run.
      row_digest: of a plan with row leaves, hex: the hashes of ids stay in the batches, and are
        made for this name and not for the layout, because they decide which rows a cap keeps.
    """

    def __init__(
        self,
        secret: SecretRef,
        clock: Clock,
        layout: str,
        horizon: int | None = None,
        row_digest: str | None = None,
    ) -> None:
        super().__init__()
        self._secret, self._clock = secret, clock
        self._layout, self._horizon = layout, horizon
        self._row_digest = row_digest

    def expand(self, events: beam.PCollection[pa.RecordBatch]) -> Any:
        """Record batches with ``@id`` -> the same without it."""
        spread = events | "ToShards" >> beam.ParDo(
            ToShards(self._secret, self._row_digest or self._layout)
        ).with_output_types(pa.RecordBatch, shards=tuple[int, bytes]).with_outputs(
            "shards", main="without_id"
        )
        dropped = (
            spread.shards
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "DropSeen"
            >> beam.ParDo(
                DropSeen(self._clock, self._horizon, self._layout, self._row_digest is not None)
            )
            .with_output_types(pa.RecordBatch, dead=pa.RecordBatch)
            .with_outputs(DEAD, main="fresh")
        )
        fresh = (dropped.fresh, spread.without_id) | "Ready" >> beam.Flatten()
        return Unique(fresh, dropped.dead)


class Unique(NamedTuple):
    """What comes out of Deduplicate."""

    events: Any
    dead: Any

"""Deduplicate: an event that is delivered twice counts once.

Ids become keyed 128-bit hashes (the key is derived from the secret in ``setup``; without it nobody
can choose ids that collide). Shards remember them within a stated horizon: ``seen_ids`` has the
rule, and what it means for neighbours; ``timed_set`` the set; ``timed_cells`` how it is stored, so
that what a bundle costs does not grow with what is remembered. Of copies that arrive together the
one of the first cell with the smallest content is kept, whatever their order; of copies that arrive
apart, the first.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.accounting.guarantee import SHARDS
from weir.dpcore.errors import CodecError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.hash_sets import Words
from weir.dpcore.leaves.hashes import dedupe_key, id_hashes
from weir.transforms.beam.elements import stamped, to_timestamp
from weir.transforms.beam.step import Step
from weir.transforms.columns.names import HIGH, LOW
from weir.transforms.operators.hash_partition import HashPartition, hashed, whole
from weir.transforms.operators.seen_ids import look, remember
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.timed_cells import FOREVER, RING, Held, TimedCells, width_of
from weir.transforms.runtime.codec import batch_from_bytes, batch_to_bytes
from weir.transforms.runtime.dead_letters import DEAD, SOURCE, count_dead, dead_letters
from weir.transforms.runtime.secret import SecretRef

STEP_NAME = "Deduplicate"
HEAD_STATE = "head"
SLICE_STATES = tuple(f"slice{place}" for place in range(RING))
TIMER = "forget"
# Runners find stored state by these names: they never change (tests hold them to a file).


class ToShards(Step):
    """Record batches with ``@id`` -> (shard, batch as bytes), a few big ones per bundle.

    The id leaves here; its hash travels on. Events without an id pass by on the main output.
    """

    def __init__(self, secret: SecretRef, name: str, shards: int) -> None:
        self._secret, self._name, self._shards = secret, name, shards
        self._key = b""
        self._spread = self._empty()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_key": b"", "_spread": None}

    def setup(self) -> None:
        """Derives the key."""
        self._key = dedupe_key(self._secret.resolve(), self._name)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._spread = self._empty()

    def _empty(self) -> HashPartition:
        return HashPartition(self._shards, LOW, lambda batches: batch_to_bytes(whole(batches)))

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Takes a batch, and sends on when enough is there."""
        self._stamp = stamp
        hashes, null = id_hashes(batch.column("@id"), self._key)
        prepared = prepare(batch, hashes)
        if null.any():
            yield strip(prepared.filter(pa.array(null)), False)
            prepared = prepared.filter(pa.array(~null))
        for value in self._spread.add(prepared):
            yield TaggedOutput("shards", value)

    def finish_bundle(self) -> Iterator[TaggedOutput[str, Any]]:
        """Sends on what is left."""
        for value in self._spread.flush():
            yield TaggedOutput("shards", stamped(value, Timestamp.of(self._stamp)))


def prepare(batch: pa.RecordBatch, hashes: Words) -> pa.RecordBatch:
    """Replaces the id by its hash, and the batch's source by a column."""
    return hashed(batch, "@id", (HIGH, LOW), hashes)


def strip(batch: pa.RecordBatch, keep_hash: bool) -> pa.RecordBatch:
    """Takes away what only deduplication needed; row leaves need the hashes too."""
    return batch.drop_columns([SOURCE] if keep_hash else [HIGH, LOW, SOURCE])


class DropSeen(Step):
    """(shard, batch) -> the events whose id is new; duplicates on the tagged output.

    Args:
      clock: the public clock. horizon: ticks behind which an id counts again, and may be forgotten
        once the watermark is past them; None: for the whole run.
      layout: the plan's layout, hex. shards: over how many ids are spread.
      keep_hash: leave the hashes of ids in the batches.
    """

    HEAD = userstate.ReadModifyWriteStateSpec(HEAD_STATE, coders.BytesCoder())
    SLICE_0 = userstate.BagStateSpec(SLICE_STATES[0], coders.BytesCoder())
    SLICE_1 = userstate.BagStateSpec(SLICE_STATES[1], coders.BytesCoder())
    SLICE_2 = userstate.BagStateSpec(SLICE_STATES[2], coders.BytesCoder())
    SLICE_3 = userstate.BagStateSpec(SLICE_STATES[3], coders.BytesCoder())
    SLICE_4 = userstate.BagStateSpec(SLICE_STATES[4], coders.BytesCoder())
    SLICE_5 = userstate.BagStateSpec(SLICE_STATES[5], coders.BytesCoder())
    SLICE_6 = userstate.BagStateSpec(SLICE_STATES[6], coders.BytesCoder())
    SLICE_7 = userstate.BagStateSpec(SLICE_STATES[7], coders.BytesCoder())
    FORGET = userstate.TimerSpec(TIMER, TimeDomain.WATERMARK)

    def __init__(
        self,
        clock: Clock,
        horizon: int | None,
        layout: str,
        shards: int,
        keep_hash: bool,
    ) -> None:
        self._clock, self._horizon, self._shards = clock, horizon, shards
        self._layout, self._keep_hash = bytes.fromhex(layout), keep_hash
        self._run = uuid.uuid4().hex
        self._shelf: StateCache[Held] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shelf": None}

    def setup(self) -> None:
        """Finds what this process has at hand."""
        self._shelf = StateCache.of(self._run)

    def process(
        self,
        element: tuple[int, bytes],
        head: Any = beam.DoFn.StateParam(HEAD),  # noqa: B008
        slice_0: Any = beam.DoFn.StateParam(SLICE_0),  # noqa: B008
        slice_1: Any = beam.DoFn.StateParam(SLICE_1),  # noqa: B008
        slice_2: Any = beam.DoFn.StateParam(SLICE_2),  # noqa: B008
        slice_3: Any = beam.DoFn.StateParam(SLICE_3),  # noqa: B008
        slice_4: Any = beam.DoFn.StateParam(SLICE_4),  # noqa: B008
        slice_5: Any = beam.DoFn.StateParam(SLICE_5),  # noqa: B008
        slice_6: Any = beam.DoFn.StateParam(SLICE_6),  # noqa: B008
        slice_7: Any = beam.DoFn.StateParam(SLICE_7),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(FORGET),  # noqa: B008
    ) -> Iterator[Any]:
        """A batch: asks the set, adds to it, and sets a timer for each slice that it begins."""
        ring = (slice_0, slice_1, slice_2, slice_3, slice_4, slice_5, slice_6, slice_7)
        looked = look(batch_from_bytes(element[1]))
        batch = looked.batch
        cells = self._cells(element[0], head, ring)
        fresh, new = remember(looked, cells.known, self._horizon)
        self._remind(cells, cells.add(new), timer)
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
        shard: Any = beam.DoFn.KeyParam,
        fired: Any = beam.DoFn.TimestampParam,
        head: Any = beam.DoFn.StateParam(HEAD),  # noqa: B008
        slice_0: Any = beam.DoFn.StateParam(SLICE_0),  # noqa: B008
        slice_1: Any = beam.DoFn.StateParam(SLICE_1),  # noqa: B008
        slice_2: Any = beam.DoFn.StateParam(SLICE_2),  # noqa: B008
        slice_3: Any = beam.DoFn.StateParam(SLICE_3),  # noqa: B008
        slice_4: Any = beam.DoFn.StateParam(SLICE_4),  # noqa: B008
        slice_5: Any = beam.DoFn.StateParam(SLICE_5),  # noqa: B008
        slice_6: Any = beam.DoFn.StateParam(SLICE_6),  # noqa: B008
        slice_7: Any = beam.DoFn.StateParam(SLICE_7),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(FORGET),  # noqa: B008
    ) -> None:
        """Forgets slices that the public clock has left behind by a horizon."""
        if self._horizon is None:
            return
        ring = (slice_0, slice_1, slice_2, slice_3, slice_4, slice_5, slice_6, slice_7)
        cells = self._cells(shard, head, ring)
        now = self._clock.tick_at(fired.micros)
        cells.drop(now, self._horizon)

    def _cells(self, shard: int, head: Any, ring: Any) -> TimedCells:
        assert self._shelf is not None
        width = width_of(self._horizon)
        cells = TimedCells(shard, self._shards, width, self._layout, head, ring, self._shelf)
        if not cells.is_empty and (cells.width == FOREVER) != (width == FOREVER):
            raise other_horizon(cells.width == FOREVER)
        return cells

    def _remind(self, cells: TimedCells, appeared: list[int], timer: Any) -> None:
        """Sets a timer for each new slice: no slice waits for another's."""
        if self._horizon is None:
            return
        for number in appeared:
            due = self._clock.tick_start(cells.due(number, self._horizon))
            timer.set(to_timestamp(due), dynamic_timer_tag=str(number))


def other_horizon(kept_for_ever: bool) -> CodecError:
    """Ids are stored with ticks by which they are forgotten, or without any."""
    if kept_for_ever:
        return CodecError(
            "ids are stored that this stream was to remember for ever: go on without "
            "deduplicate.horizon, as it was begun."
        )
    return CodecError(
        "ids are stored that this stream was to forget: go on with the deduplicate.horizon with "
        "which it was begun."
    )


class Deduplicate(beam.PTransform[Any, Any]):
    """Drops events whose id was seen within the horizon. Keeps no order.

    Returns a tuple of PCollections: ``.events`` and ``.dead``.

    Args:
      secret: reference; only a key of its own is derived from it here.
      clock: the public clock, by which ids are forgotten.
      layout: the plan's layout, hex: state belongs to it.
      horizon: ticks (``RuntimeAssumptions.id_horizon``, which the statement tells), or None for the
        whole run.
      row_digest: of a plan with row leaves, hex: the hashes of ids stay in the batches, and are
        made for this name and not for the layout, because they decide which rows a cap keeps.
      shards: over how many ids are spread: as many workers share them at most. Part of the state.
    """

    def __init__(
        self,
        secret: SecretRef,
        clock: Clock,
        layout: str,
        horizon: int | None = None,
        row_digest: str | None = None,
        shards: int = SHARDS,
    ) -> None:
        super().__init__()
        self._secret, self._clock = secret, clock
        self._layout, self._horizon = layout, horizon
        self._row_digest, self._shards = row_digest, shards

    def expand(self, events: beam.PCollection[pa.RecordBatch]) -> Any:
        """Record batches with ``@id`` -> the same without it."""
        name = self._row_digest or self._layout
        keep_hash = self._row_digest is not None
        spread = events | "ToShards" >> beam.ParDo(
            ToShards(self._secret, name, self._shards)
        ).with_output_types(pa.RecordBatch, shards=tuple[int, bytes]).with_outputs(
            "shards", main="without_id"
        )
        dropped = (
            spread.shards
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "DropSeen"
            >> beam.ParDo(
                DropSeen(
                    self._clock,
                    self._horizon,
                    self._layout,
                    self._shards,
                    keep_hash,
                )
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

"""Cap: of each user no more counts than the plan's caps allow; takes the place of Deduplicate.

Users become keyed 128-bit hashes, and shards of them keep events until their tick is closed. Then
``dpcore.users.cap`` says what stays: a function of a user's own events in the period, in whatever
order, bundles and shards they came, and however often. So no id is remembered: copies vanish within
their tick, and one of another tick spends its user's caps and nobody else's.

**The clock closes ticks, never data.** Heartbeats announce every tick to every shard, whether or
not it has seen an event, and a tick is closed by a timer at its end. How far a shard is
(``closed``) survives the end of a period. Else the presence of one user would decide whether an
event of another that comes too late still spends a cap. What comes behind a closed tick is a copy
of what its tick had (``transforms.operators.closed_rows``), or else ``overdue``: dead-lettered and
counted, zero when all is well. It is not covered by the guarantee, as a runner's timing made it.

**Order.** A shard has one timer, at the end of its earliest open tick, which holds the watermark
there. Tick's timers stand a step of the runner later (``AFTER_CAPS``), so that a tick is released
with all that its shards let through. Over files all ticks are closed together, at the end of the
clock, and memory is linear in the events of a shard.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.plan import Plan
from weir.dpcore.users.cap import NOTHING, cap_events, keeps_pairs
from weir.dpcore.users.cells import CapKeys, gather
from weir.dpcore.users.last_seen import forgets
from weir.transforms.beam import heartbeat
from weir.transforms.beam.elements import stamped, to_timestamp
from weir.transforms.beam.runner_quirks import AT_ONCE, on_flink
from weir.transforms.beam.step import Step
from weir.transforms.columns.names import UNIT_LOW
from weir.transforms.operators import closed_rows
from weir.transforms.operators.closed_rows import ClosedRows
from weir.transforms.operators.hash_partition import HashPartition, whole
from weir.transforms.operators.user_cells import BAGS, Closed, SpentCells, UserCaches, WaitingRows
from weir.transforms.operators.users import (
    PLACE,
    batches,
    count,
    decode,
    encode,
    hashes_of,
    of_users,
    prepared,
    without_hashes,
)
from weir.transforms.runtime.dead_letters import DEAD, SOURCE, count_dead, dead_letters
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

STEP_NAME = "Cap"
CLOSED_STATE = "closed"
USERS_STATE, USERS_LOG_STATE = "users", "users_log"
PAIRS_STATE, PAIRS_LOG_STATE = "pairs", "pairs_log"
SEEN_STATE, SEEN_LOG_STATE = "seen", "seen_log"
WAITING_STATES = tuple(f"waiting{place}" for place in range(BAGS))
GONE_STATES = tuple(f"gone{place}" for place in range(closed_rows.BAGS))
TIMER = "close"
# Runners find stored state by these names: they never change (tests hold them to a file).

AFTER_CAPS = 1000
"""Microseconds, a runner's least step: Tick's timers stand so much later than those here."""
PRUNE = 1 << 14
"""Events of a shard in a bundle from which on cells are pruned before they wait."""


class ToUsers(Step):
    """Record batches with ``@unit`` -> (shard, events), a few big ones a bundle.

    User and id leave here; their hashes travel on. Tagged output: dead letters of events that are
    nobody's.
    """

    def __init__(self, secret: SecretRef, plan: Plan, shards: int) -> None:
        assert plan.person is not None
        self._secret, self._digest, self._shards = secret, plan.digest, shards
        self._plan = plan
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

    def _empty(self) -> HashPartition:
        def packed(batches: list[pa.RecordBatch]) -> bytes:
            return encode(whole(batches), self._layout)

        return HashPartition(self._shards, UNIT_LOW, packed, 2)

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Takes a batch, and sends on when enough is there."""
        assert self._keys is not None
        self._stamp = stamp
        known, letters = of_users(batch, self._keys)
        if letters is not None:
            yield TaggedOutput(DEAD, letters)
        if known.num_rows:
            yield from self._spread.add(prepared(known, self._plan, self._keys))

    def finish_bundle(self) -> Iterator[Any]:
        """Sends on what is left."""
        for value in self._spread.flush():
            yield stamped(value, Timestamp.of(self._stamp))


class CloseTicks(Step):
    """(shard, heartbeat or events) -> events that stay; tagged output: dead letters.

    Args:
      plan: with a person. shards: over how many users are spread.
      bounded: all data is there before the first timer: ticks are closed together.
      early: microseconds by which a timer is set before the end that it stands for, where the
        runner fires it later than at its time.
      width: ticks for which events of closed ticks are remembered (``closed_rows``).
    """

    CLOSED = userstate.ReadModifyWriteStateSpec(CLOSED_STATE, coders.BytesCoder())
    USERS = userstate.ReadModifyWriteStateSpec(USERS_STATE, coders.BytesCoder())
    USERS_LOG = userstate.BagStateSpec(USERS_LOG_STATE, coders.BytesCoder())
    PAIRS = userstate.ReadModifyWriteStateSpec(PAIRS_STATE, coders.BytesCoder())
    PAIRS_LOG = userstate.BagStateSpec(PAIRS_LOG_STATE, coders.BytesCoder())
    SEEN = userstate.ReadModifyWriteStateSpec(SEEN_STATE, coders.BytesCoder())
    SEEN_LOG = userstate.BagStateSpec(SEEN_LOG_STATE, coders.BytesCoder())
    WAITING_0 = userstate.BagStateSpec(WAITING_STATES[0], coders.BytesCoder())
    WAITING_1 = userstate.BagStateSpec(WAITING_STATES[1], coders.BytesCoder())
    WAITING_2 = userstate.BagStateSpec(WAITING_STATES[2], coders.BytesCoder())
    WAITING_3 = userstate.BagStateSpec(WAITING_STATES[3], coders.BytesCoder())
    WAITING_4 = userstate.BagStateSpec(WAITING_STATES[4], coders.BytesCoder())
    WAITING_5 = userstate.BagStateSpec(WAITING_STATES[5], coders.BytesCoder())
    WAITING_6 = userstate.BagStateSpec(WAITING_STATES[6], coders.BytesCoder())
    WAITING_7 = userstate.BagStateSpec(WAITING_STATES[7], coders.BytesCoder())
    WAITING_8 = userstate.BagStateSpec(WAITING_STATES[8], coders.BytesCoder())
    WAITING_9 = userstate.BagStateSpec(WAITING_STATES[9], coders.BytesCoder())
    GONE_0 = userstate.BagStateSpec(GONE_STATES[0], coders.BytesCoder())
    GONE_1 = userstate.BagStateSpec(GONE_STATES[1], coders.BytesCoder())
    CLOSE = userstate.TimerSpec(TIMER, TimeDomain.WATERMARK)

    def __init__(
        self, plan: Plan, shards: int, bounded: bool, early: int = 0, width: int = 600
    ) -> None:
        assert plan.person is not None
        self._person, self._clock = plan.person, plan.clock
        self._program = plan.program
        self._layout = bytes.fromhex(plan.layout)
        self._shards, self._bounded, self._early = shards, bounded, early
        self._width = width
        self._run = uuid.uuid4().hex
        self._shelves: UserCaches | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shelves": None}

    def setup(self) -> None:
        """Finds what this process has at hand."""
        self._shelves = UserCaches.of(self._run)

    def process(
        self,
        element: tuple[int, bytes],
        closed: Any = beam.DoFn.StateParam(CLOSED),  # noqa: B008
        waiting_0: Any = beam.DoFn.StateParam(WAITING_0),  # noqa: B008
        waiting_1: Any = beam.DoFn.StateParam(WAITING_1),  # noqa: B008
        waiting_2: Any = beam.DoFn.StateParam(WAITING_2),  # noqa: B008
        waiting_3: Any = beam.DoFn.StateParam(WAITING_3),  # noqa: B008
        waiting_4: Any = beam.DoFn.StateParam(WAITING_4),  # noqa: B008
        waiting_5: Any = beam.DoFn.StateParam(WAITING_5),  # noqa: B008
        waiting_6: Any = beam.DoFn.StateParam(WAITING_6),  # noqa: B008
        waiting_7: Any = beam.DoFn.StateParam(WAITING_7),  # noqa: B008
        waiting_8: Any = beam.DoFn.StateParam(WAITING_8),  # noqa: B008
        waiting_9: Any = beam.DoFn.StateParam(WAITING_9),  # noqa: B008
        gone_0: Any = beam.DoFn.StateParam(GONE_0),  # noqa: B008
        gone_1: Any = beam.DoFn.StateParam(GONE_1),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(CLOSE),  # noqa: B008
    ) -> Iterator[TaggedOutput[str, Any]]:
        """Keeps events for their ticks, or sets the timer for ticks that are announced."""
        far = Closed.decode(closed.read(), self._layout)
        if heartbeat.is_heartbeat(element[1]):
            last = heartbeat.decode(element[1])
            if last > far.announced:
                far = far._replace(announced=last)
                closed.write(far.encode(self._layout))
                self._remind(far, timer)
            return
        batch = decode(element[1], self._layout)
        gone = ClosedRows((gone_0, gone_1), self._layout, self._width)
        behind = batch.column("@tick").to_numpy() < far.following
        if behind.any():
            yield from self._overdue(batch.filter(pa.array(behind)), gone, far.following)
            batch = batch.filter(pa.array(~behind))
        bags = [waiting_0, waiting_1, waiting_2, waiting_3, waiting_4]
        bags += [waiting_5, waiting_6, waiting_7, waiting_8, waiting_9]
        waiting = WaitingRows(bags, self._layout, not self._bounded)
        batch = batch.drop_columns(list(PLACE))
        # Over files nothing is gained: what comes is in memory already, and is gathered again soon.
        waiting.add(
            batch if self._bounded else self._pruned(batch, gone, far.following), far.following
        )

    @userstate.on_timer(CLOSE)
    def on_close(
        self,
        shard: Any = beam.DoFn.KeyParam,
        fired: Any = beam.DoFn.TimestampParam,
        closed: Any = beam.DoFn.StateParam(CLOSED),  # noqa: B008
        users: Any = beam.DoFn.StateParam(USERS),  # noqa: B008
        users_log: Any = beam.DoFn.StateParam(USERS_LOG),  # noqa: B008
        pairs: Any = beam.DoFn.StateParam(PAIRS),  # noqa: B008
        pairs_log: Any = beam.DoFn.StateParam(PAIRS_LOG),  # noqa: B008
        seen: Any = beam.DoFn.StateParam(SEEN),  # noqa: B008
        seen_log: Any = beam.DoFn.StateParam(SEEN_LOG),  # noqa: B008
        waiting_0: Any = beam.DoFn.StateParam(WAITING_0),  # noqa: B008
        waiting_1: Any = beam.DoFn.StateParam(WAITING_1),  # noqa: B008
        waiting_2: Any = beam.DoFn.StateParam(WAITING_2),  # noqa: B008
        waiting_3: Any = beam.DoFn.StateParam(WAITING_3),  # noqa: B008
        waiting_4: Any = beam.DoFn.StateParam(WAITING_4),  # noqa: B008
        waiting_5: Any = beam.DoFn.StateParam(WAITING_5),  # noqa: B008
        waiting_6: Any = beam.DoFn.StateParam(WAITING_6),  # noqa: B008
        waiting_7: Any = beam.DoFn.StateParam(WAITING_7),  # noqa: B008
        waiting_8: Any = beam.DoFn.StateParam(WAITING_8),  # noqa: B008
        waiting_9: Any = beam.DoFn.StateParam(WAITING_9),  # noqa: B008
        gone_0: Any = beam.DoFn.StateParam(GONE_0),  # noqa: B008
        gone_1: Any = beam.DoFn.StateParam(GONE_1),  # noqa: B008
        timer: Any = beam.DoFn.TimerParam(CLOSE),  # noqa: B008
    ) -> Iterator[pa.RecordBatch]:
        """Closes every announced tick that is over by the time the timer stands for."""
        far = Closed.decode(closed.read(), self._layout)
        over = self._clock.tick_at(fired.micros + self._early)
        stop = min(over, far.announced + 1)
        if stop <= far.following:
            return
        bags = [waiting_0, waiting_1, waiting_2, waiting_3, waiting_4]
        bags += [waiting_5, waiting_6, waiting_7, waiting_8, waiting_9]
        due = WaitingRows(bags, self._layout, not self._bounded).take(far.following, stop)
        if not self._bounded:
            gone = ClosedRows((gone_0, gone_1), self._layout, self._width)
            gone.turn(far.following, stop)
            if due is not None:
                gone.add(due, stop)
        period = int(self._person.periods.of(np.array([stop], dtype=np.int64))[0])
        span = self._program.reads_gaps
        forgotten = span and forgets(far.following, stop, span)
        if due is not None or period != far.period or forgotten:
            assert self._shelves is not None
            spent = SpentCells(
                shard, self._shards, self._layout, (users, users_log), (pairs, pairs_log),
                (seen, seen_log), self._shelves, span,
            )  # fmt: skip
            yield from self._close(due, far, Closed(stop, far.announced, period), spent)
        far = Closed(stop, far.announced, period)
        closed.write(far.encode(self._layout))
        self._remind(far, timer)

    def _close(
        self, due: pa.RecordBatch | None, far: Closed, after: Closed, cells: SpentCells
    ) -> Iterator[pa.RecordBatch]:
        """Applies the caps to what waited, and stores what is spent."""
        stop, last = after.following, self._clock.ticks
        follows = last is None or stop < last  # else nothing is asked again
        if due is None:
            if after.period != far.period:
                cells.forget()
            cells.note(NOTHING, far.following, stop)
            return
        events = hashes_of(due, self._program)
        pairs = keeps_pairs(self._person.caps, self._program.reads_new)
        retained = cap_events(
            cells.spent(far.period), events, stop, self._person, pairs,
            cells.seen, self._program.reads_gaps,
        )  # fmt: skip
        if follows:
            cells.write(retained.capped, far.period)
            cells.note(retained.seen, far.following, stop)
        count(retained.dropped)
        yield from batches(without_hashes(due, self._program), retained, self._program.coarser)

    def _remind(self, far: Closed, timer: Any) -> None:
        """One timer, at the end of the earliest open tick; of files, of the last. None behind what
        is announced: at the end of time it would fire for ever."""
        if far.following > far.announced:
            return
        tick = far.announced if self._bounded else far.following
        timer.set(to_timestamp(self._clock.tick_start(tick + 1) - self._early))

    def _overdue(
        self, batch: pa.RecordBatch, gone: ClosedRows, following: int
    ) -> Iterator[TaggedOutput[str, Any]]:
        """Events behind their ticks: copies are counted as such, the others are told."""
        copies = gone.known(batch)
        count({"copies": int(copies.sum())})
        batch = batch.filter(pa.array(~copies))
        if not batch.num_rows:
            return
        gone.add(batch, following)
        places = batch.column(SOURCE), batch.column("@position").to_numpy()
        letters = dead_letters(*places, "overdue")
        count_dead(letters)
        yield TaggedOutput(DEAD, letters)

    def _pruned(self, batch: pa.RecordBatch, gone: ClosedRows, following: int) -> pa.RecordBatch:
        """What cells have no room for need not wait. Never keys: see ``dpcore.users.cells``."""
        if batch.num_rows < PRUNE:
            return batch
        gathered = gather(hashes_of(batch, self._program), self._person.caps.events)
        count({"events": gathered.beyond, "copies": gathered.copies})
        left_out = np.ones(batch.num_rows, dtype=bool)
        left_out[gathered.rows] = False
        gone.add(batch.filter(pa.array(left_out)), following)
        return batch.take(pa.array(np.sort(gathered.rows)))


class Cap(beam.PTransform[Any, Any]):
    """Keeps of each user what the caps allow. Keeps no order; rows of a cell are in one batch.

    Takes (events, heartbeats): record batches with ``@unit``, and (shard, heartbeat) for every
    shard. Returns a tuple of PCollections: ``.events`` with ``@cell`` and ``@new``, and ``.dead``.

    Args:
      plan: with a person. secret: reference; only keys of hashes are derived from it here.
      shards: over how many users are spread: as many workers share them at most. Part of the state.
      bounded: all data is there from the start. stream: what wall time stands for, if not.
    """

    def __init__(
        self,
        plan: Plan,
        secret: SecretRef,
        shards: int,
        bounded: bool,
        stream: StreamTime = PRESENT,
    ) -> None:
        super().__init__()
        self._plan, self._secret = plan, secret
        self._shards, self._bounded, self._stream = shards, bounded, stream

    def expand(self, inputs: Any) -> Any:
        """Re-windows to the global window: state is per shard and window."""
        events, beats = inputs
        spread = events | "ToShards" >> beam.ParDo(
            ToUsers(self._secret, self._plan, self._shards)
        ).with_output_types(tuple[int, bytes], dead=pa.RecordBatch).with_outputs(
            DEAD, main="shards"
        )
        early = AT_ONCE if on_flink(events.pipeline) else 0
        closed = (
            (spread.shards, beats)
            | "Pieces" >> beam.Flatten()
            | "Global" >> beam.WindowInto(GlobalWindows())
            | "Close"
            >> beam.ParDo(
                CloseTicks(
                    self._plan,
                    self._shards,
                    self._bounded,
                    early,
                    closed_rows.width_of(self._plan.clock, self._stream),
                )
            )
            .with_output_types(pa.RecordBatch, dead=pa.RecordBatch)
            .with_outputs(DEAD, main="kept")
        )
        return Capped(closed.kept, (spread[DEAD], closed[DEAD]) | "Dead" >> beam.Flatten())


class Capped(NamedTuple):
    """What comes out of Cap."""

    events: Any
    dead: Any

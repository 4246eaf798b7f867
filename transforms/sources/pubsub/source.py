"""Reading a Pub/Sub subscription on any runner: a splittable DoFn of few, big elements.

A turn of a reader pulls for a fraction of a second, sends on each answer as one or a few record
batches, moves its watermark and lets go. Messages are acknowledged when the runner says that the
bundle is safe (on Flink: after a checkpoint). So none is lost; one may come again, and its id shows
it: a stream without ``schema.id`` counts it twice after a crash.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from weir.dpcore.leaves.clock import Clock
from weir.transforms.decode.beam_events import SourceOutput, decoded_by, emit
from weir.transforms.runtime import fence, kept_counts
from weir.transforms.runtime.flink_quirks import on_flink
from weir.transforms.sources.pubsub.drain import DRAIN_WATCHES
from weir.transforms.sources.pubsub.messages import MessageDecoder, Subscription
from weir.transforms.sources.pubsub.reader import SHELF, Reader
from weir.transforms.sources.pubsub.restriction import TurnProvider
from weir.transforms.sources.pubsub.watermark import BACKLOG

TURN, LONG_TURN = 0.2, 2.0
"""Seconds that a turn goes on pulling: a fiftieth of a tick, within these bounds."""
WAIT, STEP = 0.05, 0.02
"""Seconds that a turn waits for an answer; an open question outlives it. In steps, where the turn
is to end with a tick."""
BEYOND = 2_000
"""Microseconds by which a turn ends behind a tick: Flink lets pass a millisecond less than it was
told where the next turn has begun by then, and fires a timer once the watermark is beyond it."""

_TRACKER = beam.DoFn.RestrictionParam(TurnProvider())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class PullDoFn(beam.DoFn):
    """Number of a reader, as text -> batches of events; dead letters tagged "dead".

    As text, because Flink's runner names the coder of (element, restriction) after the element's
    coder alone: two splittable DoFns over elements of one type, this and the Clock's, would get one
    coder, and which of the two is left to chance.

    Args:
      subscription: what to read.
      decoder: of its messages.
      clock: the public clock: its delay is what the watermark stays behind, its end the end.
      flink: whether the runner is Flink's, which drains without saying so (see ``DrainWatch``) and
        declares bundles safe too early (see ``Confirmations``).
    """

    def __init__(
        self,
        subscription: Subscription,
        decoder: MessageDecoder,
        clock: Clock,
        flink: bool = False,
    ) -> None:
        self._from, self._decoder, self._clock = subscription, decoder, clock
        self._flink = flink
        self._fence = fence.current()
        tick = clock.period / subscription.stream.speed / 1e6
        self._turn = min(max(TURN, tick / 50), LONG_TURN)
        self._prompt = tick >= 4 * TURN
        self._run = uuid.uuid4().hex

    def setup(self) -> None:
        """Readers stay as long as a DoFn of the run is there."""
        SHELF.join(self._run)
        kept_counts.keep(self._fence)

    def teardown(self) -> None:
        """See setup."""
        SHELF.leave(self._run)
        kept_counts.flush(self._fence)

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        number: str,
        finalizer: Any = beam.DoFn.BundleFinalizerParam,  # has to come before the tracker
        tracker: Any = _TRACKER,
        watermark: Any = _WATERMARK,
    ) -> Iterator[Any]:
        """One turn."""
        later = self._flink and self._decoder.has_ids
        reader = SHELF.reader(self._run, int(number), self._from, later, self._fence)
        turn = tracker.current_restriction().number
        reader.begin(turn)
        began = reader.confirmations.began()
        watch = DRAIN_WATCHES.of(f"{self._run} {number}", self._flink)
        finalizer.register(watch.safe)  # also where nothing was pulled: runners expect something
        if watch.drains() and tracker.try_claim(None):
            self._fence.drains()
            return
        stamp = watermark.current_watermark() or _floor(self._clock.start)
        ids: list[str] = []
        until = time.monotonic() + self._turn
        while True:
            pulled = reader.take(STEP if self._prompt else WAIT)
            if pulled is None:
                more = self._prompt and reader.is_well() and time.monotonic() < until
                if more and not self._ends_a_tick(reader, stamp):
                    continue  # fewer turns: each is a bundle of its own (and see flink_quirks)
                break
            if not tracker.try_claim(len(ids)):
                reader.leases.give_back(pulled.ids)
                break
            ids += pulled.ids
            for found in emit(iter(self._decoder.decode(pulled.messages))):
                yield stamped(found, stamp)
            reader.frontier.answered(reader.wall(), pulled.first, pulled.full)
            if time.monotonic() >= until or self._ends_a_tick(reader, stamp):
                break
        finalizer.register(partial(reader.confirmations.safe, began, ids, turn))
        reached = self._reached(reader)
        if reached > stamp:
            watermark.set_watermark(reached)
        elif watermark.current_watermark() is None:
            watermark.set_watermark(stamp)
        if self._is_over(reader, stamp) and tracker.try_claim(None):
            self._fence.ends()
            return
        at_once = bool(ids) or self._prompt and reader.is_well()
        tracker.defer_remainder(Duration.of(watch.wait(0 if at_once else reader.pause)))

    def _reached(self, reader: Reader) -> Timestamp:
        """The watermark: the frontier less the delay, from the start of the clock on.

        Never within the last 2 ms of a tick, whose timer may be set early (see flink_quirks).
        """
        at = reader.reached()
        clock, start = self._clock, self._clock.start
        if at is None or at - clock.delay <= start:
            return _floor(start)
        reached = at - clock.delay
        if clock.tick_start(clock.tick_at(reached) + 1) - reached <= 2000:
            reached = max(start, reached - 2000)
        return _floor(reached)

    def _ends_a_tick(self, reader: Reader, told: Timestamp) -> bool:
        """Whether a tick is over by now that was not by the watermark: its release waits for it.

        Where ticks follow each other faster than turns every turn ends some, and none is cut short.
        """
        if not self._prompt:
            return False
        start = self._clock.start
        reached, before = (
            self._clock.tick_at(max(start, at.micros - BEYOND))
            for at in (self._reached(reader), told)
        )
        return reached > before

    def _is_over(self, reader: Reader, told: Timestamp) -> bool:
        """Whether every tick of the clock is behind the reader and nothing is left to read.

        All that was read is acknowledged by then, as no later turn would do it. Where messages
        never cease, a minute behind the end is enough. The runner must have been
        told so by an earlier turn: a job that ends at the moment at which its last timers are due
        may end without them.
        """
        clock, wall = self._clock, reader.wall()
        at = reader.reached()
        if clock.ticks is None or at is None or reader.frontier.is_held(wall):
            return False
        end = clock.tick_start(clock.ticks)
        if told.micros <= end:
            return False
        hold = int(self._from.ack_seconds * 1e6 * self._from.stream.speed)
        past = at - clock.delay - end
        if reader.frontier.is_idle() and not len(reader.leases):
            return past >= hold
        return past >= BACKLOG * self._from.stream.speed


def stamped(found: Any, stamp: Timestamp) -> Any:
    """An output of ``emit`` at an event time."""
    if isinstance(found, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(found.tag, TimestampedValue(found.value, stamp))
    return TimestampedValue(found, stamp)


def _floor(micros: int) -> Timestamp:
    """Runners keep milliseconds."""
    return Timestamp(micros=micros // 1000 * 1000)


class ReadSubscription(beam.PTransform[Any, Any]):
    """A subscription -> ``SourceOutput(events, dead)``. Keeps no order.

    Args:
      subscription: what to read.
      decoder: of its messages.
      clock: the public clock.
      readers: how many read side by side; more than one are spread over workers.
    """

    def __init__(
        self, subscription: Subscription, decoder: MessageDecoder, clock: Clock, readers: int = 1
    ) -> None:
        super().__init__()
        self._from, self._decoder, self._clock = subscription, decoder, clock
        self._readers = readers

    def expand(self, pipeline: Any) -> SourceOutput:
        """Readers, Spread, Pull."""
        numbers = [str(number) for number in range(self._readers)]
        readers = pipeline | "Readers" >> beam.Create(numbers, reshuffle=False)
        if self._readers > 1:
            readers = readers | "Spread" >> beam.Reshuffle()
        pull = PullDoFn(self._from, self._decoder, self._clock, on_flink(pipeline.pipeline))
        return decoded_by(readers, "Pull", pull)

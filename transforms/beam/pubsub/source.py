"""Reading a Pub/Sub subscription on any runner: a splittable DoFn of few, big elements.

A turn of a reader pulls for a fraction of a second, sends on each answer as one or a few record
batches, moves its watermark and lets go. Messages are acknowledged when the runner says that the
bundle is safe (on Flink: after a checkpoint). So none is lost; one may come again, and its id shows
it: a stream without ``schema.id`` counts it twice after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.utils.timestamp import Duration, Timestamp

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.elements import SourceOutput, emit
from weir.transforms.beam.in_process import ProcessReaders
from weir.transforms.beam.pubsub.drain import DRAIN_WATCHES
from weir.transforms.beam.pubsub.messages import MessageDecoder, Subscription
from weir.transforms.beam.pubsub.reader import Reader
from weir.transforms.beam.pubsub.restriction import TurnProvider
from weir.transforms.beam.pubsub.watermark import BACKLOG
from weir.transforms.beam.runner_quirks import on_flink
from weir.transforms.beam.turns import STEP, WAIT, ReaderDoFn, floor, read_by, stamped, watermark_of
from weir.transforms.runtime.acked import ReadTurn

_TRACKER = beam.DoFn.RestrictionParam(TurnProvider())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class PullDoFn(ReaderDoFn):
    """Number of a reader, as text -> batches of events; dead letters tagged "dead".

    Args:
      subscription: what to read. decoder: of its messages. clock, flink: see ReaderDoFn. Flink also
        declares bundles safe too early (see ``Confirmations``).
    """

    readers = ProcessReaders[Reader]()

    def __init__(
        self,
        subscription: Subscription,
        decoder: MessageDecoder,
        clock: Clock,
        flink: bool = False,
    ) -> None:
        super().__init__(clock, subscription.earliest, subscription.stream.speed, flink)
        self._from, self._decoder = subscription, decoder

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
        make = partial(Reader, self._from, later, int(number), self._fence)
        reader = self.readers.reader(self._run, int(number), make)
        turn = tracker.current_restriction().number
        reader.begin(turn)
        this = ReadTurn(turn, reader.wall())
        began = reader.confirmations.began()
        watch = DRAIN_WATCHES.of(f"{self._run} {number}", self._flink)
        finalizer.register(watch.safe)  # also where nothing was pulled: runners expect something
        if self._is_drained(watch, reader) and tracker.try_claim(None):
            return
        stamp = watermark.current_watermark() or floor(self._clock.start)
        ids: list[str] = []
        until = time.monotonic() + self._turn
        while True:
            pulled = reader.take(STEP if self._prompt else WAIT)
            if pulled is None:
                more = self._prompt and reader.is_well and time.monotonic() < until
                if more and not self._ends_a_tick(reader, stamp):
                    continue  # fewer turns: each is a bundle of its own (and see runner_quirks)
                break
            if not tracker.try_claim(len(ids)):
                reader.leases.give_back(pulled.ids)
                break
            ids += pulled.ids
            for result in emit(iter(self._decoder.decode(pulled.messages))):
                yield stamped(result, stamp)
            reader.frontier.answered(reader.wall(), pulled.first, pulled.full)
            if time.monotonic() >= until or self._ends_a_tick(reader, stamp):
                break
        finalizer.register(partial(reader.confirmations.safe, began, ids, this))
        reached = watermark_of(reader.reached(), self._clock)
        if reached > stamp or watermark.current_watermark() is None:
            watermark.set_watermark(max(reached, stamp))
        if self._is_over(reader, stamp) and tracker.try_claim(None):
            self._fence.ends()
            return
        at_once = bool(ids) or self._prompt and reader.is_well
        tracker.defer_remainder(Duration.of(watch.wait(0 if at_once else reader.pause)))

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
        pull = PullDoFn(self._from, self._decoder, self._clock, on_flink(pipeline.pipeline))
        return read_by(pipeline, self._readers, "Pull", pull)

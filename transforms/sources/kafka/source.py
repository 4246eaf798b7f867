"""Reading a topic of Kafka on any runner: a splittable DoFn of few, big elements.

An element is a reader, and its restriction the next offset of each of its partitions. So offsets
lie in the runner's checkpoints, together with what was made of the records before them: a record
counts once, whatever is killed. Nothing is kept at the brokers, and no consumer group is joined.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.utils.timestamp import Duration, Timestamp

from weir.dpcore.leaves.clock import Clock
from weir.transforms.decode.beam_events import emit
from weir.transforms.decode.canonical import Decoded
from weir.transforms.runtime import fence, kept_counts
from weir.transforms.runtime.dead_letters import DEAD, WHOLE_FILE, dead_letters, reason_code
from weir.transforms.runtime.flink_quirks import on_flink
from weir.transforms.sources.in_process import ProcessReaders
from weir.transforms.sources.kafka.position import PositionProvider
from weir.transforms.sources.kafka.reader import TopicBatch, TopicReader
from weir.transforms.sources.kafka.topic import KafkaTopic
from weir.transforms.sources.pubsub.drain import DRAIN_WATCHES
from weir.transforms.sources.pubsub.messages import MessageDecoder
from weir.transforms.sources.turns import (
    LONG_TURN,
    STEP,
    TURN,
    WAIT,
    ends_a_tick,
    floor,
    stamped,
    watermark_of,
)

READERS: ProcessReaders[TopicReader] = ProcessReaders()

_TRACKER = beam.DoFn.RestrictionParam(PositionProvider())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class ReadRecords(beam.DoFn):
    """Number of a reader, as text -> batches of events; dead letters tagged "dead".

    As text, because Flink's runner names the coder of (element, restriction) after the element's
    coder alone: of two splittable DoFns over elements of one type, this and the heartbeats', both
    would get one of the two coders.

    Args:
      topic: what to read.
      decoder: of its records.
      clock: the public clock: its delay is what the watermark stays behind, its end the end.
      flink: whether the runner is Flink's, which drains without saying so (see ``DrainWatch``).
    """

    def __init__(
        self, topic: KafkaTopic, decoder: MessageDecoder, clock: Clock, flink: bool = False
    ) -> None:
        self._topic, self._decoder, self._clock = topic, decoder, clock
        self._flink = flink
        self._fence = fence.current()
        tick = clock.period / topic.stream.speed / 1e6
        self._turn = min(max(TURN, tick / 50), LONG_TURN)
        self._prompt = tick >= 4 * TURN
        self._run = uuid.uuid4().hex

    def setup(self) -> None:
        """Readers stay as long as a DoFn of the run is there."""
        READERS.join(self._run)
        kept_counts.keep(self._fence)

    def teardown(self) -> None:
        """See setup."""
        READERS.leave(self._run)
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
        make = partial(TopicReader, self._topic, int(number), self._fence)
        reader = READERS.reader(self._run, int(number), make)
        reader.begin(tracker.current_restriction())
        watch = DRAIN_WATCHES.of(f"{self._run} {number}", self._flink)
        finalizer.register(watch.safe)  # also where nothing was read: runners expect something
        if watch.drains() and tracker.try_claim(None):
            self._fence.drains()
            return
        stamp = watermark.current_watermark() or floor(self._clock.start)
        until = time.monotonic() + self._turn
        has_read = False
        while True:
            before = reader.position
            position = reader.look()
            if position is None:
                break
            if position != before and not tracker.try_claim(position):
                reader.left()
                break
            batch = reader.take(STEP if self._prompt else WAIT)
            if batch is not None:
                if not tracker.try_claim(position.at(batch.offsets)):
                    reader.left()
                    break
                has_read |= bool(batch.messages or batch.dead)
                for output in emit(self._decoded(batch)):
                    yield stamped(output, stamp)
                reader.took(batch)
            elif not self._prompt:
                break
            if time.monotonic() >= until or self._ends_a_tick(reader, stamp):
                break
        if reader.position is not None:
            finalizer.register(partial(reader.commit, dict(reader.position.offsets)))
        reached = watermark_of(reader.reached(), self._clock)
        if reached > stamp or watermark.current_watermark() is None:
            watermark.set_watermark(max(reached, stamp))
        if self._is_over(stamp) and tracker.try_claim(None):
            self._fence.ends()
            return
        at_once = has_read or (self._prompt and reader.is_well)
        tracker.defer_remainder(Duration.of(watch.wait(0 if at_once else reader.pause)))

    def _decoded(self, batch: TopicBatch) -> Iterator[Decoded]:
        if batch.dead:
            names = pa.array([f"{self._topic.name}#{record}" for record, _ in batch.dead])
            reasons = np.array([reason_code(reason) for _, reason in batch.dead], dtype=np.int8)
            places = np.full(len(batch.dead), WHOLE_FILE, dtype=np.int64)
            letters = dead_letters(names.dictionary_encode(), places, reasons)
            yield Decoded(None, letters)
        yield from self._decoder.decode(batch.messages)

    def _ends_a_tick(self, reader: TopicReader, before: Timestamp) -> bool:
        """Whether a tick is over by now that was not by the watermark: its release waits for it.

        Where ticks follow each other faster than turns every turn ends some, and none is cut short.
        """
        if not self._prompt:
            return False
        return ends_a_tick(self._clock, watermark_of(reader.reached(), self._clock), before)

    def _is_over(self, before: Timestamp) -> bool:
        """Whether every tick of the clock is behind the reader, and the runner knows it by an
        earlier turn: a job that ends at the moment at which its last timers are due may end
        without them."""
        clock = self._clock
        return clock.ticks is not None and before.micros > clock.tick_start(clock.ticks)


class TopicRead(NamedTuple):
    """PCollections of canonical batches and of dead letters."""

    events: Any
    dead: Any


class ReadKafka(beam.PTransform[Any, Any]):
    """A topic -> ``TopicRead(events, dead)``. Keeps no order.

    Args:
      topic: what to read. decoder: of its records. clock: the public clock.
    """

    def __init__(self, topic: KafkaTopic, decoder: MessageDecoder, clock: Clock) -> None:
        super().__init__()
        self._topic, self._decoder, self._clock = topic, decoder, clock

    def expand(self, pipeline: Any) -> TopicRead:
        """Readers, Spread, Read."""
        numbers = [str(number) for number in range(self._topic.readers)]
        readers = pipeline | "Readers" >> beam.Create(numbers, reshuffle=False)
        if self._topic.readers > 1:
            readers = readers | "Spread" >> beam.Reshuffle()
        outputs = readers | "Read" >> beam.ParDo(
            ReadRecords(self._topic, self._decoder, self._clock, on_flink(pipeline.pipeline))
        ).with_output_types(pa.RecordBatch, dead=pa.RecordBatch).with_outputs(DEAD, main="events")
        return TopicRead(outputs.events, outputs[DEAD])


__all__ = ["ReadKafka", "ReadRecords", "TopicRead"]

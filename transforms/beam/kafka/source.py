"""Reading a topic of Kafka on any runner: a splittable DoFn of few, big elements.

An element is a reader, and its restriction the next offset of each of its partitions. So offsets
lie in the runner's checkpoints, together with what was made of the records before them: a record
counts once, whatever is killed. Nothing is kept at the brokers, and no consumer group is joined.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.utils.timestamp import Duration, Timestamp

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.elements import SourceOutput, emit
from weir.transforms.beam.in_process import ProcessReaders
from weir.transforms.beam.kafka.position import PositionProvider
from weir.transforms.beam.kafka.reader import TopicBatch, TopicReader
from weir.transforms.beam.pubsub.drain import DRAIN_WATCHES
from weir.transforms.beam.pubsub.messages import MessageDecoder
from weir.transforms.beam.runner_quirks import on_flink
from weir.transforms.beam.turns import STEP, WAIT, ReaderDoFn, floor, read_by, stamped, watermark_of
from weir.transforms.decode.canonical import Decoded
from weir.transforms.runtime.dead_letters import WHOLE_FILE, dead_letters, reason_code
from weir.transforms.sources.kafka.topic import KafkaTopic

_TRACKER = beam.DoFn.RestrictionParam(PositionProvider())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class ReadRecords(ReaderDoFn):
    """Number of a reader, as text -> batches of events; dead letters tagged "dead".

    Args:
      topic: what to read. decoder: of its records. clock, flink: see ReaderDoFn.
    """

    readers = ProcessReaders[TopicReader]()

    def __init__(
        self, topic: KafkaTopic, decoder: MessageDecoder, clock: Clock, flink: bool = False
    ) -> None:
        super().__init__(clock, topic.earliest, topic.stream.speed, flink)
        self._topic, self._decoder = topic, decoder

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
        reader = self.readers.reader(self._run, int(number), make)
        reader.begin(tracker.current_restriction())
        watch = DRAIN_WATCHES.of(f"{self._run} {number}", self._flink)
        finalizer.register(watch.safe)  # also where nothing was read: runners expect something
        if self._is_drained(watch, reader) and tracker.try_claim(None):
            return
        stamp = watermark.current_watermark() or floor(self._clock.start)
        due, until = self._due(stamp, self._topic.slack), time.monotonic() + self._turn
        has_read = False
        while True:
            before = reader.position
            position = reader.look(due)
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

    def _is_over(self, before: Timestamp) -> bool:
        """Whether every tick of the clock is behind the reader, and the runner knows it by an
        earlier turn: a job that ends at the moment at which its last timers are due may end
        without them."""
        clock = self._clock
        return clock.ticks is not None and before.micros > clock.tick_start(clock.ticks)


class ReadKafka(beam.PTransform[Any, Any]):
    """A topic -> ``SourceOutput(events, dead)``. Keeps no order.

    Args:
      topic: what to read. decoder: of its records. clock: the public clock.
    """

    def __init__(self, topic: KafkaTopic, decoder: MessageDecoder, clock: Clock) -> None:
        super().__init__()
        self._topic, self._decoder, self._clock = topic, decoder, clock

    def expand(self, pipeline: Any) -> SourceOutput:
        """Readers, Spread, Read."""
        read = ReadRecords(self._topic, self._decoder, self._clock, on_flink(pipeline.pipeline))
        return read_by(pipeline, self._topic.readers, "Read", read)


__all__ = ["ReadKafka", "ReadRecords"]

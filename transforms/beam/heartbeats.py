"""Heartbeats: what tells every block which ticks are over, whether or not data came.

A heartbeat is (block, last announced tick). Its event time lies inside that tick and the watermark
of the source follows the public clock, so a timer at the end of a tick never fires before its
heartbeat is there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.heartbeat import encode
from weir.transforms.beam.pubsub.drain import DRAIN_WATCHES
from weir.transforms.beam.runner_quirks import on_flink
from weir.transforms.beam.step import Step
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

FOREVER = 1 << 50
"""More ticks than any stream will see."""
LONGEST_NAP = 1.0
"""Seconds between looks at the wall clock, at most."""
LONGEST_ON_FLINK = 30
"""The same where whole seconds of a nap may be all that is kept (see runner_quirks)."""

LEAD, LEAD_ON_FLINK = 2_000, 1_000_000
"""Microseconds that the watermark leads by, where it does: at least a runner's two steps, and what
is left of them where only whole seconds of a watermark are kept. At most half a tick: the next
heartbeat is of its end."""


def beats(
    blocks: Sequence[int], clock: Clock, last_tick: int
) -> Iterator[TimestampedValue[tuple[int, bytes]]]:
    """One heartbeat a block, all announcing the same tick."""
    stamp = Timestamp(micros=(clock.tick_start(last_tick + 1) - 1) // 1000 * 1000)
    for block in blocks:
        yield TimestampedValue((block, encode(last_tick)), stamp)


class Announce(Step):
    """Bounded input: announces the whole clock at once."""

    def __init__(self, blocks: Sequence[int], clock: Clock) -> None:
        self._blocks, self._clock = tuple(blocks), clock

    def process(self, _: bytes) -> Iterator[TimestampedValue[tuple[int, bytes]]]:
        """One heartbeat a block."""
        ticks = self._clock.ticks
        assert ticks is not None
        yield from beats(self._blocks, self._clock, ticks - 1)


class TickProvider(RestrictionProvider):
    """A restriction is a range of ticks that are still to be announced."""

    def initial_restriction(self, element: int) -> OffsetRange:
        """All ticks. element: how many there are."""
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        """See OffsetRestrictionTracker."""
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        """Ticks left."""
        return int(restriction.size())

    def truncate(self, element: int, restriction: OffsetRange) -> None:
        """A drain announces nothing more."""
        return None


_TRACKER = beam.DoFn.RestrictionParam(TickProvider())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Follow(Step):
    """Unbounded input: announces a tick when stream time passes its end plus the clock's delay.

    Needs no data, so a silent stream ticks on. All overdue ticks of one look are one heartbeat, so
    a job that starts behind catches up at once. A drain announces nothing more.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        clock: Clock,
        now: Callable[[], float] = time.time,
        stream: StreamTime = PRESENT,
        hidden_drain: bool = False,
        lead: int = 0,
    ) -> None:
        self._blocks, self._clock, self._now = tuple(blocks), clock, now
        self._lead = min(lead, clock.period // 2)
        self._stream = stream
        self._run, self._hidden_drain = uuid.uuid4().hex, hidden_drain

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        finalizer: Any = beam.DoFn.BundleFinalizerParam,  # has to come before the tracker
        tracker: Any = _TRACKER,
        watermark: Any = _WATERMARK,
    ) -> Iterator[TimestampedValue[tuple[int, bytes]]]:
        """Announces what is over, then naps until the next tick ends."""
        clock = self._clock
        restriction = tracker.current_restriction()
        watch = DRAIN_WATCHES.of(self._run, self._hidden_drain)
        finalizer.register(watch.safe)
        if watch.drains() and tracker.try_claim(restriction.stop - 1):
            return
        present = self._stream.at(int(self._now() * 1e6)) - clock.delay
        over = min(clock.tick_at(present), restriction.stop)
        if watch.suspects:  # what is announced in a drain would be stepped without its events
            over = min(over, restriction.start)
        if over > restriction.start:
            if not tracker.try_claim(over - 1):
                return
            yield from beats(self._blocks, clock, over - 1)
        reached = max(over, restriction.start)
        reported = clock.tick_start(reached) + self._lead
        watermark.set_watermark(Timestamp(micros=reported // 1000 * 1000))
        if reached < restriction.stop:
            wait = max(0, clock.tick_start(reached + 1) - present) / self._stream.speed / 1e6
            tracker.defer_remainder(Duration.of(watch.wait(self._nap(wait))))

    def _nap(self, wait: float) -> float:
        """Seconds until the next look, of those until the next tick ends."""
        if self._hidden_drain and wait >= 3:
            return min(int(wait) - 1, LONGEST_ON_FLINK) + 0.05
        return min(max(wait, 0.001), LONGEST_NAP)


@beam.typehints.with_output_types(tuple[int, bytes])
class Heartbeats(beam.PTransform[Any, Any]):
    """Announces ticks to every block that may hold a key.

    Args:
      blocks: which blocks. clock: the public clock.
      bounded: announce the whole clock at once; needs ``clock.end``.
      now: wall time in seconds since 1970, for tests.
      stream: what wall time stands for.
      lead: whether the watermark goes a little beyond the end of the last announced tick, where
        timers stand behind that end.

    Raises:
      ConfigError: bounded input and a clock without end: nobody could say which ticks are over; or
        unbounded input without a clock.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        clock: Clock,
        bounded: bool,
        now: Callable[[], float] = time.time,
        stream: StreamTime = PRESENT,
        lead: bool = False,
    ) -> None:
        super().__init__()
        if bounded and clock.ticks is None:
            raise ConfigError(
                "clock.end",
                None,
                "is needed where the source is made of files: the last tick is public, so it "
                "cannot be read off the data. Set the end of the period that the files cover.",
            )
        if not bounded and clock.once:
            raise ConfigError(
                "clock",
                None,
                "is missing: unbounded input has no moment at which all rows could be released. "
                "Write clock: {start: 2025-01-01T00:00:00Z, period: 1d} and schema.time.",
            )
        self._blocks, self._clock, self._bounded = blocks, clock, bounded
        self._now, self._stream, self._lead = now, stream, lead

    def expand(self, begin: Any) -> beam.PCollection[tuple[int, bytes]]:
        """Pipeline -> (block, heartbeat)."""
        result: beam.PCollection[tuple[int, bytes]]
        if self._bounded:
            result = (
                begin
                | "Start" >> beam.Impulse()
                | "Announce"
                >> beam.ParDo(Announce(self._blocks, self._clock)).with_output_types(
                    tuple[int, bytes]
                )
            )
            return result
        ticks = self._clock.ticks or FOREVER
        flink = on_flink(begin.pipeline)
        lead = (LEAD_ON_FLINK if flink else LEAD) if self._lead else 0
        result = (
            begin
            | "Start" >> beam.Create([ticks], reshuffle=False)
            | "Follow"
            >> beam.ParDo(
                Follow(
                    self._blocks,
                    self._clock,
                    self._now,
                    self._stream,
                    flink,
                    lead,
                )
            ).with_output_types(tuple[int, bytes])
        )
        return result

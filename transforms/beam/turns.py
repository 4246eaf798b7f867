"""Turns of readers of a stream: how long one lasts, and what watermark it leaves.

A DoFn's element is the number of a reader, as text: Flink's runner names the coder of (element,
restriction) after the element's coder alone, so of two splittable DoFns over elements of one type,
a source's and the heartbeats', both would get one of the two coders.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, Protocol

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.elements import SourceOutput, decoded_by
from weir.transforms.beam.in_process import ProcessReaders
from weir.transforms.beam.pubsub.drain import DrainWatch
from weir.transforms.beam.step import Step
from weir.transforms.runtime import fence, stored_counts
from weir.transforms.runtime.stream_time import StreamTime

TURN, LONG_TURN = 0.05, 2.0
"""Seconds that a turn goes on reading: a fiftieth of a tick, within these bounds."""
WAIT, STEP = 0.05, 0.02
"""Seconds that a turn waits for records. In steps, where the turn is to end with a tick."""
BEYOND = 2_000
"""Microseconds by which a turn ends behind a tick: Flink lets pass a millisecond less than it was
set where the next turn has begun by then, and fires a timer once the watermark is beyond it."""
LEEWAY = 5_000_000
"""Microseconds by which the announcement of ticks may notice a drain later than a reader."""
GIVE_UP = 60_000_000
"""Microseconds for which a drain waits for a server that is away."""


def watermark_of(frontier: int | None, clock: Clock) -> Timestamp:
    """The watermark: the frontier less the delay, from the start of the clock on.

    Never within the last 2 ms of a tick, whose timer may be set early (see runner_quirks).

    Args:
      frontier: microseconds of stream time before which all arrivals are read; None: unknown.
    """
    start = clock.start
    if frontier is None or frontier - clock.delay <= start:
        return floor(start)
    reached = frontier - clock.delay
    if clock.tick_start(clock.tick_at(reached) + 1) - reached <= BEYOND:
        reached = max(start, reached - BEYOND)
    return floor(reached)


def stamped(output: Any, stamp: Timestamp) -> Any:
    """An output of ``emit`` at an event time."""
    if isinstance(output, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(output.tag, TimestampedValue(output.value, stamp))
    return TimestampedValue(output, stamp)


def floor(micros: int) -> Timestamp:
    """Runners keep milliseconds."""
    return Timestamp(micros=micros // 1000 * 1000)


class Reaches(Protocol):
    """What reads a stream."""

    def reached(self) -> int | None:
        """Stream time before which all arrivals are read; None while nothing is known."""

    def wall(self) -> int:
        """Microseconds since 1970."""

    @property
    def is_well(self) -> bool:
        """Whether the server answers."""


class ReaderDoFn(Step):
    """Number of a reader, as text -> batches of events; ``process`` is one turn.

    Readers live as long as a DoFn of the run does in this process.

    Args:
      clock: the public clock: its delay is what the watermark stays behind, its end the end.
      earliest: wall time of a publication -> the earliest arrival that it may have.
      speed: of stream time.
      flink: whether the runner is Flink's, which drains without a call (see ``DrainWatch``).
    """

    readers: ClassVar[ProcessReaders[Any]]

    def __init__(self, clock: Clock, earliest: StreamTime, speed: float, flink: bool) -> None:
        self._clock, self._earliest, self._flink = clock, earliest, flink
        self._fence = fence.current()
        tick = clock.period / speed / 1e6
        self._turn = min(max(TURN, tick / 50), LONG_TURN)
        self._prompt = tick >= 4 * TURN
        self._run = uuid.uuid4().hex

    def setup(self) -> None:
        self.readers.join(self._run)
        stored_counts.keep(self._fence)

    def teardown(self) -> None:
        self.readers.leave(self._run)
        stored_counts.flush(self._fence)

    def _is_drained(self, watch: DrainWatch, reader: Reaches) -> bool:
        """Whether the job is being drained, and what had come by the time this showed is read.

        No tick that is announced by then lacks an event, whatever backlog there is. A server that
        stays away is given up, as it would hold the drain for ever.
        """
        if not watch.drains():
            watch.began = None
            return False
        wall = reader.wall()
        if watch.began is None:
            self._fence.drains()
            watch.began = wall
        reached = reader.reached()
        if reached is not None and reached >= self._earliest.at(watch.began + LEEWAY):
            return True
        return not reader.is_well and wall - watch.began > GIVE_UP

    def _due(self, before: Timestamp, slack: int) -> int | None:
        """Wall time at which a reader that asks finds a tick over that was not by the watermark.

        None where ticks follow each other faster than turns.

        Args:
          slack: wall microseconds by which what a reader knows is behind its question.
        """
        if not self._prompt:
            return None
        clock = self._clock
        end = clock.tick_start(clock.tick_at(max(clock.start, before.micros - BEYOND)) + 1)
        return self._earliest.wall(end + clock.delay + BEYOND + 1_000) + slack

    def _ends_a_tick(self, reader: Reaches, before: Timestamp) -> bool:
        """Whether a tick is over by now that was not by the watermark: its release waits for it.

        Where ticks follow each other faster than turns every turn ends some, and none is cut short.
        """
        if not self._prompt:
            return False
        clock = self._clock
        reached = watermark_of(reader.reached(), clock)
        now, then = (
            clock.tick_at(max(clock.start, at.micros - BEYOND)) for at in (reached, before)
        )
        return now > then


def read_by(pipeline: Any, readers: int, label: str, turns: ReaderDoFn) -> SourceOutput:
    """What readers read side by side; more than one are spread over workers."""
    numbers = [str(number) for number in range(readers)]
    elements = pipeline | "Readers" >> beam.Create(numbers, reshuffle=False)
    if readers > 1:
        elements = elements | "Spread" >> beam.Reshuffle()
    return decoded_by(elements, label, turns)


__all__ = [
    "BEYOND", "GIVE_UP", "LEEWAY", "LONG_TURN", "STEP", "TURN", "WAIT", "ReaderDoFn", "floor",
    "read_by", "stamped", "watermark_of",
]  # fmt: skip

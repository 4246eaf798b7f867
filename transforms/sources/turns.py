"""One turn of a reader of a stream: how long it lasts, and what watermark it leaves."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.leaves.clock import Clock

TURN, LONG_TURN = 0.2, 2.0
"""Seconds that a turn goes on reading: a fiftieth of a tick, within these bounds."""
WAIT, STEP = 0.05, 0.02
"""Seconds that a turn waits for records. In steps, where the turn is to end with a tick."""
BEYOND = 2_000
"""Microseconds by which a turn ends behind a tick: Flink lets pass a millisecond less than it was
set where the next turn has begun by then, and fires a timer once the watermark is beyond it."""


def watermark_of(frontier: int | None, clock: Clock) -> Timestamp:
    """The watermark: the frontier less the delay, from the start of the clock on.

    Never within the last 2 ms of a tick, whose timer may be set early (see flink_quirks).

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


def ends_a_tick(clock: Clock, reached: Timestamp, before: Timestamp) -> bool:
    """Whether a tick is over by one watermark that was not by another one before it."""
    now, then = (clock.tick_at(max(clock.start, at.micros - BEYOND)) for at in (reached, before))
    return now > then


def stamped(output: Any, stamp: Timestamp) -> Any:
    """An output of ``emit`` at an event time."""
    if isinstance(output, beam.pvalue.TaggedOutput):
        return beam.pvalue.TaggedOutput(output.tag, TimestampedValue(output.value, stamp))
    return TimestampedValue(output, stamp)


def floor(micros: int) -> Timestamp:
    """Runners keep milliseconds."""
    return Timestamp(micros=micros // 1000 * 1000)


__all__ = [
    "BEYOND", "LONG_TURN", "STEP", "TURN", "WAIT", "ends_a_tick", "floor", "stamped",
    "watermark_of",
]  # fmt: skip

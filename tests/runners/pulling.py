"""Runs a reader of a subscription on a runner of one's choice and keeps what it read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from tests.transforms.running import KEPT, keep
from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.pubsub.messages import MessageDecoder, Subscription
from weir.transforms.beam.pubsub.source import ReadSubscription
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.runtime.dead_letters import rows

SCHEMA = EventSchema.build(Stamp("at", "epoch_us"), id="id", numbers=["x"])
SECOND = 1_000_000


def prism_flags(location: Any) -> list[str]:
    """Beam's options for a Prism of this process."""
    return [
        "--runner=PrismRunner",
        f"--prism_location={location}",
        "--environment_type=LOOPBACK",
        "--prism_log_level=warn",
        "--streaming",
    ]


class Reading:
    """A pipeline that reads a subscription; its outputs so far."""

    def __init__(self, result: Any, events: str, dead: str) -> None:
        self.result, self._events, self._dead = result, events, dead

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """Batches of events so far."""
        return list(KEPT[self._events])

    def ids(self) -> list[str]:
        """Ids of events so far, in order of their coming."""
        return [one for batch in self.batches for one in batch.column("@id").to_pylist()]

    def letters(self) -> list[tuple[str, int, str]]:
        """Dead letters so far."""
        return sorted(letter for batch in KEPT[self._dead] for letter in rows(batch))

    def done(self) -> bool:
        """Whether the pipeline has ended."""
        return PipelineState.is_terminal(self.result.state)


@contextmanager
def reading(
    flags: list[str],
    subscription: Subscription,
    clock: Clock,
    form: str = "ndjson",
    readers: int = 1,
    schema: EventSchema = SCHEMA,
) -> Iterator[Reading]:
    """A reader that is cancelled on exit, if it has not ended."""
    pipeline = beam.Pipeline(options=PipelineOptions(flags))
    decoder = MessageDecoder(form, schema, subscription.name)
    read = pipeline | "Read" >> ReadSubscription(subscription, decoder, clock, readers)
    events, dead = keep(read.events, "events"), keep(read.dead, "dead")
    result = pipeline.run()
    try:
        yield Reading(result, events, dead)
    finally:
        if not PipelineState.is_terminal(result.state):
            result.cancel()


def until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Waits; AssertionError when it does not come true in time."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.05)

"""Reading a job's source: files are matched, checked, split, spread over workers and decoded; a
subscription is read message by message, for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import StandardOptions

from dpcore.config import durations
from dpcore.errors import ConfigError
from pipelines.config.sections import PubSubSource
from pipelines.graph.first_files import look_at_files
from transforms.decode.first_look import FirstLook
from transforms.decode.formats import emit
from transforms.decode.messages import MessageDecoder
from transforms.decode.schema import EventSchema
from transforms.runtime.dead_letters import DEAD
from transforms.runtime.pubsub_client import emulator, subscriber
from transforms.sources import matching
from transforms.sources.files import FileSource, Split
from transforms.sources.pubsub.dataflow import ReadNative
from transforms.sources.pubsub.reader import Subscription
from transforms.sources.pubsub.source import ReadSubscription


class SplitFiles(beam.DoFn):
    """Files -> splits."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def process(self, element: tuple[str, int]) -> Iterator[tuple[str, int, int, int, int]]:
        """One file."""
        for split in self._source.splits(matching.File(*element)):
            yield (split.path, split.start, split.end, split.first, split.size)


class DecodeSplits(beam.DoFn):
    """Splits -> batches of events; dead letters tagged "dead"."""

    def __init__(self, source: FileSource, schema: EventSchema) -> None:
        self._source = source
        self._schema = schema

    def process(self, element: tuple[str, int, int, int, int]) -> Iterator[Any]:
        """One split."""
        return emit(self._source.decode(Split(*element), self._schema))


class Read(NamedTuple):
    """PCollections of canonical batches and of dead letters."""

    events: Any
    dead: Any


class ReadFiles(beam.PTransform):
    """Files -> ``Read(events, dead)``. Order across splits is not preserved.

    Args:
      source: which files.
      schema: the roles of columns.
      look: what the first records must have; None looks at none.

    Raises:
      ConfigError: no file, a missing column, a column or a file of a wrong type, or records of
        which none fits; before anything runs.
    """

    def __init__(
        self, source: FileSource, schema: EventSchema, look: FirstLook | None = None
    ) -> None:
        super().__init__()
        self._source = source
        self._schema = schema
        self._files = source.match()
        source.check(self._files, schema)
        if look is not None:
            look_at_files(source, self._files, look)

    @property
    def size(self) -> int:
        """Bytes of all files: what the tally "bytes" reaches at the end."""
        return sum(file.size for file in self._files)

    def expand(self, pipeline: Any) -> Read:
        """Files, Split, Spread, Decode."""
        splits = (
            pipeline
            | "Files" >> beam.Create([tuple(file) for file in self._files])
            | "Split"
            >> beam.ParDo(SplitFiles(self._source)).with_output_types(
                tuple[str, int, int, int, int]
            )
        )
        decoded = (
            splits
            | "Spread" >> beam.Reshuffle()
            | "Decode"
            >> beam.ParDo(DecodeSplits(self._source, self._schema))
            .with_output_types(pa.RecordBatch, dead=pa.RecordBatch)
            .with_outputs(DEAD, main="events")
        )
        return Read(decoded.events, decoded[DEAD])


class ReadPubSub(beam.PTransform):
    """A subscription -> ``Read(events, dead)``: our own reader, or on Dataflow Beam's.

    Args:
      job: whose source is Pub/Sub. plan: what it releases.
    """

    def __init__(self, job: Any, plan: Any) -> None:
        super().__init__()
        source = job.source.pubsub
        schema = EventSchema.from_config(plan.config, plan.program.columns)
        self._decoder = MessageDecoder(
            source.payload, schema, source.subscription, job.limits.line_bytes
        )
        self._from = subscription_of(source)
        self._clock, self._readers, self._id = plan.clock, source.readers, source.id

    def expand(self, begin: Any) -> Any:
        """See ReadSubscription and ReadNative."""
        named = str(begin.pipeline.options.view_as(StandardOptions).runner or "")
        if "dataflow" in named.lower():
            return begin | ReadNative(self._from, self._decoder, self._id)
        return begin | ReadSubscription(self._from, self._decoder, self._clock, self._readers)


def subscription_of(source: PubSubSource) -> Subscription:
    """A job's subscription, with the emulator that this process is told to use, if any."""
    return Subscription(
        name=source.subscription,
        ack_seconds=source.ack_seconds,
        slack=durations.duration(source.slack),
        timestamp=source.timestamp,
        stream=source.to_stream(),
        host=emulator(),
    )


def check_subscription(source: PubSubSource, seconds: float = 10.0) -> str | None:
    """Asks the server for the subscription, before a job starts.

    Returns:
      A note where the server cannot be asked: it may still be reachable for workers. None if all is
      well.

    Raises:
      ConfigError: there is no such subscription, or its ack deadline is longer than the config's.
    """
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    try:
        found = subscriber(emulator()).get_subscription(
            subscription=source.subscription, timeout=seconds, retry=None
        )
    except exceptions.NotFound:
        raise ConfigError(
            "source.pubsub.subscription",
            source.subscription,
            "does not exist; create it (and its topic), or correct the name.",
        ) from None
    except (exceptions.GoogleAPIError, GoogleAuthError) as error:
        return (
            f"{source.subscription} cannot be looked up from here ({type(error).__name__}); "
            f"source.pubsub.ack_deadline is taken to be {source.ack_deadline}."
        )
    if found.ack_deadline_seconds * 1_000_000 > durations.duration(source.ack_deadline):
        raise ConfigError(
            "source.pubsub.ack_deadline",
            source.ack_deadline,
            f"is shorter than the subscription's: write {found.ack_deadline_seconds}s.",
        )
    return None


def ReadEvents(job: Any, plan: Any) -> Any:  # noqa: N802
    """The transform that reads a job's source.

    Args:
      job: a JobConfig.
      plan: what the job releases; its program says which columns are read.

    Raises:
      ConfigError: see ``ReadFiles``.
    """
    if job.source.path is None:
        return ReadPubSub(job, plan)
    form = job.source.text_form(job.limits.line_bytes)
    source = FileSource(job.source.kind, job.source.path, *form)
    schema = EventSchema.from_config(plan.config, plan.program.columns)
    # A header was held against the schema; the names in lines of JSON are only known by reading.
    look = FirstLook(plan, schema, named=job.source.kind != "ndjson")
    return ReadFiles(source, schema, look if job.limits.first_look else None)


__all__ = [
    "FileSource",
    "Read",
    "ReadEvents",
    "ReadFiles",
    "ReadPubSub",
    "check_subscription",
    "subscription_of",
]

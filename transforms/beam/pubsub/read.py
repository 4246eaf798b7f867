"""Pub/Sub on Dataflow: Beam's own connector, which that service replaces by its own reader.

It acknowledges, extends leases and follows the watermark by itself; ``id`` names the attribute by
which it drops copies. It is not told of the attribute that says when a message arrived: its
watermark would follow what senders say. It knows nothing of the clock's delay either, so an event
that came in time, but through a backlog, may find its tick released: it is counted as overdue.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import TaggedOutput

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.elements import SourceOutput, decoded_by, emit, stamped
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder, Subscription
from weir.transforms.beam.pubsub.source import ReadSubscription
from weir.transforms.beam.step import Step
from weir.transforms.runtime import counters

MESSAGES = 1_000
BYTES = 16 << 20
"""A bundle's messages are decoded when there are so many of them, or so many bytes."""


class DecodeBundle(Step):
    """Beam's Pub/Sub messages -> batches of events, a few a bundle; dead letters tagged "dead".

    Args:
      subscription: where they come from. decoder: of their payloads.
    """

    def __init__(self, subscription: Subscription, decoder: MessageDecoder) -> None:
        self._from, self._decoder = subscription, decoder
        self._held: list[Message] = []
        self._bytes = 0
        self._stamp: Any = None

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._bytes, self._stamp = [], 0, None

    def process(self, message: Any, stamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        """Gathers."""
        published = message.publish_time
        wall = stamp.micros if published is None else int(published.timestamp() * 1e6)
        id, data, attributes = message.message_id or "", message.data or b"", message.attributes
        self._held.append(self._from.message(id, data, attributes or {}, wall))
        self._bytes += len(message.data or b"")
        self._stamp = stamp if self._stamp is None else min(stamp, self._stamp)
        if len(self._held) >= MESSAGES or self._bytes >= BYTES:
            yield from self._decoded()

    def finish_bundle(self) -> Iterator[Any]:
        """Decodes what is left."""
        yield from self._decoded()

    def _decoded(self) -> Iterator[Any]:
        if not self._held:
            return
        counters.add("messages", len(self._held))
        counters.add("bytes", self._bytes)
        messages, stamp = self._held, self._stamp
        self.start_bundle()
        for result in emit(iter(self._decoder.decode(messages))):
            if isinstance(result, TaggedOutput):
                yield TaggedOutput(result.tag, stamped(result.value, stamp))
            else:
                yield stamped(result, stamp)


class ReadNative(beam.PTransform[Any, Any]):
    """A subscription -> ``SourceOutput(events, dead)``, by Beam's connector.

    Args:
      subscription, decoder: as of ReadSubscription.
      id_label: attribute by which copies of a message are dropped, on Dataflow only.
    """

    def __init__(
        self, subscription: Subscription, decoder: MessageDecoder, id_label: str | None
    ) -> None:
        super().__init__()
        self._from, self._decoder, self._id = subscription, decoder, id_label

    def expand(self, pipeline: Any) -> SourceOutput:
        """Pull, Decode."""
        from apache_beam.io.gcp.pubsub import ReadFromPubSub

        pulled = pipeline | "Pull" >> ReadFromPubSub(
            subscription=self._from.name, id_label=self._id, with_attributes=True
        )
        return decoded_by(pulled, "Decode", DecodeBundle(self._from, self._decoder))


class ReadPubSub(beam.PTransform[Any, Any]):
    """A subscription -> ``SourceOutput(events, dead)``.

    Args:
      subscription: which. decoder: of its messages. clock: of what is released.
      readers: how many pull side by side.
      copies: on Dataflow, the attribute by which it tells copies of a message apart.
    """

    def __init__(
        self,
        subscription: Subscription,
        decoder: MessageDecoder,
        clock: Clock,
        readers: int,
        copies: str | None,
    ) -> None:
        super().__init__()
        self._from, self._decoder = subscription, decoder
        self._clock, self._readers, self._copies = clock, readers, copies

    def expand(self, begin: Any) -> Any:
        """See ReadSubscription and ReadNative."""
        named = str(begin.pipeline.options.view_as(StandardOptions).runner or "")
        if "dataflow" in named.lower():
            return begin | ReadNative(self._from, self._decoder, self._copies)
        return begin | ReadSubscription(self._from, self._decoder, self._clock, self._readers)

"""Reading a subscription, for ever: by our own reader, or on Dataflow by Beam's."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.pubsub.dataflow import ReadNative
from weir.transforms.beam.pubsub.source import ReadSubscription
from weir.transforms.beam.pubsub.stamps import Subscription
from weir.transforms.decode.messages import MessageDecoder


class ReadPubSub(beam.PTransform[Any, Any]):
    """A subscription -> ``Read(events, dead)``.

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

"""The splittable DoFns of a stream get on with each other on Flink's runner."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2

from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.heartbeats import Heartbeats
from weir.transforms.beam.pubsub.messages import MessageDecoder, Subscription
from weir.transforms.beam.pubsub.source import ReadSubscription
from weir.transforms.decode.schema import EventSchema, Stamp


def test_no_two_of_them_take_elements_of_one_coder() -> None:
    """Flink's runner names the coder of (element, restriction) after the element's coder alone."""
    clock = Clock(0, 1_000_000, 60_000_000)
    decoder = MessageDecoder("ndjson", EventSchema.build(Stamp("t")), "s", 1 << 20)
    pipeline = beam.Pipeline()
    pipeline | "Clock" >> Heartbeats((0,), clock, bounded=False)
    for readers in (1, 2):
        pipeline | f"Read{readers}" >> ReadSubscription(
            Subscription("projects/acme-1/subscriptions/s"), decoder, clock, readers
        )
    parts = pipeline.to_runner_api().components
    found: dict[str, set[str]] = {}
    for transform in parts.transforms.values():
        if transform.spec.urn != common_urns.primitives.PAR_DO.urn:
            continue
        pardo = beam_runner_api_pb2.ParDoPayload.FromString(transform.spec.payload)
        if pardo.restriction_coder_id:
            (source,) = transform.inputs.values()
            step = transform.unique_name.split("/")[1]
            found.setdefault(step, set()).add(parts.pcollections[source].coder_id)
    assert found.keys() == {"Follow", "Pull"}
    assert not found["Follow"] & found["Pull"]

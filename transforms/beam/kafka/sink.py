"""Releases and dead letters -> a topic of Kafka, on any runner of Beam."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa

from weir.transforms.beam import sinks
from weir.transforms.beam.publish import Publish
from weir.transforms.sinks.kafka import KeyedRecord, ReleaseRecords, TopicServer


@beam.typehints.with_input_types(pa.RecordBatch)
class WriteTopic(beam.PTransform[Any, Any]):
    """Release batches -> records, one a row; see transforms.sinks.kafka.

    Args:
      server: of the topic. make: release batch -> records.
    """

    def __init__(self, server: TopicServer, make: ReleaseRecords) -> None:
        super().__init__()
        self._server, self._make = server, make

    def expand(self, releases: beam.PCollection[pa.RecordBatch]) -> Any:
        """Publish."""
        publish = Publish(self._server, self._make, "published")
        return releases | "Publish" >> beam.ParDo(publish)


@beam.typehints.with_input_types(pa.RecordBatch)
class WriteDeadTopic(beam.PTransform[Any, Any]):
    """Dead letters -> records of JSON lines without a key: source, position, field, reason.

    Args:
      server: of the topic.
    """

    def __init__(self, server: TopicServer) -> None:
        super().__init__()
        self._server = server

    def expand(self, dead: beam.PCollection[pa.RecordBatch]) -> Any:
        """Publish."""
        return dead | "Publish" >> beam.ParDo(Publish(self._server, _records, "published_dead"))


def _records(batch: pa.RecordBatch) -> Iterator[KeyedRecord]:
    return (KeyedRecord(None, message.data) for message in sinks.to_messages(batch))


__all__ = ["WriteDeadTopic", "WriteTopic"]

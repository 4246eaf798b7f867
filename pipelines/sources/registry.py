"""The kinds of sources by name: a further one is a file beside this one and a line here. Another
package adds one by an entry point in the group ``weir.sources``."""

from __future__ import annotations

from typing import Annotated

from weir.pipelines.connectors.connector import ConnectorKinds, PluginField
from weir.pipelines.sources.source import Source

SOURCES = ConnectorKinds(
    "source",
    {
        "csv": "weir.pipelines.sources.csv:CsvSource",
        "ndjson": "weir.pipelines.sources.ndjson:NdjsonSource",
        "parquet": "weir.pipelines.sources.parquet:ParquetSource",
        "arrow": "weir.pipelines.sources.arrow:ArrowSource",
        "avro": "weir.pipelines.sources.avro:AvroSource",
        "kafka": "weir.pipelines.sources.kafka:KafkaSource",
        "pubsub": "weir.pipelines.sources.pubsub:PubSubSource",
    },
    "weir.sources",
    "Export what lies in a database to Parquet, or give weir.release a frame or an Arrow table.",
)

AnySource = Annotated[Source, PluginField(SOURCES)]
"""A source of any kind, as a field of a section."""


def source_of(kind: str, value: object) -> Source:
    """A source of a kind, all else as usual."""
    found = PluginField(SOURCES).read({kind: value})
    assert isinstance(found, Source)
    return found


__all__ = ["SOURCES", "AnySource", "source_of"]

"""The kinds of sinks by name: a further one is a file beside this one and a line here. Another
package adds one by an entry point in the group ``weir.sinks``, or ``weir.dead_letters``."""

from __future__ import annotations

from typing import Annotated

from weir.pipelines.connectors.connector import ConnectorKinds, PluginField
from weir.pipelines.sinks.dead_letters import DeadLetters
from weir.pipelines.sinks.sink import Sink

SINKS = ConnectorKinds(
    "sink",
    {
        "parquet": "weir.pipelines.sinks.parquet:ParquetSink",
        "csv": "weir.pipelines.sinks.csv:CsvSink",
        "ndjson": "weir.pipelines.sinks.ndjson:NdjsonSink",
        "stdout": "weir.pipelines.sinks.stdout:StdoutSink",
        "bigquery": "weir.pipelines.sinks.bigquery:BigQuerySink",
        "pubsub": "weir.pipelines.sinks.pubsub:PubSubSink",
    },
    "weir.sinks",
)

DEAD_LETTERS = ConnectorKinds(
    "dead_letters",
    {
        "parquet": "weir.pipelines.sinks.dead_letters:DeadParquet",
        "csv": "weir.pipelines.sinks.dead_letters:DeadCsv",
        "ndjson": "weir.pipelines.sinks.dead_letters:DeadNdjson",
        "pubsub": "weir.pipelines.sinks.dead_letters:DeadTopic",
    },
    "weir.dead_letters",
)

AnySink = Annotated[Sink, PluginField(SINKS)]
"""A sink of any kind, as a field of a section."""

AnyDeadLetters = Annotated[DeadLetters, PluginField(DEAD_LETTERS)]
"""Dead letters of any kind, as a field of a section."""

__all__ = ["DEAD_LETTERS", "SINKS", "AnyDeadLetters", "AnySink"]

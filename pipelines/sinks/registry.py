"""The kinds of sinks by name: a further one is a file beside this one and a line here. Another
package adds one by an entry point in the group ``weir.sinks``, or ``weir.dead_letters``."""

from __future__ import annotations

from typing import Annotated

from pipelines.doors.registry import Doors, OneKind
from pipelines.sinks.dead_letters import DeadLetters
from pipelines.sinks.sink import Sink

SINKS = Doors(
    "sink",
    {
        "parquet": "pipelines.sinks.parquet:ParquetSink",
        "csv": "pipelines.sinks.csv:CsvSink",
        "ndjson": "pipelines.sinks.ndjson:NdjsonSink",
        "stdout": "pipelines.sinks.stdout:StdoutSink",
        "bigquery": "pipelines.sinks.bigquery:BigQuerySink",
        "pubsub": "pipelines.sinks.pubsub:PubSubSink",
    },
    "weir.sinks",
)

DEAD_LETTERS = Doors(
    "dead_letters",
    {
        "parquet": "pipelines.sinks.dead_letters:DeadParquet",
        "csv": "pipelines.sinks.dead_letters:DeadCsv",
        "ndjson": "pipelines.sinks.dead_letters:DeadNdjson",
        "pubsub": "pipelines.sinks.dead_letters:DeadTopic",
    },
    "weir.dead_letters",
)

AnySink = Annotated[Sink, OneKind(SINKS)]
"""A sink of any kind, as a field of a section."""

AnyDeadLetters = Annotated[DeadLetters, OneKind(DEAD_LETTERS)]
"""Dead letters of any kind, as a field of a section."""

__all__ = ["DEAD_LETTERS", "SINKS", "AnyDeadLetters", "AnySink"]

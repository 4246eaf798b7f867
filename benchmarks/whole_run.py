"""A whole run in this process, noise and files included."""

from __future__ import annotations

import apache_beam as beam

from weir.pipelines.graph import build
from weir.pipelines.graph.parts import Parts
from weir.transforms.local.memory import keep_freed

START = 1_704_067_200_000_000
"""2024-01-01T00:00:00Z, in microseconds."""
MINUTE = 60_000_000


def whole_run(parts: Parts) -> None:
    """As ``weir run`` on one machine, into a folder that is not there yet."""
    keep_freed()
    pipeline = beam.Pipeline(runner=build.in_process_runner())
    build.build(pipeline, parts)
    parts.sink.prepare(parts.plan, parts.secrets, True)
    pipeline.run().wait_until_finish()
    parts.sink.finish(parts.plan, True)

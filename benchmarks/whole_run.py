"""A whole run in this process, noise and files included."""

from __future__ import annotations

from weir.pipelines.graph.parts import Parts
from weir.pipelines.runners.local import LocalJob

START = 1_704_067_200_000_000
"""2024-01-01T00:00:00Z, in microseconds."""
MINUTE = 60_000_000


def whole_run(parts: Parts) -> None:
    """As ``weir run`` on one machine, into a folder that is not there yet: on the local engine."""
    job = LocalJob.of(parts, ())
    parts.sink.prepare(parts.plan, parts.secrets, True)
    job.run()
    parts.sink.finish(parts.plan, True)

"""The parts of a job, built for a runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weir.pipelines.graph.parts import Parts


def pipeline_for(parts: Parts, runner: str, flags: Sequence[str], dry: bool = False) -> Any:
    """A pipeline that is ready to run, and holds the options that it runs under.

    Args:
      parts: of the job. runner: direct, prism, flink or dataflow. flags: options for Beam.
      dry: the job will be described, not sent (Dataflow).

    Raises:
      ConfigError: an option that is missing or unknown, or what the runner's workers cannot reach.
    """
    import apache_beam as beam

    from weir.dpcore.errors import ConfigError
    from weir.pipelines.graph import build
    from weir.pipelines.runners.options import options_for

    here = runner == "direct"
    if runner == "dataflow":
        from weir.pipelines.runners import dataflow

        dataflow.check_job(parts)
    if dry:
        parts = replace(parts, source=parts.source.described(), sink=parts.sink.described())
    options = options_for(runner, flags, parts.streaming)
    if runner == "dataflow":
        dataflow.settle(options, parts.name, dry, parts.plan.config.version)
    try:
        pipeline = beam.Pipeline(build.in_process_runner() if here else None, options)
    except ValueError as error:  # Beam's own words on options, which hold nothing of an event
        raise ConfigError("options", None, f"are refused by Beam: {error}") from None
    build.build(pipeline, parts, here=here)
    return pipeline

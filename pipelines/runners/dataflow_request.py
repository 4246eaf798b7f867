"""The way of a job to Dataflow: built with settled options, and described without being sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.config.job import JobConfig
from pipelines.config.sections import needed


def request(job: JobConfig, flags: Sequence[str]) -> dict[str, Any]:
    """The complete request that a run would send. Connects to nothing.

    Raises:
      ConfigError: what Dataflow's workers could not reach, or a missing option.
      Unsupported: what Dataflow does not run.
    """
    from pipelines.runners import dataflow

    pipeline, options = pipeline_of(job, flags, dry=True)
    return dataflow.dry_run(pipeline, options)


def pipeline_of(job: JobConfig, flags: Sequence[str], dry: bool = False) -> tuple[Any, Any]:
    """A built pipeline and its options.

    Raises:
      ConfigError: see ``request``.
    """
    import apache_beam as beam

    from pipelines.graph import build
    from pipelines.graph.checks import check_runner, plan_of
    from pipelines.graph.secrets import secret_of
    from pipelines.runners import dataflow
    from pipelines.runners.options import options_for

    check_runner(job, "dataflow")
    dataflow.check_job(job)
    plan = plan_of(job)
    options = options_for("dataflow", flags, streaming=not needed("source", job.source).bounded)
    dataflow.settle(options, job.name, dry, job.version)
    pipeline = beam.Pipeline(options=options)
    build.build(pipeline, plan, job, secret_of(job.secret))
    return pipeline, options

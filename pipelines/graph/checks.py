"""What is refused before a job is built."""

from __future__ import annotations

from pathlib import Path

from dpcore.errors import ConfigError
from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.places import refuse_mixed
from pipelines.config.sections import Secret, needed
from pipelines.graph.circumstances import plan_under


def plan_of(job: JobConfig) -> Plan:
    """The plan of a job, with the checks that need more than the plan itself.

    Raises:
      ConfigError: the plan, the predicate, the schema, or a source without the clock's end.
    """
    from transforms.decode.schema import EventSchema

    plan = plan_under(job)
    EventSchema.from_config(plan.config, plan.program.columns)
    if job.source is not None:
        job.source.check_plan(plan)
    return plan


def check_folders(job: JobConfig, plan: Plan) -> None:
    """Looks whether the sink can take this plan. Changes nothing; a job without sink passes.

    Raises:
      ConfigError: a folder that is complete, of another plan or secret, full of something else, or
        that holds or would hold dead letters.
    """
    if job.sink is None:
        return
    refuse_mixed(job)
    path = job.sink.path
    if path is not None and not _is_fresh_folder(path):
        from pipelines.graph import build  # imports Beam, which takes seconds

        build.check_sink(job, plan)


def _is_fresh_folder(path: str) -> bool:
    """Whether a folder on this machine is not there yet, or empty."""
    if "://" in path:
        return False
    folder = Path(path)
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def check_runner(job: JobConfig, runner: str) -> None:
    """Refuses what a runner cannot do.

    Raises:
      ConfigError: no secret off the direct runner, or a stream on it.
    """
    source = needed("source", job.source)
    needed("sink", job.sink)
    source.check_runner(runner)
    if runner != "direct" and job.secret is None:
        raise ConfigError(
            "secret",
            None,
            f"is missing; --runner {runner} needs a secret that its workers can read, like "
            "`secret: {env: WEIR_SECRET}` or --secret-file secret.key.",
        )


def with_secret(job: JobConfig, secret_file: str | None) -> JobConfig:
    """A job whose secret is the file that the command line names, if it names one."""
    if secret_file is None:
        return job
    file = str(Path(secret_file).absolute())
    return job.model_copy(update={"secret": Secret(file=file)})

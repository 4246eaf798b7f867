"""What is refused before a job is built."""

from __future__ import annotations

from pathlib import Path

from dpcore.errors import ConfigError
from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.places import refuse_mixed
from pipelines.config.sections import Secret, needed
from pipelines.graph.circumstances import plan_under
from pipelines.graph.secrets import secrets_of
from pipelines.sinks.dead_letters import DeadLetters
from pipelines.sinks.sink import Sink
from transforms.runtime.secret import refuse_secret


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


def check_sinks(
    sink: Sink | None, letters: DeadLetters | None, secret: Secret | None, plan: Plan
) -> None:
    """Looks whether the sink can take this plan. Changes nothing; a job without sink passes.

    Raises:
      ConfigError: a folder that is complete, of another plan or secret, full of something else, or
        that holds or would hold dead letters.
    """
    if sink is not None:
        refuse_mixed(letters, sink)
        sink.check(plan, secrets_of(secret, plan))


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
    """A job whose secret is the file that the command line names, if it names one.

    Raises:
      ConfigError: it is the secret itself.
    """
    if secret_file is None:
        return job
    refuse_secret("--secret-file", secret_file)
    file = str(Path(secret_file).absolute())
    return job.model_copy(update={"secret": Secret(file=file)})

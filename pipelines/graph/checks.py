"""The plan of a job, and what is refused before a job is built."""

from __future__ import annotations

from weir.dpcore.accounting.guarantee import SHARDS, USER_SHARDS, RuntimeAssumptions
from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig
from weir.pipelines.config.sections import Deduplicate, Secret
from weir.pipelines.sources.source import Source, schema_of


def plan_under(job: JobConfig) -> Plan:
    """The plan of a job, with the guarantee that holds for this job.

    Raises:
      ConfigError: it cannot be planned.
    """
    config = job.plan_config()
    source = job.source
    said = () if source is None else tuple(source.caveats(job.limits))
    horizon = horizon_of(source, job.deduplicate, config.release_clock)
    shards = shards_of(source, job.deduplicate, config.privacy.unit == "user")
    return Plan.from_config(config, RuntimeAssumptions(horizon, said, shards))


def plan_of(job: JobConfig) -> Plan:
    """As ``plan_under``, with the checks that need more than the plan itself.

    Raises:
      ConfigError: the plan, the predicate, the schema, or a source without the clock's end.
    """
    plan = plan_under(job)
    schema_of(plan)
    if job.source is not None:
        job.source.check_plan(plan)
    return plan


def horizon_of(source: Source | None, section: Deduplicate | None, clock: Clock) -> int | None:
    """Ticks for which event ids are remembered: rounded up; None for the whole run, as on files."""
    on_files = source is not None and source.bounded
    if on_files or section is None or section.horizon is None:
        return None
    return max(1, -(-durations.duration(section.horizon) // clock.period))


def shards_of(source: Source | None, section: Deduplicate | None, users: bool) -> int:
    """Pieces of state that ids, or users, are spread over.

    A stream spreads users finely: what a shard does when a tick closes grows with its users. Files
    store nothing that hangs on it.
    """
    if section is not None and "shards" in section.model_fields_set:
        return section.shards
    on_files = source is not None and source.bounded
    return USER_SHARDS if users and not on_files else SHARDS


def check_runner(source: Source, secret: Secret | None, runner: str) -> None:
    """Refuses what a runner cannot do.

    Raises:
      ConfigError: no secret on workers of other processes, or a stream on it.
    """
    source.check_runner(runner)
    if runner not in ("local", "direct") and secret is None:
        raise ConfigError(
            "secret",
            None,
            f"is missing; --runner {runner} needs a secret that its workers can read, like "
            "`secret: {env: WEIR_SECRET}` or --secret-file secret.key.",
        )

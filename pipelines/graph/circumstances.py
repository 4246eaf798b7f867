"""What a job says about the promise of its plan, beside what the plan itself knows."""

from __future__ import annotations

from collections.abc import Iterator

from dpcore.accounting.circumstances import Circumstances
from dpcore.config import durations
from dpcore.leaves.clock import Clock
from dpcore.plan import Plan
from pipelines.config.job import JobConfig

PUBLICATION = (
    "Whether and when a run is published is not covered: it may depend on how many records were "
    "refused."
)
QUOTES = (
    "Quoted fields may hold newlines, so where a record ends follows from its quotes: the promise "
    "compares streams whose records close the quotes that they open within {:,} bytes. One that "
    "does not takes what lies up to there with it, other records among them."
)


def plan_under(job: JobConfig) -> Plan:
    """The plan of a job, with the promise that holds for this job.

    Raises:
      ConfigError: it cannot be planned.
    """
    plan = Plan.from_config(job.plan_config())
    return plan.under(Circumstances(horizon_of(job, plan.clock), tuple(limits_of(job))))


def limits_of(job: JobConfig) -> Iterator[str]:
    """Sentences on what the promise does not cover in this job: a further one is a line here."""
    if job.source is not None and job.source.pubsub is None:
        yield PUBLICATION
    if job.source is not None and job.source.quoted_newlines:
        yield QUOTES.format(job.limits.line_bytes)


def horizon_of(job: JobConfig, clock: Clock) -> int | None:
    """Ticks for which event ids are remembered: rounded up; None for the whole run, as on files."""
    on_files = job.source is not None and job.source.pubsub is None
    if on_files or job.deduplicate is None or job.deduplicate.horizon is None:
        return None
    return max(1, -(-durations.duration(job.deduplicate.horizon) // clock.period))

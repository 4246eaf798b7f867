"""What a job says about the promise of its plan, beside what the plan itself knows."""

from __future__ import annotations

from dpcore.accounting.circumstances import Circumstances
from dpcore.config import durations
from dpcore.leaves.clock import Clock
from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.sections import Deduplicate
from pipelines.sources.source import Source


def plan_under(job: JobConfig) -> Plan:
    """The plan of a job, with the promise that holds for this job.

    Raises:
      ConfigError: it cannot be planned.
    """
    plan = Plan.from_config(job.plan_config())
    source = job.source
    said = () if source is None else tuple(source.caveats(job.limits))
    horizon = horizon_of(source, job.deduplicate, plan.clock)
    return plan.under(Circumstances(horizon, said))


def horizon_of(source: Source | None, section: Deduplicate | None, clock: Clock) -> int | None:
    """Ticks for which event ids are remembered: rounded up; None for the whole run, as on files."""
    on_files = source is not None and source.bounded
    if on_files or section is None or section.horizon is None:
        return None
    return max(1, -(-durations.duration(section.horizon) // clock.period))

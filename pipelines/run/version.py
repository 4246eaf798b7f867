"""Under which version of the plan a run goes on."""

from __future__ import annotations

import logging

from dpcore.config.version import PLAN_VERSION
from pipelines.config.job import JobConfig

_log = logging.getLogger(__name__)


def under_version(job: JobConfig, runner: str) -> JobConfig:
    """The job under the version that it names, or else that of the run that goes on.

    A stream's state decides before its releases do. What a newer Weir began keeps the newest
    version here, so that it is refused by name later on.
    """
    if job.version is not None or job.source is None or job.sink is None:
        return job
    begun, place = None, job.sink.place
    if runner == "flink" and not job.source.bounded:
        from pipelines.runners.state_folder import StateFolder

        begun, place = StateFolder.of(job.state_folder).begun_under(), job.state_folder
    if begun is None:
        begun, place = job.sink.begun_under(), job.sink.place
    if begun is None or begun >= PLAN_VERSION:
        return job
    _log.warning(
        f"{place} was begun under version {begun} of the plan, and this run goes on under it: "
        f"write version: {begun} into the config to keep it elsewhere too."
    )
    return job.model_copy(update={"version": begun})

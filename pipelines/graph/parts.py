"""A config as a run takes it: read once, checked, and cut into what each room is handed."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from weir.dpcore.config import schema as versions
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig, refuse_mixed
from weir.pipelines.config.sections import Engine, Secret, needed
from weir.pipelines.graph.checks import check_runner, plan_of
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.sinks.dead_letters import DeadLetters
from weir.pipelines.sinks.sink import Sink
from weir.pipelines.sources.source import Limits, Source
from weir.transforms.runtime.secret import SecretRef, refuse_secret

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parts:
    """What is left of a config once it is read: no room is handed the whole of it.

    Attributes:
      plan: what is released and guaranteed. source, sink, letters: where events come from, and
      where
        releases and dead letters go. limits: caps on bad input.
      secrets: what keys the noise, each with its first tick, the first at tick 0: a fresh one where
        the config names none.
      engine: how a cluster runs it. state: where checkpoints and what a resume needs are kept.
      ledger: what the run asks for its budget; None: it asks nobody.
    """

    plan: Plan
    source: Source
    sink: Sink
    letters: DeadLetters | None
    limits: Limits
    secrets: tuple[tuple[int, SecretRef], ...]
    engine: Engine
    state: str
    ledger: Ledger | None = None

    @property
    def name(self) -> str:
        """Name of the release."""
        return self.plan.name

    @property
    def streaming(self) -> bool:
        """Whether its events may never end."""
        return not self.source.bounded

    @property
    def secret(self) -> SecretRef:
        """The first, which also keys the hashes of ids and rows."""
        return self.secrets[0][1]


def parts_of(
    job: JobConfig, runner: str | None = None, secret_file: str | None = None, look: bool = True
) -> Parts:
    """Cuts a config up.

    Args:
      job: the config.
      runner: local, direct, prism, flink or dataflow; None: nothing will run.
      secret_file: overrides the config's secret.
      look: whether to look at sink and state for a run that goes on; it may mean to connect.

    Raises:
      ConfigError: what is refused before a job is built.
    """
    source, sink = needed("source", job.source), needed("sink", job.sink)
    section = job.secret
    if secret_file is not None:
        refuse_secret("--secret-file", secret_file)
        section = Secret(file=str(Path(secret_file).absolute()))
    if runner is not None:
        check_runner(source, section, runner)
    refuse_mixed(job.dead_letters, sink)
    plan = plan_of(under_version(job, runner) if look else job)
    return Parts(
        plan,
        source,
        sink,
        job.dead_letters,
        job.limits,
        ((0, SecretRef.fresh()),) if section is None else section.references(plan.clock),
        job.engine,
        job.state_folder,
        job.ledger,
    )


def under_version(job: JobConfig, runner: str | None) -> JobConfig:
    """The job under the version that it names, or else that of the run that goes on.

    A stream's state decides before its releases do. What a newer Weir began keeps the newest
    version here, so that it is refused by name later on.
    """
    if job.version is not None or job.source is None or job.sink is None:
        return job
    begun, place = None, job.sink.place
    if runner == "flink" and not job.source.bounded:
        from weir.pipelines.results.plan_file import version_in

        place = job.state_folder
        begun = version_in(place)
    if begun is None:
        begun, place = job.sink.begun_under(), job.sink.place
    if begun is None or begun >= versions.PLAN_VERSION:
        return job
    _log.warning(
        f"{place} was begun under version {begun} of the plan, and this run goes on under it: "
        f"write version: {begun} into the config to keep it elsewhere too."
    )
    return job.model_copy(update={"version": begun})

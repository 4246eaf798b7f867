"""Builds the graph of a job: source -> PrivateReleases -> sink. Runs nothing."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers

from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.places import refuse_mixed
from pipelines.config.sections import needed
from pipelines.graph.secrets import rotation_of, secrets_of
from transforms.private_releases import PrivateReleases
from transforms.runtime.secret import SecretRef


def check_sink(job: JobConfig, plan: Plan, secret: SecretRef | None = None) -> None:
    """Refuses a folder that is finished, foreign or of another secret; writes nothing.

    Args:
      job: the config. plan: of it.
      secret: what the run takes; None: the config's, and a fresh one if that names none.

    Raises:
      ConfigError: names ``sink.<format>`` or ``secret``.
    """
    needed("sink", job.sink).check(plan, secrets_of(job.secret, plan, secret))


def prepare(job: JobConfig, plan: Plan, secret: SecretRef | None = None) -> bool:
    """Makes the sink ready, before any data are read: the plan is there first.

    Args:
      job: the config. plan: of it. secret: see ``check_sink``.

    Returns:
      Whether an earlier run of this plan began, so that this one goes on.

    Raises:
      ConfigError: see ``check_sink``.
    """
    source, sink = needed("source", job.source), needed("sink", job.sink)
    begun: bool = sink.prepare(plan, secrets_of(job.secret, plan, secret), source.bounded)
    return begun


def finish(job: JobConfig, plan: Plan) -> None:
    """Publishes what a run over files held back, and marks the sink's folder as complete.

    Raises:
      WeirError: a file is in place already, and differs.
    """
    needed("sink", job.sink).finish(plan, needed("source", job.source).bounded)


def in_process_runner() -> FnApiRunner:
    """The runner of bounded jobs: named, because Beam's default would download another one.

    Beam's cache of state is off: each cell is read once, and weighing what it holds walks through
    the globals of every loaded module, a third of a short run.
    """
    worker_handlers.STATE_CACHE_SIZE_MB = 0
    return FnApiRunner()


def build(
    pipeline: beam.Pipeline,
    plan: Plan,
    job: JobConfig,
    secret: SecretRef | None = None,
    events: Any = None,
    here: bool = False,
) -> dict[str, Any]:
    """Adds a job to a pipeline.

    Args:
      pipeline: on any runner.
      plan: of ``job``.
      secret: a reference; None draws a fresh secret, which only an in-process runner can use.
      events: in place of the source: a PCollection of canonical batches.
      here: whether workers are in this process, so that a table can wait for ``finish``.

    Returns:
      PCollections by name, so that tests can look: events, releases, dead, written.

    Raises:
      ConfigError: what cannot be built: no source, no sink, files without ``clock.end``.
    """
    source, sink = needed("source", job.source), needed("sink", job.sink)
    refuse_mixed(job.dead_letters, job.sink)
    dead: list[Any] = []
    bounded = source.bounded if events is None else True
    if events is None:
        read = pipeline | "Read" >> source.open(plan, job.limits)
        events = read.events
        dead.append(read.dead)
    found = events | "Release" >> PrivateReleases(
        plan,
        secret,
        bounded=bounded,
        every=sink.every,
        rotate=rotation_of(job.secret, plan),
        stream=source.stream,
    )
    dead.append(found.dead)
    letters = tuple(dead) | "DeadLetters" >> beam.Flatten()
    if job.dead_letters is not None:
        letters | "WriteDead" >> job.dead_letters.open()
    written = found.releases | "Write" >> sink.open(plan, bounded, here)
    return {"events": events, "releases": found.releases, "dead": letters, "written": written}


__all__ = [
    "build",
    "check_sink",
    "finish",
    "in_process_runner",
    "prepare",
]

"""Builds the graph of a job: source -> PrivateReleases -> sink. Runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner, worker_handlers

from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.places import refuse_mixed
from pipelines.config.sections import needed
from pipelines.results import plan_file, secret_marks
from transforms.private_releases import PrivateReleases
from transforms.runtime.secret import SecretRef
from transforms.sinks import held, place
from transforms.sinks.dead_letters import PublishDead, WriteDead
from transforms.sinks.pubsub import PublishReleases
from transforms.sinks.transforms import WriteBigQuery, WriteFolder, WriteTable, files_of, print_held


def secret_of(job: JobConfig, secret_file: str | None = None) -> SecretRef | None:
    """The reference to the secret; None where neither the command line nor the config names one."""
    if secret_file is not None:
        return SecretRef(file=str(Path(secret_file).absolute()))
    if job.secret is None:
        return None
    return SecretRef(**{job.secret.kind: job.secret.value})


def rotation_of(job: JobConfig, plan: Plan) -> tuple[tuple[int, SecretRef], ...]:
    """References to the secrets that follow the first, each with its first tick.

    Raises:
      ConfigError: names ``secret.rotate``.
    """
    if job.secret is None:
        return ()
    entries = zip(job.secret.ticks(plan.clock), job.secret.rotate, strict=True)
    return tuple((tick, SecretRef(**{entry.kind: entry.value})) for tick, entry in entries)


def marks_of(job: JobConfig, plan: Plan, secret: SecretRef) -> dict[str, str] | None:
    """Marks of the secrets of a run; None where they cannot be read on this machine."""
    return secret_marks.whole([(0, secret), *rotation_of(job, plan)], plan)


def check_sink(job: JobConfig, plan: Plan, secret: SecretRef | None = None) -> None:
    """Refuses a folder that is finished, foreign or of another secret; writes nothing.

    Args:
      job: the config. plan: of it.
      secret: what the run takes; None: the config's, and a fresh one if that names none.

    Raises:
      ConfigError: names ``sink.<format>`` or ``secret``.
    """
    sink = needed("sink", job.sink)
    if sink.path is None:
        return
    field, secret = f"sink.{sink.kind}", secret or secret_of(job)
    if not check_plan(job, plan):
        return
    if secret is None or secret.is_fresh:
        place.refuse_fresh(sink.path, field)
    else:
        secret_marks.refuse_other(sink.path, field, marks_of(job, plan, secret), plan)


def check_plan(job: JobConfig, plan: Plan) -> bool:
    """Refuses a folder that is finished, foreign or of another layout; writes nothing.

    Returns:
      Whether a run of this plan began it.

    Raises:
      ConfigError: names ``sink.<format>`` or ``sink.layout``.
    """
    sink = needed("sink", job.sink)
    plan_file.refuse_other_results(sink.path, job, plan, f"sink.{sink.kind}")
    begun = place.check(sink.path, plan.layout, f"sink.{sink.kind}")
    if begun:
        plan_file.refuse_other_layout(sink.path, sink.layout)
    return begun


def prepare(job: JobConfig, plan: Plan, secret: SecretRef | None = None) -> bool:
    """Writes ``_plan.json`` and the mark of the secret into the sink's folder, before any data are
    read.

    Args:
      job: the config. plan: of it. secret: see ``check_sink``.

    Returns:
      Whether an earlier run of this plan began the folder, so that this one goes on.

    Raises:
      ConfigError: see ``check_sink``.
    """
    sink = needed("sink", job.sink)
    if sink.path is None:
        return False
    check_sink(job, plan, secret)
    field, secret = f"sink.{sink.kind}", secret or secret_of(job)
    told = plan_file.plan_json(job, plan) | {plan_file.LAYOUT: sink.layout}
    begun = place.prepare(sink.path, told, field)
    if secret is not None:
        secret_marks.keep(sink.path, field, marks_of(job, plan, secret))
    if needed("source", job.source).bounded:
        place.make_held(sink.path)
    return begun


def finish(job: JobConfig, plan: Plan) -> None:
    """Publishes what a run over files held back, and marks the sink's folder as complete.

    Raises:
      WeirError: a file is in place already, and differs.
    """
    sink = needed("sink", job.sink)
    if sink.kind == "stdout":
        print_held()
    elif sink.path is not None:
        wanted = (
            files_of(plan, sink.every, sink.kind) if needed("source", job.source).bounded else []
        )
        held.publish(sink.path, wanted, held.twice(plan))


def sink_of(job: JobConfig, plan: Plan, hold: bool = False, here: bool = False) -> beam.PTransform:
    """The transform that releases go into.

    Args:
      job: the config. plan: of it.
      hold: whether releases wait for ``finish``, where that is possible.
      here: whether workers are in this process, so that a table can wait too.
    """
    sink = needed("sink", job.sink)
    if sink.kind == "stdout":
        return WriteTable(plan, sink.every, hold and here, sink.layout)
    if sink.kind == "bigquery":
        return WriteBigQuery(sink.bigquery, plan, sink.layout)
    if sink.kind == "pubsub":
        return PublishReleases(sink.pubsub, plan, sink.format, sink.layout)
    return WriteFolder(plan, sink.path, sink.kind, sink.every, hold, sink.layout)


def dead_sink_of(job: JobConfig) -> beam.PTransform:
    """The transform that dead letters go into."""
    where = needed("dead_letters", job.dead_letters)
    if where.kind == "pubsub":
        return PublishDead(where.pubsub)
    return WriteDead(where.path, where.kind)


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
    refuse_mixed(job)
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
        rotate=rotation_of(job, plan),
        stream=source.stream,
    )
    dead.append(found.dead)
    letters = tuple(dead) | "DeadLetters" >> beam.Flatten()
    if job.dead_letters is not None:
        letters | "WriteDead" >> dead_sink_of(job)
    written = found.releases | "Write" >> sink_of(job, plan, bounded, here)
    return {"events": events, "releases": found.releases, "dead": letters, "written": written}


__all__ = [
    "build",
    "check_plan",
    "check_sink",
    "dead_sink_of",
    "finish",
    "in_process_runner",
    "marks_of",
    "prepare",
    "rotation_of",
    "secret_of",
    "sink_of",
]

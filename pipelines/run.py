"""``weir run CONFIG``: checks everything that can be checked, then reads, releases and sums up."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpcore.errors import ConfigError, WeirError
from dpcore.plan import Plan
from pipelines.config import JobConfig
from pipelines.job_config import Secret, needed
from pipelines.progress import Progress, Total
from pipelines.summary import Result
from pipelines.terminal import console

FRESH = (
    "weir: note: no secret is given, so this run draws a fresh one; running it again on the same "
    "events spends the budget again."
)
_STEP = re.compile(r"while running '([^']{1,200})'")


class RunFailed(WeirError):
    """A run that began and did not end well. Its text names a step and a kind of error, no data."""


def plan_of(job: JobConfig) -> Plan:
    """The plan of a job, with the checks that need more than the plan itself.

    Raises:
      ConfigError: the plan, the predicate, the schema, or a source without the clock's end.
    """
    from transforms.event_schema import EventSchema

    plan = Plan.from_config(job.plan_config())
    EventSchema.from_config(plan.config, plan.program.columns)
    if job.source is not None and job.source.pubsub is None and plan.clock.end is None:
        raise ConfigError(
            "clock.end",
            None,
            "is missing; files end, so say until when the clock runs, like "
            "`end: 2025-01-01T00:00:00Z`.",
        )
    return plan


def check_folders(job: JobConfig, plan: Plan, fresh_secret: bool = False) -> None:
    """Looks whether the sink can take this plan. Changes nothing; a job without sink passes.

    Raises:
      ConfigError: a folder that is complete, of another plan, full of something else, or of both
        releases and dead letters.
    """
    if job.sink is None:
        return
    letters, path = job.dead_letters, job.sink.path
    if path is not None and not _is_fresh_folder(path):
        from pipelines import build  # imports Beam, which takes seconds

        build.check_sink(job, plan, fresh_secret)
    if letters is not None and path is not None and Path(letters.path) == Path(path):
        raise ConfigError(
            f"dead_letters.{letters.kind}",
            letters.path,
            "is the folder of the releases: only operators may see dead letters.",
        )


def _is_fresh_folder(path: str) -> bool:
    """Whether a folder on this machine is not there yet, or empty."""
    if "://" in path:
        return False
    folder = Path(path)
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def check_runner(job: JobConfig, runner: str) -> None:
    """Refuses what a runner cannot do.

    Raises:
      ConfigError: no secret on a cluster, or a source that this version does not read by itself.
    """
    source = needed("source", job.source)
    needed("sink", job.sink)
    if source.pubsub is not None:
        raise ConfigError(
            "source.pubsub",
            source.pubsub.subscription,
            "is not read by this version of `weir run`: record the stream into files and name them "
            "as the source, or feed PrivateReleases from a Beam pipeline of your own.",
        )
    if runner != "direct" and job.secret is None:
        raise ConfigError(
            "secret",
            None,
            f"is missing; --runner {runner} needs a secret that its workers can read, like "
            "`secret: {env: WEIR_SECRET}` or --secret-file secret.key.",
        )


def run(
    job: JobConfig, runner: str, secret_file: str | None = None, flags: Sequence[str] = ()
) -> Result:
    """Runs a job to its end.

    Args:
      job: the config.
      runner: direct, prism, flink or dataflow.
      secret_file: overrides the config's secret.
      flags: options for Beam.

    Raises:
      ConfigError: refused before any data is read.
      RunFailed: it began and failed.
    """
    if secret_file is not None:
        file = str(Path(secret_file).absolute())
        job = job.model_copy(update={"secret": Secret(file=file)})
    check_runner(job, runner)
    plan = plan_of(job)
    fresh = job.secret is None
    check_folders(job, plan, fresh)

    import apache_beam as beam

    from pipelines import build
    from pipelines.runners import options_for
    from transforms import tally
    from transforms.secret import SecretRef

    source, sink = needed("source", job.source), needed("sink", job.sink)
    options = options_for(runner, flags, streaming=source.pubsub is not None)
    secret = build.secret_of(job) or SecretRef.fresh()
    if runner == "direct":
        secret.resolve()  # a secret that cannot be read is refused before anything starts
    out = console(stderr=True)
    if fresh:
        out.print(FRESH, style="yellow", soft_wrap=True)
    pipeline = beam.Pipeline(
        runner=build.in_process_runner() if runner == "direct" else None, options=options
    )
    build.build(pipeline, plan, job, secret)
    resumed = build.prepare(job, plan, fresh)
    tally.reset()
    began = time.monotonic()
    watch = Watch(tally.snapshot)
    with Progress(out, watch, lambda: total_of(job, plan)):
        result = _execute(pipeline, watch)
    build.finish(job)
    return Result(
        plan=plan,
        folder=None if sink.path is None else Path(sink.path),
        sink=sink.path or f"{sink.kind} {getattr(sink, sink.kind)}",
        counters=counters(result, tally.snapshot()),
        seconds=time.monotonic() - began,
        fresh_secret=fresh,
        dead_letters=None if job.dead_letters is None else job.dead_letters.path,
        notes=("Went on from the files of an earlier run.",) if resumed else (),
    )


class Watch:
    """Counts while a job runs: of this process, or the job's metrics where workers are elsewhere.

    Args:
      here: the tally of this process.
      every: seconds between two questions to a job.
    """

    def __init__(self, here: Callable[[], Mapping[str, int]], every: float = 5.0) -> None:
        self._here = here
        self._every = every
        self._job: Any = None
        self._asked = -math.inf
        self._there: Mapping[str, int] = {}

    def follow(self, job: Any) -> None:
        """From here on the job may be asked too."""
        self._job = job

    def __call__(self) -> Mapping[str, int]:
        counts = self._here()
        if counts or self._job is None:
            return counts
        if time.monotonic() - self._asked >= self._every:
            self._there = counters(self._job, {})
            self._asked = time.monotonic()
        return self._there


def _execute(pipeline: Any, watch: Watch) -> Any:
    """Runs a pipeline to its end.

    Raises:
      WeirError: it failed, or was stopped before its end.
    """
    from apache_beam.runners.runner import PipelineState

    try:
        result = pipeline.run()
        watch.follow(result)
        state = result.wait_until_finish()
    except Exception as error:
        raise told(error) from error
    state = state or result.state
    if state != PipelineState.DONE:
        raise RunFailed(f"the job ended as {state}; the same command goes on from its results.")
    return result


def told(error: BaseException) -> WeirError:
    """What may be said about a failure: our own words, or a kind and a step; never a text that
    some library wrote, because those quote events."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, WeirError):
            return seen
        seen = seen.__cause__ or seen.__context__
    found = _STEP.findall(str(error))
    where = f" in step {found[-1]}" if found else ""
    return RunFailed(
        f"{type(error).__name__}{where}; the results so far are whole, and the same command with "
        "the same secret goes on from them (weir --debug run ... shows more)."
    )


def total_of(job: JobConfig, plan: Plan) -> Total:
    """How much there is to read and to step, as far as that is cheap to know."""
    rows: int | None = None
    size: int | None = None
    source = job.source
    if source is not None and source.path is not None:
        try:
            paths = files_of(source.path)
            size = sum(path.stat().st_size for path in paths)
            if source.kind == "parquet":
                import pyarrow.parquet as pq

                rows = sum(pq.read_metadata(path).num_rows for path in paths)
        except Exception:  # the run itself will say what is wrong with the files
            return Total(ticks=plan.clock.ticks, blocks=len(plan.keys.live_blocks))
    return Total(rows, size, plan.clock.ticks, len(plan.keys.live_blocks))


def files_of(pattern: str) -> list[Path]:
    """Local files of a path or glob; none for a bucket."""
    if "://" in pattern:
        return []
    import glob

    return [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]


def counters(result: Any, here: Mapping[str, int]) -> dict[str, int]:
    """The operator's counts: of this process, or the job's metrics if workers are elsewhere."""
    if here.get("events") or result is None:
        return dict(here)
    try:
        found = result.metrics().query()["counters"]
    except Exception:  # a runner without metrics
        return dict(here)
    totals: dict[str, int] = {}
    for entry in found:
        if entry.key.metric.namespace == "weir":
            value = entry.committed if entry.committed is not None else entry.attempted
            totals[entry.key.metric.name] = totals.get(entry.key.metric.name, 0) + int(value or 0)
    return totals or dict(here)

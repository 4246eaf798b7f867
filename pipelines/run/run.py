"""``weir run CONFIG``: checks everything that can be checked, then reads, releases and sums up."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.errors import ConfigError, WeirError
from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.sections import needed
from pipelines.graph.checks import check_folders, check_runner, plan_of, with_secret
from pipelines.results.result import Result
from pipelines.results.verdict import judge
from pipelines.run.progress import Progress
from pipelines.run.watch import Watch, counters, total_of
from pipelines.runners.flink_target import DONE, HELD, RUNNING, STOPPED, Ended, FlinkTarget
from pipelines.terminal import console

if TYPE_CHECKING:
    from pipelines.runners.flink import FlinkRun

FRESH = (
    "no secret is given, so this run draws a fresh one; running it again on the same "
    "events spends the budget again."
)
UNREADABLE = (
    "the secret cannot be read on this machine; the workers compare it with the one "
    "behind the stored state."
)
_log = logging.getLogger(__name__)
_STEP = re.compile(r"while running '([^']{1,200})'")


class RunFailed(WeirError):
    """A run that began and did not end well. Its text names a step and a kind of error, no data."""


def run(
    job: JobConfig,
    runner: str,
    secret_file: str | None = None,
    flags: Sequence[str] = (),
    flink: FlinkTarget | None = None,
    rehearsal: bool = False,
    new: bool = False,
) -> Result:
    """Runs a job to its end, or until it is stopped or left alone.

    What a run over files releases is published only if ``limits.refused`` allows it; else the
    result's state is HELD.

    Args:
      job: the config.
      runner: direct, prism, flink or dataflow.
      secret_file: overrides the config's secret.
      flags: options for Beam.
      flink: where and how on Flink.
      rehearsal: the events are made up, and nobody minds that the secret is lost.
      new: whether to write beside the sink's folder if that is taken.

    Raises:
      ConfigError: refused before any data is read.
      WeirError: it began and failed.
    """
    job = with_secret(job, secret_file)
    check_runner(job, runner)
    if runner == "dataflow":
        from pipelines.runners import dataflow

        dataflow.check_job(job)
    plan = plan_of(job)
    fresh = job.secret is None
    said = []
    if new:
        from pipelines.run import new_folder

        job, note = new_folder.beside(job, plan)
        said += [] if note is None else [note]
    check_folders(job, plan)
    import apache_beam as beam

    from pipelines.graph import build
    from pipelines.runners.options import options_for
    from transforms.runtime import counters as tally
    from transforms.runtime.secret import SecretRef
    from transforms.sinks import transforms

    source = needed("source", job.source)
    streaming = not source.bounded
    secret = build.secret_of(job) or SecretRef.fresh()
    rotation = build.rotation_of(job, plan)
    if runner == "direct":
        secret.resolve()  # a secret that cannot be read is refused before anything starts
    out = console(stderr=True)
    if fresh and not rehearsal:
        _log.warning(FRESH)
    on_flink = None
    if runner == "flink":
        from pipelines.runners.flink import FlinkRun
        from pipelines.runners.state_folder import StateFolder

        state = StateFolder.of(job)
        on_flink = FlinkRun(job, flink or FlinkTarget(), state, streaming, flags)
        flags = on_flink.flags
        if streaming:
            refuse_restart(job, state, on_flink.resumed)
            if not state.begin(job, plan, [(0, secret), *rotation]):
                _log.warning(UNREADABLE)
    if runner != "dataflow":
        for note in source.check():
            _log.warning(note)
    options = options_for(runner, flags, streaming)
    if runner == "dataflow":
        dataflow.settle(options, job.name)
    pipeline = beam.Pipeline(
        runner=build.in_process_runner() if runner == "direct" else None, options=options
    )
    build.build(pipeline, plan, job, secret, here=runner == "direct")
    if build.prepare(job, plan, secret):
        said.append("Went on from the files of an earlier run.")
    tally.reset()
    transforms.forget_held()
    began = time.monotonic()
    watch = Watch(tally.snapshot)
    with Progress(out, watch, lambda: total_of(source, plan)):
        if on_flink is not None:
            ended = _on_flink(on_flink, pipeline, watch, lambda: is_complete(job, plan, False))
        else:
            ended = Ended(DONE, "", "", result=_execute(pipeline, watch))
    sink = needed("sink", job.sink)
    counts, state = counters(ended.result, tally.snapshot()), ended.how
    verdict = judge(counts, job.limits.refused) if state == DONE and not streaming else None
    holds = sink.path is not None or (sink.kind == "stdout" and runner == "direct")
    if verdict is not None and not verdict.passes and holds:
        state = HELD
    elif state == DONE and is_complete(job, plan):
        build.finish(job, plan)
    return Result(
        plan=plan,
        folder=None if sink.path is None else Path(sink.path),
        sink=sink.path or f"{sink.kind} {getattr(sink, sink.kind)}",
        counters=counts,
        seconds=time.monotonic() - began,
        fresh_secret=fresh,
        dead_letters=dead_place(job),
        notes=(*said, *said_of(ended, job)),
        state=state,
        verdict=verdict,
    )


def refuse_restart(job: JobConfig, state: Any, resumed: str | None) -> None:
    """Refuses a stream that would begin anew where an earlier run has released something.

    Raises:
      ConfigError: names ``--resume``.
    """
    from transforms.sinks import place as sinks_place

    path = needed("sink", job.sink).path
    if resumed is not None:
        return
    if state.latest() is not None:
        where = f"there are checkpoints in {state.path}"
    elif path is not None and sinks_place.has_results(path):
        where = f"there are releases in {path}"
    else:
        return
    raise ConfigError(
        "--resume",
        None,
        f"is missing: {where}, and a stream that begins anew would forget what it has summed up. "
        "Add --resume, or give engine.checkpoints and the sink new places (which spends budget "
        "again).",
    )


def as_they_go(job: JobConfig) -> tuple[str, ...]:
    """What to be warned of before a run over files whose sink holds nothing back."""
    sink = job.sink
    if job.source is None or not job.source.bounded or sink is None:
        return ()
    if sink.kind not in ("bigquery", "pubsub"):
        return ()
    return (
        f"sink.{sink.kind} publishes releases as they are made: when most of the records turn out "
        "to be unreadable (limits.refused), they are out. A folder holds them back until then.",
    )


def dead_place(job: JobConfig) -> str | None:
    """Where dead letters are, in words."""
    where = job.dead_letters
    return None if where is None else str(getattr(where, where.kind))


def is_complete(job: JobConfig, plan: Plan, unseen: bool = True) -> bool:
    """Whether a job that is done has released every tick of its clock.

    A stream may also have been stopped by somebody else, or drained: then its folder stays open.

    Args:
      unseen: the answer for a sink that cannot be looked into.
    """
    from transforms.sinks import place as sinks_place
    from transforms.sinks.transforms import files_of

    sink = needed("sink", job.sink)
    if needed("source", job.source).bounded or sink.path is None:
        return unseen
    if plan.clock.ticks is None:
        return False
    return set(files_of(plan, sink.every, sink.kind)) <= set(sinks_place.names(sink.path))


def said_of(ended: Ended, job: JobConfig) -> tuple[str, ...]:
    """What a user should know about how a job on Flink ended."""
    if ended.how == RUNNING and job.source is not None and job.source.bounded:
        return (
            f"Runs on {ended.url} as job {ended.job}. Its releases are held back: when it has "
            "ended, look at its counters there, and publish them with --publish.",
        )
    if ended.how == RUNNING:
        return (
            f"Runs on {ended.url} as job {ended.job}. Look: weir status --flink-master "
            f"{ended.url.removeprefix('http://')}. Stop it there with a savepoint into "
            f"{job.state_folder}/savepoints; the same command with --resume goes on.",
        )
    if ended.how == STOPPED:
        place = f" with savepoint {ended.savepoint}" if ended.savepoint else ""
        return (f"Stopped{place}. The same command with --resume goes on from it.",)
    return ()


def _on_flink(
    on_flink: FlinkRun, pipeline: Any, watch: Watch, written: Callable[[], bool]
) -> Ended:
    try:
        return on_flink.run(pipeline.run, _log.warning, watch.follow, written)
    except KeyboardInterrupt:
        raise
    except Exception as error:
        raise told(error) from error


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
    from pipelines.runners.flink import refusal_in

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, WeirError):
            return seen
        seen = seen.__cause__ or seen.__context__
    refused = refusal_in(str(error))
    if refused is not None:
        return RunFailed(refused)
    found = _STEP.findall(str(error))
    where = f" in step {found[-1]}" if found else ""
    return RunFailed(
        f"{type(error).__name__}{where}; the results so far are whole, and the same command with "
        "the same secret goes on from them (weir --debug run ... shows more)."
    )

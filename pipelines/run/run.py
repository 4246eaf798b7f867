"""``weir run CONFIG``: checks everything that can be checked, then reads, releases and sums up."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.plan import Plan
from weir.pipelines.graph.budget import Spent, entered, resumes
from weir.pipelines.graph.parts import Parts
from weir.pipelines.results.learned import not_learned
from weir.pipelines.results.verdict import DIVERGENT, Result, judge
from weir.pipelines.run.owed import owed
from weir.pipelines.run.progress import Progress, Total
from weir.pipelines.run.watch import Watch, added, counters
from weir.pipelines.runners.local import HERE, LOCAL, LocalJob
from weir.pipelines.runners.options import DONE, HELD, RUNNING, STOPPED, Ended, FlinkTarget
from weir.pipelines.runners.pipeline import alone, refuse_restart
from weir.pipelines.sinks.sink import Sink
from weir.pipelines.sources.source import Source
from weir.pipelines.terminal import console

if TYPE_CHECKING:
    from weir.pipelines.runners.flink import FlinkRun
    from weir.pipelines.runners.state_folder import StateFolder
    from weir.pipelines.runners.submitted import UnreadableCheckpoint
    from weir.transforms.runtime.fence import Fence

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
    parts: Parts,
    runner: str,
    flags: Sequence[str] = (),
    flink: FlinkTarget | None = None,
    rehearsal: bool = False,
    new: bool = False,
) -> Result:
    """Runs a job to its end, or until it is stopped or left alone.

    What a run over files releases is published only if ``limits.refused`` allows it; else the
    result's state is HELD.

    Args:
      parts: of the config.
      runner: local, direct, prism, flink or dataflow.
      flags: options for Beam.
      flink: where and how on Flink.
      dry run: the events are synthetic, and nobody minds that the secret is lost.
      new: whether to write next to the sink's folder if that is taken.

    Raises:
      ConfigError: refused before any data is read.
      WeirError: it began and failed.
    """
    said = []
    if new:
        from weir.pipelines.run import new_folder

        sink, note = new_folder.beside(parts)
        parts = dataclasses.replace(parts, sink=sink)
        said += [] if note is None else [note]
    parts.sink.check(parts.plan, parts.secrets)
    if runner == "dataflow" or (runner == "flink" and not (flink or FlinkTarget()).embedded):
        for _, reference in parts.secrets:
            reference.refuse_readers()
    if runner in HERE:
        parts.secret.resolve()  # one that cannot be read is refused before anything starts
    resumed = resumes(runner, flags, None if flink is None else flink.resume)
    with (
        alone(parts, runner, flags) as around,
        entered(parts, rehearsal, runner, resumed) as spent,
        contextlib.ExitStack() as opened,
    ):
        return _started(runner, flags, flink, rehearsal, said, spent, around, opened)


def _started(
    runner: str,
    flags: Sequence[str],
    flink: FlinkTarget | None,
    rehearsal: bool,
    said: list[str],
    spent: Spent,
    around: Fence,
    opened: contextlib.ExitStack,
) -> Result:
    """As ``run``, of a run that has its budget.

    Args:
      around: where it is not on Flink. opened: closed when it has ended.
    """
    parts = spent.parts
    plan, source, sink, streaming = parts.plan, parts.source, parts.sink, parts.streaming
    from weir.pipelines.runners.pipeline import pipeline_for
    from weir.pipelines.runners.state_folder import StateFolder
    from weir.pipelines.runners.submitted import UnreadableCheckpoint
    from weir.transforms.runtime import counters as process_counts
    from weir.transforms.runtime import fence

    out = console(stderr=True)
    on_flink, state, target = None, StateFolder.of(parts.state), flink or FlinkTarget()
    if runner == "flink":
        from weir.pipelines.runners.flink import FlinkRun

        on_flink = FlinkRun(parts, target, state, streaming, flags)
        if streaming:
            refuse_restart(sink, state, on_flink.resumed)
            if not state.begin(plan, parts.secrets):
                _log.warning(UNREADABLE)
        opened.callback(on_flink.close)
        on_flink.serve()
    if runner != "dataflow":
        for note in source.check():
            _log.warning(note)
    value = flags
    if on_flink is not None:
        on_flink.take_over(
            plan.clock.ticks,
            () if sink.place is None else (sink.place,),
            partial(sink.is_written, plan),
            partial(sink.finish, plan, False),
        )
        flags, around = on_flink.flags, on_flink.fence
        if target.rewind is not None:
            source.rewind(target.rewind)
            state.forget_acknowledged()
    with fence.standing(around):
        job = LocalJob.of(parts, flags) if runner == LOCAL else pipeline_for(parts, runner, flags)
    if sink.prepare(plan, parts.secrets, not streaming):
        said.append("Went on from the files of an earlier run.")
    if parts.letters is not None:
        parts.letters.prepare()
    fresh = parts.secret.is_fresh
    if fresh and not rehearsal:
        _log.warning(FRESH)
    spent.start()
    process_counts.reset()
    began = time.monotonic()
    watch = Watch(process_counts.snapshot)
    with Progress(out, watch, lambda: Total.of(source, plan)):
        if on_flink is not None:
            try:
                ended = _on_flink(on_flink, job, watch)
            except UnreadableCheckpoint as broken:
                older = state_before(state, target, broken)
                _log.warning("%s Goes on from %s, which lacks nothing.", broken, older)
                target = dataclasses.replace(target, resume=older)
                return run(parts, runner, value, target)
        else:
            ended = Ended(DONE, "", "", result=_execute(job, watch))
    counts, how = counters(ended.result, process_counts.snapshot()), ended.how
    divergent = counts.get(DIVERGENT, 0)
    if around.state is not None:  # of the jobs before, and of this one where it cannot be asked
        divergent = divergent or state.divergent(around.state.epoch)
        counts = added(counts, state.counted(around.state.epoch if counts else None))
    if how == DONE:
        refuse_short(sink, plan, {} if on_flink is not None else counts, source.bounded)
    verdict = judge(counts, parts.limits.refused) if how == DONE and not streaming else None
    holds = sink.holds(runner in HERE)
    if verdict is not None and not verdict.passes and holds:
        how = HELD
    elif how == DONE and not divergent and is_complete(source, sink, plan):
        sink.finish(plan, not streaming)
    if how in (DONE, HELD):
        spent.over()
    folder = None if sink.place is None else Path(sink.place)
    if how == DONE and not streaming:
        said.extend(not_learned(plan, folder))
    return Result(
        plan=plan,
        folder=folder,
        sink=sink.named,
        counters=counts,
        seconds=time.monotonic() - began,
        fresh_secret=fresh,
        dead_letters=None if parts.letters is None else str(parts.letters.value),
        notes=(*said, *said_of(ended, streaming, parts.state)),
        state=how,
        verdict=verdict,
        ledger=spent.facts,
        divergent=divergent,
    )


def refuse_short(sink: Sink, plan: Plan, counts: Mapping[str, int], bounded: bool) -> None:
    """Ends a run that has not released all that its plan owes.

    Args:
      counts: of the run; none where they begin again when it is resumed. bounded: over files.

    Raises:
      RunFailed: says how much is missing.
    """
    short = owed(sink, plan, counts)
    if short is not None:
        drained = "" if bounded else "it was drained before the end of its clock, or "
        remedy = "; the same command with the same secret gives the rest" if bounded else ""
        raise RunFailed(
            f"the job has ended and {short}: {drained}its runner has lost something. What is there "
            f"is right{remedy}."
        )


def state_before(state: StateFolder, target: FlinkTarget, broken: UnreadableCheckpoint) -> str:
    """What a resume falls back on whose newest checkpoint cannot be read.

    Raises:
      RunFailed: nothing may be fallen back on; says what to do.
    """
    from weir.pipelines.runners.state_folder import LATEST

    older = state.before(broken.place) if target.resume == LATEST else None
    remedy = "Bring that folder back from a copy"
    if older is None:
        raise RunFailed(f"{broken} {remedy}, or name another one: --resume PLACE.")
    try:
        state.refuse_outdated(older, older)
    except ConfigError:
        last = state.acknowledged()
        assert last is not None
        raise RunFailed(
            f"{broken} The one before it, {older}, lacks messages that were acknowledged since "
            f"({last.isoformat(timespec='seconds')}), so nothing falls back on it. {remedy}; or "
            "take the subscription back to the snapshot of an older savepoint: --resume PLACE "
            "--rewind SNAPSHOT (docs/how-to/upgrade.md, Go back)."
        ) from None
    return older


def as_they_go(source: Source | None, sink: Sink | None) -> tuple[str, ...]:
    """What to be warned of before a run over files whose sink holds nothing back."""
    if source is None or not source.bounded or sink is None or sink.holds(True):
        return ()
    return (
        f"{sink.field} publishes releases as they are made: when most of the records turn out "
        "to be unreadable (limits.refused), they are out. A folder holds them back until then.",
    )


def is_complete(source: Source, sink: Sink, plan: Plan, unseen: bool = True) -> bool:
    """Whether a job that is done has released every tick of its clock.

    A stream may also have been stopped by somebody else, or drained: then its folder stays open.

    Args:
      unseen: the answer for a sink that cannot be looked into.
    """
    written = None if source.bounded else sink.is_written(plan)
    return unseen if written is None else written


def said_of(ended: Ended, streaming: bool, state: str) -> tuple[str, ...]:
    """What a user should know about how a job on Flink ended.

    Args:
      streaming: whether its events may never end. state: folder of what a resume needs.
    """
    if ended.how == RUNNING and not streaming:
        return (
            f"Runs on {ended.url} as job {ended.job}. Its releases are held back: when it has "
            "ended, look at its counters there, and publish them with --publish.",
        )
    if ended.how == RUNNING:
        return (
            f"Runs on {ended.url} as job {ended.job}. Look: weir status --flink-master "
            f"{ended.url.removeprefix('http://')}. Stop it there with a savepoint into "
            f"{state}/savepoints; the same command with --resume goes on.",
        )
    if ended.how == STOPPED:
        place = f" with savepoint {ended.savepoint}" if ended.savepoint else ""
        return (f"Stopped{place}. The same command with --resume goes on from it.",)
    return ()


def _on_flink(on_flink: FlinkRun, pipeline: Any, watch: Watch) -> Ended:
    try:
        return on_flink.run(pipeline.run, _log.warning, watch.follow)
    except KeyboardInterrupt:
        raise
    except Exception as error:
        raise told(error) from error


def _execute(job: Any, watch: Watch) -> Any:
    """Runs a pipeline, or a job of the local engine, to its end. Returns Beam's result, or None.

    Raises:
      WeirError: it failed, or was stopped before its end.
    """
    try:
        result = job.run()
        if result is None:  # the local engine is done when it returns
            return None
        watch.follow(result)
        state = result.wait_until_finish()
    except Exception as error:
        raise told(error) from error
    from apache_beam.runners.runner import PipelineState

    state = state or result.state
    if state != PipelineState.DONE:
        raise RunFailed(f"the job ended as {state}; the same command goes on from its results.")
    return result


def told(error: BaseException) -> WeirError:
    """What may be said about a failure: our own words, or a kind and a step; never a text that
    some library wrote, because those quote events."""
    from weir.pipelines.runners.submitted import refusal_in

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, WeirError):
            return seen
        seen = seen.__cause__ or seen.__context__
    refused = refusal_in(str(error))
    if refused is not None:
        return RunFailed(refused)
    result = _STEP.findall(" ".join([str(error), *getattr(error, "__notes__", ())]))
    where = f" in step {result[-1]}" if result else ""
    return RunFailed(
        f"{type(error).__name__}{where}; the results so far are whole, and the same command with "
        "the same secret goes on from them (weir --debug run ... shows more)."
    )

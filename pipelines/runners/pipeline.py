"""The pipeline of a job, and one job a folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from weir.dpcore.errors import ConfigError
from weir.pipelines.graph.parts import Parts
from weir.pipelines.sinks.sink import Sink

if TYPE_CHECKING:  # they import Beam, which a config that is refused need not wait for
    from weir.pipelines.runners.state_folder import StateFolder
    from weir.transforms.runtime.fence import Fence
from dataclasses import replace
from typing import Any

UPDATE = "--update"
"""Dataflow's option for a job that takes the place of the one that runs, with its state."""


@contextlib.contextmanager
def alone(parts: Parts, runner: str, flags: Sequence[str]) -> Iterator[Fence]:
    """Holds the output of a stream for one job; nothing happens for files, nor on Flink.

    Args:
      parts: of the job. runner: direct, prism, flink or dataflow. flags: the user's, for Beam.

    Raises:
      ConfigError: a job has it, or an earlier one has released something there.
    """
    from weir.pipelines.runners.state_folder import StateFolder
    from weir.transforms.runtime import fence

    if not parts.streaming or runner == "flink" or UPDATE in flags:
        yield fence.OPEN
        return
    refuse_restart(parts.sink, StateFolder.of(parts.state), None, runner)
    if runner == "dataflow":  # the service runs one job of a name
        yield fence.OPEN
        return
    place = parts.sink.place or StateFolder.of(parts.state).path
    name = f"weir-{parts.name}-{os.getpid():x}-{time.time_ns() // 1_000_000:x}"
    mine = fence.claim_first(place, name)
    if mine is None:
        since = max(fence.moments(place, fence.FOLDER).values(), default=time.time())
        begun = datetime.fromtimestamp(since, UTC).isoformat(timespec="seconds")
        raise ConfigError(
            parts.sink.field,
            parts.sink.named,
            f"is the output of a job that was started at {begun} and has not ended. Stop that job, "
            f"or give another sink and another subscription; if it was killed, remove "
            f"{place.rstrip('/')}/{fence.FOLDER}.",
        )
    try:
        yield fence.Fence(others=(mine,))
    finally:
        fence.release(mine)


def refuse_restart(
    sink: Sink, state: StateFolder, resumed: str | None, runner: str = "flink"
) -> None:
    """Refuses a stream that would start again where an earlier run has released something.

    Raises:
      ConfigError: names ``--resume`` where that is possible, else the sink.
    """
    if resumed is not None:
        return
    if state.latest() is not None:
        where = f"there are checkpoints in {state.path}"
    elif sink.has_results():
        where = f"there are releases in {sink.named}"
    else:
        return
    forgets = f"{where}, and a stream that starts again would forget what it has summed up"
    if runner == "flink":
        raise ConfigError(
            "--resume",
            None,
            f"is missing: {forgets}. Add --resume, or give engine.checkpoints and the sink new "
            "places (which spends budget again).",
        )
    remedy = f" Add {UPDATE} if its job runs, or give" if runner == "dataflow" else " Give"
    raise ConfigError(
        sink.field,
        sink.named,
        f"was begun by an earlier run: {forgets}; {runner} keeps nothing to go on from.{remedy} "
        "engine.checkpoints and the sink new places (which spends budget again).",
    )


def pipeline_for(parts: Parts, runner: str, flags: Sequence[str], dry: bool = False) -> Any:
    """A pipeline that is ready to run, and holds the options that it runs under.

    Args:
      parts: of the job. runner: direct, prism, flink or dataflow. flags: options for Beam.
      dry: the job will be described, not sent (Dataflow).

    Raises:
      ConfigError: an option that is missing or unknown, or what the runner's workers cannot reach.
    """
    import apache_beam as beam

    from weir.dpcore.errors import ConfigError
    from weir.pipelines.graph import build
    from weir.pipelines.runners.options import options_for

    here = runner == "direct"
    if runner == "dataflow":
        from weir.pipelines.runners import dataflow

        dataflow.check_job(parts)
    if dry:
        parts = replace(parts, source=parts.source.described(), sink=parts.sink.described())
    options = options_for(runner, flags, parts.streaming)
    if runner == "dataflow":
        dataflow.settle(options, parts.name, dry, parts.plan.config.version)
    try:
        pipeline = beam.Pipeline(build.in_process_runner() if here else None, options)
    except ValueError as error:  # Beam's own words on options, which hold nothing of an event
        raise ConfigError("options", None, f"are refused by Beam: {error}") from None
    build.build(pipeline, parts, here=here)
    return pipeline

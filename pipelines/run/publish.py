"""``weir run --publish``: moves what a run over files held back into place. Reads no data."""

from __future__ import annotations

import time
from pathlib import Path

from dpcore.errors import ConfigError
from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.sections import needed
from pipelines.results.result import Result


def publish(job: JobConfig, plan: Plan) -> Result:
    """Publishes a run that is held back, and says what is there.

    Stopped in the middle, the same command goes on.

    Raises:
      ConfigError: nothing is held, the run is not over, or the folder is of another plan, complete
        or none of ours.
      WeirError: a file is in place already, and differs from the one that is held.
    """
    from pipelines.graph import build
    from transforms.sinks import held
    from transforms.sinks.transforms import files_of

    source, sink, began = needed("source", job.source), needed("sink", job.sink), time.monotonic()
    if not source.bounded or sink.path is None:
        raise ConfigError(
            "--publish",
            None,
            "is for runs over files into a folder; "
            + (
                "a stream publishes as it goes."
                if not source.bounded
                else f"sink.{sink.kind} holds nothing back for later."
            ),
        )
    build.check_plan(job, plan)
    wanted = files_of(plan, sink.every, sink.kind)
    absent = held.missing(sink.path, wanted)
    if len(absent) == len(wanted):
        raise ConfigError(
            "--publish",
            sink.path,
            f"finds nothing that is held back there, in files of {sink.every:,} ticks: run without "
            "--publish first, and give the same --set as then.",
        )
    if absent:
        raise ConfigError(
            "--publish",
            sink.path,
            f"finds a run that is not over: {len(absent):,} of {len(wanted):,} files are missing. "
            "The same command without --publish goes on with it.",
        )
    moved = held.publish(sink.path, wanted, held.twice(plan))
    return Result(
        plan=plan,
        folder=Path(sink.path),
        sink=sink.path,
        counters={},
        seconds=time.monotonic() - began,
        fresh_secret=False,
        notes=(f"{moved:,} files were held back and are published now.",),
    )

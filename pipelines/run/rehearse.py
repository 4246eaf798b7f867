"""``weir rehearse CONFIG``: a config's whole graph on made-up events, with a secret of its own.

**Why it never resolves the config's secret.** Noise is a keyed function of the plan, the key and
the key's data. Two runs of one plan with one secret therefore give the same noise wherever the data
are the same: for every key that is silent in both, and for every other until its first event. Of
made-up events everybody may know the sums, so a rehearsal under the real secret would hand out the
real noise, and with it exact sums of real events. A rehearsal draws a fresh secret every time and
forgets it, and it never opens the config's source.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from dpcore.config import durations
from dpcore.config.promise import ClockConfig
from dpcore.errors import ConfigError
from pipelines.config.job import JobConfig
from pipelines.feed import feed
from pipelines.feed.synthetic import OPEN_TICKS, Shares
from pipelines.feed.targets import open_target
from pipelines.graph.parts import parts_of
from pipelines.results.result import Result
from pipelines.run.run import run
from pipelines.sinks.parquet import ParquetSink
from pipelines.sources.registry import source_of

NOTE = "Made-up events under a secret of this rehearsal alone: nothing here is about anyone."


def rehearse(job: JobConfig, out: Path | None, events: int, seed: int, shares: Shares) -> Result:
    """Makes events up and releases what the config would of them, in this process.

    Args:
      job: the config; its source, sink, secret and dead letters are not touched.
      out: a new folder for the releases; None: one among the temporary files, which stays.
      events, seed, shares: of the made-up events.

    Raises:
      ConfigError: the config, or a folder that is not new.
      WeirError: the run failed.
    """
    folder = Path(tempfile.mkdtemp(prefix="weir-rehearsal-")) if out is None else out.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("--out", str(folder), "is not a new folder; name one for the rehearsal.")
    if job.sink is not None and job.sink.place is not None:
        real = Path(job.sink.place).absolute()
        if folder == real:
            raise ConfigError("--out", str(folder), "is the sink of the config; name another one.")
    with tempfile.TemporaryDirectory(prefix="weir-made-up-") as place:
        made = made_up(job, Path(place), folder)
        notes = (NOTE, *feed.notes(made, shares, False, False), *(_open(job.clock)))
        assert made.source is not None and made.source.path is not None
        target = open_target(made.source.path, made.source.form)
        pace = feed.Pace()
        feed.feed(made, target, events=events, seed=seed, shares=shares, pace=pace)
        result = run(parts_of(made, "direct"), "direct", rehearsal=True)
    return dataclasses.replace(result, fresh_secret=False, notes=notes)


def made_up(job: JobConfig, place: Path, folder: Path) -> JobConfig:
    """The job over a file of made-up events: no source, secret or place of the config is left.

    Args:
      place: folder of the events. folder: of the releases.
    """
    form = "csv" if job.source is None else job.source.form
    sink = None if job.sink is None else job.sink.at(str(folder))
    like: dict[str, Any] = {}
    if job.sink is not None:
        like = {"every": job.sink.every, "layout": job.sink.layout}
    clock = job.clock
    if clock.end is None:
        first = clock.to_clock()
        end = durations.show_timestamp(first.tick_start(OPEN_TICKS))
        clock = clock.model_copy(update={"end": end})
    changed = {
        "source": source_of(form, str(place / f"events.{form}")),
        "sink": sink or ParquetSink(parquet=str(folder), **like),
        "clock": clock,
        "secret": None,
        "dead_letters": None,
        "ledger": None,
        "deduplicate": None,
    }
    return job.model_copy(update=changed)


def _open(clock: ClockConfig) -> tuple[str, ...]:
    """What the rehearsal of a stream cannot show."""
    if clock.end is not None:
        return ()
    return (
        f"The clock of the config has no end; the one of this rehearsal ends after {OPEN_TICKS} "
        "ticks, and its noise is that of a stream so long.",
    )

"""``weir rehearse CONFIG``: a config's whole graph on other events, with a secret of its own.

**Why it never resolves the config's secret.** Noise is a keyed function of the plan, the key and
the key's data. Two runs of one plan with one secret therefore give the same noise wherever the data
are the same: for every key that is silent in both, and for every other until its first event. Of
synthetic events everybody may know the sums, so a dry run under the real secret would hand out the
real noise, and with it exact sums of real events. A dry run draws a fresh secret every time and
forgets it, and it never reads the config's source: public events are refused if they are the
source's own. It asks no ledger: nothing is spent.
"""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weir.dpcore.config.schema import DryRun
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed import feed
from weir.pipelines.feed.shape import Shape
from weir.pipelines.feed.synthetic import OPEN_TICKS, Shares
from weir.pipelines.feed.targets import open_target
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.rehearse import jobs
from weir.pipelines.rehearse.estimates import EstimateScore, estimate_scores
from weir.pipelines.rehearse.event_stats import EventStats, event_stats
from weir.pipelines.rehearse.explore import ErrorGrid, grid_of
from weir.pipelines.rehearse.jobs import refuse_source_files
from weir.pipelines.rehearse.model_scores import ModelScore, model_scores
from weir.pipelines.rehearse.remedies import Advised, advised
from weir.pipelines.rehearse.scores import (
    BoundLoss,
    ClippingLoss,
    Score,
    caps_of,
    clipped_of,
    score,
)
from weir.pipelines.results.files import result_files
from weir.pipelines.results.verdict import Result
from weir.pipelines.run.run import run
from weir.pipelines.runners.local import LOCAL
from weir.pipelines.sources.registry import source_of

NOTE = "Synthetic events under a secret of this dry run alone: nothing here is about anyone."
PUBLIC = "Public events under a secret of this dry run alone: show it if they may be shown."
EVENTS = 10_000
"""Synthetic events where nobody says how many."""
MOST_EVENTS = 2_000_000
WITHIN = 0.2
"""Share of its size that an error may be, where nobody says."""


@dataclass(frozen=True)
class SyntheticEvents:
    """How events are synthetic.

    Attributes:
      events: how many; None: what the shape or ``expect`` says. seed, shares: of them.
      shape: what is known of them in public.
    """

    events: int | None = None
    seed: int = 0
    shares: Shares = Shares()
    shape: Shape = Shape()


@dataclass(frozen=True)
class Rehearsal:
    """What a dry run came to.

    Attributes:
      result: of the run. within: what makes an output useful.
      scores: each output next to the truth; () where there is none, as ``notes`` of the result say.
      clipped, caps: what bounds take. advised, grid: what would make outputs useful.
      models: of each target of a model, what it keeps of the loss that it could explain.
      estimates: of outputs that have them, next to the truth.
      dry_run: of public events, the section by which a config shows what bounds took of outputs
        that they can only lower; None: nothing.
    """

    result: Result
    within: float = WITHIN
    scores: tuple[Score, ...] = ()
    clipped: tuple[ClippingLoss, ...] = ()
    caps: tuple[BoundLoss, ...] = ()
    advised: tuple[Advised, ...] = ()
    grid: ErrorGrid | None = field(default=None)
    dry_run: DryRun | None = None
    estimates: tuple[EstimateScore, ...] = ()
    models: tuple[ModelScore, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For ``weir rehearse --json``."""
        return {
            **self.result.to_json(),
            "within": self.within,
            "outputs": [item.to_json() for item in self.scores],
            "models": [item.to_json() for item in self.models],
            "estimates": [item._asdict() for item in self.estimates],
            "clipped": [item.to_json() for item in self.clipped],
            "caps": [cap.to_json() for cap in self.caps],
            "remedies": [item.to_json() for item in self.advised],
            "grid": [] if self.grid is None else self.grid.to_json(),
            "dry_run": None if self.dry_run is None else self.dry_run.model_dump(),
        }


def rehearse(
    job: JobConfig,
    out: Path | None = None,
    built: SyntheticEvents | None = None,
    on: str | None = None,
    within: float = WITHIN,
) -> Rehearsal:
    """Releases what the config would of other events, in this process, and holds it to the truth.

    Args:
      job: the config; its source, sink, secret, ledger and dead letters are not touched.
      out: a new folder for the releases; None: one among the temporary files, which stays.
      built: how events are synthetic. on: public events instead, a path, a folder or a glob.
      within: what share of its size an error may be, for an output to be useful.

    Raises:
      ConfigError: the config, a folder that is not new, or public events that are the source's.
      WeirError: the run failed.
    """
    if not 0 < within < 1:
        raise ConfigError("--within", within, "must be a share between 0 and 1, like 0.2.")
    folder = _new_folder(job, out)
    with tempfile.TemporaryDirectory(prefix="weir-made-up-") as place:
        if on is None:
            results, notes = _made_up(job, Path(place), folder, built or SyntheticEvents())
        else:
            results, notes = _on(job, on, folder)
        parts = parts_of(results, LOCAL)
        seen = event_stats(parts)
        if on is not None and job.release_clock.ticks is None:
            results = _ended_after(results, job, seen)
            parts = parts_of(results, LOCAL)
            seen = event_stats(parts)
        result = run(parts, LOCAL, rehearsal=True)
        result = dataclasses.replace(result, fresh_secret=False, notes=notes)
        if result.folder is None or not result_files(result.folder):
            return Rehearsal(result, within)
        known = None if on is not None else frozenset((built or SyntheticEvents()).shape.values)
        rehearsal = _compared(results, result, seen, within, Path(place), known)
        section = None if on is None else _dry_run(rehearsal, on)
        return dataclasses.replace(rehearsal, dry_run=section)


def _dry_run(rehearsal: Rehearsal, on: str) -> DryRun | None:
    """What public events say of outputs whose bounds only take away: a fact about these events."""
    biases = rehearsal.result.plan.biases
    lost: dict[str, float] = {}
    for item in rehearsal.scores:
        bias = biases.get(item.name)
        share = round(item.lost, 4) + 0.0  # the twins have some noise
        if bias is not None and bias.below is not None and 0 <= share <= 1:
            lost.setdefault(item.name, share)
    if not lost:
        return None
    return DryRun(file=Path(on).name[:40], date=f"{datetime.now(UTC):%Y-%m-%d}", lost=lost)


def _compared(
    found: JobConfig,
    result: Result,
    seen: EventStats,
    within: float,
    place: Path,
    known: frozenset[str] | None,
) -> Rehearsal:
    """Runs the twins, and holds the releases to them. known: see ``advised``."""
    plan = result.plan
    folder = result.folder
    assert folder is not None
    clipped, caps = clipped_of(plan, seen, folder), caps_of(plan, seen)
    clean = jobs.unpromised(found, place / "clean")
    try:
        run(parts_of(clean, LOCAL), LOCAL, rehearsal=True)
        whole = jobs.unbounded(clean, seen, place / "whole")
        if whole is not None:
            run(parts_of(whole, LOCAL), LOCAL, rehearsal=True)
    except ConfigError as refused:
        text = (
            f"There is no truth to compare with: the same config with next to no noise (epsilon "
            f"{jobs.NO_PROMISE:g}) is refused: {refused}"
        )
        result = dataclasses.replace(result, notes=(*result.notes, text))
        return _with_models(Rehearsal(result, within, (), clipped, caps), None, seen)
    last = place / ("clean" if whole is None else "whole")
    held = score(plan, folder, place / "clean", last, within, seen)
    remedies = advised(plan, held, seen, caps, within, known)
    filtered = () if plan.clock.once else estimate_scores(folder, place / "clean")
    own = (held, clipped, caps, remedies, grid_of(plan, held))
    return _with_models(Rehearsal(result, within, *own, estimates=filtered), place / "clean", seen)


def _with_models(rehearsal: Rehearsal, clean: Path | None, seen: EventStats) -> Rehearsal:
    """With scores of its models, and what is to be said of them."""
    assert rehearsal.result.folder is not None
    models, notes = model_scores(rehearsal.result.folder, clean, seen)
    result = dataclasses.replace(rehearsal.result, notes=(*rehearsal.result.notes, *notes))
    return dataclasses.replace(rehearsal, result=result, models=models)


def _made_up(
    job: JobConfig, place: Path, folder: Path, events: SyntheticEvents
) -> tuple[JobConfig, tuple[str, ...]]:
    """The job over events that are synthetic here, and what that cannot show."""
    result = made_up(job, place, folder)
    notes = (NOTE, *_bare(result, events.shape), *feed.notes(result, events.shares, False, False))
    notes += _open(job)
    assert result.source is not None and result.source.path is not None
    target = open_target(result.source.path, result.source.form)
    feed.feed(
        result,
        target,
        events=events.events or expected(result, events.shape),
        seed=events.seed,
        shares=events.shares,
        pace=feed.Pace(),
        shape=events.shape,
    )
    return result, notes


def expected(config: PlanConfig, shape: Shape) -> int:
    """How many events to make up: what the shape says, else ``expect``, else EVENTS; at most
    MOST_EVENTS."""
    ticks = config.release_clock.ticks or OPEN_TICKS
    each = shape.each_tick
    if each is None:
        declared = None if config.key is None else config.key.declared
        keys = 1 if config.key is None else len(declared or ()) or 1
        each = None if config.expect is None else config.expect.events * keys
    if each is None:
        return EVENTS
    return int(min(MOST_EVENTS, max(1, round(each * ticks))))


def made_up(job: JobConfig, place: Path, folder: Path) -> JobConfig:
    """The job over a file of synthetic events: no source, secret or place of the config is left.

    Args:
      place: folder of the events. folder: of the releases.
    """
    form = "csv" if job.source is None else job.source.form
    job = job.model_copy(update={"lookup": None})  # synthetic events have its columns themselves
    return jobs.over(job, source_of(form, str(place / f"events.{form}")), folder, OPEN_TICKS)


def _on(job: JobConfig, on: str, folder: Path) -> tuple[JobConfig, tuple[str, ...]]:
    """The job over public events."""
    files = refuse_source_files(job.source, on)
    source = jobs.reading(job, on, files[0].path)
    return jobs.over(job, source, folder, OPEN_TICKS), (PUBLIC,)


def _ended_after(found: JobConfig, job: JobConfig, seen: EventStats) -> JobConfig:
    """A clock without end ends with the last public event."""
    if seen.last is None:
        return found
    clock = job.release_clock
    ticks = max(1, int(clock.tick_at(seen.last)) + 1)
    return found.model_copy(update={"clock": jobs.ended(job.clock, ticks)})


def _new_folder(job: JobConfig, out: Path | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="weir-rehearsal-")) if out is None else out.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("--out", str(folder), "is not a new folder; name one for the dry run.")
    if job.sink is not None and job.sink.place is not None:
        real = Path(job.sink.place).absolute()
        if folder == real:
            raise ConfigError("--out", str(folder), "is the sink of the config; name another one.")
    return folder


def _bare(config: PlanConfig, shape: Shape) -> tuple[str, ...]:
    """Which values tell nothing of real ones."""
    bounded = {
        aggregate.column
        for aggregate in config.aggregates.values()
        if aggregate.bounds and aggregate.column
    }
    bare = sorted(bounded - set(shape.values))
    if not bare:
        return ()
    return (
        f"Values of {', '.join(bare)} are generated from their own bounds, so what the clip takes "
        "of them tells nothing of real ones: say how they are spread (--like), or take public "
        "events (--on).",
    )


def _open(job: JobConfig) -> tuple[str, ...]:
    """What the dry run of a stream cannot show."""
    if job.release_clock.ticks is not None:
        return ()
    return (
        f"The clock of the config has no end; the one of this dry run ends after {OPEN_TICKS} "
        "ticks, and its noise is that of a stream so long.",
    )

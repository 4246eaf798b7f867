"""The jobs of a rehearsal: the config over other events, and twins of it that promise nothing.

A twin has epsilon 1e9, so that its noise is smaller than what any table shows; its secret is fresh
too. The one keeps clips and caps, and what the release lies off it is noise. In the other they are
as wide as the events are, and what the first lies off it is what they take. Both go through the
same graph as the release: what it refuses, filters or deduplicates, they do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weir.dpcore.aggregates.clipped import Bounded
from weir.dpcore.config import durations
from weir.dpcore.config.promise import ClockConfig
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.rehearse.seen import Seen
from weir.pipelines.sinks.parquet import ParquetSink
from weir.pipelines.sources.registry import endings, kind_of, source_of
from weir.pipelines.sources.source import Source
from weir.transforms.formats.stored import COMPRESSED

NO_PROMISE = 1e9
"""Epsilon of a twin."""


def over(job: JobConfig, source: Source, folder: Path, ticks: int) -> JobConfig:
    """The job over other events: no source, secret, ledger or place of the config is left.

    Args:
      source: of public or made-up events. folder: of the releases.
      ticks: of the clock where the config's has no end.
    """
    sink = None if job.sink is None else job.sink.at(str(folder))
    like: dict[str, Any] = {}
    if job.sink is not None:
        like = {"every": job.sink.every, "layout": job.sink.layout}
    changed = {
        "source": source,
        "sink": sink or ParquetSink(parquet=str(folder), **like),
        "clock": ended(job.clock, ticks),
        "secret": None,
        "dead_letters": None,
        "ledger": None,
        "deduplicate": None,
    }
    return job.model_copy(update=changed)


def ended(clock: ClockConfig, ticks: int) -> ClockConfig:
    """A clock that ends: its own end, or after so many ticks."""
    if clock.end is not None:
        return clock
    end = durations.show_timestamp(clock.to_clock().tick_start(ticks))
    return clock.model_copy(update={"end": end})


def reading(job: JobConfig, path: str, first: str) -> Source:
    """A source of public files: the config's own kind with all it says, or that of their ending.

    Args:
      path: of the files. first: the name of one of them.

    Raises:
      ConfigError: nothing tells how they are written.
    """
    ending = _ending(first)
    own = job.source
    if own is not None and own.path is not None and (ending in own.endings or not ending):
        return own.model_copy(update={own.kind: path})
    kind = kind_of(ending)
    if kind is None:
        known = ", ".join(sorted(endings()))
        raise ConfigError("--on", path, f"must end in one of {known}.")
    return source_of(kind, path)


def _ending(name: str) -> str:
    for packed in COMPRESSED:
        name = name.removesuffix(packed)
    return Path(name).suffix.lower().removeprefix(".")


def unpromised(job: JobConfig, folder: Path) -> JobConfig:
    """A job with next to no noise: what releases are worth within clips and caps."""
    changed: dict[str, Any] = {
        "privacy": job.privacy.model_copy(update={"epsilon": NO_PROMISE}),
        "sink": ParquetSink(parquet=str(folder)),
        # What the plan chose by the promise may not serve this one, and noise is no matter here.
        "mechanism": type(job.mechanism)(),
    }
    if job.key is not None and job.key.discover is not None:
        public = {"discover": None, "observed_keys_are_public": True}
        changed["key"] = job.key.model_copy(update=public)
    return job.model_copy(update=changed)


def unbounded(job: JobConfig, seen: Seen, folder: Path) -> JobConfig | None:
    """A job whose clips and caps leave all events as they are; None: there are none to widen."""
    changed: dict[str, Any] = {"sink": ParquetSink(parquet=str(folder))}
    aggregates = {}
    for name, one in job.aggregates.items():
        if not isinstance(one, Bounded):
            aggregates[name] = one
            continue
        field, (low, high) = one.clips
        found = seen.totals(one.column) if field == "clip_user" else seen.extent(one.column)
        least, most = found or (low, high)
        wide = (min(low, least), max(high, most))
        aggregates[name] = one if wide == (low, high) else one.model_copy(update={field: wide})
    if aggregates != job.aggregates:
        changed["aggregates"] = aggregates
    if job.privacy.contributions is not None:
        caps = job.privacy.contributions.model_copy(update=seen.largest())
        if caps != job.privacy.contributions:
            changed["privacy"] = job.privacy.model_copy(update={"contributions": caps})
    return None if len(changed) == 1 else job.model_copy(update=changed)


__all__ = ["NO_PROMISE", "ended", "over", "reading", "unbounded", "unpromised"]

"""The jobs of a dry run, and the guard that keeps them off the sources of the config."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
from pathlib import Path
from typing import Any, cast

from weir.dpcore.aggregates.bounding import BoundedAggregate
from weir.dpcore.config import durations
from weir.dpcore.config.clock import ClockConfig
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.connectors.paths import local, resolved
from weir.pipelines.rehearse.event_stats import EventStats
from weir.pipelines.sinks.folder import ParquetSink
from weir.pipelines.sources.registry import endings, kind_of, source_of
from weir.pipelines.sources.source import Source
from weir.transforms.formats.stored import COMPRESSED, File, is_local
from weir.transforms.runtime.files import open_raw
from weir.transforms.sources.matching import match

_REMEDY = "a dry run shows true values, so it takes public events only; name others, or leave it."


def refuse_source_files(source: Source | None, on: str) -> tuple[File, ...]:
    """The files that ``--on`` names, if none of them is the source's.

    Of the source names and sizes are looked at. Bytes are compared, and not kept, of files that are
    as large as one of ``--on`` alone.

    Args:
      on: a path, a folder or a glob.

    Raises:
      ConfigError: there is no such file, or one of them is the source's by path or by bytes.
    """
    value = match(local(on), "--on")
    places = [] if source is None else [local(place) for place in source.places]
    own: list[File] = []
    for pattern in [item for place in places for item in (place, f"{place.rstrip('/')}/**")]:
        with contextlib.suppress(ConfigError):
            own += match(pattern, "source")
    named = {resolved(file.path) for file in own}
    patterns = [resolved(place) for place in places]
    for file in value:
        where = resolved(file.path)
        if where in named or any(
            fnmatch.fnmatchcase(where, pattern) or _is_under(where, pattern) for pattern in patterns
        ):
            raise ConfigError("--on", on, f"names {file.path}, a file of the source: {_REMEDY}")
        for item in own:
            if item.size == file.size and _same(item, file):
                raise ConfigError(
                    "--on",
                    on,
                    f"names {file.path}, which holds what {item.path} of the source does: "
                    f"{_REMEDY}",
                )
    return value


def _is_under(where: str, folder: str) -> bool:
    return os.path.isdir(folder) and where.startswith(folder.rstrip("/") + "/")


def _same(a: File, b: File) -> bool:
    """Whether two files of one size hold the same bytes; empty ones tell nothing."""
    if not a.size:
        return False
    if is_local(a.path) and is_local(b.path) and os.path.samefile(a.path, b.path):
        return True
    return _digest(a.path) == _digest(b.path)


def _digest(path: str) -> bytes:
    with open_raw(path) as raw:
        return hashlib.file_digest(cast(Any, raw), hashlib.sha256).digest()


NO_PROMISE = 1e9
"""Epsilon of a twin."""


def over(job: JobConfig, source: Source, folder: Path, ticks: int) -> JobConfig:
    """The job over other events: no source, secret, ledger or place of the config is left.

    Args:
      source: of public or synthetic events. folder: of the releases.
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


def ended(clock: ClockConfig | None, ticks: int) -> ClockConfig | None:
    """A clock that ends: its own end, or after so many ticks. None: one release."""
    if clock is None or clock.end is not None:
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
        # What the plan chose by the guarantee may not serve this one, and noise is no matter here.
        "mechanism": type(job.mechanism)(),
    }
    if job.key is not None and job.key.discover is not None:
        public = {"discover": None, "observed_keys_are_public": True}
        changed["key"] = job.key.model_copy(update=public)
    return job.model_copy(update=changed)


def unbounded(job: JobConfig, seen: EventStats, folder: Path) -> JobConfig | None:
    """A job whose clips and caps leave all events as they are; None: there are none to widen."""
    changed: dict[str, Any] = {"sink": ParquetSink(parquet=str(folder))}
    aggregates = {}
    for name, aggregate in job.aggregates.items():
        if not isinstance(aggregate, BoundedAggregate):
            aggregates[name] = aggregate
            continue
        field, (low, high) = aggregate.clips
        result = (
            seen.totals(aggregate.column) if field == "clip_user" else seen.extent(aggregate.column)
        )
        least, most = result or (low, high)
        wide = (min(low, least), max(high, most))
        aggregates[name] = (
            aggregate if wide == (low, high) else aggregate.model_copy(update={field: wide})
        )
    if aggregates != job.aggregates:
        changed["aggregates"] = aggregates
    if job.privacy.contributions is not None:
        caps = job.privacy.contributions.model_copy(update=seen.largest())
        if caps != job.privacy.contributions:
            changed["privacy"] = job.privacy.model_copy(update={"contributions": caps})
    return None if len(changed) == 1 else job.model_copy(update=changed)

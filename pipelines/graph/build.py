"""Builds the graph of a job: source -> PrivateReleases -> sink. Runs nothing."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from weir.pipelines.graph.parts import Parts
from weir.transforms.beam.private_releases import PrivateReleases


def in_process_runner() -> FnApiRunner:
    """The runner of bounded jobs: named, because Beam's default would download another one."""
    return FnApiRunner()


def build(
    pipeline: beam.Pipeline, parts: Parts, events: Any = None, here: bool = False
) -> dict[str, Any]:
    """Adds a job to a pipeline.

    Args:
      pipeline: on any runner.
      parts: of the job. A fresh secret serves an in-process runner only.
      events: in place of the source: a PCollection of canonical batches.
      here: whether workers are in this process, so that a table can wait for ``finish``.

    Returns:
      PCollections by name, so that tests can look: events, releases, dead, written.

    Raises:
      ConfigError: what cannot be built, as where the source is not what the config says.
    """
    plan, source, sink = parts.plan, parts.source, parts.sink
    dead: list[Any] = []
    bounded = source.bounded if events is None else True
    if events is None:
        read = pipeline | "Read" >> source.open(plan, parts.limits)
        events = read.events
        dead.append(read.dead)
    result = events | "Release" >> PrivateReleases(
        plan,
        parts.secret,
        bounded=bounded,
        every=sink.every,
        rotate=parts.secrets[1:],
        stream=source.arrivals(plan),
    )
    dead.append(result.dead)
    letters = tuple(dead) | "DeadLetters" >> beam.Flatten()
    if parts.letters is not None:
        letters | "WriteDead" >> parts.letters.open()
    written = result.releases | "Write" >> sink.open(plan, bounded, here)
    return {"events": events, "releases": result.releases, "dead": letters, "written": written}


__all__ = ["build", "in_process_runner"]

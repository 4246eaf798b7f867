"""Weir in pipelines of Beam YAML: what their ``providers`` name.

    pipeline:
      type: chain
      transforms:
        - type: PrivateReleases
          config:
            name: visits
            source: {csv: visits.csv}
            schema: {time: at}
            clock: {start: "2025-01-01T00:00:00Z", period: 1d, end: "2025-01-08T00:00:00Z"}
            privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
            aggregates: {visits: {count: events}}
        - type: WriteToParquet
          config: {path: releases.parquet}
    providers:
      - type: python
        config: {}
        transforms: {PrivateReleases: weir.beam_yaml.PrivateReleases}

Times may stand in quotes or without: Beam reads YAML 1.1, in which they are times.
``pip install 'weir-dp[yaml]'``, then ``python -m apache_beam.yaml.main --yaml_pipeline_file=FILE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.pipelines.graph.checks import plan_of
from weir.transforms.beam.private_releases import PrivateReleases as Transform
from weir.transforms.beam.releases import TEXT_FIELDS, ReleaseRow, ReleaseRows
from weir.transforms.runtime.dead_letters import rows
from weir.transforms.runtime.stream_time import PRESENT

ELSEWHERE = {
    "sink": "what follows in the pipeline writes the releases; remove it.",
    "dead_letters": "write error_handling: {output: NAME}, and use NAME as an input.",
    "ledger": "a pipeline that Weir does not start cannot be entered in it; use weir run or "
    "weir.release, or enter it by hand with weir ledger add.",
    "engine": "options of the pipeline say how it runs; remove it.",
    "deduplicate": "is for streams that weir run starts; remove it.",
}
"""Sections of a job that have no meaning here, and what to do."""


class PrivateReleases(beam.PTransform[Any, Any]):
    """Rows with the config's columns -> rows of releases, one a number: the columns of
    every sink, with times as text.

    The config stands inline, as in a file of ``weir run``. With ``source`` it needs no input, and
    records are read as ``weir run`` reads them, each alone; what other readers give has the types
    that they found in the data. Bounded input only.

    Args:
      error_handling: {output: NAME}: dead letters are rows of the output NAME: source, position,
        field, reason. Without it they are counted in the metrics only.
      config: sections of a config: name, source, schema, where, key, clock, privacy, aggregates or
        model, secret, limits. Without a secret a fresh one is drawn, for runners in this process.

    Raises:
      ConfigError: what ``weir plan`` refuses, or a section that has its place elsewhere.
    """

    _yaml_requires_inputs = False

    def __init__(self, error_handling: Mapping[str, Any] | None = None, **config: Any) -> None:
        super().__init__()
        for name, remedy in ELSEWHERE.items():
            if name in config:
                raise ConfigError(name, config[name], f"has no place in Beam YAML: {remedy}")
        _times_as_text(config)
        self._dead = None if error_handling is None else str(error_handling["output"])
        self._job = JobConfig.from_dict(config)
        self._plan = plan_of(self._job)

    def expand(self, events: Any) -> dict[str, Any]:
        """Rows of releases by "good", those of dead letters by their own name."""
        plan, source, dead = self._plan, self._job.source, []
        value = isinstance(events, beam.PCollection)
        if value == (source is not None):
            remedy = (
                "remove one of the two." if value else "is missing, and so is an input: add one."
            )
            raise ConfigError("source", None if source is None else source.value, remedy)
        if source is not None:
            read = events | "Read" >> source.open(plan, self._job.limits)
            events, dead = read.events, [read.dead]
        secret = self._job.secret
        references = () if secret is None else secret.references(plan.clock)
        result = events | "Release" >> Transform(
            plan,
            references[0][1] if references else None,
            rotate=references[1:],
            stream=PRESENT if source is None else source.arrivals(plan),
            first_look=self._job.limits.first_look,
        )
        rows = result.releases | "Rows" >> ReleaseRows(plan)
        built = {"good": rows | "Texts" >> beam.Map(in_text).with_output_types(RELEASES)}
        if self._dead is not None:
            letters = (*dead, result.dead) | "DeadLetters" >> beam.Flatten()
            reported = letters | "Letters" >> beam.FlatMap(letter_rows).with_output_types(LETTERS)
            built[self._dead] = reported
        return built


def _times_as_text(section: dict[str, Any]) -> None:
    """Writes times of a config as text, in place: Beam keeps the same sections as JSON, which has
    none."""
    for name, value in section.items():
        if isinstance(value, dict):
            _times_as_text(value)
        else:
            section[name] = durations.written(value)


RELEASES = RowTypeConstraint.from_fields(TEXT_FIELDS)
LETTERS = RowTypeConstraint.from_fields(
    [("source", str), ("position", int), ("field", str), ("reason", str)]
)


def in_text(row: ReleaseRow) -> beam.Row:
    """A row with its times as ISO 8601: not every writer of Beam's takes a moment."""
    times = {
        name: None if at is None else at.to_rfc3339()
        for name, at in (("tick_start", row.tick_start), ("tick_end", row.tick_end))
    }
    return beam.Row(**{**row._asdict(), **times})


def letter_rows(letters: pa.RecordBatch) -> Any:
    """Dead letters as rows: where a record was, and why it was rejected."""
    for source, position, field, reason in rows(letters):
        yield beam.Row(source=source, position=position, field=field, reason=reason)


__all__ = ["PrivateReleases"]

"""``weir.release``: events at hand, a config, and what they release, in one call.

It is ``weir run`` over events in memory: the same checks, pipeline, secrets and ledger.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, load, loads
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.notebook.released import Released
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import flat_table
from weir.pipelines.results.verdict import InputRejected
from weir.pipelines.run.run import FRESH, run
from weir.pipelines.show.summary import spent_of
from weir.pipelines.sinks.folder import ParquetSink
from weir.pipelines.sinks.sink import Sink
from weir.pipelines.sources.memory import MemorySource

LOSSY = (
    "some records or values were rejected, or there were none; `counters` has how many, by field "
    "and reason, as private numbers."
)
_log = logging.getLogger(__name__)


def release(
    events: Any,
    config: str | os.PathLike[str] | Mapping[str, Any] | JobConfig,
    *,
    secret_file: str | os.PathLike[str] | None = None,
) -> Released:
    """Releases what a config says of events that are in memory, in this process.

    It is a run like any other: a ledger that the config names is asked, entered and closed; without
    a secret a fresh one is drawn, and running it again spends the budget again; releases are given
    back only if ``limits.refused`` allows it. A source that the config names is not read. With a
    sink that is a folder, releases are written there too.

    Args:
      events: a pandas.DataFrame, a pyarrow.Table, or a list of dictionaries, NamedTuples,
        dataclasses or ``beam.Row`` with the config's columns. Levels of a frame's index are columns
        too.
      config: path of a file, its text, or the same as a dictionary.
      secret_file: file of the secret, in place of the config's.

        >>> import weir
        >>> found = weir.release([{"at": "2025-01-01T10:00:00Z"}], '''
        ... name: visits
        ... schema: {time: at}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
        ... aggregates: {visits: {count: events}}
        ... ''')
        >>> [(row.name, row.tick) for row in found]
        [('visits', 0), ('visits', 1)]
        >>> found.to_arrow().num_rows
        2

    Raises:
      ConfigError: refused before anything is released: the config, the events, the budget, or a
        secret that would be used again with nothing that remembers it.
      InputRejected: more of the records was rejected than ``limits.refused`` allows.
      WeirError: the run failed.
    """
    job = job_of(config)
    from weir.transforms.sources.memory import holding

    with holding(events) as handle, _folder(job.sink) as (sink, retained):
        changed = {"source": MemorySource(memory=handle), "sink": sink}
        job = job.model_copy(update=changed)
        if (
            not retained
            and (job.secret is not None or secret_file is not None)
            and job.ledger is None
        ):
            raise ConfigError(
                "secret",
                "(not shown)",
                "would key this noise again on other events, and nothing here would notice: the "
                "difference of two such releases shows the events exactly. Add a ledger, or a sink "
                "that is a folder (sink: {parquet: out/}), or leave the secret out: a fresh one is "
                "drawn.",
            )
        secret = None if secret_file is None else os.fspath(secret_file)
        result = run(parts_of(job, "local", secret), "local")
        verdict = result.verdict
        if verdict is not None and not verdict.passes:
            raise InputRejected(verdict, spent_of(result))
        if verdict is not None and verdict.note is not None:
            _log.warning(LOSSY)
        assert result.folder is not None
        table = flat_table(ResultFolder.open(result.folder))
    notes = (FRESH, *result.notes) if result.fresh_secret else result.notes
    return Released(result.plan, table, result.counters, notes, result.ledger)


def job_of(config: str | os.PathLike[str] | Mapping[str, Any] | JobConfig) -> JobConfig:
    """A config however it is given: a text of several lines, or with a colon and a space, is YAML.

    Raises:
      ConfigError: what is wrong in it first.
    """
    if isinstance(config, JobConfig):
        return config
    if isinstance(config, Mapping):
        return JobConfig.from_dict(dict(config))
    if isinstance(config, str) and ("\n" in config or ": " in config):
        return loads(config, folder=Path())
    return load(Path(config))


@contextlib.contextmanager
def _folder(sink: Sink | None) -> Iterator[tuple[Sink, bool]]:
    """Where releases go until they are read back, and whether that stays.

    Raises:
      ConfigError: a sink that cannot be read back.
    """
    if sink is None:
        with tempfile.TemporaryDirectory(prefix="weir-release-") as folder:
            yield ParquetSink(parquet=str(Path(folder) / "out")), False
        return
    if sink.place is None or "://" in sink.place or sink.layout != "flat":
        named = sink.field if sink.layout == "flat" else "sink.layout"
        raise ConfigError(
            named,
            sink.layout if named == "sink.layout" else str(sink.value),
            "cannot be given back to Python: name a folder on this machine for flat rows, like "
            "sink: {parquet: out/}, or leave the sink out.",
        )
    yield sink, True


__all__ = ["job_of", "release"]

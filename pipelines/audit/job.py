"""A config as an audit runs it: the same plan over keys that carry copies of one small stream.

**What an audit never touches.** The source, sink, dead letters, ledger and secret of the config are
replaced before anything is read: streams are made up, so a run over them under the real secret
would hand out its noise (pipelines/run/rehearse.py). Every run has a secret of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from weir.dpcore.config import durations
from weir.dpcore.config.key import Key
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import key_text
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.sinks.parquet import ParquetSink
from weir.pipelines.sources.files import Files
from weir.pipelines.sources.registry import source_of

KEY = "weir_audit_key"
"""Column of keys where the config has none."""
TRIALS = 20_000
"""Trials of one run, with the change and without."""
FIRST = 10_000_000
"""Number of the first key."""
ROWS = 5_000_000
"""Rows that one run may release."""
FEWEST = 1_000
"""Trials that are wanted at least: a clock is cut before there are fewer."""
SHORTEST = 48
"""Ticks that a clock is not cut below."""


@dataclass(frozen=True)
class Audited:
    """A job under audit.

    Attributes:
      job: over made-up files, without secret or ledger; its keys are few. plan: of it: program and
        clock are those of every run. notes: what differs from the config.
      bare: whether the config has no key, so that a column of keys was added.
    """

    job: JobConfig
    plan: Plan
    notes: tuple[str, ...]
    bare: bool

    @classmethod
    def of(cls, job: JobConfig, ticks: int | None = None) -> Audited:
        """Of a config; ``ticks``: length of its clock.

        Raises:
          ConfigError: the config, or a number of ticks that it has not.
        """
        notes: list[str] = []
        job = job.model_copy(
            update={"secret": None, "ledger": None, "dead_letters": None, "deduplicate": None}
        )
        bare = job.key is None
        if job.key is not None and job.key.groups is not None:
            raise ConfigError(
                "key.groups",
                [list(own) for own in job.key.groups],
                "cannot be audited: each key of an audit is a trial of its own, and coarser keys "
                "would add trials up; audit the config without groups.",
            )
        job = _keyed(job, names(4))
        full = job.clock.to_clock().ticks
        wanted = ticks if ticks is not None else full
        if wanted is None:
            window = _window_of(job)
            wanted = SHORTEST if window is None else max(SHORTEST, 10 * window + 2)
            wanted = min(wanted, 4 * SHORTEST) if window is None or window > 20 else wanted
            notes.append(f"the clock of the config has no end; audited over {wanted} ticks.")
        if full is not None and wanted > full:
            raise ConfigError("--ticks", wanted, f"must be at most {full}, which the clock has.")
        if wanted != full:
            job = _ended(job, wanted)
        plan = plan_of(_over(job, Path("."), Path(".")))
        width = sum(out.dimension for out in plan.outputs)
        if ticks is None and FEWEST * wanted * width > ROWS:
            short = max(SHORTEST, ROWS // (FEWEST * width))
            if short < wanted:
                notes.append(
                    f"the clock has {wanted:,} ticks; audited over the first {short}, under the "
                    "promise that a clock so short has (--ticks sets another)."
                )
                job = _ended(job, short)
                plan = plan_of(_over(job, Path("."), Path(".")))
        return cls(job, plan, tuple(notes), bare)

    @property
    def ticks(self) -> int:
        """Of the clock."""
        assert self.plan.clock.ticks is not None
        return self.plan.clock.ticks

    @cached_property
    def width(self) -> int:
        """Numbers that one key releases at a tick."""
        return sum(out.dimension for out in self.plan.outputs)

    def room(self, slots: int, events: int) -> int:
        """Trials that one run has room for. slots: keys of each; events: of each."""
        rows = ROWS // (self.ticks * self.width * slots)
        return max(40, min(rows, ROWS // max(1, events)))

    def at(self, place: Path, keys: int, out: Path | None = None) -> JobConfig:
        """The job over files in a folder, with so many keys; ``out``: folder of releases."""
        job = _keyed(self.job, names(keys)) if self.declares else self.job
        return _over(job, place, out or place / "out")

    @property
    def declares(self) -> bool:
        """Whether keys are those that the config lists."""
        return self.job.key is not None and self.job.key.declared is not None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of keys."""
        assert self.job.key is not None
        return self.job.key.names

    def key_texts(self, keys: int) -> list[str]:
        """Keys as releases have them."""
        columns = len(self.key_columns)
        if columns == 1:
            return list(names(keys))
        return [key_text((one, *["-"] * (columns - 1))) for one in names(keys)]


def names(count: int) -> tuple[str, ...]:
    """Keys of an audit, in the order of their bytes: digits, which a reader may take for numbers,
    and spell in another way where one of them is none."""
    return tuple(np.char.mod("%d", FIRST + np.arange(count)).tolist())


def _keyed(job: JobConfig, keys: tuple[str, ...]) -> JobConfig:
    key = job.key
    if key is None:
        made = Key(column=KEY, declared=keys)
        source = job.source
        columns = getattr(source, "columns", None)
        if source is not None and columns is not None:
            job = job.model_copy(
                update={"source": source.model_copy(update={"columns": (*columns, KEY)})}
            )
        return job.model_copy(update={"key": made})
    if key.declared is None:
        return job
    more = ("-",) * (len(key.names) - 1)
    declared: tuple[Any, ...] = keys if not more else tuple((one, *more) for one in keys)
    return job.model_copy(update={"key": key.model_copy(update={"declared": declared})})


def _ended(job: JobConfig, ticks: int) -> JobConfig:
    end = durations.show_timestamp(job.clock.to_clock().tick_start(ticks))
    return job.model_copy(update={"clock": job.clock.model_copy(update={"end": end})})


def _window_of(job: JobConfig) -> int | None:
    short = _ended(job, 1 << 16)
    return short.plan_config().terms().window


def _over(job: JobConfig, place: Path, out: Path) -> JobConfig:
    """The job over files of its own format in a folder, into a folder of its own format."""
    source, sink = job.source, job.sink
    form = "csv" if source is None else source.form
    path = str(place / f"*.{form}")
    if isinstance(source, Files):
        over: Any = source.model_copy(update={source.kind: path})
    else:
        over = source_of(form, path)
    to = None if sink is None else sink.at(str(out))
    if to is None:
        like: dict[str, Any] = {} if sink is None else {"every": sink.every, "layout": sink.layout}
        to = ParquetSink(parquet=str(out), **like)
    # The audit's own batches say what a bad record does; nobody looks at them first.
    return job.model_copy(update={"source": over, "sink": to})

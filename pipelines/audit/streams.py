"""Streams of events for trials, and the transcripts of releases that a run gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.audit.changes import CandidateEvents, Placed, UnitChange
from weir.dpcore.bounded_events import Events
from weir.dpcore.config.schema import TimeColumn
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.audit.audit import Audited, names
from weir.pipelines.feed.synthetic import Shares, batches, write_times
from weir.pipelines.feed.targets import open_target
from weir.pipelines.results.files import read_file
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import COLUMNS
from weir.pipelines.sources.files import Files
from weir.transforms.columns.predicate import Predicate

LOOKED_AT = 4096
"""Synthetic events among which one is looked for that the predicate lets through."""
CHUNK = 1 << 18


@dataclass(frozen=True)
class StreamRows:
    """Events of a run: each (n,).

    Attributes:
      key: number of the key. tick: of the clock. candidate: row of the candidates. person: whose it
        is, a number of its own for every user; -1: one of the background. serial: number of its id.
    """

    key: Ints
    tick: Ints
    candidate: Ints
    person: Ints
    serial: Ints

    def taken(self, places: Ints | slice) -> StreamRows:
        """Some of them."""
        return StreamRows(self.key[places], self.tick[places], self.candidate[places],
                    self.person[places], self.serial[places])  # fmt: skip


def events_of(
    change: UnitChange, with_it: NDArray[np.bool_], background: Sequence[Placed], first: int = 0
) -> StreamRows:
    """The events of trials, ordered by trial.

    Args:
      change: what neighbours differ in. with_it: (trials,) which trials have the change.
      background: events of every trial. first: number of the first trial.
    """
    trials, parts = np.arange(len(with_it)), []
    groups: tuple[tuple[Sequence[Placed], NDArray[np.bool_], bool], ...] = (
        (background, np.ones(len(with_it), dtype=bool), False),
        (change.here, with_it, True),
        (change.there, ~with_it, True),
    )
    own = len(background) + len(change.here) + len(change.there) + 1
    for placed, which, changed in groups:
        mine = first + trials[which]
        for at, item in enumerate(placed):
            n = len(mine)
            # A replaced event keeps its id; of a user all events carry one name.
            serial = at if not changed else len(background) + (0 if change.twice else at)
            whose = len(background) if change.whole and changed else serial
            who = mine * own + whose
            parts.append(
                StreamRows(
                    mine * change.slots + item.slot,
                    np.full(n, item.tick),
                    np.full(n, item.candidate),
                    who,
                    mine * own + serial,
                )
            )
    return joined(parts)


def joined(parts: Sequence[StreamRows]) -> StreamRows:
    """All of them."""
    empty = np.zeros(0, dtype=np.int64)

    def column(name: str) -> Ints:
        return np.concatenate([empty, *(getattr(part, name) for part in parts)]).astype(np.int64)

    return StreamRows(*map(column, ("key", "tick", "candidate", "person", "serial")))


@dataclass(frozen=True)
class EventMaker:
    """Makes events of a plan that differ in their candidate's numbers alone.

    Attributes:
      audited: the job. offered: candidates. base: one event that the predicate lets through.
    """

    audited: Audited
    offered: CandidateEvents
    base: pa.RecordBatch

    @classmethod
    def of(cls, audited: Audited, offered: CandidateEvents) -> EventMaker:
        """Looks for an event that passes the predicate, among synthetic ones.

        Raises:
          ConfigError: there is none.
        """
        built = next(iter(batches(audited.job, LOOKED_AT, 1, Shares())))
        plan = audited.plan
        if plan.where is not None:
            maker = cls(audited, offered, built)
            n = built.num_rows
            zeros = np.zeros(n, dtype=np.int64)
            rows = StreamRows(
                zeros, zeros, np.arange(n) % max(1, offered.sound), zeros, np.arange(n)
            )
            batch = maker.batch(rows, each=True)
            mask = Predicate.parse(plan.where).mask(batch)
            places = np.flatnonzero(np.asarray(mask))
            if not len(places):
                raise ConfigError(
                    "where", plan.where, "lets none of the synthetic events of an audit through."
                )
            built = built.slice(int(places[0]))
        return cls(audited, offered, built.slice(0, 1))

    def counts(self) -> NDArray[np.bool_]:
        """(m,) which candidates the predicate lets through."""
        m = len(self.offered)
        where = self.audited.plan.where
        if where is None:
            return np.ones(m, dtype=bool)
        zeros = np.zeros(m, dtype=np.int64)
        batch = self.batch(StreamRows(zeros, zeros, np.arange(m), zeros, zeros))
        mask = Predicate.parse(where).mask(batch)
        return np.asarray(mask)

    def batch(self, rows: StreamRows, each: bool = False) -> pa.RecordBatch:
        """Rows as the config's columns. each: every row has its own row of ``base``."""
        schema, clock = self.audited.job.schema_, self.audited.plan.clock
        n = len(rows.key)
        columns: dict[str, Any] = {}
        for name, column in zip(self.base.schema.names, self.base.columns, strict=True):
            columns[name] = column if each else pa.array(column.take(pa.array([0] * n, pa.int32())))
        for name, values in self.offered.columns.items():
            if name in columns:
                columns[name] = _column(values[rows.candidate], columns[name].type)
        starts = np.asarray(clock.starts(np.arange(self.audited.ticks)), dtype=np.int64)
        moments = starts[rows.tick]
        stamps: list[TimeColumn] = [
            item for item in (schema.time, schema.arrival) if item is not None
        ]
        for stamp in stamps:
            columns[stamp.column] = write_times(moments, stamp)
        if schema.id is not None:
            columns[schema.id] = _named("e", rows.serial)
        if schema.unit is not None:
            columns[schema.unit] = _named("u", rows.person)
        first, *more = self.audited.key_columns
        columns[first] = _keys(rows.key)
        for name in more:
            columns[name] = pa.array(["-"] * n)
        return pa.RecordBatch.from_pydict(columns)

    def events(self, plan: Plan, rows: StreamRows, keys: Sequence[str]) -> Events:
        """The same for ``dpcore.simulate``: what a pipeline should make of the bytes."""
        batch = self.batch(rows)
        counted = np.ones(len(rows.key), dtype=bool)
        if plan.where is not None:
            counted = np.asarray(Predicate.parse(plan.where).mask(batch))
        rows = rows.taken(np.flatnonzero(counted))
        starts = np.asarray(plan.clock.starts(np.arange(self.audited.ticks)), dtype=np.int64)
        columns = {name: values[rows.candidate] for name, values in self.offered.columns.items()}
        who = None if plan.person is None else _named("u", rows.person).to_pylist()
        ids = None if plan.config.schema_.id is None else _named("e", rows.serial).to_pylist()
        return Events(starts[rows.tick], [keys[i] for i in rows.key], columns, ids, who)

    def write(self, rows: StreamRows, place: Path, name: str = "events") -> Path:
        """Writes a file of the config's format into a folder."""
        job = self.audited.at(place, 1)
        assert isinstance(job.source, Files)
        path = place / f"{name}.{job.source.form}"
        target = open_target(str(path), job.source.form, text=job.source.text_form())
        for start in range(0, max(1, len(rows.key)), CHUNK):
            batch = self.batch(rows.taken(slice(start, start + CHUNK)))
            target.write(batch, [False] * batch.num_rows)
        target.close()
        return path


def _named(letter: str, numbers: Ints) -> pa.Array:
    return pa.array(np.char.mod(f"{letter}%d", numbers))


def _keys(numbers: Ints) -> pa.Array:
    if not len(numbers):
        return pa.array([], pa.string())
    return pa.array(np.asarray(names(int(numbers.max()) + 1))[numbers])


def _column(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    if values.ndim == 2:
        flat = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
        return flat.cast(pa.list_(pa.float64()))
    if pa.types.is_string(kind):
        return pa.array([str(value) for value in values.tolist()])
    return pa.array(values)


@dataclass(frozen=True)
class Columns:
    """Numbers of a tick: outputs in the plan's order, coordinate by coordinate.

    Attributes:
      outputs: (name, over, first column, how many).
    """

    outputs: tuple[tuple[str, int | None, int, int], ...]

    @classmethod
    def of(cls, plan: Plan) -> Columns:
        """Of a plan."""
        result, at = [], 0
        for out in plan.outputs:
            result.append((out.name, out.over, at, out.dimension))
            at += out.dimension
        return cls(tuple(result))

    @property
    def width(self) -> int:
        """m, numbers of a tick."""
        return sum(size for *_, size in self.outputs)

    @cached_property
    def by_name(self) -> dict[str, NDArray[np.int64]]:
        """Name of a release -> its columns."""
        results: dict[str, list[int]] = {}
        for name, _, at, size in self.outputs:
            results.setdefault(name, []).extend(range(at, at + size))
        return {name: np.asarray(columns) for name, columns in results.items()}


def transcripts(folder: Path, plan: Plan, keys: Sequence[str], ticks: int) -> Floats:
    """(K, T, m) float64: every number of every key and tick; NaN where there is none.

    Raises:
      ConfigError: there are no results. KeyError: a release that the plan does not name.
    """
    columns = Columns.of(plan)
    result = np.full((len(keys), ticks, columns.width), np.nan)
    run = ResultFolder.open(folder)
    known = pa.array(list(keys))
    for file in run.files:
        for batch in read_file(file, COLUMNS, run.sizes):
            _fill(result, batch, columns, known)
    return result


def _fill(found: Floats, batch: pa.RecordBatch, columns: Columns, known: pa.Array) -> None:
    key, name = batch["key"], batch["name"]
    place = pc.index_in(key.dictionary.cast(pa.string()), known).fill_null(-1).to_numpy()
    codes = place[key.indices.to_numpy(zero_copy_only=False)].astype(np.int64)
    ticks = batch["tick"].to_numpy()
    texts = name.dictionary.to_pylist()
    named = name.indices.to_numpy(zero_copy_only=False)
    overs = batch["over"].fill_null(-1).to_numpy()
    values = batch["value"]
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
    flat = values.flatten().fill_null(np.nan).to_numpy(zero_copy_only=False)
    if (codes < 0).any():
        raise KeyError("a key that no stream of the audit has was released")
    for text, over, at, size in columns.outputs:
        wanted = -1 if over is None else over
        if text not in texts:
            continue
        mine = np.flatnonzero((named == texts.index(text)) & (overs == wanted) & (lengths == size))
        if len(mine):
            rows = flat[starts[mine][:, None] + np.arange(size)]
            found[codes[mine], ticks[mine], at : at + size] = rows

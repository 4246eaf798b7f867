"""Public or synthetic events as the graph decodes and assigns them, held in memory and looked at.

Nobody may look so at events that are private: all here follows from the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.aggregates.bounding import GATE
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.plan import Plan
from weir.dpcore.users.cap import cap_tick
from weir.dpcore.users.cells import (
    CapKeys,
    Hashed,
    cell_hashes,
    contents_of,
    gather,
    pair_hashes,
    row_hashes,
    user_hashes,
)
from weir.dpcore.users.closing import WHY, UsedBounds
from weir.dpcore.users.unit import MOST, ContributionBounds, Periods, UserUnit
from weir.pipelines.graph.parts import Parts
from weir.pipelines.runners.local import opened_of
from weir.transforms.columns.keys import KEY
from weir.transforms.columns.list_columns import is_list
from weir.transforms.decode.schema import canonical_columns
from weir.transforms.operators.filter import Assign

_PUBLIC = bytes(32)
"""Key of hashes by which caps choose here: nothing rests on it."""


@dataclass(frozen=True)
class BoundedStats:
    """What contribution bounds leave out.

    Attributes:
      lost: bound -> events that it leaves out; those that leave out none are not there.
      early, late: share of the events in the first and in the last third of a period that stay;
        NaN: there are none, or a single tick.
    """

    lost: Mapping[str, int]
    early: float
    late: float

    @property
    def events(self) -> int:
        """Events that are left out."""
        return sum(self.lost.values())


@dataclass(frozen=True)
class EventStats:
    """Events that a plan reads and does not refuse, each id once.

    Attributes:
      plan: the plan. events: ``@time``, ``@tick``, the columns that are read, and those of key, id
        and unit that the plan has.
      last: the latest time of any event, in microseconds; None: there is none.
      read: how many events could be read.
    """

    plan: Plan
    events: pa.Table
    last: int | None
    read: int

    @property
    def ticks(self) -> Ints:
        """(n,) tick of each."""
        return np.asarray(self.events["@tick"].to_numpy())

    def values(self, column: str) -> Floats | None:
        """(n,) numbers of a column, NaN where there is none; None: it holds no numbers."""
        if column not in self.events.column_names:
            return None
        result = self.events[column]
        if not pa.types.is_floating(result.type):
            return None
        return np.asarray(pc.fill_null(result, np.nan).to_numpy())

    def extent(self, column: str | None) -> tuple[float, float] | None:
        """Least and largest finite value of a column; None: there is none."""
        result = None if column is None else self.values(column)
        return None if result is None else _extent(result)

    def totals(self, column: str | None) -> tuple[float, float] | None:
        """Least and largest total of a user in a key and tick."""
        return None if column is None else _extent(self.user_totals(column))

    def user_totals(self, column: str) -> Floats:
        """(cells,) total of each user in a key and tick."""
        result = self.values(column)
        if result is None or not len(result):
            return np.zeros(0)
        _, cell = np.unique(np.stack(self._cells()), axis=1, return_inverse=True)
        sums = np.bincount(cell.ravel(), np.where(np.isfinite(result), result, 0.0))
        return np.asarray(sums, dtype=np.float64)

    def largest(self) -> dict[str, Any]:
        """Caps that leave out nothing."""
        person = self.plan.person
        free = {"spacing": 1, "ticks_per_key": None, "period_keys": None, "total": None}
        if person is None or not len(self.ticks):
            return free
        user, key, tick = self._cells()
        _, events = np.unique(np.stack([user, key, tick]), axis=1, return_counts=True)
        cells = np.unique(np.stack([user, tick, key]), axis=1)
        pairs, keys = np.unique(cells[:2], axis=1, return_counts=True)
        periods = person.periods.of(pairs[1])
        _, ticks = np.unique(np.stack([pairs[0], periods]), axis=1, return_counts=True)
        caps = person.caps
        most = {
            "ticks": max(caps.ticks, int(ticks.max())),
            "keys": max(caps.keys, int(keys.max())),
            "events": max(caps.events, int(events.max())),
        }
        return {**free, **{name: min(MOST, value) for name, value in most.items()}}

    def bounded_by(self, caps: ContributionBounds) -> BoundedStats:
        """What other contribution bounds would leave out, each id of a cell once."""
        person = self.plan.person
        assert person is not None
        gathered = gather(self._hashed, caps.events)
        cells = gathered.cells
        stop = int(cells.ticks.max()) + 1 if len(cells.ticks) else 0
        other = UserUnit(caps, person.periods)
        why = cap_tick(UsedBounds.nothing(0), cells, stop, other).why
        counts = np.bincount(why, weights=cells.sizes, minlength=len(WHY)).astype(np.int64)
        lost = dict(zip(WHY[1:], counts[1:].tolist(), strict=True)) | {"events": gathered.beyond}
        thirds = _thirds(cells.ticks, person.periods)
        shares = (_share(why == 0, cells.sizes, thirds == third) for third in (0, 2))
        return BoundedStats({name: n for name, n in lost.items() if n}, *shares)

    @cached_property
    def _hashed(self) -> Hashed:
        """Events of users with the hashes by which bounds choose."""
        person = self.plan.person
        assert person is not None
        keys = CapKeys.derive(_PUBLIC, self.plan.digest)
        known = user_hashes(self.events["@unit"].combine_chunks(), keys)
        here = np.flatnonzero(~known.null)
        times = self.events["@time"].cast(pa.int64()).to_numpy()[here]
        users, ticks = known.hashes[here], self.ticks[here]
        names = self._texts(KEY, here)
        pairs = pair_hashes(users, person.periods.of(ticks), names, keys)
        contents, ids = contents_of(times, []), self._texts("@id", here)
        rows, has_id = row_hashes(users, ticks, times, contents, ids, keys)
        cells = cell_hashes(users, ticks, pairs, keys)
        return Hashed(users, pairs, rows, ticks, has_id, contents, cells=cells)

    def _texts(self, name: str, rows: Ints) -> list[str | None] | None:
        if name not in self.events.column_names:
            return None
        result: list[str | None] = self.events[name].take(pa.array(rows)).to_pylist()
        return result

    def _cells(self) -> tuple[Ints, Ints, Ints]:
        """(n,) each: codes of user and key, and the tick."""
        return self.codes("@unit"), self.codes(KEY), self.ticks

    def where(self, predicate: str | None) -> EventStats:
        """Only the events that satisfy an aggregate's own predicate."""
        if predicate is None or GATE + predicate not in self.events.column_names:
            return self
        return replace(self, events=self.events.filter(pc.equal(self.events[GATE + predicate], 1)))

    def having(self, column: str) -> EventStats:
        """Only the events with a finite number in a column."""
        numbers = self.values(column)
        if numbers is None:
            return self
        return replace(self, events=self.events.filter(pa.array(np.isfinite(numbers))))

    def active(self) -> dict[str, Ints]:
        """Key as releases have it -> ticks in which it has events, in order."""
        codes, ticks = self.codes(KEY), self.ticks
        names = self.events[KEY].to_pylist() if KEY in self.events.column_names else None
        results: dict[str, Ints] = {}
        for code in np.unique(codes):
            here = np.flatnonzero(codes == code)
            own = [""] if names is None else self.plan.keys.grouped(names[here[0]])
            for key in own:
                earlier = results.get(key, ticks[:0])
                results[key] = np.unique(np.concatenate([earlier, ticks[here]]))
        return results

    def codes(self, name: str) -> Ints:
        """(n,) a number for each different value; 0 where there is no such column."""
        if name not in self.events.column_names:
            return np.zeros(self.events.num_rows, dtype=np.int64)
        column = self.events[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        result = pc.dictionary_encode(column).indices
        return np.asarray(pc.fill_null(result, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def event_stats(parts: Parts) -> EventStats:
    """Reads the events of a job whose events are public or synthetic.

    Raises:
      ConfigError: what is there cannot be what the config says.
    """
    from weir.transforms.local.event_parts import read

    plan = parts.plan
    columns = canonical_columns(plan.config.model, plan.program.columns)
    roles = ["@time", "@id", "@unit", *columns]
    batches = list(read(opened_of(parts), lambda letters: None))
    assign = Assign(plan, roles)
    last = max((pc.max(batch["@time"].cast(pa.int64())).as_py() for batch in batches), default=None)
    retained = [pa.table(_plain(assign(batch).events)) for batch in batches]
    events = pa.concat_tables(retained) if retained else _nothing(plan, columns)
    return EventStats(plan, _once(events), last, sum(batch.num_rows for batch in batches))


def _plain(batch: pa.RecordBatch) -> dict[str, Any]:
    """Columns whose types do not depend on the batch; of lists those of a model; without places."""
    results = {}
    for name in batch.schema.names:
        column = batch.column(name)
        if name in ("@position", "@source"):
            continue
        if pa.types.is_nested(column.type) and not is_list(column.type):
            continue
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if name in ("@id", "@unit") and pa.types.is_integer(column.type):
            column = column.cast(pa.string())
        results[name] = column
    return results


def _nothing(plan: Plan, columns: tuple[str, ...]) -> pa.Table:
    types = {"@time": pa.timestamp("us"), "@tick": pa.int64()}
    return pa.table({name: pa.array([], kind) for name, kind in types.items()})


def _once(events: pa.Table) -> pa.Table:
    """Without what bears an id that an earlier one has; of users that is their caps' business."""
    if "@id" not in events.column_names or "@unit" in events.column_names:
        return events
    ids = events["@id"].combine_chunks()
    codes = pc.dictionary_encode(ids).indices
    codes = np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False))
    _, first = np.unique(codes, return_index=True)
    keep = np.zeros(len(codes), dtype=bool)
    keep[first] = True
    keep |= codes < 0
    return events.filter(pa.array(keep))


def _thirds(ticks: Ints, periods: Periods) -> Ints:
    """(n,) 0, 1 or 2: in which third of its period a tick is; 1 where a period is one tick."""
    numbers = periods.of(ticks)
    known, at = np.unique(numbers, return_inverse=True)
    first = np.array([periods.first(n) for n in known.tolist()], dtype=np.int64)
    last = [periods.last(n) for n in known.tolist()]
    ends = [int(ticks.max()) if end is None else end for end in last]
    lengths = np.array(ends, dtype=np.int64) - first + 1
    thirds = 3 * (ticks - first[at]) // lengths[at]
    return np.asarray(np.where(lengths[at] < 3, 1, thirds), dtype=np.int64)


def _share(stays: NDArray[np.bool_], sizes: Ints, some: NDArray[np.bool_]) -> float:
    """Share of the events of some cells that stay; NaN: there are none."""
    whole = int(sizes[some].sum())
    return float(sizes[some & stays].sum()) / whole if whole else math.nan


def _extent(values: Floats) -> tuple[float, float] | None:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else None

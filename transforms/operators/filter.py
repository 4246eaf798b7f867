"""Filter and assign: which events count, and to which key and tick each of them belongs.

In this order: the public predicate, the clock's range, late and early arrival, known keys, ids
where an event's place follows from its id. An event that the predicate leaves out is counted and
gone; all others that do not count become dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.aggregates.bounding import GATE
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.plan import Plan
from weir.dpcore.program import takes_rows
from weir.transforms.columns.keys import KEY, compact, declared_keys, keys_of
from weir.transforms.columns.predicate import Predicate
from weir.transforms.decode.canonical import FIRST, placed
from weir.transforms.decode.schema import canonical_columns
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import (
    SOURCE,
    Reject,
    count_dead,
    dead_letters,
    reason_code,
)

BEFORE_START = reason_code("before_start")
AFTER_END = reason_code("after_end")
LATE = reason_code("late")
EARLY = reason_code("early")
UNKNOWN_KEY = reason_code("unknown_key")
MISSING_ID = reason_code("missing_id")
KEY_TOO_LONG = reason_code("key_too_long")
_KEPT = np.int8(-1)


class Assigned(NamedTuple):
    """What became of a batch.

    Attributes:
      events: the rows that count, with "@tick" int64.
      dead: dead letters, or None.
      filtered: how many rows the predicate left out.
    """

    events: pa.RecordBatch
    dead: pa.RecordBatch | None
    filtered: int


def gates_of(columns: Iterable[str]) -> dict[str, Predicate]:
    """Columns that say whether an event counts in some aggregate, and what they say."""
    named = [name for name in columns if name.startswith(GATE)]
    return {name: Predicate.parse(name.removeprefix(GATE)) for name in named}


class Assign:
    """The pure part: batches in, batches out. Built once per worker from the public plan.

    Args:
      plan: has ``clock``, ``keys``, ``where`` and, if it reads rows by id, ``program``.
      keep: user columns and canonical ones ("@time", "@id", ...) that something downstream needs;
        "@position" and "@source" if they are there and, with a key column, "@key" always stay. With
        ids or users "@position" is made where it is no column.
    """

    def __init__(self, plan: Any, keep: Iterable[str]) -> None:
        self._clock: Clock = plan.clock
        self._where = None if plan.where is None else Predicate.parse(plan.where)
        self._columns: tuple[str, ...] = plan.keys.columns
        self._refused = ["", *self._columns]
        if len(self._columns) > 1:
            self._refused.append(", ".join(self._columns))
        self._by_id = plan.program.by_id
        self._declared = declared_keys(plan)
        self._longest: int | None = plan.keys.longest
        names = [*([KEY] if self._columns else []), SOURCE, "@position", *keep]
        self._keep = tuple(dict.fromkeys(names))
        self._gates = gates_of(self._keep)
        self._places = self._where is not None or not {"@id", "@unit"}.isdisjoint(names)

    def __call__(self, batch: pa.RecordBatch) -> Assigned:
        """One batch of decoded events -> those that count, with key and tick.

        Raises:
          ConfigError: a batch of something else.
        """
        if self._places:
            batch = placed(batch)
        value, metadata = set(batch.schema.names), dict(batch.schema.metadata or {})
        if "@time" not in value or ("@position" not in value and FIRST not in metadata):
            raise ConfigError(
                "events",
                "RecordBatch",
                "has no columns @time and @position, so it is no batch of decoded events; give "
                "its rows, batch.to_pylist(), or decode it with "
                "weir.transforms.decode.canonical.assemble.",
            )
        before = batch.num_rows
        if self._where is not None:
            batch = batch.filter(self._where.mask(batch))
        filtered = before - batch.num_rows
        reasons, ticks = self._ticks(batch)
        keys, fields, declared = self._keys(batch, reasons)
        if self._by_id and batch.column("@id").null_count:
            missing = batch.column("@id").is_null().to_numpy(zero_copy_only=False)
            reasons[missing & (reasons == _KEPT)] = MISSING_ID
        columns = {
            name: keys if name == KEY else batch.column(name)
            for name in self._keep
            if name == KEY or name in value
        }
        for name, gate in self._gates.items():
            columns[name] = gate.mask(batch).cast(pa.float64())
        columns["@tick"] = pa.array(ticks)
        metadata.pop(FIRST, None)
        events = pa.RecordBatch.from_arrays(
            list(columns.values()), names=list(columns), metadata=metadata
        )
        if reasons.max(initial=_KEPT) == _KEPT:
            return Assigned(events if declared else _compact(events), None, filtered)
        gone = reasons != _KEPT
        events = events.filter(pa.array(~gone))
        positions = placed(batch).column("@position").to_numpy()[gone]
        return Assigned(
            events if declared else _compact(events),
            dead_letters(
                _source(batch, gone),
                positions,
                reasons[gone],
                pa.DictionaryArray.from_arrays(
                    pa.array(fields[gone], pa.int32()), pa.array(self._refused)
                ),
            ),
            filtered,
        )

    def _ticks(self, batch: pa.RecordBatch) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        times = batch.column("@time").view(pa.int64()).to_numpy()
        reasons = np.full(len(times), _KEPT, dtype=np.int8)
        if not len(times):
            return reasons, times
        ticks, first, last = self._clock.ticks_within(times)
        if first < 0:
            reasons[ticks < 0] = BEFORE_START
        if self._clock.ticks is not None and last >= self._clock.ticks:
            reasons[ticks >= self._clock.ticks] = AFTER_END
        if "@arrival" in batch.schema.names:
            arrivals = batch.column("@arrival").view(pa.int64())
            waited = pc.greater(pc.subtract(arrivals, pa.array(times)), self._clock.delay)
            late = pc.fill_null(waited, False).to_numpy(zero_copy_only=False)
            reasons[late & (reasons == _KEPT)] = LATE
            if self._clock.ahead is not None:
                behind = pc.less(pc.subtract(arrivals, pa.array(times)), -self._clock.ahead)
                early = pc.fill_null(behind, False).to_numpy(zero_copy_only=False)
                reasons[early & (reasons == _KEPT)] = EARLY
        return reasons, ticks

    def _keys(
        self, batch: pa.RecordBatch, reasons: NDArray[np.int8]
    ) -> tuple[Any, NDArray[Any], bool]:
        """The keys as a dictionary column (None without a key column); marks unknown ones.

        Also which of ``_refused`` the reasons speak of: the first column without a value; all of
        them where it is their combination that is not known. And whether the dictionary holds
        declared keys alone.
        """
        # Few batches have a row to be marked: until one does, this is a single number.
        fields = np.broadcast_to(np.int32(0), batch.num_rows)
        if not self._columns:
            return None, fields, False
        keys, missing = keys_of(batch, self._columns)
        # One slot more than there are keys: where null keys point to.
        names = keys.dictionary
        null = len(names)
        known = np.ones(null + 1, dtype=bool)
        known[null] = False
        if self._declared is not None:
            result = pc.is_in(names, value_set=self._declared)
            known[:null] = result.to_numpy(zero_copy_only=False)
        if not known[:null].all() or keys.null_count:
            slots = pc.fill_null(keys.indices, null).to_numpy()
            unknown = ~known[slots] & (reasons == _KEPT)
            reasons[unknown] = UNKNOWN_KEY
            named = np.where(missing < 0, len(self._refused) - 1, missing + 1)
            fields = np.where(unknown, named, fields)
        if self._longest is not None:
            long = pc.greater(pc.binary_length(names), self._longest)
            shown = np.append(long.to_numpy(zero_copy_only=False), False)
            slots = pc.fill_null(keys.indices, null).to_numpy()
            too_long = shown[slots] & (reasons == _KEPT)
            reasons[too_long] = KEY_TOO_LONG
            fields = np.where(too_long, len(self._refused) - 1, fields)
        return keys, fields, self._declared is not None and bool(known[:null].all())


def _source(batch: pa.RecordBatch, rows: NDArray[np.bool_]) -> Any:
    if SOURCE in batch.schema.names:
        return batch.column(SOURCE).filter(pa.array(rows))
    return (batch.schema.metadata or {}).get(b"source", b"").decode()


def _compact(events: pa.RecordBatch) -> pa.RecordBatch:
    """Leaves no key in the dictionary that no event has: listing it must show live keys only, where
    they are not all declared."""
    if "@key" not in events.schema.names:
        return events
    keys = events.column("@key")
    compacted = compact(keys)
    if compacted is keys:
        return events
    at = events.schema.get_field_index("@key")
    return events.set_column(at, events.schema.field(at), compacted)


class Filter:
    """``Assign`` as a step: counts what the predicate leaves out and what is rejected.

    Args:
      assign: what it does with a batch. reject: takes dead letters.
    """

    def __init__(self, assign: Assign, reject: Reject) -> None:
        self._assign, self._reject = assign, reject

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """One batch of decoded events -> those that count."""
        events, dead, filtered = self._assign(batch)
        counters.add("filtered", filtered)
        if dead is not None:
            count_dead(dead)
            self._reject(dead)
        if events.num_rows:
            yield events

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Nothing: no batch waits."""
        return iter(())


def needed_columns(plan: Plan) -> tuple[str, ...]:
    """Columns that are read behind the filter."""
    ids = ("@id",) if plan.config.schema_.id is not None else ()
    users = ("@unit",) if plan.person is not None else ()
    times = ("@time",) if takes_rows(plan.program) or plan.person is not None else ()
    read = canonical_columns(plan.config.model, plan.program.columns)
    return (*read, *ids, *users, *times)

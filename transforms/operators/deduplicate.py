"""Deduplicate in one place: ids of a whole run are numbered, and nothing is spread or stored.

On Beam events travel to the shards that remember their ids (``transforms.beam.deduplicate``). Which
records count is the rule of ``seen_ids``, of the same batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.leaves.hash_sets import HashNumbers, Words
from weir.dpcore.leaves.hashes import id_hashes
from weir.transforms.columns.names import HIGH, LOW
from weir.transforms.operators.hash_partition import ROWS
from weir.transforms.operators.seen_ids import chosen_first
from weir.transforms.runtime.dead_letters import SOURCE, Reject, count_dead, dead_letters

Ints = NDArray[np.int64]


class _Held(NamedTuple):
    """A batch that waits for the others of its bundle.

    Attributes:
      events: without ``@id``. hashes: (n, 2) of their ids.
      fresh: (n,) whose id came for the first time, and is numbered from ``base`` on, in order.
      base: see fresh.
      again: (m,) rows whose id came before.
      numbers: (m,) of these.
    """

    events: pa.RecordBatch
    hashes: Words
    fresh: NDArray[np.bool_]
    base: int
    again: Ints
    numbers: Ints


def _numbered(numbers: HashNumbers, events: pa.RecordBatch, hashes: Words) -> _Held:
    base = len(numbers)
    result, fresh = numbers.add(hashes)
    again = np.flatnonzero(~fresh)
    return _Held(events, hashes, fresh, base, again, result[again])


class _Judged(NamedTuple):
    """Batches whose copies were judged together. Attributes:
    held: they, in order. counted: (n,) which of all their rows count.
    """

    held: list[_Held]
    counted: NDArray[np.bool_]


def _judged(numbered: Sequence[Future[_Held]]) -> _Judged:
    held = [item.result() for item in numbered]  # all are: there is one thread
    return _Judged(held, which_count(held))


class DropDuplicates:
    """Record batches with ``@id`` -> the same without it, each id once.

    Events wait until as many are there as elsewhere travel together: copies among them are judged
    together. A thread numbers ids and judges copies while the next batches are read.

    Args:
      key: of the hashes of ids (``dedupe_key``).
      keep_hash: whether hashes of ids go on with the events.
      reject: takes dead letters of duplicates.
    """

    def __init__(self, key: bytes, keep_hash: bool, reject: Reject) -> None:
        self._key, self._keep_hash, self._reject = key, keep_hash, reject
        self._numbers = HashNumbers()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="number")
        self._held: list[Future[_Held]] = []
        self._rows = 0
        self._judged: deque[Future[_Judged]] = deque()

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes a batch, and gives on when enough is there. Events without an id pass by."""
        hashes, null = id_hashes(batch.column("@id"), self._key)
        events = batch.drop_columns(["@id"])
        if null.any():
            yield self._given(events.filter(pa.array(null)))
            events, hashes = events.filter(pa.array(~null)), hashes[~null]
        if not events.num_rows:
            return
        self._held.append(self._thread.submit(_numbered, self._numbers, events, hashes))
        self._rows += len(hashes)
        if self._rows >= ROWS:
            self._judge()
        while len(self._judged) > 1:
            yield from self._on(self._judged.popleft().result())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Gives on what is left."""
        if self._held:
            self._judge()
        while self._judged:
            yield from self._on(self._judged.popleft().result())

    def close(self) -> None:
        """Ends the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _judge(self) -> None:
        self._judged.append(self._thread.submit(_judged, self._held))
        self._held, self._rows = [], 0

    def _on(self, judged: _Judged) -> Iterator[pa.RecordBatch]:
        held, counted = judged
        at = 0
        for item in held:
            retained = counted[at : at + len(item.fresh)]
            at += len(item.fresh)
            if retained.all():
                yield self._given(item.events, item.hashes if self._keep_hash else None)
                continue
            if retained.any():
                events = item.events.filter(pa.array(retained))
                yield self._given(events, item.hashes[retained] if self._keep_hash else None)
            letters = _duplicates(item.events, ~retained)
            count_dead(letters)
            self._reject(letters)

    @staticmethod
    def _given(events: pa.RecordBatch, hashes: Words | None = None) -> pa.RecordBatch:
        """What goes on of events, with hashes if there are any."""
        if SOURCE in events.schema.names:
            events = events.drop_columns([SOURCE])
        if hashes is None:
            return events
        for place, name in enumerate((HIGH, LOW)):
            column = pa.array(np.ascontiguousarray(hashes[:, place]))
            events = events.append_column(name, column)
        return events


def which_count(held: Sequence[_Held]) -> NDArray[np.bool_]:
    """(n,) which of all rows count. held: batches in order."""
    counted = np.concatenate([item.fresh for item in held])
    begins = np.cumsum([0, *(len(item.fresh) for item in held)])
    again = np.concatenate([item.again + at for item, at in zip(held, begins, strict=False)])
    numbers = np.concatenate([item.numbers for item in held])
    in_these = numbers >= held[0].base
    again, numbers = again[in_these], numbers[in_these]
    named, leaders = _leaders(held, begins, numbers)
    place = np.searchsorted(named, numbers)
    mine = named[np.minimum(place, max(len(named) - 1, 0))] == numbers if len(named) else place < 0
    if not mine.any():
        return counted
    rows = np.concatenate([leaders, again[mine]])
    numbers = np.concatenate([named, numbers[mine]])
    by_id = np.argsort(numbers, kind="stable")  # of an id: who came first, then in order
    first = np.append(True, np.diff(numbers[by_id]) != 0)
    in_order = np.argsort(rows)
    rows = rows[in_order]
    turned = np.empty_like(in_order)
    turned[in_order] = np.arange(len(in_order))
    names = [*(name for name in held[0].events.schema.names if name != SOURCE), SOURCE]
    copies = _Copies([item.events for item in held], rows)
    chosen = chosen_first(names, copies.column, turned[by_id], first)
    counted[rows] = False
    counted[rows[chosen[first]]] = True
    return counted


def _leaders(held: Sequence[_Held], begins: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Which of the numbers came first in these batches, each once and rising, and in which rows."""
    named: Ints = np.sort(numbers)
    named = named[np.append(True, named[1:] != named[:-1])] if len(named) else named
    result, rows = [named[:0]], [named[:0]]
    for item, begin in zip(held, begins, strict=False):
        leaders = np.flatnonzero(item.fresh)
        low, high = np.searchsorted(named, [item.base, item.base + len(leaders)])
        result.append(named[low:high])  # others came first in another bundle
        rows.append(leaders[named[low:high] - item.base] + begin)
    return np.concatenate(result), np.concatenate(rows)


class _Copies:
    """Some rows of several batches, column by column.

    Args:
      batches: in order. rows: (m,) increasing, counted through all of them.
    """

    def __init__(self, batches: Sequence[pa.RecordBatch], rows: Ints) -> None:
        self._made: dict[str, pa.Array] = {}
        ends = np.cumsum([batch.num_rows for batch in batches])
        cuts = np.searchsorted(rows, ends)
        self._parts: list[tuple[pa.RecordBatch, pa.Array]] = []
        for batch, end, low, high in zip(batches, ends, np.append(0, cuts[:-1]), cuts, strict=True):
            if low < high:
                begin = end - batch.num_rows
                self._parts.append((batch, pa.array(rows[low:high] - begin)))

    def column(self, name: str) -> pa.Array:
        """(m,) values."""
        if name not in self._made:
            parts = [_column(batch, name).take(rows) for batch, rows in self._parts]
            if pa.types.is_dictionary(parts[0].type):
                parts = pa.chunked_array(parts).unify_dictionaries().chunks
            self._made[name] = pa.concat_arrays(parts)
        return self._made[name]


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name != SOURCE or name in batch.schema.names:
        return batch.column(name)
    zeros = pa.array(np.zeros(batch.num_rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(zeros, pa.array([_source_of(batch)], pa.string()))


def _source_of(batch: pa.RecordBatch) -> str:
    return str((batch.schema.metadata or {}).get(b"source", b"").decode())


def _duplicates(events: pa.RecordBatch, gone: NDArray[np.bool_]) -> pa.RecordBatch:
    """Dead letters of some rows."""
    source: Any = _source_of(events)
    if SOURCE in events.schema.names:
        source = events.column(SOURCE).filter(pa.array(gone))
    return dead_letters(source, events.column("@position").to_numpy()[gone], "duplicate")


__all__ = ["DropDuplicates", "which_count"]

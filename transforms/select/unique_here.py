"""Deduplicate in one process: events stay where they are, and their ids are numbered.

Elsewhere events travel to the shards that remember their ids (``deduplicate``). Here a run
remembers all of them in one place, so that nothing is spread, sorted or stored. Which records count
is the rule of ``seen_ids``, of the same batches.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp
from numpy.typing import NDArray

from weir.dpcore.leaves.hash_sets import HashNumbers, Words
from weir.dpcore.leaves.hashes import dedupe_key, id_hashes
from weir.transforms.leaves.columns import HIGH, LOW
from weir.transforms.runtime.aside import Aside
from weir.transforms.runtime.dead_letters import DEAD, SOURCE, count_dead, dead_letters
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.runtime.windowing import stamped
from weir.transforms.select.seen_ids import chosen_first
from weir.transforms.select.spread import ROWS

Ints = NDArray[np.int64]


@dataclass
class Ids:
    """Ids of a run in this process.

    Attributes:
      numbers: of all that came. lock: of whoever adds some.
    """

    numbers: HashNumbers = field(default_factory=HashNumbers)
    lock: threading.Lock = field(default_factory=threading.Lock)


Known = Aside[None, Ids]


def known_of(run: str) -> Known:
    """What is known of ids in a run of this process; as long as somebody holds it."""
    return Aside.of(run, Ids)


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


def _numbered(ids: Ids, events: pa.RecordBatch, hashes: Words) -> _Held:
    with ids.lock:
        base = len(ids.numbers)
        numbers, fresh = ids.numbers.add(hashes)
    again = np.flatnonzero(~fresh)
    return _Held(events, hashes, fresh, base, again, numbers[again])


class _Judged(NamedTuple):
    """Batches whose copies were judged together. Attributes:
    held: they, in order. counted: (n,) which of all their rows count.
    """

    held: list[_Held]
    counted: NDArray[np.bool_]


def _judged(numbered: Sequence[Future[_Held]]) -> _Judged:
    held = [one.result() for one in numbered]  # all are: there is one thread
    return _Judged(held, which_count(held))


class UniqueHere(beam.DoFn):
    """Record batches with ``@id`` -> the same without it, each id once; duplicates tagged "dead".

    Events wait until as many are there as elsewhere travel together, or the bundle ends: copies
    among them are judged together. A thread numbers ids and judges copies; those that are judged
    together go on when it is ready, or when it has the next ones to judge.

    Args:
      secret: reference; only a key of its own is derived from it here. name: of that key.
      keep_hash: whether hashes of ids go on with the events.
      run: name of what is known.
    """

    def __init__(self, secret: SecretRef, name: str, keep_hash: bool, run: str) -> None:
        self._secret, self._name, self._keep_hash, self._run = secret, name, keep_hash, run
        self._key = b""
        self._known: Known | None = None
        self._numbering: ThreadPoolExecutor | None = None
        self._empty()

    def _empty(self) -> None:
        self._held: list[Future[_Held]] = []
        self._rows = 0
        self._judged: deque[Future[_Judged]] = deque()

    def __getstate__(self) -> dict[str, Any]:
        made: dict[str, Any] = {"_known": None, "_numbering": None, "_held": [], "_judged": deque()}
        return {**self.__dict__, "_key": b"", **made}

    def setup(self) -> None:
        """Derives the key, and finds what this process knows."""
        self._key = dedupe_key(self._secret.resolve(), self._name)
        self._known = known_of(self._run)
        self._numbering = ThreadPoolExecutor(1, thread_name_prefix="number")

    def teardown(self) -> None:
        """Ends the thread."""
        if self._numbering is not None:
            self._numbering.shutdown()

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._empty()

    def process(
        self, batch: pa.RecordBatch, stamp: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        """Takes a batch, and gives on when enough is there. Events without an id pass by."""
        assert self._known is not None and self._numbering is not None
        self._stamp = stamp
        hashes, null = id_hashes(batch.column("@id"), self._key)
        events = batch.drop_columns(["@id"])
        if null.any():
            yield self._given(events.filter(pa.array(null)))
            events, hashes = events.filter(pa.array(~null)), hashes[~null]
        if not events.num_rows:
            return
        self._held.append(self._numbering.submit(_numbered, self._known.shared, events, hashes))
        self._rows += len(hashes)
        if self._rows >= ROWS:
            self._judge()
        while self._judged and (len(self._judged) > 1 or self._judged[0].done()):
            yield from self._on(self._judged.popleft().result())

    def finish_bundle(self) -> Iterator[Any]:
        """Gives on what is left."""
        if self._held:
            self._judge()
        while self._judged:
            for value in self._on(self._judged.popleft().result()):
                at = Timestamp.of(self._stamp)
                if isinstance(value, TaggedOutput):
                    yield TaggedOutput(value.tag, stamped(value.value, at))
                else:
                    yield stamped(value, at)

    def _judge(self) -> None:
        assert self._numbering is not None
        self._judged.append(self._numbering.submit(_judged, self._held))
        self._held, self._rows = [], 0

    def _on(self, judged: _Judged) -> Iterator[Any]:
        held, counted = judged
        at = 0
        for one in held:
            kept = counted[at : at + len(one.fresh)]
            at += len(one.fresh)
            if kept.all():
                yield self._given(one.events, one.hashes if self._keep_hash else None)
                continue
            if kept.any():
                events = one.events.filter(pa.array(kept))
                yield self._given(events, one.hashes[kept] if self._keep_hash else None)
            letters = _duplicates(one.events, ~kept)
            count_dead(letters)
            yield TaggedOutput(DEAD, letters)

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
    counted = np.concatenate([one.fresh for one in held])
    begins = np.cumsum([0, *(len(one.fresh) for one in held)])
    again = np.concatenate([one.again + at for one, at in zip(held, begins, strict=False)])
    numbers = np.concatenate([one.numbers for one in held])
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
    copies = _Copies([one.events for one in held], rows)
    chosen = chosen_first(names, copies.column, turned[by_id], first)
    counted[rows] = False
    counted[rows[chosen[first]]] = True
    return counted


def _leaders(held: Sequence[_Held], begins: Ints, numbers: Ints) -> tuple[Ints, Ints]:
    """Which of the numbers came first in these batches, each once and rising, and in which rows."""
    named: Ints = np.sort(numbers)
    named = named[np.append(True, named[1:] != named[:-1])] if len(named) else named
    found, rows = [named[:0]], [named[:0]]
    for one, begin in zip(held, begins, strict=False):
        leaders = np.flatnonzero(one.fresh)
        low, high = np.searchsorted(named, [one.base, one.base + len(leaders)])
        found.append(named[low:high])  # others came first in another bundle
        rows.append(leaders[named[low:high] - one.base] + begin)
    return np.concatenate(found), np.concatenate(rows)


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


__all__ = ["Ids", "Known", "UniqueHere", "known_of", "which_count"]

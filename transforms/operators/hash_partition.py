"""Record batches over shards by a keyed hash: what comes in many small ones leaves in a few big."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from weir.dpcore.leaves.hash_sets import Words
from weir.transforms.columns.keys import compact_batch
from weir.transforms.runtime.dead_letters import SOURCE
from weir.transforms.runtime.prefetch import THREADS

ROWS = 1 << 22
"""Events that a bundle gathers before it sends them to their shards."""
SPREAD = 1 << 15
"""Events that are split over the shards at a time: so few that they stay in the cache."""


class HashPartition:
    """What a bundle gathered for the shards.

    Args:
      shards: how many. by: column of uint64 that says which: by the remainder.
      encode: batches of a shard -> bytes (see ``whole``).
      weight: an event of this step is so many times as long as one with an id.
      together: events that are split at a time.
    """

    def __init__(
        self,
        shards: int,
        by: str,
        encode: Callable[[list[pa.RecordBatch]], bytes],
        weight: int = 1,
        together: int = SPREAD,
    ) -> None:
        self._shards, self._by, self._encode, self._weight = shards, by, encode, weight
        self._together = together
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._small: list[pa.RecordBatch] = []
        self._rows = self._small_rows = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
        """Takes a batch, and sends on when enough is there."""
        if batch.num_rows:
            self._small.append(batch)
            self._small_rows += batch.num_rows
        if self._small_rows >= self._together:
            self._split()
        if self._rows * self._weight >= ROWS:
            yield from self.flush()

    def _split(self) -> None:
        """Splits small batches over the shards together: they would be split too finely alone."""
        whole = joined(self._small)
        self._small, self._small_rows = [], 0
        shard = (whole.column(self._by).to_numpy() % self._shards).astype(np.uint16)
        order = np.argsort(shard, kind="stable")
        bounds = np.searchsorted(shard[order], np.arange(self._shards + 1))
        spread = whole.take(pa.array(order))
        for place, (low, high) in enumerate(itertools.pairwise(bounds.tolist())):
            if low < high:
                # A part needs few of the names: what is joined later compares all of them.
                part = compact_batch(spread.slice(low, high - low))
                self._held.setdefault(place, []).append(part)
        self._rows += len(order)

    def flush(self) -> Iterator[tuple[int, bytes]]:
        """Sends on what is left."""
        if self._small:
            self._split()
        held = self._held
        self._held, self._rows = {}, 0
        # A thread may be at work on what the next steps have not asked for yet.
        begun: deque[tuple[int, bytes]] = deque()
        for shard in sorted(held):
            begun.append((shard, self._encode(held.pop(shard))))
            if len(begun) > THREADS:
                yield begun.popleft()
        yield from begun


def hashed(
    batch: pa.RecordBatch, role: str, names: tuple[str, str], hashes: Words
) -> pa.RecordBatch:
    """Replaces a column by its hash, (n, 2) words, and the batch's source by a column.

    Args:
      role: the column that goes. names: of the columns that come.
    """
    columns = {
        name: column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name != role
    }
    for place, name in enumerate(names):
        columns[name] = pa.array(np.ascontiguousarray(hashes[:, place]))
    if SOURCE not in columns:
        source = (batch.schema.metadata or {}).get(b"source", b"").decode()
        zeros = pa.array(np.zeros(batch.num_rows, dtype=np.int32))
        columns[SOURCE] = pa.DictionaryArray.from_arrays(zeros, pa.array([source], pa.string()))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def whole(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of a shard as one, with the names that it needs."""
    return compact_batch(joined(batches))


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Several batches of the same columns as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()[0]

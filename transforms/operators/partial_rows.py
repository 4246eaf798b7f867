"""Row leaves: clipped rows per block and tick, for programs that need rows and not sums.

A bundle keeps at most ``cap`` rows a key and tick already; Tick merges and caps again, with the
same result (dpcore/leaves/rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import in_words
from weir.dpcore.leaves.hashes import content_hashes, hashes_of_users
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.leaves.rows import RowLeaf, joined
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.program import RowProgram
from weir.transforms.columns.names import HIGH, LOW, UNIT_HIGH, UNIT_LOW
from weir.transforms.operators.bound import bound
from weir.transforms.operators.key_index import KeyIndex
from weir.transforms.runtime import counters
from weir.transforms.runtime.codec import pack, pack_names, unpack, unpack_names

KIND = b"R"
ROWS = 1 << 20
"""Rows that a bundle gathers before it sends them on."""
NUMBERS = 1 << 24
"""Numbers of them, alike."""

Ints = NDArray[np.int64]


class TickRows(NamedTuple):
    """Rows of one block and tick: its capped leaf, and the names of its keys where they are
    discovered (none where they are declared)."""

    tick: int
    leaf: RowLeaf
    names: tuple[bytes, ...] = ()


def encode(tick: int, leaf: RowLeaf, names: tuple[bytes, ...]) -> bytes:
    """To bytes; starts with the tick as partial leaves do."""
    span = np.array([tick, tick], dtype=np.int64)
    body = np.frombuffer(leaf.to_bytes(), dtype=np.uint8)
    return pack(KIND, [span, body, *pack_names(names)])


@in_words
def decode(data: bytes) -> TickRows:
    """The inverse of ``encode``."""
    span, body, offsets, joined = unpack(KIND, data)
    names = tuple(unpack_names(offsets, joined))
    return TickRows(int(span[0]), RowLeaf.from_bytes(body.tobytes()), names)


def count_rows(data: bytes) -> int:
    """Rows of an encoded row leaf."""
    return len(decode(data).leaf.rows)


class AccumulateRows:
    """Record batches -> (block, TickRows), one a tick and block, sent on where memory asks for it
    and at the end.

    Args:
      program, keys: of the plan. key: of the hashes by which a cap chooses rows (``row_key``).
    """

    def __init__(self, program: RowProgram, keys: Keys, key: bytes) -> None:
        self._program, self._keys, self._key = program, keys, key
        self.reset()

    def reset(self) -> None:
        """Drops what was gathered."""
        self._held: list[tuple[Any, ...]] = []
        self._rows = self._numbers = 0
        self._index = KeyIndex(self._keys)

    def process(self, batch: pa.RecordBatch) -> Iterator[tuple[int, TickRows]]:
        """Bounds a batch and keeps its rows."""
        if not batch.num_rows:
            return
        rows = bound(batch, self._program).rows
        times = batch.column("@time").view(pa.int64()).to_numpy()
        if self._program.by_users:
            high, low = (batch.column(name).to_numpy() for name in (UNIT_HIGH, UNIT_LOW))
            hashes = hashes_of_users(
                high, low, self._program.hash_ticks(batch.column("@tick").to_numpy())
            )
        elif HIGH in batch.schema.names:
            hashes = np.stack([batch.column(HIGH).to_numpy(), batch.column(LOW).to_numpy()], axis=1)
        else:
            hashes = content_hashes(rows, times, self._key)
        keys = self._index.of(batch)
        if keys is None:
            keys = np.zeros(batch.num_rows, dtype=np.int64)
        self._held.append((keys, batch.column("@tick").to_numpy(), rows, times, hashes))
        self._rows += batch.num_rows
        self._numbers += len(rows.values) if isinstance(rows, SparseRows) else rows.size
        if self._rows >= ROWS or self._numbers >= NUMBERS:
            yield from self.finish()

    def finish(self) -> Iterator[tuple[int, TickRows]]:
        """Sends on what was gathered."""
        if not self._held:
            return
        columns = [joined(column) for column in zip(*self._held, strict=True)]
        self._held, self._rows, self._numbers = [], 0, 0
        blocks = self._index.blocks[columns[0]]
        ticks = columns[1]
        order = np.lexsort((ticks, blocks))
        changed = (np.diff(blocks[order]) != 0) | (np.diff(ticks[order]) != 0)
        bounds = [0, *(np.flatnonzero(changed) + 1).tolist(), len(order)]
        for low, high in zip(bounds, bounds[1:], strict=False):
            mine = order[low:high]
            tick = int(ticks[mine[0]])
            yield int(blocks[mine[0]]), self._leaf(tick, *(column[mine] for column in columns))

    def _leaf(
        self, tick: int, keys: Ints, ticks: Ints, rows: Any, times: Ints, hashes: Any
    ) -> TickRows:
        index = self._index
        names: tuple[bytes, ...] = ()
        if self._keys.observed:
            used, local = np.unique(keys, return_inverse=True)
            names = tuple(index.names[key] for key in used)
            n_keys = len(names)
        else:
            local = index.rows[keys]
            n_keys = len(self._keys.block_keys(int(index.blocks[keys[0]])))
        leaf = RowLeaf.from_events(local, rows, times, hashes, n_keys)
        retained, dropped = self._program.capped(leaf)
        counters.add("over_capacity", dropped)
        return TickRows(tick, retained, names)

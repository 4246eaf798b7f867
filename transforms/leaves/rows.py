"""Row leaves: clipped rows per block and tick, for programs that need rows and not sums.

A bundle keeps at most ``cap`` rows a key and tick already; Tick merges and caps again, with the
same result (dpcore/leaves/rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue
from numpy.typing import NDArray

from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.hashes import content_hashes, hashes_of_users, row_key
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.leaves.rows import RowLeaf, joined
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.program import RowProgram
from weir.transforms.leaves.bound import bound
from weir.transforms.leaves.columns import HIGH, LOW, UNIT_HIGH, UNIT_LOW
from weir.transforms.leaves.key_index import KeyIndex
from weir.transforms.runtime import counters
from weir.transforms.runtime.coders import pack, pack_names, unpack, unpack_names
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.runtime.windowing import windowed

KIND = b"R"
ROWS = 1 << 20
"""Rows that a bundle gathers before it sends them on."""
NUMBERS = 1 << 24
"""Numbers of them, alike."""

Ints = NDArray[np.int64]


def encode(tick: int, leaf: RowLeaf, names: tuple[bytes, ...]) -> bytes:
    """To bytes; starts with the tick as partial leaves do."""
    span = np.array([tick, tick], dtype=np.int64)
    body = np.frombuffer(leaf.to_bytes(), dtype=np.uint8)
    return pack(KIND, [span, body, *pack_names(names)])


def decode(data: bytes) -> tuple[int, RowLeaf, tuple[bytes, ...]]:
    """Tick, leaf, and the names of its keys (none where keys are declared)."""
    span, body, offsets, joined = unpack(KIND, data)
    return int(span[0]), RowLeaf.from_bytes(body.tobytes()), tuple(unpack_names(offsets, joined))


def count_rows(data: bytes) -> int:
    """Rows of an encoded row leaf."""
    return len(decode(data)[1].rows)


class RowLeafDoFn(beam.DoFn):
    """Record batches -> (block, encoded RowLeaf), one a tick and block and bundle.

    Args:
      program, keys, clock: of the plan. secret: reference; only a key of its own is derived here.
      digest: the plan's, hex: which rows stay must not depend on the keys or blocks.
    """

    def __init__(
        self, program: RowProgram, keys: Keys, clock: Clock, secret: SecretRef, digest: str
    ) -> None:
        self._program, self._keys, self._clock = program, keys, clock
        self._secret, self._digest, self._key = secret, digest, b""
        self._held: list[tuple[Any, ...]] = []
        self._rows = self._numbers = 0
        self._index: KeyIndex | None = None

    def __getstate__(self) -> dict[str, Any]:
        nothing = {"_key": b"", "_held": [], "_rows": 0, "_numbers": 0, "_index": None}
        return self.__dict__ | nothing

    def setup(self) -> None:
        """Derives the key of the hashes."""
        self._key = row_key(self._secret.resolve(), self._digest)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._rows, self._numbers = [], 0, 0
        self._index = KeyIndex(self._keys)

    def process(self, batch: pa.RecordBatch) -> Iterator[WindowedValue]:
        """Bounds a batch and keeps its rows."""
        assert self._index is not None
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
            yield from self.finish_bundle()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Sends on what the bundle gathered, each leaf at the event time of its tick."""
        if not self._held or self._index is None:
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
            payload = self._encode(tick, *(column[mine] for column in columns))
            yield windowed((int(blocks[mine[0]]), payload), self._clock.tick_start(tick))

    def _encode(
        self, tick: int, keys: Ints, ticks: Ints, rows: Any, times: Ints, hashes: Any
    ) -> bytes:
        index = self._index
        assert index is not None
        names: tuple[bytes, ...] = ()
        if self._keys.observed:
            used, local = np.unique(keys, return_inverse=True)
            names = tuple(index.names[key] for key in used)
            n_keys = len(names)
        else:
            local = index.rows[keys]
            n_keys = len(self._keys.block_keys(int(index.blocks[keys[0]])))
        leaf = RowLeaf.from_events(local, rows, times, hashes, n_keys)
        kept, dropped = self._program.capped(leaf)
        counters.add("over_capacity", dropped)
        return encode(tick, kept, names)


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(tuple[int, bytes])
class RowLeaves(beam.PTransform[Any, Any]):
    """Bounded rows of events, keyed by block. Keeps no order; leaves are in canonical order."""

    def __init__(
        self, program: RowProgram, keys: Keys, clock: Clock, secret: SecretRef, digest: str
    ) -> None:
        super().__init__()
        self._dofn = RowLeafDoFn(program, keys, clock, secret, digest)

    def expand(self, events: beam.PCollection[pa.RecordBatch]) -> Any:
        """Record batches -> (block, bytes)."""
        return events | "Gather" >> beam.ParDo(self._dofn).with_output_types(tuple[int, bytes])

"""Partial leaves and leaves of rows: each bundle gathers what it sees.

No window and no GroupByKey: this is where the volume goes away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.hashes import row_key
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.program import Program, RowProgram
from weir.transforms.beam.elements import windowed
from weir.transforms.beam.step import Step
from weir.transforms.operators import partial_rows, partial_sums
from weir.transforms.operators.accumulate import Accumulate
from weir.transforms.operators.partial_rows import AccumulateRows
from weir.transforms.runtime.secret import SecretRef


class LeafDoFn(Step):
    """Record batches with ``@tick`` and ``@key`` -> (block, encoded PartialLeaf), each at the event
    time of its first tick.

    Args:
      program, keys, clock: of the plan.
    """

    def __init__(self, program: Program, keys: Keys, clock: Clock) -> None:
        self._program, self._keys, self._clock = program, keys, clock
        self._accumulate: Accumulate | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_accumulate": None}

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        if self._accumulate is None:
            self._accumulate = Accumulate(self._program, self._keys)
        self._accumulate.reset()

    def process(self, batch: pa.RecordBatch) -> Iterator[WindowedValue]:
        """Adds a batch; sends on early when memory asks for it."""
        assert self._accumulate is not None
        yield from self._sent(self._accumulate.process(batch))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Sends on what the bundle gathered."""
        assert self._accumulate is not None
        yield from self._sent(self._accumulate.finish())

    def _sent(self, leaves: Iterable[tuple[int, Any]]) -> Iterator[WindowedValue]:
        for block, leaf in leaves:
            first = self._clock.tick_start(int(leaf.ticks[0]))
            yield windowed((block, partial_sums.encode(leaf)), first)


class RowLeafDoFn(Step):
    """Record batches -> (block, encoded TickRows), one a tick and block and bundle, each at the
    event time of its tick.

    Args:
      program, keys, clock: of the plan. secret: reference; only a key of its own is derived here.
      digest: the plan's, hex: which rows stay must not depend on the keys or blocks.
    """

    def __init__(
        self, program: RowProgram, keys: Keys, clock: Clock, secret: SecretRef, digest: str
    ) -> None:
        self._program, self._keys, self._clock = program, keys, clock
        self._secret, self._digest = secret, digest
        self._accumulate: AccumulateRows | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_accumulate": None}

    def setup(self) -> None:
        """Derives the key of the hashes."""
        key = row_key(self._secret.resolve(), self._digest)
        self._accumulate = AccumulateRows(self._program, self._keys, key)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        assert self._accumulate is not None
        self._accumulate.reset()

    def process(self, batch: pa.RecordBatch) -> Iterator[WindowedValue]:
        """Bounds a batch and keeps its rows."""
        assert self._accumulate is not None
        yield from self._sent(self._accumulate.process(batch))

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Sends on what the bundle gathered."""
        assert self._accumulate is not None
        yield from self._sent(self._accumulate.finish())

    def _sent(self, leaves: Iterable[tuple[int, Any]]) -> Iterator[WindowedValue]:
        for block, rows in leaves:
            yield windowed((block, partial_rows.encode(*rows)), self._clock.tick_start(rows.tick))

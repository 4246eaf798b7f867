"""Solve: noisy arrays into releases. Post-processing only, stateless, safe to scale out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from weir.dpcore.plan import Plan
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.runtime import counters


class Solve:
    """NoisyStride -> one release batch; a block without keys gives a batch without rows.

    Args:
      plan: what is released. counted: how many of its blocks a block counts as, where others are
        stepped; None: one each.
    """

    def __init__(self, plan: Plan, counted: Mapping[int, int] | None = None) -> None:
        self._plan, self._writer, self._counted = plan, ReleaseWriter(plan), counted or {}

    def process(self, stride: NoisyStride) -> Iterator[pa.RecordBatch]:
        """Solves all keys of a stride at once."""
        ticks = np.arange(stride.first_tick, stride.first_tick + stride.ticks, dtype=np.int64)
        program, keys = self._plan.program, stride.keys
        released = program.solve_keys(stride.arrays, ticks, keys) if keys else ()
        batch = self._writer.batch(
            stride.block,
            stride.first_tick,
            stride.ticks,
            stride.keys,
            released,
            stride.births if stride.born_later else None,
        )
        counters.add("ticks_released", stride.ticks * self._counted.get(stride.block, 1))
        counters.add("releases", batch.num_rows)
        yield batch

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Nothing: no stride waits."""
        return iter(())

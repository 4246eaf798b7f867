"""Solve: noisy arrays into releases. Post-processing only, stateless, safe to scale out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from weir.dpcore.plan import Plan
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.runtime import counters


class SolveDoFn(beam.DoFn):
    """NoisyStride -> one release batch; a block without keys gives a batch without rows."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._writer: ReleaseWriter | None = None

    def setup(self) -> None:
        """Builds the columns that never change."""
        self._writer = ReleaseWriter(self._plan)

    def process(self, stride: NoisyStride) -> Iterator[pa.RecordBatch]:
        """Solves all keys of a stride at once."""
        assert self._writer is not None
        ticks = np.arange(stride.first_tick, stride.first_tick + stride.ticks, dtype=np.int64)
        released = self._plan.program.solve(stride.arrays, ticks) if stride.keys else ()
        batch = self._writer.batch(
            stride.block,
            stride.first_tick,
            stride.ticks,
            stride.keys,
            released,
            stride.births if stride.born_later else None,
        )
        counters.add("ticks_released", stride.ticks)
        counters.add("releases", batch.num_rows)
        yield batch


@beam.typehints.with_input_types(NoisyStride)
@beam.typehints.with_output_types(pa.RecordBatch)
class Solve(beam.PTransform[Any, Any]):
    """Noisy strides -> release batches."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def expand(self, noisy: beam.PCollection[NoisyStride]) -> beam.PCollection[pa.RecordBatch]:
        """See SolveDoFn."""
        solve = beam.ParDo(SolveDoFn(self._plan)).with_output_types(pa.RecordBatch)
        releases: beam.PCollection[pa.RecordBatch] = noisy | "Solve" >> solve
        return releases

"""A batch of results as numbers: codes of keys and names, ticks, lists."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.pipelines.results.run import ReleasedOutput
from weir.transforms.release.table import INTERVAL

Ints = NDArray[np.int64]

COLUMNS = ("key", "tick", "name", "over", "value", "stddev")


@dataclass(frozen=True)
class Batch:
    """Rows as numbers. key: codes into ``keys``; over: -1 = since the start; low, high: None where
    they were not read."""

    keys: list[str]
    key: Ints
    tick: Ints
    names: dict[str, int]
    name: Ints
    over: Ints
    value: pa.Array
    stddev: pa.Array
    low: pa.Array | None = None
    high: pa.Array | None = None

    def rows(self, output: ReleasedOutput, among: Ints) -> Ints:
        """Which of the rows ``among`` belong to an output."""
        code = self.names.get(output.name, -1)
        over = -1 if output.over is None else output.over
        mine: Ints = among[(self.name[among] == code) & (self.over[among] == over)]
        return mine


def batch_of(batch: pa.RecordBatch) -> Batch:
    key, name = batch["key"], batch["name"]
    return Batch(
        keys=[text or "" for text in key.dictionary.to_pylist()],
        key=key.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        tick=batch["tick"].to_numpy(),
        names={text: i for i, text in enumerate(name.dictionary.to_pylist())},
        name=name.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        over=batch["over"].fill_null(-1).to_numpy(),
        value=batch["value"],
        stddev=batch["stddev"],
        **{name: batch[name] for name in INTERVAL if name in batch.schema.names},
    )

"""Rows of results as arrays, with the ends of their margins of error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.dpcore.words import number
from weir.pipelines.results.files import is_flat, rows_in
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.transforms.release.table import INTERVAL, RELEASE_SCHEMA

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


Floats = NDArray[np.float64]


def ends(
    output: ReleasedOutput, value: Any, half: Any, low: Any = None, high: Any = None
) -> tuple[Floats, Floats]:
    """Both ends of the margins of some values.

    Args:
      output: of the values. value: (n, d). half: (n, d), half the width of the margin that the
        standard deviation gives. low, high: (n, d), as the rows have them; None: they do not.

    Returns:
      low, high: (n, d), as ``Flat`` writes them.
    """
    value, half = np.asarray(value, dtype=np.float64), np.asarray(half, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        least, most = value - half, value + half
    if output.interval and low is not None and high is not None:
        least = np.where(np.isfinite(low), low, least)
        most = np.where(np.isfinite(high), high, most)
    first, last = output.between
    if first is not None and last is not None:
        least = np.maximum(least, np.fmin(value, first))
        most = np.minimum(most, np.fmax(value, last))
    return least, most


def lopsided(value: float, low: float, high: float) -> bool:
    """Whether a value does not lie in the middle of its margin."""
    return abs((high - value) - (value - low)) > 1e-6 * (high - low)


def interval(value: float, low: float, high: float) -> str:
    """A value and both ends of its margin: ``264 (158 to 5,623)``."""
    return f"{number(value, 3)} ({number(low, 3)} to {number(high, 3)})"


def flat_table(run: ResultFolder) -> pa.Table:
    """All rows, of ``RELEASE_SCHEMA``, by tick. For what fits into memory.

    Raises:
      ConfigError: its files hold a row for each vector.
    """
    kinds = {field.name: field.type for field in RELEASE_SCHEMA}
    found = []
    for file in run.files:
        if file.path.stat().st_size and not is_flat(file):
            raise ConfigError(
                "sink.layout", "packed", "holds a row for each vector; write flat, or leave it out."
            )
        for batch in rows_in(file, kinds, RELEASE_SCHEMA.names):
            found.append(pa.Table.from_batches([batch]).cast(RELEASE_SCHEMA))
    table = pa.concat_tables(found) if found else RELEASE_SCHEMA.empty_table()
    order = pc.sort_indices(table, sort_keys=[("tick", "ascending")])  # stable
    return table.take(order).combine_chunks()

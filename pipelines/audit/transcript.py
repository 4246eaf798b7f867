"""The complete output of a run, as its sink holds it: numbers, and which of them are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.plan import Plan
from weir.pipelines.results.batch import COLUMNS
from weir.pipelines.results.files import read_file
from weir.pipelines.results.run import ResultFolder


@dataclass(frozen=True)
class Columns:
    """Numbers of a tick: outputs in the plan's order, coordinate by coordinate.

    Attributes:
      outputs: (name, over, first column, how many).
    """

    outputs: tuple[tuple[str, int | None, int, int], ...]

    @classmethod
    def of(cls, plan: Plan) -> Columns:
        """Of a plan."""
        found, at = [], 0
        for out in plan.outputs:
            found.append((out.name, out.over, at, out.dimension))
            at += out.dimension
        return cls(tuple(found))

    @property
    def width(self) -> int:
        """m, numbers of a tick."""
        return sum(size for *_, size in self.outputs)

    @cached_property
    def by_name(self) -> dict[str, NDArray[np.int64]]:
        """Name of a release -> its columns."""
        found: dict[str, list[int]] = {}
        for name, _, at, size in self.outputs:
            found.setdefault(name, []).extend(range(at, at + size))
        return {name: np.asarray(columns) for name, columns in found.items()}


def transcripts(folder: Path, plan: Plan, keys: Sequence[str], ticks: int) -> Floats:
    """(K, T, m) float64: every number of every key and tick; NaN where there is none.

    Raises:
      ConfigError: there are no results. KeyError: a release that the plan does not name.
    """
    columns = Columns.of(plan)
    found = np.full((len(keys), ticks, columns.width), np.nan)
    run = ResultFolder.open(folder)
    known = pa.array(list(keys))
    for file in run.files:
        for batch in read_file(file, COLUMNS, run.sizes):
            _fill(found, batch, columns, known)
    return found


def _fill(found: Floats, batch: pa.RecordBatch, columns: Columns, known: pa.Array) -> None:
    key, name = batch["key"], batch["name"]
    place = pc.index_in(key.dictionary.cast(pa.string()), known).fill_null(-1).to_numpy()
    codes = place[key.indices.to_numpy(zero_copy_only=False)].astype(np.int64)
    ticks = batch["tick"].to_numpy()
    texts = name.dictionary.to_pylist()
    named = name.indices.to_numpy(zero_copy_only=False)
    overs = batch["over"].fill_null(-1).to_numpy()
    values = batch["value"]
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
    flat = values.flatten().fill_null(np.nan).to_numpy(zero_copy_only=False)
    if (codes < 0).any():
        raise KeyError("a key that no stream of the audit has was released")
    for text, over, at, size in columns.outputs:
        wanted = -1 if over is None else over
        if text not in texts:
            continue
        mine = np.flatnonzero((named == texts.index(text)) & (overs == wanted) & (lengths == size))
        if len(mine):
            rows = flat[starts[mine][:, None] + np.arange(size)]
            found[codes[mine], ticks[mine], at : at + size] = rows

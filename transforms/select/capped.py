"""What caps let in, as batches for the leaves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from weir.dpcore.program import Program, takes_rows
from weir.dpcore.users.cap import KeptEvents
from weir.transforms.leaves.columns import CELL, HIGH, LOW, NEW, UNIT_HIGH, UNIT_LOW
from weir.transforms.runtime import counters
from weir.transforms.select.users import HAS_ID, PAIR_HIGH, PAIR_LOW

ROWS = 1 << 19
"""Events that leave in one batch, at most, but for a cell of more."""
CHOICE = (PAIR_HIGH, PAIR_LOW, HAS_ID, "@id")
"""Columns that only caps read."""
ROW = (UNIT_HIGH, UNIT_LOW, HIGH, LOW, "@time")
"""Columns that only leaves of rows read."""


def without_hashes(batch: pa.RecordBatch, program: Program) -> pa.RecordBatch:
    """Events without the columns that caps alone have read."""
    gone = CHOICE if takes_rows(program) else CHOICE + ROW
    return batch.select([name for name in batch.schema.names if name not in gone])


def batches(due: pa.RecordBatch, kept: KeptEvents) -> Iterator[pa.RecordBatch]:
    """Events that stay, as batches; no cell is in two of them."""
    first = np.flatnonzero(np.diff(kept.cell, prepend=-1))
    at, n = 0, len(kept.rows)
    while at < n:
        end = n
        if n - at > ROWS:
            end = int(first[np.searchsorted(first, at + ROWS, side="right") - 1])
            if end <= at:  # a cell of more
                after = np.searchsorted(first, at, side="right")
                end = int(first[after]) if after < len(first) else n
        part = due.take(pa.array(kept.rows[at:end]))
        cells = kept.cell[at:end] - kept.cell[at]
        yield pa.RecordBatch.from_arrays(
            [*part.columns, pa.array(cells), pa.array(kept.new[at:end])],
            names=[*part.schema.names, CELL, NEW],
        )
        at = end


def count(dropped: dict[str, int]) -> None:
    """Tells the operator which caps left no room for how many events."""
    for why, n in dropped.items():
        counters.add("duplicate" if why == "copies" else f"capped_{why}", n)

"""Dead letters: where a record was and why it was put aside. Never what it said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from transforms import tally

DEAD = "dead"
"""Tag of the output that carries dead letters."""

REASONS = (
    "malformed",
    "too_long",
    "missing_time",
    "before_start",
    "after_end",
    "late",
    "overdue",
    "unknown_key",
    "duplicate",
    "over_capacity",
)
"""Every reason a record can be put aside for. Codes are stable; positions in this tuple are not."""

WHOLE_FILE = -1
"""Position of a dead letter that stands for a file whose number of records cannot be known."""

DEAD_SCHEMA = pa.schema(
    [
        pa.field("source", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("reason", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    ]
)
"""Source: a path, or ``subscription#message id``. Position, in that file or message: line number
from 1 for text, row number from 0 for binary formats, -1 for the whole of it."""

SOURCE = "@source"
"""Column of events that come from many messages: what dead letters name as their source."""


def reason_code(reason: str) -> int:
    """Index of a reason in ``REASONS``."""
    return REASONS.index(reason)


def dead_letters(
    source: str | pa.DictionaryArray,
    positions: NDArray[np.int64],
    reasons: str | NDArray[np.int8],
) -> pa.RecordBatch:
    """Builds a batch of DEAD_SCHEMA.

    Args:
      source: path or topic; or (n,) of them, int32 indices into texts.
      positions: (n,) int64.
      reasons: one reason for all, or (n,) indices into REASONS.
    """
    n = len(positions)
    if isinstance(source, str):
        zeros = pa.array(np.zeros(n, dtype=np.int32))
        source = pa.DictionaryArray.from_arrays(zeros, pa.array([source], pa.string()))
    if isinstance(reasons, str):
        reasons = np.full(n, reason_code(reasons), dtype=np.int8)
    return pa.RecordBatch.from_arrays(
        [
            source,
            pa.array(np.ascontiguousarray(positions, dtype=np.int64)),
            pa.DictionaryArray.from_arrays(
                pa.array(reasons.astype(np.int32)), pa.array(REASONS, pa.string())
            ),
        ],
        schema=DEAD_SCHEMA,
    )


def count_by_reason(batch: pa.RecordBatch) -> dict[str, int]:
    """How many dead letters of each reason a batch holds; only reasons that occur."""
    column = batch.column("reason")
    names = column.dictionary.to_pylist()
    counts = np.bincount(column.indices.to_numpy(zero_copy_only=False), minlength=len(names))
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}


def tally_dead(batch: pa.RecordBatch) -> None:
    """Counts a batch of dead letters under their reasons, for the operator."""
    for reason, count in count_by_reason(batch).items():
        tally.add(reason, count)


def rows(batch: pa.RecordBatch) -> Iterator[tuple[str, int, str]]:
    """A batch as (source, position, reason), for tests and small listings."""
    columns: Sequence[Any] = [column.to_pylist() for column in batch.columns]
    return zip(*columns, strict=True)

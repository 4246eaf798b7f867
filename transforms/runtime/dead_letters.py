"""Dead letters: where a record was, and why it, or which of its fields, was refused.

Never what it said. A letter with one of ``reasons.VALUES`` is of a value that counts as missing:
its record is not rejected. All others are of records that are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.transforms.runtime import counters
from weir.transforms.runtime.reasons import REASONS, counter_of

DEAD = "dead"
"""Tag of the output that carries dead letters."""

Reject = Callable[[pa.RecordBatch], None]
"""What a step hands its dead letters to."""

WHOLE_FILE = -1
"""Position of a dead letter that stands for a file whose number of records cannot be known."""

DEAD_SCHEMA = pa.schema(
    [
        pa.field("source", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("field", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("reason", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    ]
)
"""Source: a path, or ``subscription#message id``. Position, in that file or message: line number
from 1 for text, row number from 0 for binary formats, -1 for the whole of it. Field: the column as
the config spells it; "" where it is the whole record."""

SOURCE = "@source"
"""Column of events that come from many messages: what dead letters name as their source."""


def reason_code(reason: str) -> int:
    """Index of a reason in ``REASONS``."""
    return REASONS.index(reason)


def dead_letters(
    source: str | pa.DictionaryArray,
    positions: NDArray[np.int64],
    reasons: str | NDArray[np.int8],
    fields: str | pa.DictionaryArray = "",
) -> pa.RecordBatch:
    """Builds a batch of DEAD_SCHEMA.

    Args:
      source: path or topic; or (n,) of them, int32 indices into texts.
      positions: (n,) int64.
      reasons: one reason for all, or (n,) indices into REASONS.
      fields: one column's name for all, or (n,) of them; "" for the whole record.
    """
    n = len(positions)
    if isinstance(reasons, str):
        reasons = np.full(n, reason_code(reasons), dtype=np.int8)
    return pa.RecordBatch.from_arrays(
        [
            _repeated(source, n),
            pa.array(np.ascontiguousarray(positions, dtype=np.int64)),
            _repeated(fields, n),
            pa.DictionaryArray.from_arrays(
                pa.array(reasons.astype(np.int32)), pa.array(REASONS, pa.string())
            ),
        ],
        schema=DEAD_SCHEMA,
    )


def _repeated(text: str | pa.DictionaryArray, n: int) -> pa.DictionaryArray:
    if not isinstance(text, str):
        return text
    zeros = pa.array(np.zeros(n, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(zeros, pa.array([text], pa.string()))


def count_by_field(batch: pa.RecordBatch) -> dict[tuple[str, str], int]:
    """How many dead letters of each (field, reason) a batch holds; only those that occur."""
    fields, reasons = batch.column("field"), batch.column("reason")
    names, why = fields.dictionary.to_pylist(), reasons.dictionary.to_pylist()
    pairs = fields.indices.to_numpy().astype(np.int64) * len(why) + reasons.indices.to_numpy()
    results: dict[tuple[str, str], int] = {}
    for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
        name = names[pair // len(why)], why[pair % len(why)]
        results[name] = results.get(name, 0) + int(count)
    return results


def count_dead(batch: pa.RecordBatch) -> None:
    """Counts a batch of dead letters for the operator: under their reasons, and those by field."""
    for (field, reason), count in count_by_field(batch).items():
        counters.add(reason, count)
        if field:
            counters.add(counter_of(field, reason), count)


def rows(batch: pa.RecordBatch) -> Iterator[tuple[str, int, str, str]]:
    """A batch as (source, position, field, reason), for tests and small listings."""
    columns: Sequence[Any] = [column.to_pylist() for column in batch.columns]
    return zip(*columns, strict=True)

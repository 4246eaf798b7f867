"""Decoded batches: counted as they are passed on, and joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from weir.transforms.decode.canonical import Decoded
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import Reject, count_by_field, count_dead
from weir.transforms.runtime.reasons import MISSING, VALUES, counter_of

_SPOILT = frozenset(VALUES) - {"not_a_time"}


def counted(decoded: Iterable[Decoded], reject: Reject) -> Iterator[pa.RecordBatch]:
    """Batches of events of what was decoded; counts events, missing values and dead letters.

    Args:
      reject: takes the dead letters.
    """
    missing: Counter[str] = Counter()
    for events, dead, absent in decoded:
        if events is not None:
            missing.update(_absent(events, absent))
        if dead is not None:
            for (field, reason), count in count_by_field(dead).items():
                missing[field] -= count if reason in _SPOILT else 0
            count_dead(dead)
            reject(dead)
        if events is not None:
            counters.add("events", events.num_rows)
            yield events
    for field, count in missing.items():
        counters.add(counter_of(field, MISSING), max(0, count))


def _absent(events: pa.RecordBatch, known: Mapping[str, int]) -> dict[str, int]:
    """How many values each column of the user's lacks, those that could not be read included."""
    return {
        name: known[name] if name in known else _count_of_missing(events.column(name))
        for name in events.schema.names
        if not name.startswith("@")
    }


def _count_of_missing(column: pa.Array) -> int:
    return int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py())


def concatenate(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Small batches of one source -> one; their dictionaries of keys are made one first.

    Args:
      batches: one or more, of the same columns.
    """
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
    result = table.to_batches()
    return result[0] if result else batches[0].slice(0, 0)

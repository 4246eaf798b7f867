"""One event may change what is counted by itself, and by no more: duplicates included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from transforms.deduplicate import HIGH, LOW, NOTHING, remember

IDS = np.arange(1, 21, dtype=np.uint64)


def batch(ids: np.ndarray, ticks: np.ndarray) -> pa.RecordBatch:
    columns = {HIGH: ids, LOW: np.zeros_like(ids), "@tick": ticks, "@position": np.arange(len(ids))}
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns.values()], list(columns))


def counted(horizon: int | None, newcomer: bool) -> int:
    """Twenty events at tick 1, perhaps one at tick 90, and then the twenty delivered once more."""
    first = batch(IDS, np.ones(len(IDS), dtype=np.int64))
    between = batch(np.array([99], dtype=np.uint64), np.array([90], dtype=np.int64))
    known, total = NOTHING, 0
    for events in (first, *([between] if newcomer else []), first):
        fresh, known = remember(events, known, horizon)
        total += int(fresh.sum())
    return total


def test_without_a_horizon_one_event_counts_once() -> None:
    assert counted(None, True) - counted(None, False) == 1


@pytest.mark.xfail(
    strict=True,
    reason="with deduplicate.horizon, the newest event's time decides what is forgotten: one event "
    "far ahead makes every later copy of other events count again",
)
def test_with_a_horizon_one_event_counts_once() -> None:
    assert counted(7, True) - counted(7, False) == 1

"""One event may change what is counted by itself, and by no more: duplicates included."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from transforms.seen_ids import HIGH, LOW, NOTHING, forget, remember

IDS = np.arange(1, 21, dtype=np.uint64)


def batch(ids: np.ndarray, ticks: np.ndarray) -> pa.RecordBatch:
    columns = {HIGH: ids, LOW: np.zeros_like(ids), "@tick": ticks, "@position": np.arange(len(ids))}
    return pa.RecordBatch.from_arrays([pa.array(c) for c in columns.values()], list(columns))


def counted(horizon: int | None, newcomer: bool, clock: int = 5) -> int:
    """Twenty events at tick 1, perhaps one at tick 90, and then the twenty delivered once more.

    ``clock``: tick that the public clock has reached; no event's time moves it.
    """
    first = batch(IDS, np.ones(len(IDS), dtype=np.int64))
    between = batch(np.array([99], dtype=np.uint64), np.array([90], dtype=np.int64))
    known, total = NOTHING, 0
    for events in (first, *([between] if newcomer else []), first):
        fresh, known = remember(events, known, with_ticks=horizon is not None)
        total += int(fresh.sum())
        if horizon is not None:
            known = forget(known, clock - horizon)
    return total


def test_one_event_counts_once_whatever_the_horizon() -> None:
    assert counted(None, True) - counted(None, False) == 1
    assert counted(7, True) - counted(7, False) == 1


def test_behind_the_public_clock_a_copy_counts_again() -> None:
    """Which is why what comes behind a released tick is overdue and never counted."""
    assert counted(7, False, clock=9) == 2 * len(IDS)

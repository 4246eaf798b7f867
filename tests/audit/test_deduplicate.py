"""One event may change what is counted by itself, and by no more: duplicates included."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.shards import Shards, batch_of
from weir.dpcore.leaves.hash_sets import TimedSet
from weir.transforms.columns.names import HIGH, LOW
from weir.transforms.operators.seen_ids import look, remember

IDS = range(1, 21)


def counted(horizon: int | None, newcomer: bool, clock: int = 5) -> int:
    """Twenty events at tick 1, perhaps one at tick 90, and then the twenty delivered once more.

    ``clock``: tick that the public clock has reached; no event's time moves it.
    """
    first = [(name, 1) for name in IDS]
    world, total = Shards(1, horizon), 0
    for events in (first, *([[(99, 90)]] if newcomer else []), first):
        total += len(world.bundle(events))
        world.advance(clock)
    return total


def test_one_event_counts_once_whatever_the_horizon() -> None:
    assert counted(None, True) - counted(None, False) == 1
    assert counted(7, True) - counted(7, False) == 1


def test_behind_the_public_clock_a_copy_counts_again() -> None:
    """Which is why what comes behind a released tick is overdue and never counted."""
    assert counted(7, False, clock=8) == len(IDS)
    assert counted(7, False, clock=9) == 2 * len(IDS)


HORIZON = 8


def worlds(newcomer: bool, second: int) -> list[int]:
    """Ticks at which an id counts that is delivered at tick 4 and at tick ``second``.

    A shard forgets when its timers fire; a newcomer at tick 3, if there is one, sets one of its own
    before that of the id.
    """
    events = [(4, 7), (second, 7)]
    if newcomer:
        events.insert(0, (3, 9))
    world, counts = Shards(1, HORIZON), []
    for clock, name in events:
        world.advance(clock)
        if world.bundle([(name, clock)]) and name == 7:
            counts.append(clock)
    return counts


@pytest.mark.parametrize("second", range(4, 20))
def test_a_copy_counts_again_whatever_else_the_shard_holds(second: int) -> None:
    """Neither when ids are dropped nor what counts depends on the events next to them."""
    assert worlds(True, second) == worlds(False, second)
    assert worlds(False, second) == ([4] if second <= 4 + HORIZON else [4, second])


def test_a_horizon_counts_copies_that_are_further_apart_in_any_batches() -> None:
    """Brute force: of one id's records, those that count are more than a horizon apart."""
    for ticks in itertools.permutations((0, 3, 8, 9, 17, 18)):
        for cut in range(len(ticks)):
            known, counts = TimedSet(), []
            for part in (ticks[:cut], ticks[cut:]):
                if part:
                    one = batch_of([(7, tick) for tick in part])
                    fresh, new = remember(look(one), known, HORIZON)
                    known = known.add(new)
                    counts += one.column("@tick").to_numpy()[fresh].tolist()
            assert counts == sorted(counts)
            assert all(b - a > HORIZON for a, b in itertools.pairwise(counts))


CELLS = [(2, "south"), (1, "south"), (3, "north"), (1, "north")]
VALUES = [-1.0, 0.0, 5.0, float("nan")]


def cell_of(copies: list[tuple[tuple[int, str], float]], cuts: tuple[int, ...]) -> tuple[int, str]:
    """The cell in which copies of one id count that come in this order, cut into batches."""
    known, found = TimedSet(), []
    for start, stop in itertools.pairwise((0, *cuts, len(copies))):
        part = copies[start:stop]
        columns = {
            HIGH: pa.array(np.full(len(part), 7, dtype=np.uint64)),
            LOW: pa.array(np.zeros(len(part), dtype=np.uint64)),
            "@key": pa.array([cell[1] for cell, _ in part]).dictionary_encode(),
            "amount": pa.array([value for _, value in part]),
            "@tick": pa.array([cell[0] for cell, _ in part], pa.int64()),
            "@position": pa.array(np.arange(start, stop)),
        }
        one = pa.RecordBatch.from_pydict(columns)
        fresh, new = remember(look(one), known, None)
        known = known.add(new)
        found += [cell for (cell, _), kept in zip(part, fresh, strict=True) if kept]
    assert len(found) == 1
    return found[0]


def test_under_replace_one_no_content_moves_the_cell_in_which_copies_of_one_batch_count() -> None:
    """Every order of the copies, every content of every copy: the first cell counts."""
    for order in itertools.permutations(range(len(CELLS))):
        for values in itertools.product(VALUES, repeat=len(CELLS)):
            copies = [(CELLS[place], values[place]) for place in order]
            assert cell_of(copies, ()) == (1, "north")


def test_under_replace_one_no_content_moves_the_cell_of_batches_that_stay() -> None:
    """Cut the same way, copies of several cells count in the same one; of one cell, in that one
    however they are cut: which is what the statement compares."""
    for order in itertools.permutations(range(len(CELLS))):
        for cuts in ((1,), (2,), (1, 3)):
            cells = [CELLS[place] for place in order]
            found = {
                cell_of(list(zip(cells, values, strict=True)), cuts)
                for values in itertools.product(VALUES[:3], repeat=len(CELLS))
            }
            assert len(found) == 1
    one_cell = [(CELLS[0], value) for value in VALUES]
    for cuts in ((), (1,), (2,), (3,), (1, 2), (1, 2, 3)):
        assert cell_of(one_cell, cuts) == CELLS[0]

"""Ids in slices: the same fate in any shards, bundles and orders, through crashes; at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.shards import CLOCK, Alone, Event, Shard, Shards, hashes_of
from weir.dpcore.errors import CodecError
from weir.dpcore.leaves.hash_sets import entries
from weir.transforms.operators import state_cache as shelf
from weir.transforms.operators import timed_cells
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.timed_cells import RING, Held, TimedCells, slices_of, sums_of

STORED = Path(__file__).parent / "stored"
HORIZON = 8
Bundle = tuple[int, Sequence[Event]]
"""(tick that the clock has reached, events)."""


def history(seed: int, bundles: int = 20) -> list[Bundle]:
    """Copies near and far, in the past and ahead, of few ids, while the clock goes on."""
    rng = np.random.default_rng(seed)
    found: list[Bundle] = []
    clock = 0
    for _ in range(bundles):
        clock += int(rng.choice([0, 0, 1, 3, 11]))
        n = int(rng.integers(1, 12))
        ticks = np.maximum(clock + rng.integers(-12, 13, n), 0)
        ticks[rng.random(n) < 0.05] += 500  # clocks of devices may be wrong
        names = rng.integers(0, 25, n).tolist()
        found.append((clock, list(zip(names, ticks.tolist(), strict=True))))
    return found


def fates(world: Any, bundles: Sequence[Bundle]) -> list[Event]:
    """(bundle, id) of all that counts."""
    counted = []
    for number, (clock, events) in enumerate(bundles):
        world.advance(clock)
        counted += [(number, events[place][0]) for place in world.bundle(events)]
    return sorted(counted)


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [None, 1, HORIZON])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shards, tail", [(1, 1), (3, 4), (64, 512)])
def test_each_id_fares_as_it_would_alone(
    shards: int, tail: int, seed: int, horizon: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is next to it in its shard, and when that came and went: overdue copies too."""
    monkeypatch.setattr(timed_cells, "TAIL", tail)
    bundles = history(seed)
    expected = fates(Alone(horizon), bundles)
    assert fates(Shards(shards, horizon), bundles) == expected
    assert horizon is None or any(number > 12 for number, _ in expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_order_within_a_bundle_and_no_neighbour_changes_a_fate(seed: int) -> None:
    bundles = history(seed)
    rng = np.random.default_rng(seed)
    mixed = [
        (clock, [events[i] for i in rng.permutation(len(events))]) for clock, events in bundles
    ]
    expected = fates(Shards(2, HORIZON), bundles)
    assert fates(Shards(2, HORIZON), mixed) == expected
    for gone in range(3):
        fewer = [(clock, [e for e in events if e[0] != gone]) for clock, events in bundles]
        left = Shards(2, HORIZON)
        counted = []
        for number, (clock, events) in enumerate(fewer):
            left.advance(clock)
            counted += [(number, events[p][0]) for p in (left.bundle(events) if events else ())]
        assert sorted(counted) == [fate for fate in expected if fate[1] != gone]


@pytest.mark.slow
@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_kills_and_repeats_change_nothing(
    seed: int, same_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that is given up may have held anything; memory is then ahead of the state."""
    monkeypatch.setattr(timed_cells, "TAIL", 6)
    bundles = history(seed)
    expected = fates(Alone(HORIZON), bundles)
    world, counted = Shards(2, HORIZON), []
    rng = np.random.default_rng(seed)
    for number, (clock, events) in enumerate(bundles):
        kept = world.checkpoint()
        for _ in range(int(rng.integers(0, 3))):
            world.advance(clock)
            world.bundle([events[i] for i in rng.permutation(len(events))[: 1 + number % 4]])
            world.restore(kept, same_process)
        world.advance(clock)
        counted += [(number, events[place][0]) for place in world.bundle(events)]
    assert sorted(counted) == expected


def fill(world: Shards, ids: int, bundles: int, first: int = 0) -> int:
    """Bundles of new ids, four ticks each; bytes that they moved."""
    before = world.moved
    for number in range(bundles):
        start = first + number * ids
        events = [(start + i, (first // ids + number) // 4) for i in range(ids)]
        assert len(world.bundle(events)) == ids
    return world.moved - before


@pytest.mark.slow
def test_a_bundle_moves_what_it_adds_however_much_is_remembered() -> None:
    world = Shards(2, horizon=4000)
    early = fill(world, 50, 100)
    fill(world, 20_000, 12, first=5_000)
    late = fill(world, 50, 100, first=245_000)
    assert late == pytest.approx(early, rel=0.05)
    assert all(bag.readings == 0 for bag in world.bags())
    segments = sum(len(bag.values) for bag in world.bags())
    assert segments < 2 * 12 + 2 * 200 * 50 / timed_cells.TAIL + 4 * RING
    stored = sum(len(data) for bag in world.bags() for data in bag.values)
    assert stored / 250_000 < 19  # 16 of the hash, 2 of the tick in its slice


def test_slices_are_dropped_whole_when_their_time_has_come_and_not_before() -> None:
    world = Shards(1, HORIZON)
    for tick in range(8):
        world.bundle([(1000 * tick + i, tick) for i in range(600)])
    (shard,) = world.stored.values()
    held = [len(bag.values) for bag in shard.ring]
    assert held[:4] == [2, 2, 2, 2] and set(shard.timers) == {"0", "1", "2", "3"}
    world.advance(2 + HORIZON - 1)
    assert [len(bag.values) for bag in shard.ring] == held
    world.advance(2 + HORIZON)
    assert [len(bag.values) for bag in shard.ring] == [0, *held[1:]]
    assert all(bag.readings == 0 for bag in shard.ring)
    world.advance(8 + HORIZON)
    assert not any(bag.values for bag in shard.ring) and not shard.timers
    assert shard.head.value is None and len(world.dofn._shelf or ()) == 0


def test_a_slice_far_ahead_shares_a_bag_and_stays_when_the_other_goes() -> None:
    world = Shards(1, HORIZON)
    ahead = 2 * RING * 3
    world.bundle([(i, 0) for i in range(600)] + [(1000 + i, ahead) for i in range(600)])
    (shard,) = world.stored.values()
    assert [len(bag.values) for bag in shard.ring] == [2, 0, 0, 0, 0, 0, 0, 0]
    world.advance(2 + HORIZON)
    assert len(shard.ring[0].values) == 1
    world.restore(world.checkpoint(), same_process=False)
    assert world.bundle([(1000, ahead), (3, ahead)]) == [1]


def test_what_is_read_again_is_held_against_the_head() -> None:
    world = Shards(1, HORIZON)
    world.bundle([(i, i % 4) for i in range(1500)])
    kept = world.checkpoint()
    (shard,) = kept.values()
    for bag in shard.ring[:2]:
        (data,) = bag.values
        at = len(data) // 2
        for wrong in ([], [data, data], [data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]]):
            bag.values = wrong
            world.restore(kept, same_process=False)
            with pytest.raises(CodecError, match="damaged"):
                world.bundle([(1, 1)])
        bag.values = [data]
    shard.ring[3].values = [data]
    world.restore(kept, same_process=False)
    assert world.bundle([(1, 1)]) == []


def test_other_shards_and_another_kind_of_horizon_are_refused_by_name() -> None:
    world, forever = Shards(1, HORIZON), Shards(1, None)
    for one in (world, forever):
        one.bundle([(1, 1)])
    kept = world.checkpoint()
    for shards, horizon, stored, words in (
        (2, HORIZON, kept, "1 shards, this job has 2.*deduplicate.shards: 1"),
        (1, None, kept, "with which it was begun"),
        (1, HORIZON, forever.checkpoint(), "without deduplicate.horizon"),
    ):
        other = Shards(shards, horizon)
        other.restore({0: stored[0], 1: stored[0]}, same_process=False)
        with pytest.raises(CodecError, match=words):
            other.bundle([(1, 1), (2, 1)])
    longer = Shards(1, 3 * HORIZON)
    longer.restore(kept, same_process=False)
    assert longer.bundle([(1, 1 + 3 * HORIZON), (2, 1)]) == [1]


def test_a_sum_of_entries_knows_no_order_and_no_pieces_but_ticks_and_notes() -> None:
    high, low = hashes_of(range(40)).T
    ticks, notes = np.arange(40), np.ones((40, 2), dtype=np.uint32)
    whole = entries(high, low, ticks, notes)
    parts = [whole.take(np.arange(i, 40, 3)[::-1]) for i in range(3)]
    np.testing.assert_array_equal(sums_of(whole), sum(map(sums_of, parts)))
    seen = {tuple(sums_of(whole).tolist())}
    for column in range(2, 4):
        changed = [array.copy() for array in whole]
        changed[column][7] += 1
        seen.add(tuple(sums_of(entries(*changed)).tolist()))
    assert len(seen) == 3


def test_it_keeps_what_users_have_spent_and_forgets_a_period_at_its_end() -> None:
    """As the caps of users will: at the close of a tick a user is noted with (used, cells)."""
    period, shard, shelf = 6, Shard(), StateCache[Held]()
    rng = np.random.default_rng(1)
    spent: dict[int, tuple[int, int, int]] = {}
    for tick in range(20):
        if tick % period == 0:
            spent = {}
        users = np.unique(rng.integers(0, 12, 5))
        words = hashes_of(users)
        order = np.argsort(words[:, 0])
        words, users = words[order], users[order]
        cells = TimedCells(0, 1, period, bytes(32), shard.head, shard.ring, shelf, 2)
        found = cells.known.find(words[:, 0], words[:, 1])
        for i, user in enumerate(users.tolist()):
            assert (user in spent) == found.there[i]
            assert spent.get(user, (0, 0, 0)) == (found.ticks[i], *found.notes[i].tolist())
        notes = found.notes + np.array([1, 3], dtype=np.uint32)
        cells.add(entries(words[:, 0], words[:, 1], np.full(len(users), tick), notes))
        for user, noted in zip(users.tolist(), notes.tolist(), strict=True):
            spent[user] = (tick, *noted)
        if tick % period == period - 1:
            cells.drop(tick + 1, 0)
            assert shard.head.value is None
        if tick % 4 == 1:
            shelf = StateCache()


def test_slices_have_the_numbers_of_the_clock() -> None:
    assert slices_of(np.array([0, 1, 2, 9]), 2).tolist() == [0, 0, 1, 4]
    assert slices_of(np.zeros(2, dtype=np.uint8), 0).tolist() == [0, 0]
    assert CLOCK.tick_of(np.array([CLOCK.start])).tolist() == [0]


def test_a_shelf_lets_go_of_what_nobody_asks_for_and_of_itself() -> None:
    now = [0.0]
    one: StateCache[int] = StateCache(lambda: now[0])
    one.put(1, b"a", 11)
    one.put(3, b"c", 33)
    assert one.get(1, b"a") == 11 and one.get(1, b"b") is None and one.get(2, b"a") is None
    for seconds in (shelf.IDLE / 2, shelf.IDLE + 1, 2 * shelf.IDLE + 3):
        now[0] = seconds
        assert one.get(3, b"c") == 33
        one.put(2, b"b", 22)
    assert one.get(1, b"a") is None and one.get(2, b"b") == 22 and len(one) == 2
    held = StateCache.of("a run")
    assert StateCache.of("a run") is held and "a run" in shelf._SHELVES
    del held
    assert "a run" not in shelf._SHELVES

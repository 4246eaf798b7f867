"""Events that come again behind their tick are copies where the shard has had them: not overdue."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.dpcore.users.cap_rule import Case, Event, case_of, vectorised
from tests.transforms.user_shards import UserShards, without_ids
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.users.unit import ContributionBounds
from weir.transforms.beam import bound_users as cap
from weir.transforms.operators.closed_rows import width_of
from weir.transforms.runtime import counters
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

S = 1_000_000


def with_ids(case: Case) -> Case:
    """Every event has an id, its user's and its own."""
    return case._replace(events=[e._replace(id=f"{e.user}-{e.id}") for e in case.events])


def told() -> dict[str, int]:
    """How many events were left out as copies, and as overdue."""
    found = counters.snapshot()
    return {name: found.get(name, 0) for name in ("duplicate", "overdue")}


@pytest.mark.slow
@pytest.mark.parametrize("prune", [1, 1 << 14])
def test_what_a_crash_repeats_is_never_overdue_and_changes_no_release(
    prune: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever caps left of an event, wherever it waited, in whatever bundles it comes again."""
    monkeypatch.setattr(cap, "PRUNE", prune)
    for seed in range(40):
        case, draw = with_ids(case_of(seed)), random.Random(seed)
        shards, end = UserShards(case, draw.randint(1, 3)), max(e.tick for e in case.events) + 1
        for now in range(end):
            shards.bundle([event for event in case.events if event.tick == now])
            shards.announce(now)
            shards.advance(now + 1)
            shards.restart(same_process=draw.random() < 0.5)
            sent = [e for e in case.events if e.tick <= now]
            again = draw.sample(sent, min(len(sent), 20))
            shards.bundle(again[: len(again) // 2])
            shards.bundle(again[len(again) // 2 :])
        assert shards.found == without_ids(vectorised(case, case.events))
        assert not shards.overdue


CASE = Case([], ContributionBounds(ticks=2, keys=1, events=2), 4, 7)
ANN = Event("ann", 0, "k", "1", 1.0)


@pytest.mark.parametrize(
    "other",
    [
        ANN._replace(id="2"),
        ANN._replace(user="eve"),
        ANN._replace(tick=1),
        ANN._replace(key="l"),
        ANN._replace(id=None),
    ],
)
def test_what_differs_in_user_tick_key_or_id_is_no_copy(other: Event) -> None:
    shards = UserShards(CASE, 1)
    shards.bundle([ANN, ANN._replace(id=None)])
    for tick in (0, 1):
        shards.announce(tick)
        shards.advance(tick + 1)
    counters.reset()
    shards.bundle([ANN, other, ANN._replace(payload=9.0)])
    assert shards.overdue == [1] and told() == {"duplicate": 2, "overdue": 1}


def test_an_overdue_event_is_listed_once() -> None:
    shards = UserShards(CASE, 1)
    shards.announce(0)
    shards.advance(1)
    counters.reset()
    for _ in range(3):
        shards.bundle([ANN])
        shards.restart(same_process=False)
    assert shards.overdue == [0] and told() == {"duplicate": 2, "overdue": 1}


@pytest.mark.slow
def test_events_are_remembered_for_their_time_and_then_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shard keeps the events of at most two turns of ticks, anyone who comes."""
    shards = UserShards(CASE, 1)
    shards.dofn._width = 3
    (shard,) = shards.stored.values()
    sizes = []
    for tick in range(30):
        shards.bundle([Event(f"u{tick}-{i}", tick, "k", f"{i}", 0.0) for i in range(10)])
        shards.announce(tick)
        shards.advance(tick + 1)
        sizes.append(sum(len(bag.values) for bag in shard.gone))
        if tick >= 3:
            old = Event(f"u{tick - 2}-0", tick - 2, "k", "0", 0.0)
            shards.bundle([old])
            assert not shards.overdue, "of the last three ticks all are known"
    assert max(sizes) <= 6 and min(sizes[6:]) >= 3
    shards.bundle([Event("u9-0", 9, "k", "0", 0.0)])
    assert shards.overdue == [0]
    shards.announce(1_000)
    shards.advance(1_001)
    assert not any(bag.values for bag in shard.gone)


def test_ten_minutes_of_the_wall_are_remembered_and_one_tick_at_least() -> None:
    def ticks(period: int, stream: StreamTime = PRESENT) -> int:
        return width_of(Clock(0, period), stream)

    assert (ticks(S), ticks(60 * S), ticks(7 * S)) == (600, 10, 86)
    assert ticks(86_400 * S) == 1
    assert ticks(3_600 * S, StreamTime(0, 0, 3_600.0)) == 600


def test_files_remember_nothing() -> None:
    shards: Any = UserShards(CASE, 1, bounded=True)
    shards.announce(3)
    shards.bundle([ANN])
    shards.advance(4)
    assert not any(bag.values for shard in shards.stored.values() for bag in shard.gone)

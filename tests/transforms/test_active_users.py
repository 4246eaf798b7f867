"""Who was active in the last N ticks: through cells, timers and crashes, and in the pipeline."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.dpcore.users.cap_rule import Case, Cell, Event, case_of, vectorised
from tests.transforms.running import SECRET, Ran, cut, run, shuffled
from tests.transforms.test_cap import made
from tests.transforms.user_shards import LAYOUT, UserShards, without_ids
from weir.dpcore.accounting.guarantee import RuntimeAssumptions
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, simulate
from weir.dpcore.users.unit import ContributionBounds
from weir.transforms.operators.timed_cells import Head
from weir.transforms.runtime.secret import SecretRef


def gaps_of(cells: list[Cell], span: int) -> dict[Cell, int]:
    """By going back tick by tick."""
    there = set(cells)
    return {
        (user, tick, key): next(
            (back for back in range(1, span + 1) if (user, tick - back, key) in there), 0
        )
        for user, tick, key in cells
    }


def streamed(case: Case, span: int, draw: random.Random) -> UserShards:
    """The case tick by tick, with crashes, in this process or another one, and ticks that close
    together."""
    shards = UserShards(case, draw.randint(1, 3), gaps=span)
    end = max(event.tick for event in case.events) + 1
    for tick in range(end):
        shards.bundle([event for event in case.events if event.tick == tick])
        shards.announce(tick)
        if draw.random() < 0.3:
            shards.restart(same_process=draw.random() < 0.5)
        if draw.random() < 0.8 or tick + 1 == end:
            shards.advance(tick + 1)
    return shards


@pytest.mark.slow
def test_a_stream_with_crashes_knows_how_long_ago_users_came() -> None:
    gaps: list[int] = []
    for seed in range(40):
        case, draw = case_of(seed), random.Random(seed)
        span = draw.choice([1, 2, 3, 5, 40])
        shards = streamed(case, span, draw)
        assert shards.found == without_ids(vectorised(case, case.events))
        assert shards.gaps == gaps_of(list(shards.found), span)
        gaps += shards.gaps.values()
    assert {0, 1, 2, 3} <= set(gaps) and gaps.count(0) < len(gaps)


def test_files_that_are_closed_together_have_the_same_gaps() -> None:
    for seed in range(8):
        case = case_of(seed)
        shards = UserShards(case, 2, bounded=True, gaps=5)
        shards.announce(max(event.tick for event in case.events))
        shards.bundle(case.events)
        shards.advance(max(event.tick for event in case.events) + 1)
        assert shards.gaps == gaps_of(list(shards.found), 5)


EVERY = ContributionBounds(ticks=4, keys=2, events=1)


def ticks_of(*events: tuple[str, int], key: str = "k") -> list[Event]:
    return [Event(user, tick, key, None, 1.0) for user, tick in events]


def closed(shards: UserShards, events: list[Event], tick: int) -> None:
    shards.bundle(events)
    shards.announce(tick)
    shards.advance(tick + 1)


def test_who_came_before_a_period_ends_is_active_behind_it_and_bounds_begin_again() -> None:
    case = Case([], ContributionBounds(ticks=1, keys=1, events=1), 4, 7)
    shards = UserShards(case, 1, gaps=6)
    for tick in range(8):
        closed(shards, ticks_of(("ann", tick)) if tick in (3, 4, 5) else [], tick)
        if tick == 3:
            (shard,) = shards.stored.values()
            assert shard.is_clear and shard.seen.values
    assert shards.gaps == {("ann", 3, "k"): 0, ("ann", 4, "k"): 1}, "tick 5 is beyond the bound"


def test_keys_are_apart_and_a_capped_tick_refreshes_nobody() -> None:
    case = Case([], ContributionBounds(ticks=2, keys=2, events=1), 8, 7)
    shards = UserShards(case, 1, gaps=7)
    closed(shards, ticks_of(("ann", 0)), 0)
    closed(shards, ticks_of(("ann", 1)) + ticks_of(("ann", 1), key="other"), 1)
    closed(shards, ticks_of(("ann", 4)), 4)
    for tick in range(5, 9):
        closed(shards, ticks_of(("ann", tick)) if tick == 8 else [], tick)
    first = {("ann", 0, "k"): 0, ("ann", 1, "k"): 1, ("ann", 1, "other"): 0}
    assert shards.gaps == {**first, ("ann", 8, "k"): 7}, "since tick 1: tick 4 did not count"


def test_what_comes_behind_its_tick_refreshes_nobody_and_copies_count_once() -> None:
    case = Case([], EVERY, 4, 7)
    shards = UserShards(case, 1, gaps=3)
    closed(shards, ticks_of(("ann", 0), ("ann", 0)), 0)
    closed(shards, [], 1)
    shards.bundle([Event("ann", 1, "k", None, 2.0)])
    closed(shards, ticks_of(("ann", 2)), 2)
    assert len(shards.overdue) == 1
    assert shards.gaps == {("ann", 0, "k"): 0, ("ann", 2, "k"): 2}


def remembered(shards: UserShards) -> int:
    (shard,) = shards.stored.values()
    stored = shard.seen.read()
    return 0 if stored is None else int(Head.decode(stored, bytes.fromhex(LAYOUT)).sizes.sum())


def test_who_is_no_longer_active_is_forgotten_and_of_others_twenty_bytes_stay() -> None:
    shards, span = UserShards(Case([], EVERY, 4, 7), 1, gaps=8), 8
    crowd = [(f"u{i}", 0) for i in range(3000)]
    closed(shards, ticks_of(*crowd), 0)
    (shard,) = shards.stored.values()
    stored = len(shard.seen.read() or b"") + sum(map(len, shard.seen_log.values))
    assert 20 * 3000 <= stored < 20 * 3000 + 2000
    left = []
    for tick in range(1, 14):
        closed(shards, ticks_of(("ann", tick)), tick)
        left.append(remembered(shards))
    forgotten = next(tick for tick, n in enumerate(left, 1) if n < 3000)
    assert span <= forgotten + 1 <= span + span // 4 + 1
    assert left[-1] <= span + span // 4, "each tick of ann once, but for those that were forgotten"
    shards.restart(same_process=False)
    closed(shards, ticks_of(("u1", 14), ("ann", 14)), 14)
    assert (shards.gaps["u1", 14, "k"], shards.gaps["ann", 14, "k"]) == (0, 1)


def test_silence_forgets_too() -> None:
    shards = UserShards(Case([], EVERY, 4, 7), 1, gaps=4)
    closed(shards, ticks_of(("ann", 0)), 0)
    for tick in range(1, 7):
        closed(shards, [], tick)
    (shard,) = shards.stored.values()
    assert not shard.seen.values and not shard.seen_log.values


CONFIG = """
name: active
schema: {{time: t, unit: w, id: i}}
key: {{column: k, declared: [a, b, c]}}
clock: {{start: {start}, period: 1m, end: {end}}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: all, unit: user, per: 10m,
          contributions: {{keys: 2, events: 1, {more}}}}}
aggregates: {{active: {{count: users, over: {over}}} {rest}}}
"""


def plan_of(over: str = "[3, 12]", more: str = "ticks: 3", rest: str = "") -> Plan:
    start, end = ("2024-01-01T00:00:00Z", "2024-01-01T00:40:00Z")
    plan = Plan.from_yaml(CONFIG.format(start=start, end=end, over=over, more=more, rest=rest))
    return replace(plan, circumstances=RuntimeAssumptions(id_shards=3))


def simulated(plan: Plan, batch: pa.RecordBatch, **more: Any) -> dict[tuple[Any, ...], float]:
    columns = {name: batch.column(name).to_pylist() for name in ("@key", "@id", "@unit")}
    result = simulate(
        plan,
        Events(
            batch.column("@time").view(pa.int64()).to_numpy(),
            columns["@key"],
            {},
            columns["@id"],
            columns["@unit"],
        ),
        SECRET,
        **more,
    )
    return {
        (item.first_tick + i, item.key, out.name, out.over): float(value)
        for item in result
        for out in item.released
        for i, value in enumerate(out.value[:, 0, 0])
    }


def released(ran: Ran) -> dict[tuple[Any, ...], float]:
    return {
        (row["tick"], row["key"], row["name"], row["over"]): row["value"][0] for row in ran.rows
    }


@pytest.mark.slow
def test_both_engines_release_what_simulate_does_in_any_cut_and_order(secret: SecretRef) -> None:
    plan, batch = plan_of(rest=", n: {count: events}, who: {count: users}"), made(1500)
    expected = simulated(plan, batch)
    assert {over for *_, over in expected} == {None, 1, 3, 12}
    assert expected == simulated(plan, batch, stride=7)
    assert released(run(plan, cut(shuffled(batch), 3), secret=secret)) == expected


@pytest.mark.slow
def test_a_stream_whose_ticks_close_one_by_one_releases_the_same(secret: SecretRef) -> None:
    plan, batch = plan_of(), made(300)
    ran = run(plan, cut(shuffled(batch), 3), secret=secret, bounded=False)
    assert released(ran) == simulated(plan, batch)
    assert {reason for *_, reason in ran.dead} == {"no_user"}

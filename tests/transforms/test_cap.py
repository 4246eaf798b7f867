"""Cap: the pure rule through cells, timers and crashes, and in the pipeline."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import registry
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue

from tests.dpcore.users.cap_rule import CLOCK, Case, Event, case_of, vectorised
from tests.transforms import user_shards
from tests.transforms.cells import Bag, Cell
from tests.transforms.doubles import MINUTE, START, FakeConfig, FakePlan, FakeSchema, Silent, events
from tests.transforms.running import KEPT, SECRET, Ran, cut, keep, run, shuffled
from tests.transforms.user_shards import UserShards, without_ids
from weir.dpcore.accounting.guarantee import RuntimeAssumptions
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import CodecError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.simulate import simulate
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit
from weir.transforms.beam import bound_users as cap
from weir.transforms.beam import heartbeat
from weir.transforms.beam.bound_users import Cap
from weir.transforms.beam.elements import to_timestamp
from weir.transforms.beam.heartbeats import LEAD, Follow
from weir.transforms.operators import users as capped
from weir.transforms.operators.user_cells import Closed
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import rows
from weir.transforms.runtime.secret import SecretRef

TestStream.__test__ = False  # not a test of ours


def streamed(case: Case, seed: int, draw: random.Random) -> UserShards:
    """The case through shards: ticks are announced and closed as a clock would, with crashes."""
    shards = UserShards(case, draw.randint(1, 4))
    todo, end = list(case.events), max(e.tick for e in case.events) + 1
    draw.shuffle(todo)
    now = 0
    while now < end:
        come = [draw.random() < 0.4 or event.tick == now for event in todo]
        part = [event for event, here in zip(todo, come, strict=True) if here]
        todo = [event for event, here in zip(todo, come, strict=True) if not here]
        half = len(part) // 2
        shards.bundle(part[:half])
        shards.announce(now)
        shards.bundle(part[half:])
        if draw.random() < 0.3:
            shards.restart(same_process=draw.random() < 0.5)
        now += 1
        if draw.random() < 0.8 or now == end:
            shards.advance(now)
    return shards


@pytest.mark.slow
def test_a_stream_with_crashes_keeps_what_the_rule_keeps() -> None:
    for seed in range(60):
        case, draw = case_of(seed), random.Random(seed)
        shards = streamed(case, seed, draw)
        assert shards.found == without_ids(vectorised(case, case.events)) and not shards.overdue
        assert all(shard.timer.time is None for shard in shards.stored.values())


@pytest.mark.slow
def test_files_are_closed_together_at_the_end_of_the_clock() -> None:
    for seed in range(20):
        case = case_of(seed)
        shards = UserShards(case, 2, bounded=True)
        last = max(event.tick for event in case.events)
        shards.announce(last)
        for at in range(3):
            shards.bundle(case.events[at::3])
        timers = {shard.timer.time for shard in shards.stored.values()}
        assert timers == {to_timestamp(CLOCK.tick_start(last + 1))}
        shards.advance(last + 1)
        assert shards.found == without_ids(vectorised(case, case.events))
        assert all(shard.timer.time is None for shard in shards.stored.values())


CASE = Case([], ContributionBounds(ticks=2, keys=1, events=2), 4, 7)


def test_whether_an_event_is_overdue_is_up_to_the_clock_alone() -> None:
    """Anyone who else is in a shard, in this period or the last: how far it is stays the same."""
    found = []
    many = [Event(f"u{i}", tick, "k", None, 0.0) for i in range(9) for tick in range(5)]
    for crowd in ([], many):
        shards = UserShards(CASE, 1)
        shards.bundle(crowd)
        for tick in range(5):
            shards.announce(tick)
            shards.advance(tick + 1)
        shards.restart(same_process=False)
        shards.bundle([Event("ann", tick, "k", None, 1.0) for tick in (0, 3, 4, 5, 6)])
        found.append(shards.overdue)
        shards.announce(6)
        shards.advance(7)
        mine = {cell for cell in shards.found if cell[0] == "ann"}
        assert mine == {("ann", 5, "k"), ("ann", 6, "k")}
    assert found[0] == found[1] == [0, 1, 2]


def test_a_period_is_forgotten_when_its_last_tick_closes_and_not_before() -> None:
    shards = UserShards(CASE, 1)
    (shard,) = shards.stored.values()
    clear = []
    for tick in range(9):
        shards.bundle([Event("ann", tick, "k", None, 1.0)] if tick < 4 else [])
        shards.announce(tick)
        shards.advance(tick + 1)
        clear.append(shard.is_clear)
    assert clear == [False, False, False, True, True, True, True, True, True]
    assert {cell[1] for cell in shards.found} == {0, 1}  # not the last tick of the period too
    layout = bytes.fromhex(user_shards.LAYOUT)
    assert Closed.decode(shard.closed.read(), layout) == Closed(9, 8, 2)


def test_one_timer_stands_at_the_end_of_the_earliest_open_tick() -> None:
    for early in (0, 1000):
        shards = UserShards(CASE, 1, early=early)
        (shard,) = shards.stored.values()

        def due() -> int | None:
            time = shard.timer.time  # noqa: B023
            return None if time is None else (time.micros + early) // CLOCK.period  # noqa: B023

        shards.bundle([Event("ann", 2, "k", None, 1.0)])
        assert due() is None  # nothing is announced
        shards.announce(2)
        assert due() == 1
        shards.announce(1)
        shards.advance(1)
        assert due() == 2
        shards.announce(3)
        shards.bundle([Event("ann", 3, "k", None, 1.0)])
        assert due() == 2
        shards.advance(3)
        assert due() == 4
        shards.advance(1000)  # as at the end of time
        assert due() is None and len(shards.found) == 2


def test_a_late_copy_spends_the_caps_of_its_user_and_of_nobody_else() -> None:
    """Ids are remembered within a tick only: a copy of another tick counts as an event there."""
    shards = UserShards(CASE, 1)
    for tick, ids in ((0, "aab"), (1, "a"), (2, "a")):
        shards.bundle([Event("ann", tick, "k", name, 1.0) for name in ids])
        shards.bundle([Event("bob", tick, "k", name, 2.0) for name in ids])
        shards.announce(tick)
        shards.advance(tick + 1)
    assert {cell: len(said) for cell, (_, said) in shards.found.items()} == {
        ("ann", 0, "k"): 2, ("ann", 1, "k"): 1, ("bob", 0, "k"): 2, ("bob", 1, "k"): 1,
    }  # fmt: skip


@pytest.mark.slow
def test_events_of_far_ticks_wait_apart_and_are_all_found() -> None:
    case = Case([], ContributionBounds(ticks=60_000, keys=5, events=9), 60_000, 1)
    shards = UserShards(case, 1)
    ticks = [0, 1, 7, 8, 9, 31, 32, 33, 40, 63, 64, 1000, 1023, 1024, 1025, 2048, 2100]
    shards.bundle([Event("ann", tick, "k", None, float(tick)) for tick in ticks])
    (shard,) = shards.stored.values()
    assert len([bag for bag in shard.waiting if bag.values]) > 4
    for tick in range(2101):
        shards.announce(tick)
        Cell.moved = 0
        shards.advance(tick + 1)
        assert Cell.moved < 12 or tick + 1 in (32, 1024, 2048)
    assert sorted(cell[1] for cell in shards.found) == ticks
    assert not any(bag.values for bag in shard.waiting)


class Mute(Bag):
    """A bag that nobody may read."""

    def read(self) -> Any:
        raise AssertionError("what is remembered is read again.")


@pytest.mark.slow
def test_a_close_moves_what_it_adds_however_much_is_remembered() -> None:
    case = Case([], ContributionBounds(ticks=999, keys=5, events=1), 999, 1)
    moved = []
    for users in (10, 10_000):
        shards = UserShards(case, 1)
        shards.bundle([Event(f"u{i}", 0, "k", None, 0.0) for i in range(users)])
        shards.bundle([Event(f"u{i}", 1, "k", None, 0.0) for i in range(5)])
        shards.announce(1)
        shards.advance(1)
        (shard,) = shards.stored.values()
        logs, shard.users_log, shard.pairs_log = (shard.users_log, shard.pairs_log), Mute(), Mute()
        shards.advance(2)  # reads no log
        shard.users_log, shard.pairs_log = logs
        moved.append(len(shard.users.values[0]) + len(shard.pairs.values[0]))
        shards.restart(same_process=False)
        shards.bundle([Event(f"u{i}", 2, "l", None, 0.0) for i in range(5)])
        shards.announce(2)
        shards.advance(3)
        assert len([c for c in shards.found if c[1] == 2]) == 5
    assert max(moved) < 40_000


def test_damaged_bytes_and_those_of_another_plan_are_refused() -> None:
    def filled() -> Any:
        shards = UserShards(CASE, 1)
        shards.bundle([Event(f"u{i}", 0, "k", None, 0.0) for i in range(700)])
        shards.bundle([Event("ann", 1, "k", None, 0.0)])
        shards.announce(1)
        shards.advance(1)
        shards.restart(same_process=False)
        return shards

    for name in ("closed", "users", "pairs", "users_log", "pairs_log", "waiting"):
        shards = filled()
        (shard,) = shards.stored.values()
        cells = shard.waiting if name == "waiting" else [getattr(shard, name)]
        (cell,) = [one for one in cells if one.values]
        data = bytearray(cell.values[0])
        data[len(data) // 2] ^= 1
        cell.values[0] = bytes(data)
        with pytest.raises(CodecError, match="damaged"):
            shards.advance(2)
    shards = filled()
    shards.dofn._layout = bytes(32)
    with pytest.raises(CodecError, match="belong to plan"):
        shards.advance(2)
    shards = filled()
    shards.dofn._shards = 2
    with pytest.raises(CodecError, match="deduplicate.shards: 1"):
        shards.advance(2)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 1 << 19])
def test_no_cell_is_cut_and_pruning_early_changes_nothing(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capped, "ROWS", size)
    monkeypatch.setattr(cap, "PRUNE", size)
    for seed in range(20):
        case = case_of(seed)
        shards = streamed(case, seed, random.Random(seed))
        assert shards.found == without_ids(vectorised(case, case.events))


def test_the_watermark_of_heartbeats_leads_where_timers_stand_behind_ends() -> None:
    told: list[int] = []

    class Watch:
        def set_watermark(self, stamp: Any) -> None:
            told.append(stamp.micros)

    class Tracker:
        def current_restriction(self) -> Any:
            return type("R", (), {"start": 0, "stop": 100})

        def try_claim(self, tick: int) -> bool:
            return True

        def defer_remainder(self, _: Any) -> None: ...

    class Finalizer:
        def register(self, _: Any) -> None: ...

    for lead in (0, LEAD, 10**9):
        clock = Clock(START, MINUTE)
        follow = Follow([0], clock, lambda: (START + 3 * MINUTE) / 1e6, lead=lead)
        beats = list(follow.process(100, Finalizer(), Tracker(), Watch()))
        assert told.pop() == START + 3 * MINUTE + min(lead, MINUTE // 2)
        assert beats[0].timestamp.micros < START + 3 * MINUTE


# In the pipeline.

PLAN = replace(
    FakePlan(),
    clock=Clock(START, MINUTE, START + 40 * MINUTE),
    config=FakeConfig(FakeSchema("id")),
    person=UserUnit(
        ContributionBounds(ticks=4, keys=2, events=2, ticks_per_key=3),
        Periods(Clock(START, MINUTE, START + 40 * MINUTE), 10 * MINUTE),
    ),
)


HASH = replace(
    PLAN,
    person=UserUnit(
        ContributionBounds(ticks=4, keys=2, events=2, ticks_per_key=3, by_hash=True),
        Periods(Clock(START, MINUTE, START + 40 * MINUTE), 10 * MINUTE),
    ),
)


def made(n: int, seed: int = 0, users: int = 40) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    names = np.array([f"u{i}" for i in rng.integers(0, users, n)], dtype=object)
    names[rng.random(n) < 0.02] = None
    names[rng.random(n) < 0.02] = ""
    ids = np.array([f"e{i}" for i in rng.integers(0, n // 3, n)], dtype=object)
    ids[rng.random(n) < 0.1] = None
    times = rng.integers(0, 40 * MINUTE, n) + START
    keys = [("a", "b", "c")[i] for i in rng.integers(0, 3, n)]
    return events(times, keys, rng.integers(0, 9, n), ids, users=names)


def simulated(plan: Any, batch: pa.RecordBatch) -> dict[tuple[Any, ...], float]:
    given = Events(
        batch.column("@time").view(pa.int64()).to_numpy(),
        batch.column("@key").to_pylist(),
        {"v": batch.column("v").to_numpy()},
        batch.column("@id").to_pylist(),
        batch.column("@unit").to_pylist(),
    )
    found = simulate(plan, given, SECRET)
    return {
        (one.first_tick + i, one.key, out.name): float(value)
        for one in found
        for out in one.released
        for i, value in enumerate(out.value[:, 0, 0])
    }


def released(ran: Ran) -> dict[tuple[Any, ...], float]:
    return {(row["tick"], row["key"], row["name"]): row["value"][0] for row in ran.rows}


@pytest.mark.slow
@pytest.mark.parametrize("plan", [PLAN, HASH], ids=["time", "hash"])
def test_the_pipeline_releases_what_simulate_does_in_any_cut_order_and_shards(
    secret: SecretRef, plan: Any
) -> None:
    batch = made(3000)
    expected = simulated(plan, batch)
    ran = run(plan, cut(batch, 3), secret=secret)
    assert released(ran) == expected
    nobodys = sum(not user for user in batch.column("@unit").to_pylist())
    assert [reason for *_, reason in ran.dead] == ["no_user"] * nobodys
    assert ran.counts["no_user"] == nobodys and ran.counts["capped_ticks"] > 100
    assert ran.counts["capped_events"] > 0 and ran.counts["duplicate"] > 0
    other = replace(plan, circumstances=RuntimeAssumptions(id_shards=3))
    again = pa.concat_batches([shuffled(batch), shuffled(with_ids(batch), 2)])
    again = again.replace_schema_metadata(batch.schema.metadata)
    repeated = run(other, cut(again, 7), ["--direct_runner_bundle_repeat=1"], secret=secret)
    assert released(repeated) == expected


@pytest.mark.slow
def test_ticks_that_close_one_by_one_release_the_same_and_nothing_is_overdue(
    secret: SecretRef,
) -> None:
    """As a stream: Cap closes each tick at its end, and Tick releases it a step later."""
    batch = made(1000)
    plan = replace(PLAN, circumstances=RuntimeAssumptions(id_shards=3))
    ran = run(plan, cut(shuffled(batch), 3), secret=secret, bounded=False)
    assert released(ran) == simulated(plan, batch)
    assert {reason for *_, reason in ran.dead} == {"no_user"}


def with_ids(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Events that have an id: a copy of them changes nothing."""
    return batch.filter(batch.column("@id").is_valid())


@pytest.mark.slow
def test_a_user_of_a_hundred_thousand_events_counts_like_anybody_else(secret: SecretRef) -> None:
    """Leaves without noise: what others add stays the same to the last unit."""
    n = 100_000
    crowd = events(np.full(n, START + 5), ["b"] * n, np.ones(n), users=["big"] * n)
    crowd = crowd.append_column("@id", pa.nulls(n, pa.string()))
    others = made(300)
    one = pa.concat_batches([crowd.slice(0, 1).select(others.schema.names), others])
    whole = pa.concat_batches([crowd.select(others.schema.names), others])
    plan: Any = replace(PLAN, person=replace(PLAN.person, caps=ContributionBounds(4, 2, 1)))

    def sums(batch: pa.RecordBatch) -> Any:
        batch = batch.replace_schema_metadata({"source": "test"})
        ran = run(plan, cut(batch, 4), noise=Silent(), secret=secret)
        return released(ran), ran.counts["capped_events"]

    (many, beyond), (few, before) = sums(whole), sums(one)
    assert many == few and beyond == before + n - 1


ENDLESS: Any = replace(
    PLAN,
    clock=Clock(START, MINUTE),
    person=UserUnit(ContributionBounds(2, 2, 2), Periods(Clock(START, MINUTE), 4 * MINUTE)),
)


def of(tick: int, *users: str) -> tuple[float, Any]:
    """Events of a tick, on their way to Cap."""
    n = len(users)
    batch = events([START + tick * MINUTE + 1] * n, ["a"] * n, np.ones(n), users=users)
    return START / 1e6 + tick * 60, batch.append_column("@tick", pa.array([tick] * n, pa.int64()))


class ToCap(beam.DoFn):
    """What a test sends: a tick that is over, or events."""

    def __init__(self, shards: int, beats: bool) -> None:
        self._shards, self._beats = shards, beats

    def process(self, element: Any) -> Any:
        if isinstance(element, int) and self._beats:
            yield from ((shard, heartbeat.encode(element)) for shard in range(self._shards))
        elif not isinstance(element, int) and not self._beats:
            yield element


@pytest.mark.slow
def test_overdue_events_are_told_and_spend_nothing(secret: SecretRef) -> None:
    """On a runner with watermarks, in shards that have seen something and others."""
    stream = TestStream(coder=registry.get_coder(Any)).advance_watermark_to(START / 1e6)
    for tick in range(5):
        for stamp, batch in (of(tick, "ann", "bob"), of(tick + 1, "cy")):
            stream = stream.add_elements([TimestampedValue(batch, stamp)])
        if tick == 3:
            late = of(1, "ann", "eve")
            stream = stream.add_elements([TimestampedValue(late[1], late[0])])
        over = START / 1e6 + (tick + 1) * 60
        stream = stream.add_elements([TimestampedValue(tick, over - 1)])
        stream = stream.advance_watermark_to(over)
    counters.reset()
    options = PipelineOptions(["--streaming"])
    pipeline = beam.Pipeline(runner=BundleBasedDirectRunner(), options=options)
    sent = pipeline | stream.advance_watermark_to_infinity()
    given = sent | "Events" >> beam.ParDo(ToCap(0, False)).with_output_types(pa.RecordBatch)
    closing = sent | "Close" >> beam.ParDo(ToCap(2, True)).with_output_types(tuple[int, bytes])
    capped = (given, closing) | "Cap" >> Cap(ENDLESS, secret, 2, False)
    kept, dead = keep(capped.events, "kept"), keep(capped.dead, "dead")
    pipeline.run().wait_until_finish()
    letters = sorted(letter for one in KEPT.pop(dead) for letter in rows(one))
    assert [(place, why) for _, place, _, why in letters] == [(0, "overdue"), (1, "overdue")]
    assert counters.snapshot()["overdue"] == 2
    ticks = sorted(tick for one in KEPT.pop(kept) for tick in one["@tick"].to_pylist())
    # ann and bob in ticks 0, 1 and 4, cy in 1 and 2: caps begin again with tick 4.
    assert ticks == [0, 0, 1, 1, 1, 2, 4, 4, 4]


def test_names_and_numbers_of_the_operator(tmp_path: Path) -> None:
    counters.reset()
    capped.count({"events": 3, "keys": 2, "copies": 1})
    assert counters.snapshot() == {"capped_events": 3, "capped_keys": 2, "duplicate": 1}

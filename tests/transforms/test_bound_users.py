"""Caps where every step is in one process: what the rule lets in, anyone who passed without it."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.dpcore.users.cap_rule import Case, Event, Found, case_of, spelt_out
from tests.dpcore.users.test_fast_path import thinned
from tests.dpcore.users.test_hash_order import case_by_hash
from tests.dpcore.users.test_hash_order import spelt_out as by_hash
from tests.transforms.user_shards import CLOCK, UserShards, plan_of, without_ids
from weir.transforms.operators import bound_users as sift
from weir.transforms.operators import bound_users as users_here
from weir.transforms.operators.bound_users import PARTS, BoundUsers, Sieve, parts_of, runs


def raw(events: list[Event], numbers: bool) -> pa.RecordBatch:
    """Events as the filter leaves them; ids as texts, or as whole numbers."""
    ticks = np.array([event.tick for event in events], dtype=np.int64)
    users = pa.array([event.user for event in events])
    ids = pa.array([event.id for event in events], pa.string())
    if numbers:
        ids = pa.array([None if e.id is None else ord(e.id) for e in events], pa.int64())
    return pa.RecordBatch.from_pydict(
        {
            "@unit": users,
            "@key": pa.array([event.key for event in events]).dictionary_encode(),
            "@id": ids,
            "@time": pa.array(ticks * CLOCK.period).view(pa.timestamp("us", "UTC")),
            "@tick": pa.array(ticks),
            "@position": pa.array(np.arange(len(events))),
            "v": pa.array([event.payload for event in events], pa.float64()),
            "who": users,
        }
    )


def closed(case: Case, events: list[Event], cuts: int = 2, numbers: bool = False) -> Found:
    """What stays."""
    users = BoundUsers(plan_of(case.caps, case.ticks), bytes([case.seed % 256]) * 32)
    sifted = []
    for at in range(cuts):
        step = users.sift(refuse)
        if events[at::cuts]:
            sifted += step.process(raw(events[at::cuts], numbers))
        sifted += step.finish()
    shown = UserShards(case, 1)
    for batch in users.let_in(sifted, lambda batch: batch):
        shown.take(batch)
    return shown.found


def refuse(letters: pa.RecordBatch) -> None:
    raise AssertionError("every event has a user")


@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 50, 1 << 17])
def test_what_stays_is_what_the_rule_says(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sift, users_here):
        monkeypatch.setattr(module, "WORKED_ON", together)
    monkeypatch.setattr(sift, "TOGETHER", together)
    for seed in range(60):
        case, draw = thinned(case_of(seed)), random.Random(seed)
        expected = without_ids(spelt_out(case, case.events))
        events = draw.sample(case.events, len(case.events))
        assert closed(case, events) == expected, case.caps
        assert closed(case, events[::-1], cuts=3) == expected, case.caps


@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 1 << 17])
def test_what_stays_by_hash_is_what_that_rule_says(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sift, "WORKED_ON", together)
    for seed in range(12):
        case = thinned(case_by_hash(seed))
        expected = without_ids(by_hash(case, case.events))
        assert closed(case, case.events[::-1], cuts=3) == expected, case.caps


@pytest.mark.slow
def test_ids_that_are_whole_numbers_are_those_of_their_digits() -> None:
    for seed in range(40):
        case = case_of(seed)
        spelt = [e._replace(id=None if e.id is None else str(ord(e.id))) for e in case.events]
        expected = without_ids(spelt_out(case, spelt))
        assert closed(case, case.events, numbers=True) == expected, case.caps


def test_events_without_a_user_are_rejected() -> None:
    case, rejected = case_of(1), list[pa.RecordBatch]()
    users = BoundUsers(plan_of(case.caps, case.ticks), bytes(32))
    step = users.sift(rejected.append)
    some = [Event("", 0, "k", "a", 1.0), Event("u", 0, "k", "b", 1.0)]
    sifted = [*step.process(raw(some, False)), *step.finish()]
    assert [one.column("position").to_pylist() for one in rejected] == [[0]]
    assert sum(one.num_rows for one in users.let_in(sifted, lambda one: one)) == 1
    assert not list(users.let_in([], len)) and not list(users.sift(refuse).finish())


def test_parts_hold_all_events_of_their_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sift, "TOGETHER", 300)
    rng = np.random.default_rng(1)
    sieve, came, sifted = Sieve("h"), [], []
    for n in (1, 299, 5, 800, 7):
        hashes = rng.integers(0, 2**64, n, dtype=np.uint64)
        came.append(hashes)
        sifted += sieve.process(pa.RecordBatch.from_pydict({"h": hashes, "n": np.arange(n)}))
    sifted += sieve.finish()
    assert len(sifted) == 3 and not list(sieve.finish())
    for enough in (1, 100, 10_000):
        monkeypatch.setattr(sift, "WORKED_ON", enough)
        held = [item._replace(groups=list(item.groups)) for item in sifted]
        parts = [part().column("h").to_numpy() for part in parts_of(held)]
        assert all(group is None for item in held for group in item.groups)
        assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(np.concatenate(came)))
        homes = [set((part % np.uint64(PARTS)).tolist()) for part in parts]
        assert sum(map(len, homes)) == len(set.union(*homes))


def test_runs_of_parts() -> None:
    assert list(runs([3, 3, 3], 6)) == [(0, 2), (2, 3)]
    assert list(runs([0, 9, 0, 0, 2, 2, 0], 4)) == [(0, 2), (2, 7)]
    assert list(runs([0, 0], 4)) == [] == list(runs([], 4))
    assert list(runs([1, 1, 1], 100)) == [(0, 3)]

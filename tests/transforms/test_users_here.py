"""Caps where every step is in one process: what the rule lets in, whoever passed without it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp

from tests.dpcore.users.cap_rule import Case, Event, Found, case_of, spelt_out
from tests.dpcore.users.test_fast_path import thinned
from tests.transforms.user_shards import CLOCK, UserShards, plan_of, without_ids
from weir.transforms.select import sift, users_here
from weir.transforms.select.sift import PARTS, Sieve, parts_of, runs
from weir.transforms.select.users_here import CloseHere, ToUsersHere, opened


def plan_and_secret(case: Case) -> tuple[Any, Any]:
    plan = plan_of(case.caps, case.ticks)
    secret = SimpleNamespace(resolve=lambda: bytes([case.seed % 256]) * 32)
    return plan, secret


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


def closed(case: Case, events: list[Event], bundles: int = 1, numbers: bool = False) -> Found:
    """What stays."""
    plan, secret = plan_and_secret(case)
    run = f"run {random.random()}"
    held = opened(run)
    gather, close = ToUsersHere(secret, plan, run), CloseHere(secret, plan, run)
    gather.setup()
    close.setup()
    names = []
    for at in range(bundles):
        gather.start_bundle()
        part = events[at::bundles]
        for cut in (part[::2], part[1::2]):
            if cut:
                assert not list(gather.process(raw(cut, numbers), Timestamp(0)))
        names += [value.value[1] for value in gather.finish_bundle()]
    shown = UserShards(case, 1)
    for batch in close.process((0, names)):
        shown.take(batch)
    assert not len(held)
    return shown.found


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
        assert closed(case, events[::-1], bundles=3) == expected, case.caps


@pytest.mark.slow
def test_ids_that_are_whole_numbers_are_those_of_their_digits() -> None:
    for seed in range(40):
        case = case_of(seed)
        spelt = [e._replace(id=None if e.id is None else str(ord(e.id))) for e in case.events]
        expected = without_ids(spelt_out(case, spelt))
        assert closed(case, case.events, numbers=True) == expected, case.caps


def test_events_of_nobody_are_put_aside() -> None:
    case = case_of(1)
    plan, secret = plan_and_secret(case)
    held, gather = opened("a run of nobody"), ToUsersHere(secret, plan, "a run of nobody")
    gather.setup()
    gather.start_bundle()
    some = [Event("", 0, "k", "a", 1.0), Event("u", 0, "k", "b", 1.0)]
    (out,) = gather.process(raw(some, False), Timestamp(0))
    assert isinstance(out, TaggedOutput) and out.value.column("position").to_pylist() == [0]
    (sent,) = gather.finish_bundle()
    (one,) = held.take(sent.value[1])
    assert one.batch.num_rows == 1


def test_parts_hold_all_events_of_their_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sift, "TOGETHER", 300)
    rng = np.random.default_rng(1)
    sieve, came = Sieve("h"), []
    for n in (1, 299, 5, 800, 7):
        hashes = rng.integers(0, 2**64, n, dtype=np.uint64)
        came.append(hashes)
        sieve.add(pa.RecordBatch.from_pydict({"h": hashes, "n": np.arange(n)}))
    sifted = sieve.empty()
    assert len(sifted) == 3 and not sieve.empty()
    for enough in (1, 100, 10_000):
        monkeypatch.setattr(sift, "WORKED_ON", enough)
        parts = [part.column("h").to_numpy() for part in parts_of(sifted)]
        assert np.array_equal(np.sort(np.concatenate(parts)), np.sort(np.concatenate(came)))
        homes = [set((part % np.uint64(PARTS)).tolist()) for part in parts]
        assert sum(map(len, homes)) == len(set.union(*homes))


def test_runs_of_parts() -> None:
    assert list(runs([3, 3, 3], 6)) == [(0, 2), (2, 3)]
    assert list(runs([0, 9, 0, 0, 2, 2, 0], 4)) == [(0, 2), (2, 7)]
    assert list(runs([0, 0], 4)) == [] == list(runs([], 4))
    assert list(runs([1, 1, 1], 100)) == [(0, 3)]

"""Bounds in the order of hashes: the rule, neighbours, order, secrets; and mutants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from tests.dpcore.users.cap_rule import (
    CLOCK,
    Case,
    Event,
    Found,
    case_of,
    found_of,
    hashed,
    vectorised,
)
from tests.dpcore.users.test_cap import caps_hold, faults_of, neighbours_differ_in_one_user_period
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import ONCE
from weir.dpcore.plan import Plan
from weir.dpcore.users.cap import cap_events
from weir.dpcore.users.closing import UsedBounds
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit


class Mutant(NamedTuple):
    """What a rule gets wrong; all False: nothing.

    Attributes:
      public: hashes are not keyed by the secret. by_value: they have the value in them.
      arrival: cells stay in the order of records. shared: ``total`` is of all users together.
      near: ``spacing`` is asked of the last cell that stayed, not of every one.
    """

    public: bool = False
    by_value: bool = False
    arrival: bool = False
    shared: bool = False
    near: bool = False


def case_by_hash(seed: int) -> Case:
    case = case_of(seed)
    return case._replace(caps=replace(case.caps, by_hash=True))


def spelt_out(case: Case, events: Sequence[Event], wrong: Mutant = Mutant()) -> Found:  # noqa: B008
    """The rule, one cell after the other, with nothing but dictionaries."""
    caps, source = case.caps, case._replace(seed=0) if wrong.public else case
    events = list(events)
    if not events:
        return {}
    hashes = hashed(events, source)
    order = {row: tuple(words) for row, words in enumerate(hashes.cells.tolist())}
    rows = dict(zip(events, map(tuple, hashed(events, case).rows.tolist()), strict=True))
    cells: dict[tuple[str, int, str], list[int]] = {}
    for row, event in enumerate(events):
        cells.setdefault(event[:3], []).append(row)

    def by(cell: tuple[str, int, str]) -> object:
        mine = cells[cell]
        if wrong.by_value:
            return hash((order[mine[0]], sum(events[row].payload for row in mine)))
        return mine[0] if wrong.arrival else order[mine[0]]

    staying: dict[tuple[object, int], list[tuple[str, int, str]]] = {}
    for cell in sorted(cells, key=by):
        user, tick, key = cell
        period = tick // case.ticks
        own = staying.setdefault((user, period), [])
        all_users = [c for (_, p), item in staying.items() if p == period for c in item]
        ticks, keys = {c[1] for c in own}, {c[2] for c in own}
        near = [own[-1][1]] if wrong.near and own else ticks
        if (
            len(all_users if wrong.shared else own) >= (caps.total or 10**9)
            or (tick not in ticks and len(ticks) >= caps.ticks)
            or (tick not in ticks and any(abs(tick - other) < caps.spacing for other in near))
            or sum(c[1] == tick for c in own) >= caps.keys
            or sum(c[2] == key for c in own) >= (caps.ticks_per_key or 10**9)
            or (key not in keys and len(keys) >= (caps.period_keys or 10**9))
        ):
            continue
        own.append(cell)
    found: Found = {}
    for own in staying.values():
        for cell in own:
            members: list[Event] = []
            for event in sorted((events[r] for r in cells[cell]), key=lambda e: (rows[e], e[4])):
                if event.id is None or event.id not in {m.id for m in members}:
                    members.append(event)
            said = sorted(((e.id, e.payload) for e in members[: caps.events]), key=repr)
            first = min(c for c in own if c[2] == cell[2])
            found[cell] = (cell == first, tuple(said))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 80, 10))
def test_the_smallest_hashes_stay_user_by_user(first: int) -> None:
    for seed in range(first, first + 10):
        case = case_by_hash(seed)
        expected = spelt_out(case, case.events)
        assert vectorised(case, case.events) == expected, case.caps
        again = [event for event in case.events if event.id is not None][::3]
        assert vectorised(case, case.events + again, shards=3, bundles=1 + seed % 3) == expected
        assert neighbours_differ_in_one_user_period(vectorised, case), case.caps
        assert caps_hold(expected, case), case.caps


def test_bounds_hold_whatever_is_closed_together() -> None:
    """Only files may ask for it, whose ticks are closed at once; were they not, bounds hold."""
    for seed in range(20):
        case = case_by_hash(seed)
        assert caps_hold(vectorised(case, case.events, seed + 1, 2, 2), case), case.caps


def with_values(case: Case) -> list[Event]:
    return [event._replace(payload=event.payload + 10) for event in case.events]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ("", *Mutant._fields))
def test_mutants_are_caught(wrong: str) -> None:
    twin = Mutant(**({wrong: True} if wrong else {}))
    broken: set[str] = set()
    for seed in range(1, 16):
        case = case_by_hash(seed)

        def rule(case: Case, events: Sequence[Event]) -> Found:
            return spelt_out(case, events, twin)

        broken |= faults_of(rule, case)
        if set(rule(case, with_values(case))) != set(rule(case, case.events)):
            broken.add("value")
    case = Case([], ContributionBounds(9, 9, 1, total=3, by_hash=True), 9, 1)
    case = case._replace(events=[Event("u", t, k, None, 0.0) for t in range(9) for k in "abcdefgh"])
    secrets = {frozenset(spelt_out(case._replace(seed=s), case.events, twin)) for s in range(1, 9)}
    if len(secrets) < 8:
        broken.add("secret")
    assert (
        broken
        == {
            "": set(),
            "public": {"secret"},
            "by_value": {"value"},
            "arrival": {"order", "neighbours", "secret"},
            "shared": {"neighbours"},
            "near": {"caps"},
        }[wrong]
    )


def test_each_user_keeps_cells_of_its_own_and_all_ticks_alike() -> None:
    users, ticks, keys, total = 100, 30, 4, 20
    caps = ContributionBounds(ticks, keys, 1, total=total, by_hash=True)
    case = Case([], caps, ticks, 5)
    events = [
        Event(f"u{u}", t, f"k{k}", None, 0.0)
        for u in range(users)
        for t in range(ticks)
        for k in range(keys)
    ]
    kept = cap_events(UsedBounds.nothing(0), hashed(events, case), ticks, case.person)
    assert kept.dropped == {"total": users * (ticks * keys - total)}
    found = found_of(events, kept)
    mine = {user: {c[1:] for c in found if c[0] == user} for user in ("u0", "u1")}
    assert len(mine["u0"]) == total and mine["u0"] != mine["u1"]
    counts = np.bincount([cell[1] for cell in found], minlength=ticks)
    expected = users * total / ticks
    assert abs(counts - expected).max() < 5 * expected**0.5
    early = replace(case.caps, by_hash=False)
    other = cap_events(
        UsedBounds.nothing(0), hashed(events, case), ticks, UserUnit(early, case.person.periods)
    )
    assert max(events[row].tick for row in other.rows.tolist()) < ticks // 3  # the mutant: time


def test_equal_hashes_stay_in_the_order_of_ticks_and_keys() -> None:
    case = Case([], ContributionBounds(4, 4, 1, total=2, by_hash=True), 4, 1)
    events = [Event("u", t, f"k{k}", None, 0.0) for k in range(2) for t in range(4)]
    whole = hashed(events, case)
    same = whole._replace(cells=np.zeros_like(whole.cells))
    for order in (range(8), range(7, -1, -1)):
        at = np.array(order)
        taken = type(same)(*(None if c is None else c[at] for c in same))
        kept = cap_events(UsedBounds.nothing(0), taken, 4, case.person)
        assert sorted(events[at[row]][1:3] for row in kept.rows) == [(0, "k0"), (0, "k1")]


TEXT = """
name: visits
schema: {{time: at, unit: who}}
key: {{column: shop, declared: [north, south]}}
{clock}
privacy: {{epsilon: 1, delta: 1e-6, unit: user, {per}
  contributions: {{{ticks}keys: 2, events: 1{order}}}}}
aggregates: {{visits: {{count: events}}}}
"""
CLOCKED = {
    "clock": "clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-03-01T00:00:00Z}",
    "per": "per: all, protect_for: all,",
    "ticks": "ticks: 8, ",
}
ONE_SHOT = {"clock": "", "per": "", "ticks": ""}


def plan(order: str, **fields: str) -> Plan:
    text = TEXT.format(order=order and f", order: {order}", **fields)
    return Plan.from_yaml(text if fields["clock"] else text.replace("time: at, ", ""))


def test_the_plan_says_it_and_noise_is_the_same() -> None:
    by_time, by_hash = plan("", **CLOCKED), plan("hash", **CLOCKED)
    assert plan("time", **CLOCKED).digest == by_time.digest != by_hash.digest
    assert by_hash.person is not None and by_hash.person.pattern == by_time.person.pattern
    assert by_hash.outputs == by_time.outputs
    assert "follows what has been released" in by_time.guarantee.statement
    assert "follows what has been released" not in by_hash.guarantee.statement
    assert "fixed before the first release" in by_hash.guarantee.statement
    with pytest.raises(ConfigError, match=r"contributions.order = 'hash': needs all events of"):
        by_hash.person.refuse_endless("a stream")
    by_time.person.refuse_endless("a stream")


def test_one_shot_is_by_hash_and_its_bits_stay() -> None:
    assert plan("hash", **ONE_SHOT).digest == plan("", **ONE_SHOT).digest
    with pytest.raises(ConfigError, match="order = 'time': needs a clock"):
        plan("time", **ONE_SHOT)
    with pytest.raises(ConfigError, match="order = 'late': must be 'time' or 'hash'"):
        plan("late", **CLOCKED)
    caps = {"ticks": None, "keys": 2, "events": 1, "spacing": 1, "order": "hash"}
    assert not UserUnit.of(caps, Periods(ONCE, None)).caps.by_hash
    assert CLOCK.period

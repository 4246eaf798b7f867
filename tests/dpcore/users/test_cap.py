"""Caps on users: the rule, in any order, shards, bundles and closes; and nobody touches others."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from tests.dpcore.users.cap_rule import (
    CLOCK,
    Case,
    Event,
    Found,
    Rule,
    Twins,
    case_of,
    hashed,
    spelt_out,
    vectorised,
)
from weir.dpcore.users.cap import cap_events, keeps_pairs
from weir.dpcore.users.cells import (
    Hashed,
    gather,
    pair_hashes,
    ranges,
    ranks,
    row_hashes,
    user_hashes,
)
from weir.dpcore.users.closing import UsedBounds
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit

CASES = int(os.environ.get("CAP_CASES", "300"))


@pytest.mark.slow
def test_what_stays_is_what_the_rule_says_user_by_user() -> None:
    for seed in range(CASES):
        case = case_of(seed)
        expected = spelt_out(case, case.events)
        assert vectorised(case, case.events) == expected, case.caps


@pytest.mark.slow
def test_no_order_shard_bundle_close_or_repeat_changes_what_stays() -> None:
    for seed in range(CASES):
        case, draw = case_of(seed), random.Random(-seed)
        expected = vectorised(case, case.events)
        again = [event for event in case.events if event.id is not None and draw.random() < 0.3]
        how = {"how": seed + 1, "shards": draw.randint(1, 5), "bundles": draw.randint(1, 4)}
        assert vectorised(case, case.events + again, **how) == expected, case.caps


def neighbours_differ_in_one_user_period(rule: Rule, case: Case) -> bool:
    """Whether one user-period, there or not, changes nothing of any other; in another order too."""
    draw = random.Random(case.seed)
    user, period = f"u{draw.randrange(4)}", draw.randrange(2)
    theirs = [e for e in case.events if (e.user, e.tick // case.ticks) == (user, period)]
    others = [e for e in case.events if e not in theirs]
    draw.shuffle(others)
    # What is between two neighbours is there in one of them only: it may come anywhere.
    extra = [Event(user, period * case.ticks + e.tick % case.ticks, *e[2:]) for e in theirs[:9]]

    def rest(found: Found) -> Found:
        return {
            cell: said
            for cell, said in found.items()
            if not (cell[0] == user and cell[1] // case.ticks == period)
        }

    without = rule(case, others)
    return (
        without
        == rest(without)
        == rest(rule(case, case.events))
        == rest(rule(case, [*extra, *others]))
    )


def caps_hold(found: Found, case: Case) -> bool:
    """Whether what stays of each user-period is within all caps."""
    caps, held = case.caps, True
    for user, period in {(cell[0], cell[1] // case.ticks) for cell in found}:
        cells = [c for c in found if (c[0], c[1] // case.ticks) == (user, period)]
        ticks = sorted({cell[1] for cell in cells})
        keys = [cell[2] for cell in cells]
        held &= len(ticks) <= caps.ticks
        held &= all(b - a >= caps.spacing for a, b in zip(ticks, ticks[1:], strict=False))
        held &= all(sum(c[1] == tick for c in cells) <= caps.keys for tick in ticks)
        held &= all(len(found[cell][1]) <= caps.events for cell in cells)
        held &= caps.ticks_per_key is None or all(
            keys.count(key) <= caps.ticks_per_key for key in keys
        )
        held &= caps.period_keys is None or len(set(keys)) <= caps.period_keys
        held &= len(cells) <= (caps.total or len(cells)) and len(cells) <= caps.cells
        held &= len(set(keys)) <= caps.touched
        first = [min(c for c in cells if c[2] == key) for key in set(keys)]
        held &= {cell for cell in cells if found[cell][0]} == set(first)
    return held


def faults_of(rule: Rule, case: Case) -> set[str]:
    """Which of these a rule breaks: the same in any order, neighbours, caps."""
    found, shuffled = rule(case, case.events), list(case.events)
    random.Random(case.seed).shuffle(shuffled)
    holds = {
        "order": rule(case, shuffled) == found,
        "neighbours": neighbours_differ_in_one_user_period(rule, case),
        "caps": caps_hold(found, case),
    }
    return {name for name, held in holds.items() if not held}


@pytest.mark.slow
def test_a_user_period_changes_nothing_of_any_other() -> None:
    for seed in range(CASES):
        case = case_of(seed)
        assert neighbours_differ_in_one_user_period(vectorised, case), case.caps


@pytest.mark.slow
def test_caps_hold_and_what_is_new_is_the_first_of_a_key() -> None:
    for seed in range(CASES):
        case = case_of(seed)
        assert caps_hold(vectorised(case, case.events, seed + 1, 2, 2), case), case.caps


@pytest.mark.slow
@pytest.mark.parametrize("wrong", Twins._fields)
def test_rules_that_look_right_are_caught(wrong: str) -> None:
    """Each breaks one of: the same in any order, neighbours, caps, or the rule itself."""
    twin = Twins(**{wrong: True})
    broken: set[str] = set()
    for seed in range(120):
        case = case_of(seed)

        def rule(case: Case, events: list[Event]) -> Found:
            return spelt_out(case, events, twin)

        broken |= faults_of(rule, case)
        if rule(case, case.events) != spelt_out(case, case.events):
            broken.add("rule")
    expected = {
        "shared_ids": {"neighbours", "rule"},
        "first_wins": {"order", "neighbours", "rule"},
        "early_keys": {"rule"},
        "early_clear": {"caps", "rule"},
        "shared_room": {"neighbours", "caps", "rule"},
    }[wrong]
    assert broken == expected


def test_pruned_keys_would_starve_a_user() -> None:
    """A key that is dropped while a tick is gathered may be the one that the rule keeps."""
    case = Case([], ContributionBounds(ticks=4, keys=1, events=1, ticks_per_key=1), 4, 1)
    events = [Event("u", tick, f"k{key}", None, 0.0) for tick in range(4) for key in range(4)]
    assert len(spelt_out(case, events)) == 4 == len(vectorised(case, events))
    assert len(spelt_out(case, events, Twins(early_keys=True))) == 1


def test_hashes_are_of_one_user_and_of_its_events_only() -> None:
    keys = case_of(0).keys
    found = user_hashes(["ann", "", None, "bob", "ann"], keys)
    assert found.null.tolist() == [False, True, True, False, False]
    ann, bob = found.hashes[0], found.hashes[3]
    assert (found.hashes[4] == ann).all() and (ann != bob).all()
    users = np.stack([ann, ann, bob, ann])
    pairs = pair_hashes(users, np.array([0, 1, 0, 0]), [b"k", b"k", b"k", b"l"], keys)
    assert len(np.unique(pairs, axis=0)) == 4
    assert len(np.unique(pair_hashes(users, np.zeros(4, np.int64), None, keys), axis=0)) == 2
    ticks = np.array([0, 1, 0, 0])
    contents = np.zeros((4, 1), dtype=np.uint64)
    rows, has_id = row_hashes(users, ticks, ticks, contents, [b"a", b"a", b"a", None], keys)
    assert len(np.unique(rows, axis=0)) == 4 and has_id.tolist() == [True, True, True, False]
    alone, _ = row_hashes(users[2:3], ticks[2:3], ticks[2:3], contents[2:3], [b"a"], keys)
    assert (alone == rows[2:3]).all()


def test_words_that_agree_in_their_first_half_are_other_users_and_keys() -> None:
    """Hashes that share 64 bits are next to impossible, and told apart."""

    def words(*low: int) -> np.ndarray:
        return np.array([[7, value] for value in low], dtype=np.uint64)

    events = Hashed(
        words(1, 2, 1, 2), words(5, 6, 5, 7), words(1, 2, 3, 4), np.zeros(4, np.int64),
        np.ones(4, bool), np.zeros((4, 1), np.uint64),
    )  # fmt: skip
    person = UserUnit(ContributionBounds(1, 1, 5), Periods(CLOCK, None))
    kept = cap_events(UsedBounds.nothing(0), events, 1, person)
    assert kept.rows.tolist() == [0, 2, 1] and kept.dropped == {"keys": 1}
    again = cap_events(
        kept.capped.after(UsedBounds.nothing(0)), events._replace(ticks=events.ticks + 1), 2, person
    )
    assert not len(again.rows) and again.dropped == {"ticks": 4}


def test_keys_are_remembered_where_something_asks_for_them() -> None:
    assert not keeps_pairs(ContributionBounds(1, 1, 1), False) and keeps_pairs(
        ContributionBounds(1, 1, 1), True
    )
    assert keeps_pairs(ContributionBounds(1, 1, 1, ticks_per_key=1), False)
    assert keeps_pairs(ContributionBounds(1, 1, 1, period_keys=1), False)
    for seed in range(40):
        case = case_of(seed)
        if keeps_pairs(case.caps, False):
            continue
        spent = {True: UsedBounds.nothing(0), False: UsedBounds.nothing(0)}
        for tick in range(3 * case.ticks):
            due = [event for event in case.events if event.tick == tick]
            if not due:
                continue
            rows = []
            for pairs, before in spent.items():
                kept = cap_events(before, hashed(due, case), tick + 1, case.person, pairs)
                rows.append(kept.rows.tolist())
                spent[pairs] = kept.capped.after(before)
                assert pairs or not (kept.new.any() or len(spent[pairs].pairs))
            assert rows[0] == rows[1]


def test_ranks_and_ranges() -> None:
    counted = np.array([1, 0, 1, 1, 1, 0], dtype=bool)
    assert ranks(counted, np.array([0, 0, 0, 1, 1, 4])).tolist() == [0, 1, 1, 0, 1, 0]
    assert ranges(np.array([5, 2, 9]), np.array([2, 1, 3])).tolist() == [5, 6, 2, 9, 10, 11]
    assert not len(ranges(np.zeros(0, int), np.zeros(0, int)))
    nothing = Hashed(
        *(np.zeros((0, 2), np.uint64),) * 3, *(np.zeros(0, int),) * 2, np.zeros((0, 1))
    )
    assert not len(gather(nothing, 3).rows)


def test_caps_are_told_apart_in_what_they_drop() -> None:
    def dropped(caps: ContributionBounds, events: list[tuple[int, str]]) -> dict[str, int]:
        case = Case([], caps, 8, 3)
        made = [Event("u", tick, key, f"{i}", 0.0) for i, (tick, key) in enumerate(events)]
        return cap_events(UsedBounds.nothing(0), hashed(made, case), 8, case.person).dropped

    ticks = [(tick, "k") for tick in range(6)]
    assert dropped(ContributionBounds(2, 1, 1), ticks) == {"ticks": 4}
    assert dropped(ContributionBounds(2, 1, 1, spacing=3), ticks) == {"spacing": 2, "ticks": 2}
    assert dropped(ContributionBounds(6, 1, 1, ticks_per_key=2), ticks) == {"ticks_per_key": 4}
    assert dropped(ContributionBounds(6, 1, 1, total=2), ticks) == {"total": 4}
    assert dropped(ContributionBounds(6, 1, 2), [(0, "k")] * 5) == {"events": 3}
    assert dropped(ContributionBounds(6, 2, 2), [(0, f"{i}") for i in range(5)]) == {"keys": 3}
    assert dropped(ContributionBounds(6, 2, 2, period_keys=1), [(t, f"{t}") for t in range(3)]) == {
        "period_keys": 2
    }


@pytest.mark.slow
def test_a_user_of_a_million_events_is_capped_and_moves_nobody() -> None:
    rng, others, many = np.random.default_rng(1), 3_000, 1_000_000
    person = UserUnit(ContributionBounds(8, 3, 5, total=20), Periods(CLOCK, 20 * CLOCK.period))

    def hashes(of: np.ndarray) -> np.ndarray:
        words = np.random.default_rng(2).integers(0, 1 << 64, (int(of.max()) + 1, 2), np.uint64)
        return words[of]

    users = np.concatenate([rng.integers(1, 500, others), np.zeros(many, dtype=np.int64)])
    ticks, keys = rng.integers(0, 20, len(users)), rng.integers(0, 50, len(users))
    events = Hashed(
        hashes(users),
        hashes(users * 50 + keys),
        rng.integers(0, 1 << 64, (len(users), 2), np.uint64),
        ticks,
        np.ones(len(users), dtype=bool),
        np.zeros((len(users), 1), dtype=np.uint64),
    )
    both = cap_events(UsedBounds.nothing(0), events, 20, person)
    few = Hashed(*(column[:others] for column in events if column is not None))
    alone = cap_events(UsedBounds.nothing(0), few, 20, person)
    assert np.sort(both.rows[both.rows < others]).tolist() == np.sort(alone.rows).tolist()
    mine = both.rows[both.rows >= others]
    cells, sizes = np.unique(ticks[mine] * 50 + keys[mine], return_counts=True)
    assert len(cells) == 20 and (sizes == 5).all() and len(set((cells // 50).tolist())) == 7

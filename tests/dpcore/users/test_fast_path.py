"""Users whom no cap touches: what is told of them is what the rule would say."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from tests.dpcore.users.cap_rule import Case, case_of, hashed, taken
from weir.dpcore.users import fast_path as module
from weir.dpcore.users.cap import cap_events
from weir.dpcore.users.closing import UsedBounds
from weir.dpcore.users.fast_path import ASKED, MOST, NEW, within_bounds
from weir.dpcore.users.unit import ContributionBounds

CASES = int(os.environ.get("CAP_CASES", "300"))


def thinned(case: Case) -> Case:
    """The same under caps that touch some users and not others."""
    some = case.events[:: 1 + case.seed % 7]
    caps = case.caps
    if case.seed % 3:
        room = 1 + (case.ticks - 1) // caps.spacing
        more = {"ticks": room, "keys": 4, "total": None, "period_keys": None}
        caps = ContributionBounds(**{**vars(caps), **more})
    return case._replace(events=some, caps=caps)


def marks_of(case: Case, whole: Any) -> Any:
    numbers = {key: at for at, key in enumerate(sorted({e.key for e in case.events}))}
    keys = np.array([numbers[event.key] for event in case.events], dtype=np.int32)
    periods = case.person.periods.of(whole.ticks)
    return within_bounds(
        whole.users[:, 0], whole.users[:, 1], keys, whole.ticks, periods, case.caps
    )


@pytest.mark.slow
def test_who_is_not_asked_keeps_everything_and_is_new_where_the_rule_says_so() -> None:
    passed = 0
    for seed in range(CASES):
        case = thinned(case_of(seed))
        whole = hashed(case.events, case)
        kept = cap_events(UsedBounds.nothing(0), whole, 10**6, case.person)
        new = np.full(len(case.events), -1)
        new[kept.rows] = kept.new
        marks = marks_of(case, whole)
        some = np.flatnonzero(marks != ASKED)
        assert (new[some] == (marks[some] == NEW)).all(), case.caps
        passed += len(some)
        rest = np.flatnonzero(marks == ASKED)
        again = cap_events(UsedBounds.nothing(0), taken(whole, rest), 10**6, case.person)
        assert sorted([*some, *rest[again.rows]]) == sorted(kept.rows.tolist())
        assert again.dropped == kept.dropped
    assert passed > 3 * CASES


def test_nobody_else_decides_what_is_told_of_a_user() -> None:
    for seed in range(CASES // 3):
        case = thinned(case_of(seed))
        whole = hashed(case.events, case)
        marks, names = marks_of(case, whole), np.array([event.user for event in case.events])
        for user in set(names.tolist()):
            mine = np.flatnonzero(names == user)
            alone = case._replace(events=[case.events[row] for row in mine])
            assert np.array_equal(marks_of(alone, taken(whole, mine)), marks[mine])


def cases() -> Any:
    """Many users, crowded ones, and hashes that begin alike."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 2_000))
        users = rng.integers(0, max(1, n // int(rng.integers(1, 12))), n).astype(np.uint64)
        if seed % 10 == 0:
            users[: n // 2] = 0
        high = users * np.uint64(0x9E3779B97F4A7C15)
        low = high ^ np.uint64(5)
        if seed % 7 == 0:
            high %= np.uint64(3)

        def some(high: int, rng: Any = rng) -> int | None:
            return None if rng.random() < 0.4 else int(rng.integers(1, high))

        caps = ContributionBounds(
            some(12) or 40, some(5) or 40, some(4) or 1, some(4) or 1, some(5), some(12), some(20)
        )
        ticks = rng.integers(0, int(rng.integers(1, 200)), n)
        keys = rng.integers(0, int(rng.integers(1, 40)), n).astype(np.int32)
        periods = None if seed % 2 else ticks // int(rng.integers(1, 50))
        yield high, low, keys, ticks, periods, caps


def test_the_kernel_says_what_numpy_does(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = np.zeros(3, dtype=np.int64)
    for case in cases():
        fast = within_bounds(*case)
        with monkeypatch.context() as patch:
            patch.setattr(module, "kernels", None)
            assert np.array_equal(within_bounds(*case), fast)
        found += np.bincount(fast, minlength=3)
    assert found.min() > 1_000


def test_many_events_of_one_user_and_far_ticks_are_asked() -> None:
    roomy = ContributionBounds(ticks=1_000, keys=1, events=1)
    for n, asked in ((MOST, False), (MOST + 1, True)):
        user, keys = np.full(n, 9, dtype=np.uint64), np.zeros(n, dtype=np.int32)
        marks = within_bounds(user, user, keys, np.arange(n), None, roomy)
        assert (marks == ASKED).all() == asked
    one = np.array([9], dtype=np.uint64)
    for tick, mark in ((module.LAST, NEW), (module.LAST + 1, ASKED)):
        key, ticks = np.zeros(1, dtype=np.int32), np.array([tick])
        assert within_bounds(one, one, key, ticks, None, roomy).tolist() == [mark]
    assert not len(within_bounds(one[:0], one[:0], key[:0], ticks[:0], None, roomy))


def test_columns_that_do_not_fit_are_refused(compiled: Any) -> None:
    words, keys = np.zeros(2, dtype=np.uint64), np.zeros(2, dtype=np.int32)
    ticks, caps, out = np.zeros(2, dtype=np.int64), np.full(7, 2), bytearray(2)
    fine = [words, words, words, keys, ticks, ticks[:0], caps, out]
    compiled.untouched(*fine)
    bad = {0: words + np.uint64(2), 1: words[:1], 3: keys - np.int32(1), 4: ticks - 1, 6: caps[:6]}
    for place, column in bad.items():
        with pytest.raises(ValueError):
            compiled.untouched(*fine[:place], column, *fine[place + 1 :])

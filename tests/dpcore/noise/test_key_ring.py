"""Schedules of secrets: from which tick on two of them key noise differently."""

from __future__ import annotations

import itertools

from weir.dpcore.noise.key_ring import first_difference

TICKS = 6


def at(marks: dict[int, str], tick: int) -> str:
    return [mark for first, mark in sorted(marks.items()) if first <= tick][-1]


def test_it_is_the_first_tick_of_another_secret() -> None:
    schedules = [
        {0: first, **dict(zip(ticks, later, strict=True))}
        for count in range(3)
        for ticks in itertools.combinations(range(1, TICKS), count)
        for first, *later in itertools.product("ab", repeat=count + 1)
    ]
    for one, other in itertools.product(schedules, repeat=2):
        differs = [tick for tick in range(TICKS + 1) if at(one, tick) != at(other, tick)]
        assert first_difference(one, other) == (differs[0] if differs else None)

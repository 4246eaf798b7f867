"""The rule of caps, spelt out user by user in plain Python, and wrong ones that look right."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from weir.dpcore.leaves.clock import Clock
from weir.dpcore.users.cap import KeptEvents, cap_events
from weir.dpcore.users.cells import (
    CapKeys,
    Hashed,
    cell_hashes,
    contents_of,
    gather,
    pair_hashes,
    row_hashes,
    user_hashes,
)
from weir.dpcore.users.closing import UsedBounds
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit

CLOCK = Clock(0, 1_000_000)


class Event(NamedTuple):
    user: str
    tick: int
    key: str
    id: str | None
    payload: float


Cell = tuple[str, int, str]
Found = dict[Cell, tuple[bool, tuple[tuple[str | None, float], ...]]]
"""Cell -> whether it is new, and the events that stay, sorted."""


class Case(NamedTuple):
    """Events and the caps on them."""

    events: list[Event]
    caps: ContributionBounds
    ticks: int
    seed: int

    @property
    def person(self) -> UserUnit:
        return UserUnit(self.caps, Periods(CLOCK, self.ticks * CLOCK.period))

    @property
    def keys(self) -> CapKeys:
        return CapKeys.derive(bytes([self.seed % 256]) * 32, "ab" * 32)


def case_of(seed: int) -> Case:
    """A few users, keys and ids over two or three periods, under random caps."""
    draw = random.Random(seed)
    ticks = draw.choice([1, 3, 4, 6])
    spacing = draw.choice([1, 1, 2, 3])
    caps = ContributionBounds(
        ticks=draw.randint(1, 1 + (ticks - 1) // spacing),
        keys=draw.randint(1, 3),
        events=draw.randint(1, 3),
        spacing=spacing,
        ticks_per_key=draw.choice([None, None, 1, 2]),
        period_keys=draw.choice([None, None, 1, 2, 3]),
        total=draw.choice([None, None, 2, 3, 5]),
    )
    ids = draw.choice([(None,), ("a", "b", "c", "d"), (None, "a", "b", "c")])
    events = [
        Event(
            f"u{draw.randrange(4)}",
            draw.randrange(draw.choice([2, 3]) * ticks),
            f"k{draw.randrange(4)}",
            draw.choice(ids),
            float(draw.randrange(4)),
        )
        for _ in range(draw.choice([30, 80, 140]))
    ]
    return Case(events, caps, ticks, seed)


def hashed(events: Sequence[Event], case: Case) -> Hashed:
    """Events as the stage before Cap makes them."""
    ticks = np.array([event.tick for event in events], dtype=np.int64)
    users = user_hashes([event.user.encode() for event in events], case.keys).hashes
    periods = case.person.periods.of(ticks)
    pairs = pair_hashes(users, periods, [event.key.encode() for event in events], case.keys)
    times = ticks * CLOCK.period
    contents = contents_of(times, [np.array([event.payload for event in events])])
    ids = [None if event.id is None else event.id.encode() for event in events]
    rows, has_id = row_hashes(users, ticks, times, contents, ids, case.keys)
    cells = cell_hashes(users, ticks, pairs, case.keys) if case.caps.by_hash else None
    return Hashed(users, pairs, rows, ticks, has_id, contents, cells=cells)


def found_of(events: Sequence[Event], kept: KeptEvents) -> Found:
    """What stays, by cell; also that its rows lie together, and say the same of the cell."""
    found: dict[int, list[Event]] = {}
    new: dict[int, bool] = {}
    for row, cell, fresh in zip(
        kept.rows.tolist(), kept.cell.tolist(), kept.new.tolist(), strict=True
    ):
        assert not found or cell in (next(reversed(found)), next(reversed(found)) + 1)
        assert new.setdefault(cell, fresh) == fresh
        found.setdefault(cell, []).append(events[row])
    cells: Found = {}
    for cell, members in found.items():
        (where,) = {(event.user, event.tick, event.key) for event in members}
        assert where not in cells
        said = sorted(((e.id, e.payload) for e in members), key=repr)
        cells[where] = (new[cell], tuple(said))
    return cells


def vectorised(
    case: Case, events: Iterable[Event], how: int = 0, shards: int = 1, bundles: int = 1
) -> Found:
    """The rule as the pipeline runs it: in some order, shards, bundles and closes.

    Args:
      how: seeds the order of events and how many ticks are closed together; 0: all at once.
    """
    draw, events = random.Random(how), list(events)
    draw.shuffle(events)
    last = max((event.tick for event in events), default=0)
    found: Found = {}
    whole = hashed(events, case) if events else None
    for shard in range(shards):
        spent, stop = UsedBounds.nothing(0), 0
        mine = []
        if whole is not None:
            mine = np.flatnonzero(whole.users[:, 1] % np.uint64(shards) == shard).tolist()
        while stop <= last:
            first, stop = stop, stop + (draw.randint(1, 4) if how else last + 1)
            due = [row for row in mine if first <= events[row].tick < stop]
            if whole is not None and bundles > 1:
                due = pruned(whole, due, bundles, case)
            part = [events[row] for row in due]
            kept = cap_events(spent, taken(whole, due), stop, case.person)
            assert sum(kept.dropped.values()) + len(kept.rows) == len(part)
            found |= found_of(part, kept)
            spent = kept.capped.after(spent)
    return found


def taken(whole: Hashed | None, rows: Sequence[int]) -> Hashed:
    assert whole is not None
    at = np.array(rows, dtype=np.int64)
    return Hashed(*(None if column is None else column[at] for column in whole))


def pruned(whole: Hashed, rows: list[int], bundles: int, case: Case) -> list[int]:
    """Rows that are left where each bundle drops what its cells have no room for."""
    left = []
    for at in range(bundles):
        part = rows[at::bundles]
        if part:
            left += [part[row] for row in gather(taken(whole, part), case.caps.events).rows]
    return left


Rule = Callable[[Case, Sequence[Event]], Found]


class Twins(NamedTuple):
    """What a rule gets wrong; all False: nothing.

    Attributes:
      shared_ids: an id counts once, anyone who's it is.
      first_wins: of the keys and events of a cell the first to arrive stay.
      early_keys: keys beyond ``keys`` are dropped while a tick is gathered.
      early_clear: what users have used up is forgotten before the last tick of a period closes.
      shared_room: keys that are new to everybody compete for the room of a shard.
    """

    shared_ids: bool = False
    first_wins: bool = False
    early_keys: bool = False
    early_clear: bool = False
    shared_room: bool = False


def spelt_out(case: Case, events: Sequence[Event], wrong: Twins = Twins()) -> Found:  # noqa: B008
    """The rule, for one user after the other, with nothing but dictionaries."""
    caps, order = case.caps, list(dict.fromkeys(events))
    repeats = [event for event in events if event.id is None]
    events = [event for event in order if event.id is not None] + repeats
    if wrong.first_wins:
        events = sorted(events, key=lambda event: order.index(event))
    if not events:
        return {}
    hashes = hashed(events, case)
    words = dict(zip(events, map(tuple, hashes.rows.tolist()), strict=True))
    pairs = dict(zip(events, map(tuple, hashes.pairs.tolist()), strict=True))
    if wrong.shared_ids:
        once: dict[str, Event] = {}
        for event in sorted((e for e in events if e.id is not None), key=repr):
            once.setdefault(str(event.id), event)
        events = [e for e in events if e.id is None or once[e.id] == e]
    found: Found = {}
    spent: dict[tuple[str, int], dict] = {}
    crowd: dict[int, set] = {}
    for user, tick in sorted({(e.user, e.tick) for e in events}, key=lambda at: (at[1], at[0])):
        period = tick // case.ticks
        if wrong.early_clear and tick % case.ticks == case.ticks - 1:
            spent.pop((user, period), None)
        one = spent.setdefault((user, period), {"used": 0, "last": None, "cells": 0, "keys": {}})
        mine: dict[str, list[Event]] = {}
        for event in events:
            if (event.user, event.tick) == (user, tick):
                mine.setdefault(event.key, []).append(event)
        if one["used"] == caps.ticks:
            continue
        if one["last"] is not None and tick < one["last"] + caps.spacing:
            continue
        keys = sorted(mine, key=lambda key: pairs[mine[key][0]])
        if wrong.first_wins:
            keys = list(mine)
        if wrong.early_keys:
            keys = keys[: caps.keys]
        if caps.ticks_per_key is not None:
            keys = [key for key in keys if one["keys"].get(key, 0) < caps.ticks_per_key]
        room = 10**9 if caps.period_keys is None else caps.period_keys - len(one["keys"])
        if wrong.shared_room and caps.period_keys is not None:
            room = 2 * caps.period_keys - len(crowd.setdefault(period, set()))
        left = []
        for key in keys:
            if key not in one["keys"]:
                if room <= 0:
                    continue
                room -= 1
            left.append(key)
        left = left[: min(caps.keys, 10**9 if caps.total is None else caps.total - one["cells"])]
        for key in left:
            new = key not in one["keys"]
            one["keys"][key] = one["keys"].get(key, 0) + 1
            crowd.setdefault(period, set()).add(key)
            members: list[Event] = []
            for event in sorted(mine[key], key=lambda e: (words[e], e.payload)):
                if event.id is None or event.id not in {m.id for m in members}:
                    members.append(event)
            if wrong.first_wins:
                members = mine[key]
            said = sorted(((e.id, e.payload) for e in members[: caps.events]), key=repr)
            found[user, tick, key] = (new, tuple(said))
        if left:
            one["used"], one["last"] = one["used"] + 1, tick
            one["cells"] += len(left)
    return found

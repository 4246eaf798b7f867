"""What a user adds to a cell: every kind of aggregate, by brute force over a cell's events."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from tests.contracts.people import config_of, terms_of
from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.aggregates.algorithm import kind_of
from weir.dpcore.aggregates.compile import outputs_of, overs_of
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.bounded_events import Bound, Events, bounded
from weir.dpcore.config.validation import validate
from weir.dpcore.plan import Plan
from weir.dpcore.registry import AGGREGATES
from weir.dpcore.simulate import sum_leaves

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "count": [
        {"count": "events"},
        {"count": "users"},
        {"count": "users", "per": "period"},
        {"count": "users", "at": "events"},
        {"count": "users", "over": 3},
    ],
    "sum": [{"sum": "x", "clip": [-1, 3]}, {"sum": "x", "clip_user": [-1, 3]}],
    "mean": [{"mean": "x", "clip": [2, 6]}, {"mean": "x", "clip": [2, 6], "of": "users"}],
    "variance": [
        {"variance": "x", "clip": [0, 4]},
        {"variance": "x", "clip": [0, 4], "of": "users"},
    ],
    "histogram": [
        {"histogram": "x", "edges": [0, 1, 2, 4, 9]},
        {"histogram": "x", "edges": [0, 1, 2, 4, 9], "of": "users"},
        {"histogram": "x", "edges": [0, 9], "of": "users"},
    ],
    "quantile": [
        {"quantile": "x", "at": 0.5, "edges": [0, 1, 2]},
        {"quantile": "x", "at": [0.1, 0.9], "edges": {"linear": [0, 4, 20]}},
    ],
}
CORNERS = (-1.0, 0.0, 0.5, 1.5, 2.0, 3.0, 4.0, 6.0, 1e300, -1e300, np.nan, np.inf)


def made(*bodies: dict[str, Any]) -> dict[str, Aggregate]:
    return {f"o{i}": validate(kind_of(body), body) for i, body in enumerate(bodies)}


def leaf_of(bodies: tuple[dict[str, Any], ...], events: int) -> ChannelLeaf:
    terms = terms_of({"ticks": 4, "keys": 2, "events": events})
    channels, outputs = outputs_of(made(*bodies), events)
    return ChannelLeaf(channels, outputs, overs_of(outputs), terms)


def cells_of(leaf: ChannelLeaf, columns: dict[str, Any], most: int, new: bool) -> np.ndarray:
    """(c, D): what a user adds to a cell, for every multiset of up to ``most`` candidates."""
    n = len(next(iter(columns.values())))
    held = [c for size in range(1, most + 1) for c in combinations_with_replacement(range(n), size)]
    rows = np.concatenate([np.array(cell) for cell in held])
    number = np.repeat(np.arange(len(held)), [len(cell) for cell in held])
    batch = {name: values[rows] for name, values in columns.items()}
    batch |= {"@cell": number, "@new": np.full(len(rows), new), "@gap": number % 4}
    program = Aggregates(leaf.channels, leaf.outputs, ())
    bounded = program.bound(batch, len(rows)).rows
    return np.asarray(program.accumulate(bounded, number, len(held)))


@pytest.mark.parametrize("events", [1, 3])
@pytest.mark.parametrize("kind", AGGREGATES.own)
def test_no_cell_of_a_user_is_larger_than_is_paid_for_and_some_is_as_large(
    kind: str, events: int
) -> None:
    rng = np.random.default_rng(events)
    for body in VARIANTS[kind]:
        leaf = leaf_of((body,), events)
        for _ in range(3):
            scales = np.exp(rng.normal(size=leaf.dimension))
            if kind == "quantile":  # bins of several levels are nested: one scale a level
                sizes = [channel.size for channel in leaf.channels]
                scales = np.repeat(scales[: len(sizes)], sizes)
            cells = cells_of(leaf, {"x": np.array(CORNERS)}, events, new=True)
            for norm in (2, 1):
                found = np.linalg.norm(cells / scales, norm, axis=1).max()
                claimed = replace(leaf, norm=norm).sensitivity(tuple(scales), False)
                assert claimed * (1 - 1e-6) <= found <= claimed


def test_every_kind_is_replayed() -> None:
    assert set(VARIANTS) == set(AGGREGATES.own)


@pytest.mark.parametrize("seed", range(12))
def test_any_aggregates_together_are_paid_for_jointly(seed: int) -> None:
    """Values of two columns, so that what is attained alone is attained together."""
    rng = np.random.default_rng(seed)
    every = [body for bodies in VARIANTS.values() for body in bodies]
    bodies = []
    for i in rng.choice(len(every), 4, replace=False):
        body = dict(every[i])
        for name, value in body.items():
            body[name] = "y" if value == "x" and rng.random() < 0.5 else value
        bodies.append(body)
    leaf = leaf_of(tuple(bodies), 3)
    scales = np.exp(rng.normal(size=leaf.dimension))
    some = np.array([(a, b) for a in CORNERS for b in rng.choice(CORNERS, 1)])
    corners = {"x": some[:, 0], "y": some[:, 1]}
    cells = cells_of(leaf, corners, 3, new=True)
    for norm in (2, 1):
        found = np.linalg.norm(cells / scales, norm, axis=1).max()
        assert found <= replace(leaf, norm=norm).sensitivity(tuple(scales), False)


def test_the_replay_finds_what_is_priced_for_an_event() -> None:
    """A user's cell of three events against the price of one."""
    for body in VARIANTS["sum"][:1] + VARIANTS["count"][:1] + VARIANTS["histogram"][:1]:
        one, three = leaf_of((body,), 1), leaf_of((body,), 3)
        scales = np.ones(one.dimension)
        cells = cells_of(three, {"x": np.array(CORNERS)}, 3, new=True)
        found = np.linalg.norm(cells / scales, axis=1).max()
        assert found > 2.9 * one.sensitivity(tuple(scales), False)


def test_who_is_no_newcomer_adds_nothing() -> None:
    leaf = leaf_of(({"count": "users", "per": "period"},), 2)
    assert leaf.once
    assert cells_of(leaf, {"x": np.array(CORNERS)}, 2, new=True).all()
    assert not cells_of(leaf, {"x": np.array(CORNERS)}, 2, new=False).any()


def test_averages_and_bins_of_users_cost_one_event_or_its_root() -> None:
    for body, times in (
        ({"mean": "x", "clip": [2, 6], "of": "users"}, 1.0),
        ({"variance": "x", "clip": [0, 4], "of": "users"}, 1.0),
        ({"sum": "x", "clip_user": [0, 4]}, 1.0),
        ({"count": "users"}, 1.0),
        ({"histogram": "x", "edges": list(range(20)), "of": "users"}, 3.0),
        ({"histogram": "x", "edges": list(range(20))}, 9.0),
        ({"mean": "x", "clip": [2, 6]}, 9.0),
    ):
        one, nine = leaf_of((body,), 1), leaf_of((body,), 9)
        scales = (1.0,) * one.dimension
        ratio = nine.sensitivity(scales, False) / one.sensitivity(scales, False)
        assert ratio == pytest.approx(times, rel=1e-9), body


# ---- whole users, through the caps

DAY = 86_400_000_000
TICKS, SPAN, WINDOW = 24, 8, 8
EVERY = {
    f"{kind}{i}": body
    for kind, bodies in VARIANTS.items()
    for i, body in enumerate(bodies)
    if "over" not in body  # users who stay active: tests/contracts/test_active_users.py
}


def drawn_caps(rng: Any) -> dict[str, Any]:
    caps: dict[str, Any] = {
        "ticks": int(rng.integers(1, 5)),
        "keys": int(rng.integers(1, 3)),
        "events": int(rng.integers(1, 4)),
        "spacing": int(rng.integers(1, 3)),
    }
    caps["ticks"] = min(caps["ticks"], 1 + (SPAN - 1) // caps["spacing"])
    for name in ("ticks_per_key", "period_keys", "total"):
        if rng.random() < 0.3:
            caps[name] = int(rng.integers(1, 5))
    return caps


def drawn_events(rng: Any, start: int, crowd: int) -> Events:
    """Few users with much more than caps allow, at extreme values, in two periods."""
    n = int(rng.integers(40, 160))
    ticks = rng.integers(0, 2 * SPAN, n)
    return Events(
        start + ticks * DAY + rng.integers(0, 1000, n),
        [("home", "help")[i] for i in rng.integers(0, 2, n)],
        {"x": rng.choice(CORNERS, n)},
        [f"e{i}" for i in range(n)],
        [f"u{i}" for i in rng.integers(0, crowd, n)],
    )


def left_out(events: Events, stay: np.ndarray) -> Events:
    assert events.keys is not None and events.ids is not None and events.users is not None
    some = np.flatnonzero(stay).tolist()
    return Events(
        events.times[stay],
        [events.keys[i] for i in some],
        {name: values[stay] for name, values in events.columns.items()},
        [events.ids[i] for i in some],
        [events.users[i] for i in some],
    )


def norms(plan: Plan, change: np.ndarray, first: int) -> list[tuple[float, float]]:
    """Of each part: the longest cell over what is paid for, and the squared mu that all cells of
    the user-period have against everything that is released within the window."""
    program: Any = plan.program
    rows = min(first + SPAN + WINDOW - 1, TICKS)
    found = []
    for part in program.parts:
        mechanism = part.mechanism
        scales = np.asarray(mechanism.scales)
        mine = change[:, :, list(part.coordinates)] / scales
        longest = float(np.sqrt((mine**2).sum(axis=2)).max()) / mechanism.sensitivity
        dense = mechanism.materialize(TICKS)[:rows]
        over = None if None in mechanism.overs else mechanism.overs[0]
        moved = np.cumsum(mine, axis=0)
        if over is not None:
            dense = dense.copy()
            dense[over:] -= mechanism.materialize(TICKS)[: rows - over]
            moved[over:] -= np.cumsum(mine, axis=0)[:-over]
        units = np.linalg.lstsq(dense, moved[:rows].reshape(rows, -1), rcond=None)[0]
        found.append((longest, float((units**2).sum()) / mechanism.unit_variance))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_user_period_that_goes_moves_sums_by_no_more_than_is_paid_for(seed: int) -> None:
    """Random caps, aggregates and streams; every user-period of them, there and not."""
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(4):
        some = rng.choice(sorted(EVERY), 3, replace=False)
        named = {"mechanism": {"continual_sum": "blt"}} if rng.random() < 0.5 else {}
        body = {"aggregates": {name: EVERY[name] for name in some}, **named}
        plan = Plan.from_config(config_of(body, drawn_caps(rng)))
        assert plan.person is not None
        events = drawn_events(rng, plan.clock.start, int(rng.integers(1, 4)))
        whole = sum_leaves(plan, bounded(plan, events, TICKS), TICKS)
        tick = plan.clock.tick_of(events.times)
        users = np.array(events.users)
        claimed = plan.program.loss(WINDOW).value ** 2
        for user in np.unique(users):
            for period in (0, 1):
                stay = (users != user) | (tick // SPAN != period)
                kept: Bound = bounded(plan, left_out(events, stay), TICKS)
                change = whole - sum_leaves(plan, kept, TICKS)
                first = period * SPAN
                assert not change[:first].any() and not change[first + SPAN :].any()
                cells = change.any(axis=2)
                caps = plan.person.caps
                assert cells.any(axis=1).sum() <= caps.ticks
                assert cells.sum(axis=1).max() <= caps.keys and cells.sum() <= caps.cells
                found = norms(plan, change, first)
                assert all(longest <= 1 for longest, _ in found)
                mu = sum(square for _, square in found)
                assert mu <= claimed * (1 + 1e-9)
                worst = max(worst, mu / claimed)
    assert worst > 0.4

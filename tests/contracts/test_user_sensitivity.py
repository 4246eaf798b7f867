"""What a user adds to a cell: every kind of aggregate, by brute force over a cell's events."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from dpcore.aggregates.aggregate import Aggregate
from dpcore.aggregates.compile import outputs_of, overs_of
from dpcore.aggregates.config import kind_of
from dpcore.aggregates.leaf import ChannelLeaf
from dpcore.aggregates.program import Aggregates
from dpcore.config.section import validate
from dpcore.registry import AGGREGATES
from tests.contracts.people import terms_of

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "count": [
        {"count": "events"},
        {"count": "users"},
        {"count": "users", "per": "period"},
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
}
CORNERS = (-1.0, 0.0, 0.5, 1.5, 2.0, 3.0, 4.0, 6.0, 1e300, -1e300, np.nan, np.inf)


def made(*bodies: dict[str, Any]) -> dict[str, Aggregate]:
    return {f"o{i}": validate(kind_of(body), body) for i, body in enumerate(bodies)}


def leaf_of(bodies: tuple[dict[str, Any], ...], events: int, whole: bool) -> ChannelLeaf:
    terms = terms_of({"ticks": 4, "keys": 2, "events": events})
    channels, outputs = outputs_of(made(*bodies), whole, events)
    return ChannelLeaf(channels, outputs, overs_of(outputs), terms)


def cells_of(leaf: ChannelLeaf, columns: dict[str, Any], most: int, new: bool) -> np.ndarray:
    """(c, D): what a user adds to a cell, for every multiset of up to ``most`` candidates."""
    n = len(next(iter(columns.values())))
    held = [c for size in range(1, most + 1) for c in combinations_with_replacement(range(n), size)]
    rows = np.concatenate([np.array(cell) for cell in held])
    number = np.repeat(np.arange(len(held)), [len(cell) for cell in held])
    batch = {name: values[rows] for name, values in columns.items()}
    batch |= {"@cell": number, "@new": np.full(len(rows), new)}
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
        for whole in (False, True):
            leaf = leaf_of((body,), events, whole)
            for _ in range(3):
                scales = np.exp(rng.normal(size=leaf.dimension))
                cells = cells_of(leaf, {"x": np.array(CORNERS)}, events, new=True)
                found = np.linalg.norm(cells / scales, axis=1).max()
                claimed = leaf.sensitivity(tuple(scales), False)
                assert found <= claimed
                assert found >= claimed * (1 - 1e-6)


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
    leaf = leaf_of(tuple(bodies), 3, whole=False)
    scales = np.exp(rng.normal(size=leaf.dimension))
    some = np.array([(a, b) for a in CORNERS for b in rng.choice(CORNERS, 1)])
    corners = {"x": some[:, 0], "y": some[:, 1]}
    cells = cells_of(leaf, corners, 3, new=True)
    found = np.linalg.norm(cells / scales, axis=1).max()
    assert found <= leaf.sensitivity(tuple(scales), False)


def test_the_replay_finds_what_is_priced_for_an_event() -> None:
    """A user's cell of three events against the price of one."""
    for body in VARIANTS["sum"][:1] + VARIANTS["count"][:1] + VARIANTS["histogram"][:1]:
        one, three = leaf_of((body,), 1, False), leaf_of((body,), 3, False)
        scales = np.ones(one.dimension)
        cells = cells_of(three, {"x": np.array(CORNERS)}, 3, new=True)
        found = np.linalg.norm(cells / scales, axis=1).max()
        assert found > 2.9 * one.sensitivity(tuple(scales), False)


def test_who_is_no_newcomer_adds_nothing() -> None:
    leaf = leaf_of(({"count": "users", "per": "period"},), 2, True)
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
        one, nine = leaf_of((body,), 1, False), leaf_of((body,), 9, False)
        scales = (1.0,) * one.dimension
        ratio = nine.sensitivity(scales, False) / one.sensitivity(scales, False)
        assert ratio == pytest.approx(times, rel=1e-9), body

"""A predicate of an aggregate's own: what counts, and what a neighbour changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.people import config_of, terms_of
from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.aggregates.algorithm import kind_of
from weir.dpcore.aggregates.bounding import GATE
from weir.dpcore.aggregates.compile import outputs_of, overs_of
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.bounded_events import Events
from weir.dpcore.config.validation import validate
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import simulate

A, B = "kind == 'a'", "large"
KINDS: dict[str, dict[str, Any]] = {
    "count": {"count": "events"},
    "sum": {"sum": "x", "clip": [-1, 3]},
    "mean": {"mean": "x", "clip": [2, 6]},
    "variance": {"variance": "x", "clip": [0, 4]},
    "histogram": {"histogram": "x", "edges": [0, 1, 2, 4, 9]},
}
VALUES = (-1.0, 0.0, 0.5, 1.5, 2.0, 3.0, 4.0, 6.0, 1e300, -1e300, np.nan, np.inf)
RELATIONS: tuple[Relation, ...] = ("add_remove", "replace_one", "replace_anywhere")


def config(aggregates: Mapping[str, Any], **privacy: Any) -> PlanConfig:
    return PlanConfig.from_dict(
        {
            "name": "gates",
            "schema": {"time": "at"},
            "clock": {
                "start": "2025-01-01T00:00:00Z",
                "period": "1d",
                "end": "2025-01-15T00:00:00Z",
            },
            "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "all", **privacy},
            "aggregates": aggregates,
        }
    )


def leaf_of(bodies: list[dict[str, Any]], relation: Relation, events: int = 1) -> ChannelLeaf:
    made = {f"o{i}": validate(kind_of(body), body) for i, body in enumerate(bodies)}
    terms = config({"n": {"count": "events"}}, relation=relation).terms()
    if events > 1:
        terms = terms_of({"ticks": 4, "keys": 2, "events": events})
    channels, outputs = outputs_of(made, events)
    return ChannelLeaf(channels, outputs, overs_of(outputs), terms)


def every_event(leaf: ChannelLeaf) -> np.ndarray:
    """(n, D): what an event adds, for every value and every answer of the predicates."""
    some = np.array([*product(VALUES, (0.0, 1.0), (0.0, 1.0))])
    columns = {"x": some[:, 0], GATE + A: some[:, 1], GATE + B: some[:, 2]}
    program = Aggregates(leaf.channels, leaf.outputs, ())
    rows = program.bound(columns, len(some)).rows
    return np.asarray(program.accumulate(rows, np.arange(len(some)), len(some)))


def largest(events: np.ndarray, scales: np.ndarray, relation: Relation, norm: int = 2) -> float:
    """What one neighbour moves at most, by brute force."""
    scaled = events / scales
    size = np.linalg.norm(scaled, norm, axis=1)
    if relation == "add_remove":
        return float(size.max())
    apart = np.linalg.norm(scaled[:, None] - scaled[None], norm, axis=2).max()
    both = 2 ** (1 / norm) * size.max() if relation == "replace_anywhere" else 0
    return float(max(apart, both))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_neighbour_changes_behind_one_gate_is_what_is_paid(
    kind: str, relation: Relation
) -> None:
    rng = np.random.default_rng(3)
    leaf = leaf_of([{**KINDS[kind], "where": A}], relation)
    for _ in range(4):
        scales = np.exp(rng.normal(size=leaf.dimension))
        found, told = largest(every_event(leaf), scales, relation), leaf.sensitivity(scales, False)
        # Value and square of a variance read one column: they are not at their ends together.
        assert told * (0.75 if kind == "variance" else 1 - 1e-4) <= found <= told


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_any_gates_together_are_paid_for_jointly(seed: int, relation: Relation) -> None:
    rng = np.random.default_rng(seed)
    bodies = []
    for kind in rng.choice(sorted(KINDS), 4):
        gate = (None, A, B)[rng.integers(0, 3)]
        bodies.append({**KINDS[kind], **({} if gate is None else {"where": gate})})
    leaf = leaf_of(bodies, relation)
    counted = relation == "replace_one" and not any("where" in body for body in bodies)
    if counted and all("count" in body for body in bodies):
        return
    scales = np.exp(rng.normal(size=leaf.dimension))
    for norm in (2, 1):
        found = largest(every_event(leaf), scales, relation, norm)
        claimed = replace(leaf, norm=norm).sensitivity(scales, norm == 1)
        assert 0.6 * claimed <= found <= claimed


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_costs_nothing_where_events_come_and_go(kind: str) -> None:
    for events in (1, 3):
        plain = leaf_of([KINDS[kind]], "add_remove", events)
        gated = leaf_of([{**KINDS[kind], "where": A}], "add_remove", events)
        scales = tuple(np.exp(np.random.default_rng(1).normal(size=plain.dimension)))
        assert gated.sensitivity(scales, False) == plain.sensitivity(scales, False)


def test_a_count_behind_a_gate_is_no_longer_public_where_events_are_replaced() -> None:
    with pytest.raises(ConfigError, match="nothing here depends"):
        Plan.from_config(config({"n": {"count": "events"}}, relation="replace_one"))
    gated = {"n": {"count": "events", "where": A}}
    assert Plan.from_config(config(gated, relation="replace_one")).outputs[0].stddev_worst > 0


def test_users_cells_are_bounded_behind_a_gate() -> None:
    """Of every multiset of three events; a mean of a user is of those that count."""
    rng = np.random.default_rng(5)
    for body in (*KINDS.values(), {"mean": "x", "clip": [2, 6], "of": "users"}, {"count": "users"}):
        leaf = leaf_of([{**body, "where": A}], "add_remove", events=3)
        some = np.array([*product(VALUES, (0.0, 1.0))])
        rows = rng.integers(0, len(some), 3 * 400)
        cells = np.repeat(np.arange(400), 3)
        new = np.ones(len(rows), dtype=bool)
        columns = {"x": some[rows, 0], GATE + A: some[rows, 1], "@cell": cells, "@new": new}
        program = Aggregates(leaf.channels, leaf.outputs, ())
        bound = program.bound(columns, len(rows)).rows
        added = np.asarray(program.accumulate(bound, cells, 400))
        scales = np.exp(rng.normal(size=leaf.dimension))
        assert np.linalg.norm(added / scales, axis=1).max() <= leaf.sensitivity(scales, False)
        inside = {name: column[some[rows, 1] == 1] for name, column in columns.items()}
        plain = replace(program, channels=tuple(replace(c, where=None) for c in program.channels))
        kept = plain.bound(inside, len(inside["x"])).rows
        assert (added == plain.accumulate(kept, inside["@cell"], 400)).all()


def test_what_counts_is_what_would_count_if_the_rest_were_not_there() -> None:
    rng = np.random.default_rng(7)
    gated = {name: {**body, "where": A} for name, body in KINDS.items()}
    plan = Plan.from_config(config({**gated, "everything": {"count": "events"}}))
    x, gate = rng.normal(2, 3, 500), rng.integers(0, 2, 500).astype(float)
    times = plan.clock.start + rng.integers(0, 14 * 86_400_000_000, 500)
    (got,) = simulate(plan, Events(times, None, {"x": x, GATE + A: gate}), bytes(32), None, ZERO)
    kept = gate == 1
    alone = Plan.from_config(config({**KINDS, "everything": {"count": "events"}}))
    (want,) = simulate(alone, Events(times[kept], None, {"x": x[kept]}), bytes(32), None, ZERO)
    for one, two in zip(got.released, want.released, strict=True):
        if one.name == "everything":
            assert one.value[-1, 0, 0] == 500
        elif one.name in ("count", "sum", "histogram"):
            np.testing.assert_allclose(one.value, two.value, rtol=1e-12)
        else:
            np.testing.assert_allclose(one.value[-1], two.value[-1], rtol=0.02)


ZERO = NoNoise(0)


def test_a_plan_says_where_and_another_where_is_another_plan() -> None:
    one = Plan.from_config(config({"n": {"count": "events", "where": A}}))
    two = Plan.from_config(config({"n": {"count": "events", "where": B}}))
    assert one.digest != two.digest
    assert one.to_json()["releases"][0]["what"] == f"events, where {A}"


def test_newcomers_have_no_gate() -> None:
    body: dict[str, Any] = {"count": "users", "per": "period", "where": A}
    with pytest.raises(ConfigError, match=r"aggregates\.n\.where.*per: period"):
        config_of({"aggregates": {"n": body}})


EVERY: dict[str, dict[str, Any]] = {
    **KINDS,
    "quantile": {"quantile": "x", "at": [0.5, 0.9], "edges": {"linear": [0, 10, 64]}},
    "wide": {"quantile": "x", "at": 0.5, "edges": {"log": [1, 100, 200]}},
    "where": {"mean": "x", "clip": [0, 1], "where": A},
    "other": {"histogram": "x", "edges": [0, 9], "where": B},
}
"""Of every kind, some of them behind predicates."""


@pytest.mark.parametrize("names", [*((name,) for name in EVERY), tuple(EVERY)])
def test_a_missing_value_is_counted_once_however_many_channels_read_it(
    names: tuple[str, ...],
) -> None:
    leaf = leaf_of([EVERY[name] for name in names], "add_remove")
    program = Aggregates(leaf.channels, leaf.outputs, ())
    x = np.array([1.0, np.nan, np.nan, 2.0, np.nan, 0.5])
    ones = np.ones(len(x))
    found = program.bound({"x": x, GATE + A: ones, GATE + B: ones}, len(x))
    reads = names != ("count",)
    assert (found.non_finite, found.out_of_range) == (3 * reads, 0)
    off = np.array([1.0, 50.0, np.nan, -7.0])
    found = program.bound({"x": off, GATE + A: np.ones(4), GATE + B: np.ones(4)}, 4)
    histograms = sum("histogram" in EVERY[name] for name in names)
    assert (found.non_finite, found.out_of_range) == (1 * reads, 2 * histograms)


def test_what_no_predicate_lets_in_is_not_counted() -> None:
    leaf = leaf_of([EVERY["where"], EVERY["other"]], "add_remove")
    program = Aggregates(leaf.channels, leaf.outputs, ())
    columns = {
        "x": np.array([np.nan, np.nan, np.nan, 1.0]),
        GATE + A: np.array([1.0, 0, 0, 1]),
        GATE + B: np.array([1.0, 1, 0, 1]),
    }
    assert program.bound(columns, 4).non_finite == 2

"""Means and variances are of values that are present: what counts, and what a neighbour changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.people import terms_of
from tests.dpcore.aggregates.test_where import A, B, config
from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.accounting.joint import Counted
from weir.dpcore.aggregates.algorithm import kind_of
from weir.dpcore.aggregates.bounding import GATE, Predicated
from weir.dpcore.aggregates.channel import ChannelGate, UserCells
from weir.dpcore.aggregates.compile import outputs_of, overs_of
from weir.dpcore.aggregates.layout import ByAbsent
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.aggregates.split import split_groups
from weir.dpcore.arrays import Floats
from weir.dpcore.bounded_events import Events
from weir.dpcore.config.validation import validate
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

RELATIONS: tuple[Relation, ...] = ("add_remove", "replace_one", "replace_anywhere")
MEAN: dict[str, Any] = {"mean": "x", "clip": [2, 6]}
COUNT: dict[str, Any] = {"count": "events"}
SUM: dict[str, Any] = {"sum": "x", "clip": [2, 6]}
OTHER: dict[str, Any] = {"mean": "y", "clip": [-1, 1]}
PLANS: dict[str, list[dict[str, Any]]] = {
    "mean": [MEAN],
    "mean, count": [MEAN, COUNT],
    "mean, sum, count": [MEAN, SUM, COUNT],
    "mean, sum": [MEAN, SUM],
    "two columns, count": [MEAN, OTHER, COUNT],
    "gated": [{**MEAN, "where": A}],
    "gated, with its count": [{**MEAN, "where": A}, {**COUNT, "where": A}],
    "gated, with the count of all": [{**MEAN, "where": A}, COUNT],
    "with its old meaning": [MEAN, {**MEAN, "missing": 0}, COUNT],
}
VALUES = (2.0, 4.0, 6.0, 1e300, -np.inf, np.nan)
NORMS = (2, 1)
"""Of Gaussian and K-norm noise, and of Laplace noise."""


def leaf_of(
    bodies: Sequence[dict[str, Any]], relation: Relation, events: int = 1, norm: int = 2
) -> ChannelLeaf:
    aggregates = {f"o{i}": validate(kind_of(body), body) for i, body in enumerate(bodies)}
    terms = config({"n": COUNT}, relation=relation).terms()
    if events > 1:
        terms = terms_of({"ticks": 4, "keys": 2, "events": events})
    rule: ByAbsent = "covered" if terms.cell_relation != "replace_one" else "never"
    channels, outputs = outputs_of(aggregates, events, rule)
    return ChannelLeaf(channels, outputs, overs_of(outputs), terms, norm)


def added(leaf: ChannelLeaf, rows: np.ndarray, cells: np.ndarray) -> Floats:
    """(cells, D): what events (x, y, whether A, whether B) add."""
    columns = dict(zip(("x", "y", GATE + A, GATE + B), rows.T, strict=True))
    columns |= {"@cell": cells, "@new": np.ones(len(rows), dtype=bool)}
    if leaf.terms.person is None:
        del columns["@cell"], columns["@new"]
    program = Aggregates(leaf.channels, leaf.outputs, ())
    sums = program.accumulate(program.bound(columns, len(rows)).rows, cells, int(cells.max()) + 1)
    return np.asarray(sums, dtype=np.float64)[:, list(leaf.coordinates)]


def every_event(leaf: ChannelLeaf) -> Floats:
    rows = np.array([*product(VALUES, (-1.0, 1.0, np.nan), (0.0, 1.0), (0.0, 1.0))])
    return added(leaf, rows, np.arange(len(rows)))


def largest(
    events: Floats, scales: Floats, relation: Relation, may_vanish: bool, norm: int
) -> float:
    """What one neighbour moves at most, by brute force over pairs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.nan_to_num(events / scales, nan=0.0, posinf=0.0)  # scale 0: public
    sizes = np.linalg.norm(scaled, norm, axis=1)
    alone = sizes.max()
    apart = np.linalg.norm(scaled[:, None] - scaled[None], norm, axis=2).max()
    if relation == "add_remove":
        return float(alone)
    if relation == "replace_one":
        return float(max(apart, alone) if may_vanish else apart)
    # Two cells: what leaves one and comes into the other are different coordinates.
    return float(max(apart, np.linalg.norm([alone, alone], norm)))


def drawn(leaf: ChannelLeaf, rng: np.random.Generator) -> Floats:
    """Some scales; 0 where the relation makes a channel public."""
    public = [
        channel.kind == "count" and channel.presence is None and channel.where is None
        for channel in (leaf.channels[i] for i in leaf.read)
    ]
    scales = np.exp(rng.normal(size=leaf.dimension))
    if leaf.terms.cell_relation == "replace_one" and not leaf.terms.may_vanish:
        scales = np.where(public, 0.0, scales)
    return np.asarray(scales / [leaf.channels[i].resolution for i in leaf.read])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", PLANS)
def test_what_a_neighbour_changes_is_what_is_paid(name: str, relation: Relation, norm: int) -> None:
    rng = np.random.default_rng(3)
    leaf = leaf_of(PLANS[name], relation, norm=norm)
    events = every_event(leaf)
    # Values that two channels read are not at their ends together, or are behind two gates.
    loose = name in (
        "with its old meaning",
        "gated, with the count of all",
        "gated, with its count",
    )
    least_paid = 0.7 if norm == 2 else 0.6  # parts of one event that cannot be at most at once
    for _ in range(6):
        scales = drawn(leaf, rng)
        moved = largest(events, scales, relation, leaf.terms.may_vanish, norm)
        paid = leaf.sensitivity(scales, False)
        assert paid * (least_paid if loose else 1 - 1e-5) <= moved <= paid, (moved, paid)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_price_without_an_event_that_loses_its_value_is_rejected(
    relation: Relation, norm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant: two events both have the number, or neither."""

    def blind(self: Counted) -> float:
        sides = [sum(twos) for column in self.columns.values() for _, twos in column.values()]
        return float(sum(self.twos) + max(sides, default=0.0))

    leaf = leaf_of([MEAN, COUNT], relation, norm=norm)
    monkeypatch.setattr(Counted, "two", property(blind))
    events, rng = every_event(leaf), np.random.default_rng(4)
    under = False
    for _ in range(20):
        scales = drawn(leaf, rng)
        moved = largest(events, scales, relation, leaf.terms.may_vanish, norm)
        under |= moved > leaf.sensitivity(scales, False) * (1 + 1e-6)
    # Under replace_anywhere two units in different ticks are worth any two in one.
    assert under == (relation == "replace_one")


@pytest.mark.parametrize("norm", NORMS)
def test_a_count_of_the_others_that_counts_everybody_is_rejected(
    norm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant: an event with a value is on both sides."""
    leaf, real = leaf_of([MEAN, COUNT], "add_remove", norm=norm), Predicated.of
    monkeypatch.setattr(
        "weir.dpcore.aggregates.program.Predicated.of",
        lambda columns, n, gate, most: real(
            columns, n, gate if gate.presence != "absent" else ChannelGate(), most
        ),
    )
    scales = np.array(leaf_scales(leaf))
    moved = largest(every_event(leaf), scales, "add_remove", False, norm)
    assert moved > 1.2 * leaf.sensitivity(scales, False)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", PLANS)
def test_laplace_noise_that_is_paid_for_in_the_l2_norm_is_rejected(
    name: str, relation: Relation
) -> None:
    """A mutant: the split and the price of Gaussian noise, also with other scales."""
    right = leaf_of(PLANS[name], relation, norm=1)
    mutant, events = replace(right, norm=2), every_event(right)
    may_vanish, rng = right.terms.may_vanish, np.random.default_rng(5)
    one_number = np.count_nonzero(leaf_scales(right)) == 1  # the others are public: l1 is l2
    under = []
    for scales in (leaf_scales(mutant), leaf_scales(right), *(drawn(right, rng) for _ in range(9))):
        moved = largest(events, np.array(scales), relation, may_vanish, 1)
        assert moved <= right.sensitivity(scales, False)
        under.append(moved > 1.1 * mutant.sensitivity(scales, False))
    assert under[0] == (not one_number) and any(under[2:]) == (not one_number)


def leaf_scales(leaf: ChannelLeaf, importance: float = 1.0) -> list[float]:
    """Its own split, where all that is asked of it matters alike over time."""
    weights = dict.fromkeys(leaf.read, 0.0)
    for output in leaf.outputs:
        for channel, weight in output.importance().items():
            weights[channel] += importance * weight
    steps = [leaf.channels[i].resolution for i in leaf.read]
    terms = leaf.terms
    own = (terms.cell_relation, terms.may_vanish, leaf.norm)
    return split_groups(leaf.groups, steps, list(weights.values()), *own)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", ["mean", "variance"])
@pytest.mark.parametrize("events", [1, 3])
def test_values_that_are_present_cost_nothing_where_events_come_and_go(
    kind: str, events: int, norm: int
) -> None:
    body = {kind: "x", "clip": [2, 6]}
    old, new = ({**body, "missing": 0}, body)
    assert leaf_scales(leaf_of([new], "add_remove", events, norm)) == leaf_scales(
        leaf_of([old], "add_remove", events, norm)
    )
    for others in ([], [OTHER]):  # what else is paid for
        beside = leaf_of([new, *others, COUNT], "add_remove", events, norm)
        scales = np.array(leaf_scales(beside))
        absent = np.array([beside.channels[i].presence == "absent" for i in beside.read])
        paid = beside.sensitivity(scales, False)
        alone = leaf_of([new, *others], "add_remove", events, norm)
        assert sum(absent) == 1 and paid == alone.sensitivity(scales[~absent], False)
        assert not any(channel.presence is None for channel in beside.channels)
        # No less noise is free: that of the others is as small as it can be at this price.
        less = np.where(absent, scales * 0.999, scales)
        assert beside.sensitivity(less, False) > paid * 1.0001


@pytest.mark.parametrize("norm", NORMS)
def test_where_events_are_replaced_the_count_has_the_noise_that_is_free(norm: int) -> None:
    leaf = leaf_of([MEAN], "replace_one", norm=norm)
    scales = np.array(leaf_scales(leaf))
    value, count = scales * [leaf.channels[i].resolution for i in leaf.read]
    # Half the clip: 2. A change of the value alone is 4, one of both 2 and the count.
    free = value / (2 * np.sqrt(3)) if norm == 2 else value / 2
    assert count <= free * (1 + 1e-6)  # less noise of it than is free is worth its price in l1
    old = leaf_of([{**MEAN, "missing": 0}], "replace_one", norm=norm)
    alone = old.sensitivity([1.0, 0.0], False) / scales[0]
    assert norm == 1 or count == pytest.approx(free, rel=1e-6)
    for times, costs in ((1.0, False), (0.999, True)):
        some = scales * [1, times * free / count]
        paid = leaf.sensitivity(some, False)
        assert (paid > alone * 1.0001) == costs and paid >= alone * (1 - 1e-6)
        moved = largest(every_event(leaf), some, "replace_one", leaf.terms.may_vanish, norm)
        assert paid * (1 - 1e-5) <= moved <= paid


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("most", [2, 3])
@pytest.mark.parametrize(
    "bodies",
    [
        [MEAN],
        [MEAN, COUNT],
        [MEAN, SUM, COUNT],
        [{**MEAN, "of": "users", "over": 1}, {"count": "users"}],
        [{**MEAN, "of": "users", "over": 1}, {"count": "users"}, MEAN, COUNT],
    ],
    ids=str,
)
def test_users_pay_for_every_multiset_of_their_events(
    bodies: list[dict[str, Any]], most: int, norm: int
) -> None:
    rng = np.random.default_rng(most)
    leaf = leaf_of(bodies, "add_remove", most, norm)
    rows = np.array([[x, 0.0, 1.0, 1.0] for x in VALUES])
    held = [
        cell
        for size in range(1, most + 1)
        for cell in combinations_with_replacement(range(len(rows)), size)
    ]
    cells = np.repeat(np.arange(len(held)), [len(cell) for cell in held])
    sums = added(leaf, rows[np.concatenate([np.array(cell) for cell in held])], cells)
    for _ in range(5):
        scales = drawn(leaf, rng)
        moved = np.linalg.norm(sums / scales, norm, axis=1).max()
        paid = leaf.sensitivity(scales, False)
        assert paid * (0.7 if len(bodies) > 3 else 1 - 1e-5) <= moved <= paid


def released(aggregates: dict[str, Any], x: Sequence[float], **more: Any) -> dict[str, float]:
    """Without noise, since the start; 200 times these events."""
    plan = Plan.from_config(config(aggregates, **more.pop("privacy", {})))
    times = plan.clock.start + np.arange(200 * len(x)) * 60_000_000
    events = Events(times, None, {"x": np.tile(x, 200)})
    (life,) = simulate(plan, events, bytes(32), None, NoNoise(0))
    return {item.name: float(item.value[-1, 0, 0]) for item in life.released}


def test_a_missing_value_is_absent_from_means_and_0_in_sums() -> None:
    x = [np.nan, 10.0, 20.0, np.inf, 24.0]
    aggregates = {
        "mean": {"mean": "x", "clip": [0, 30]},
        "variance": {"variance": "x", "clip": [0, 30]},
        "old": {"mean": "x", "clip": [0, 30], "missing": 0},
        "sum": {"sum": "x", "clip": [0, 30]},
        "moved": {"mean": "x", "clip": [5, 30]},
        "moved_sum": {"sum": "x", "clip": [5, 30]},
        "count": {"count": "events"},
    }
    for relation in RELATIONS:
        found = released(aggregates, x, privacy={"relation": relation})
        assert found["mean"] == pytest.approx(18.0) == pytest.approx(found["moved"])
        assert found["variance"] == pytest.approx(np.var([10, 20, 24]), rel=1e-4)
        assert found["old"] == pytest.approx(10.8) and found["sum"] == pytest.approx(200 * 54)
        assert found["moved_sum"] == pytest.approx(200 * (54 + 2 * 5))
        assert found["count"] == 1000


def test_a_user_without_values_is_absent_and_one_with_some_counts_by_them() -> None:
    users = leaf_of([{**MEAN, "of": "users", "over": 1}, {"count": "users"}], "add_remove", 3)
    x = [2.0, np.nan, 4.0, np.nan, np.nan, 6.0]
    rows = np.array([[value, 0.0, 1.0, 1.0] for value in x])
    columns = {"x": rows[:, 0], "@cell": np.array([0, 0, 0, 1, 1, 2]), "@new": np.ones(6, bool)}
    program = Aggregates(users.channels, users.outputs, ())
    bound = program.bound(columns, 6)
    (sums,) = program.accumulate(bound.rows, np.zeros(6, dtype=np.int64), 1)
    shown = {
        (channel.kind, channel.presence): value * channel.resolution
        for channel, value in zip(program.channels, sums, strict=True)
    }
    # Means of users 3 and 6, less the middle 4.
    assert shown == {
        ("value", "present"): 1.0,
        ("count", "present"): 2.0,
        ("count", "absent"): 1.0,
    }
    assert bound.non_finite == 3
    assert UserCells.of(columns, 6, 3).any(np.isfinite(rows[:, 0])).tolist() == [
        True, True, True, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("value", [1, "zero", [0], 0.5])
def test_what_missing_may_be(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"aggregates\.m\.missing"):
        config({"m": {**MEAN, "missing": value}})


def test_a_plan_says_what_a_missing_value_is() -> None:
    new = Plan.from_config(config({"m": MEAN, "s": SUM}))
    old = Plan.from_config(config({"m": {**MEAN, "missing": 0}, "s": SUM}))
    assert new.digest != old.digest
    assert "missing ones do not count" in new.left_out("m")
    assert "missing ones as 2" in old.left_out("m") and "missing ones as 2" in new.left_out("s")


def test_outputs_with_intervals_give_them() -> None:
    plan = Plan.from_config(config({"m": MEAN, "v": {"variance": "x", "clip": [0, 4]}}))
    assert all(output.interval for output in plan.outputs)
    assert [out.between for out in plan.outputs] == [(2.0, 6.0), (0.0, 4.0)]

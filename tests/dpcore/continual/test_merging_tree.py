"""Delayed merges with many branches: nodes by brute force, losses at every age, bits, plans."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import ConstantNoise
from tests.contracts.cases import KEYS, Case, leaves, run, same
from tests.contracts.patterns import pattern
from tests.contracts.test_loss import cost
from tests.contracts.test_scale import ratios
from tests.dpcore.continual.recorder import Recorder
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.merging_tree import MergingTree, starts_of, worst
from weir.dpcore.continual.tree import Tree
from weir.dpcore.plan import Plan

SHAPES = [
    (0, (3, 2, 2), 1),
    (0, (4, 3), 7),
    (1, (2, 3, 2), 5),
    (1, (3, 2, 2), 4),
    (2, (2, 2, 2, 2), 9),
    (1, (3, 4), 30),
    (2, (3, 4), 60),
]
"""h, arities and W: short and long windows, multiples of the sizes next to them and others."""
TICKS = 90


def make(window: int | None, horizon: int | None, **more: Any) -> MergingTree:
    common: dict[str, Any] = dict(
        dimension=1, scales=(1.0,), sensitivity=1.0, overs=(None,), budget=PrivacyLoss("pure", 1.0),
    )  # fmt: skip
    return MergingTree.calibrated(window=window, horizon=horizon, **(common | more))


def shaped(top: int, arities: tuple[int, ...], delay: int | None) -> MergingTree:
    tree = make(4, None)
    return replace(tree, top=top, arities=arities, delay=delay, noise_scale=1.0)


def in_use(tree: MergingTree, time: int) -> list[tuple[int, int]]:
    """The cover by its definition: the largest node in use from the left, again and again."""
    nodes, at = [], 0
    while at < time:
        ends = [at + size for size in tree.sizes if at % size == 0]
        old = [end for end, wait in zip(ends, tree.delays, strict=False) if end + wait <= time]
        nodes.append((at, max(old)))
        at = max(old)
    return nodes


@pytest.mark.parametrize("shape", SHAPES)
def test_covers_are_the_largest_nodes_in_use_and_errors_count_them(shape: Any) -> None:
    tree = shaped(*shape)
    covers = [[(x.start, x.end) for x in tree.cover(tick)] for tick in range(TICKS)]
    assert covers == [in_use(tree, tick + 1) for tick in range(TICKS)]
    ticks = np.arange(TICKS)
    counts = [len(cover) for cover in covers]
    assert tree.factor(ticks, None).tolist() == counts
    for n in range(1, TICKS + 1):
        assert max(counts[:n]) <= worst(n, tree.arities or (), tree.top, tree.delay or 0)
    for over in (1, 2, 7, 30):
        apart = [
            len({*covers[t]} ^ {*(covers[t - over] if t >= over else ())}) for t in range(TICKS)
        ]
        assert tree.factor(ticks, over).tolist() == apart


@pytest.mark.parametrize("shape", SHAPES)
def test_every_node_is_drawn_once_keyed_with_its_own_leaves(shape: Any) -> None:
    tree, recorder = shaped(*shape), Recorder()
    state, noise = tree.init(1), list[float]()
    data = np.ones((TICKS, 1, 1), dtype=np.int64)
    for stride in (1, 2, 3, 50, 7, 27):
        at = recorder.first_tick
        state, (values,) = tree.step(state, data[at : at + stride], recorder)  # type: ignore[arg-type]
        noise.extend(values[:, 0, 0] - np.arange(at + 1, at + stride + 1))
        recorder.first_tick += stride
    labels, nodes = zip(*recorder.drawn, strict=True)
    every = {(x.start, x.end) for tick in range(TICKS) for x in tree.cover(tick)}
    assert len({*labels}) == len(labels) == len(nodes) and {*nodes} == every
    drawn = [
        sum(np.rint(recorder.values[x.start, x.end]) for x in tree.cover(t)) for t in range(TICKS)
    ]
    assert noise == drawn


def ages(tree: MergingTree) -> list[list[int]]:
    """For each record, its age in ticks when it first meets each node that holds it."""
    first = dict[tuple[int, int], int]()
    for tick in range(TICKS):
        for x in tree.cover(tick):
            first.setdefault((x.start, x.end), tick)
    return [
        [tick - record + 1 for (start, end), tick in first.items() if start <= record < end]
        for record in range(TICKS)
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_no_record_has_met_more_nodes_at_any_age_than_is_charged(shape: Any) -> None:
    tree = shaped(*shape)
    met = ages(tree)
    for ticks in range(1, 70):
        counted = max(sum(age <= ticks for age in some) for some in met[: TICKS - ticks])
        stated = tree.loss(ticks).value
        assert counted <= stated
        if ticks in (1, 2, tree.delay):
            assert counted == stated
    starts = starts_of(tree.arities or (), tree.top, tree.delay or 0)
    assert all(tree.loss(n).value == sum(start <= n for start in starts) for n in range(1, 200))
    assert tree.loss(0).value == 0.0 and tree.loss(None).value == len(starts)


def moved(tree: MergingTree, record: int, ticks: int, n: int = 40) -> float:
    """The least units, in l1, that move all that is released by then as a record does."""
    matrix, clean = tree.materialize(n), np.tril(np.ones((n, n)))
    return cost(matrix[: record + ticks], clean[: record + ticks, record], 1)


@pytest.mark.slow
def test_replayed_losses_fade_by_degrees_and_mutants_cost_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = shaped(1, (2, 3, 2), 5)
    for ticks in (1, 2, 5, 6, 11, 12, 20):
        worst_of = max(moved(tree, record, ticks) for record in range(0, 40 - ticks, 3))
        assert worst_of <= tree.loss(ticks).value + 1e-9
    assert moved(tree, 0, 5) == pytest.approx(tree.loss(5).value)

    sooner = replace(tree, delay=3)
    late = max(moved(sooner, record, 5) for record in range(34))
    assert late > tree.loss(5).value + 0.4, "nodes come into use within the window"
    fewer = replace(tree, top=0)
    assert moved(tree, 0, 5) > 1.4 * fewer.loss(5).value, "a level inside the window is forgotten"
    materialize = MergingTree.materialize

    def less(self: MergingTree, n: int) -> Floats:
        """Noise of larger nodes at half of the weight that their exact sums have."""
        matrix = materialize(self, n).copy()
        matrix[:, [x.end - x.start > 1 for x in self.nodes(n)]] /= 2
        return matrix

    monkeypatch.setattr(MergingTree, "materialize", less)
    assert moved(tree, 0, 5) > 1.3 * tree.loss(5).value


def test_contributions_of_users_add_up_and_wait_for_the_period_too() -> None:
    some = pattern(10, 3, 2)
    users = make(7, 200, pattern=some)
    assert users.delay == some.rows(7) == 16
    plain = make(16, 200)
    assert (users.top, users.arities) == (plain.top, plain.arities)
    assert users.noise_scale == pytest.approx(6 * plain.noise_scale)
    assert users.loss(7).value == pytest.approx(1.0) and users.loss(7).value <= 1.0


@pytest.mark.parametrize("born", [1, 5, 24, 50])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_later_key_lacks_units_that_held_none_of_its_leaves(shape: Any, born: int) -> None:
    tree = shaped(*shape)
    data = np.zeros((TICKS - born, 1, 1), dtype=np.int64)
    _, (values,) = tree.step(tree.init(1), data, ConstantNoise(1.0, born))  # type: ignore[arg-type]
    for tick in range(born, TICKS):
        cover = tree.cover(tick)
        assert sum(x.end > born for x in cover) <= values[tick - born, 0, 0] <= len(cover)


@pytest.mark.parametrize("noise", ["laplace", "k_norm"])
@pytest.mark.parametrize("shape", SHAPES)
def test_bits_do_not_depend_on_strides_or_shards(shape: Any, noise: str) -> None:
    top, arities, delay = shape
    case = Case("merging_tree", noise, 8, (None, 1, 3))
    tree = replace(case.build(), top=top, arities=arities, delay=delay)
    data = leaves(TICKS)
    state, released = run(tree, data)
    again, other = run(tree, data, (1,) * 20 + (7, 1, 40, 22))
    assert same(state, again) and all(map(np.array_equal, released, other))
    _, few = run(tree, data[:, :1], (33, 57), KEYS[:1])
    assert all(np.array_equal(a[:, :1], b) for a, b in zip(released, few, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["k_norm", "laplace"])
def test_noise_has_the_stated_size_and_a_wrong_scale_is_found(noise: str) -> None:
    case = Case("merging_tree", noise, 8, (None, 1, 3))
    assert abs(ratios(case, 1.0) - 1).max() < 0.1
    assert (ratios(case, 0.9) < 0.9).all() and (ratios(case, 1.1) > 1.1).all()


@pytest.mark.parametrize(
    ("n", "window", "top", "arities", "error", "binary"),
    [
        (1000, 7, 0, (10, 10), 8.12, 12.73),
        (1000, 30, 0, (32,), 13.42, 21.21),
        (1000, 90, 2, (6, 6, 6), 18.97, 29.70),
        (365, 90, 1, (20,), 16.97, 28.00),
        (10080, 365, 1, (27, 18), 24.49, 45.89),
    ],
)
def test_noise_is_a_third_less_than_of_a_binary_tree_and_the_whole_loss_no_more(
    n: int, window: int, top: int, arities: tuple[int, ...], error: float, binary: float
) -> None:
    tree, ticks = make(window, n, norm=1), np.arange(n)
    other = Tree.calibrated(
        dimension=1, scales=(1.0,), sensitivity=1.0, overs=(None,), window=window, horizon=n,
        budget=PrivacyLoss("pure", 1.0), norm=1,
    )  # fmt: skip
    assert (tree.top, tree.arities) == (top, arities)
    assert tree.stddev(ticks, None).max() == pytest.approx(error, abs=0.005)
    assert other.stddev(ticks, None).max() == pytest.approx(binary, abs=0.005)
    assert tree.loss(window).value == pytest.approx(1.0)
    assert tree.loss(None).value <= other.loss(None).value * (1 + 1e-12)


def test_arities_are_near_the_best_of_all_small_trees() -> None:
    """Over all trees of two or three levels on a clock of 365 ticks, by their exact errors."""
    n = 365
    for window in (2, 7, 30, 90):
        tree = make(window, n, norm=1)
        most = n.bit_length() / window.bit_length()
        least = math.inf
        for top in (0, 1, 2):
            shapes = [(a,) for a in range(2, 60)]
            shapes += [(a, b) for a in range(2, 30) for b in range(2, 30) if a * b <= n]
            for arities in shapes:
                if top < len(arities) + 1 <= (top + 1) * most:
                    price = (top + 1) ** 2 * worst(n, arities, top, window)
                    least = min(least, price)
        mine = (tree.top + 1) ** 2 * worst(n, tree.arities or (), tree.top, window)
        assert mine <= 1.03 * least


def test_a_clock_without_end_has_levels_to_its_last_tick() -> None:
    tree = make(7, None)
    assert tree.arities == (9,) * 12 and tree.top == 0 and tree.horizon is None
    assert tree.loss(None).value == pytest.approx(13)
    assert tree.state_bytes() < 1500


def test_gamma_and_a_guarantee_for_the_whole_clock_have_two_children() -> None:
    binary = make(4, None, gamma=1.0)
    assert binary.arities is None and binary.delay is None and binary.top == 2
    assert make(None, None).arities is make(100, 100).arities is None


# ---- in a plan


def plan_of(days: int | None = 1000, outputs: str = "count: events", **privacy: Any) -> Plan:
    end = "" if days is None else f", end: {np.datetime64('2024-01-01') + days}T00:00:00Z"
    some = ", ".join(f"{name}: {value}" for name, value in privacy.items())
    return Plan.from_yaml(f"""
name: totals
schema: {{time: t}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d{end}}}
privacy: {{epsilon: 1, {some}}}
aggregates: {{n: {{{outputs}}}}}
""")


def taken(plan: Plan) -> str:
    return next(item.mechanism for item in plan.alternatives if item.chosen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("days", "window", "noise", "whole"),
    [
        (1000, 7, 8.12, 3.0),
        (1000, 30, 13.42, 2.0),
        (1000, 90, 18.97, 4 / 3),
        (None, 30, 15.81, 8.0),
    ],
)
def test_it_is_taken_for_horizons_shorter_than_the_clock(
    days: int | None, window: int, noise: float, whole: float
) -> None:
    plan = plan_of(days, delta=0, protect_for=f"{window}d")
    assert taken(plan) == "merging_tree"
    (own,) = [item for item in plan.alternatives if item.chosen]
    (tree,) = [item for item in plan.alternatives if item.mechanism == "tree"]
    assert own.stddev["n over=all"] == pytest.approx(noise, abs=0.01)
    assert own.stddev["n over=all"] < 0.7 * tree.stddev["n over=all"]
    losses = [row.epsilon for row in plan.guarantee.expiration]
    assert losses[0] <= 1.0 and losses == sorted(losses)
    assert plan.program.loss(None).value == pytest.approx(whole, rel=1e-6)


def test_it_does_not_replace_a_guarantee_for_ever_by_one_that_fades() -> None:
    assert taken(plan_of(34, delta=0, protect_for="7d")) == "independent"
    plan = plan_of(60, delta=0, protect_for="30d")
    assert taken(plan) == "merging_tree"
    assert plan.program.loss(None).value == pytest.approx(1.0, rel=1e-6)


def test_it_is_an_alternative_where_some_sum_does_not_gain_or_the_config_names_noise() -> None:
    assert taken(plan_of(outputs="count: events, over: [all, 7]", delta=0, protect_for="30d")) == (
        "merging_tree"
    )
    plan = plan_of(outputs="count: events, over: [all, 7]", delta=0, protect_for="all")
    assert taken(plan) == "independent"
    shown = {item.mechanism: item for item in plan.alternatives}
    assert shown["merging_tree"].note.startswith("chosen by itself at delta 0 alone")
    assert taken(plan_of(delta="1e-6", protect_for="30d")) == "blt"

"""Trees with many branches: least squares by matrices, nodes and keys of units, losses, plans."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contracts.cases import SENSITIVITY, Case
from tests.contracts.patterns import pattern
from tests.contracts.test_loss import replayed
from tests.dpcore.continual.recorder import Recorder
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.continual.kary_tree import KaryTree, best_arities, variances_of, weights_of, worst
from weir.dpcore.continual.tree import Tree
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan

SHAPES = [(), (8,), (2, 2, 2, 2), (3, 4, 2), (5, 3)]


def make(n: int, arities: tuple[int, ...] | None = None, scale: float = 1.0) -> KaryTree:
    tree = KaryTree.calibrated(
        dimension=1, scales=(scale,), sensitivity=1.0, overs=(None,), window=None, horizon=n,
        budget=PrivacyLoss("pure", 1.0),
    )  # fmt: skip
    return tree if arities is None else replace(tree, arities=arities)


def by_least_squares(arities: tuple[int, ...], time: int) -> float:
    """Variance of the best total of the ticks so far, from the noisy sums of all complete nodes."""
    nodes, size = list[Floats](), 1
    for arity in (*arities, 0):
        for i in range(time // size):
            nodes.append(np.isin(np.arange(time), range(i * size, (i + 1) * size)).astype(float))
        size *= arity
    design, ones = np.asarray(nodes), np.ones(time)
    return float(ones @ np.linalg.inv(design.T @ design) @ ones)


@pytest.mark.parametrize("arities", SHAPES)
def test_totals_are_least_squares_estimates_from_all_nodes_so_far(arities: tuple[int, ...]) -> None:
    factor = make(50, arities).factor(np.arange(50), None)
    for time in (1, 2, 7, 8, 16, 24, 30, 47, 50):
        assert factor[time - 1] == pytest.approx(by_least_squares(arities, time), rel=1e-9)


@pytest.mark.parametrize("arities", SHAPES)
def test_weights_add_up_and_errors_are_those_of_the_matrix(arities: tuple[int, ...]) -> None:
    n = 90
    tree = make(n, arities)
    matrix, ticks = tree.materialize(n), np.arange(n)
    for over in (None, 1, 2, 7, 8, 30, 89, 100):
        apart = matrix.copy()
        if over is not None:
            apart[over:] -= matrix[:-over]
        assert tree.factor(ticks, over) == pytest.approx((apart**2).sum(axis=1), rel=1e-12)
    assert worst(n, arities) == pytest.approx(tree.factor(ticks, None).max(), rel=1e-12)
    assert all(1 - weight + weight == 1 for weight in weights_of(arities))
    for time in range(1, n):
        assert worst(time, arities) == pytest.approx(tree.factor(ticks[:time], None).max())
    leaves, size, clean = list[Floats](), 1, np.tril(np.ones((n, n)))
    for arity in (*arities, 0):
        rows = [(ticks >= i * size) & (ticks < (i + 1) * size) for i in range(n // size)]
        leaves.extend(row.astype(float) for row in rows)
        size *= arity
    assert abs(matrix @ np.asarray(leaves) - clean).max() < 1e-12, "sums of nodes make the totals"


@pytest.mark.parametrize("arities", SHAPES)
def test_every_node_is_drawn_once_keyed_with_its_own_leaves(arities: tuple[int, ...]) -> None:
    n = 120
    tree, recorder = replace(make(n, arities), noise_scale=1.0), Recorder()
    state, noise = tree.init(1), list[float]()
    data = np.ones((n, 1, 1), dtype=np.int64)
    for stride in (1, 2, 3, 50, 7, 57):
        at = recorder.first_tick
        state, (values,) = tree.step(state, data[at : at + stride], recorder)  # type: ignore[arg-type]
        noise.extend(values[:, 0, 0] - np.arange(at + 1, at + stride + 1))
        recorder.first_tick += stride
    labels, nodes = zip(*recorder.drawn, strict=True)
    sizes = list(itertools.accumulate(arities, lambda a, b: a * b, initial=1))
    every = [(i * size, (i + 1) * size) for size in sizes for i in range(n // size)]
    assert len(set(labels)) == len(labels) and sorted(nodes) == sorted(every)
    units = np.asarray([recorder.values[node] for node in every], dtype=float)
    assert np.asarray(noise) == pytest.approx(tree.materialize(n) @ units, abs=0.5 + 1e-6)


@pytest.mark.parametrize("born", [1, 5, 24, 50])
def test_a_later_key_lacks_units_that_held_none_of_its_leaves(born: int) -> None:
    n, tree = 60, replace(make(60, (3, 4, 2)), noise_scale=1.0)
    recorder = Recorder()
    recorder.first_tick = born
    data = np.ones((n - born, 1, 1), dtype=np.int64)
    tree.step(tree.init(1), data, recorder)  # type: ignore[arg-type]
    inside = [(i * s, (i + 1) * s) for s in (1, 3, 12, 24) for i in range(n // s)]
    held = sorted((max(start, born), end) for start, end in inside if end > born)
    assert sorted(node for _, node in recorder.drawn) == held


def test_arities_are_the_best_of_all_small_trees_and_halve_the_error_of_a_binary_one() -> None:
    for n in (10, 60, 90, 365):
        ranges = [range(2, 30)] * 2
        others = [(), *((a,) for a in range(2, n)), *itertools.product(*ranges)]
        least = min((len(other) + 1) ** 2 * worst(n, other) for other in others)
        best = best_arities(n)
        assert (len(best) + 1) ** 2 * worst(n, best) <= least * (1 + 1e-12)
    tree, binary = make(1000), Tree.calibrated(
        dimension=1, scales=(1.0,), sensitivity=1.0, overs=(None,), window=None, horizon=1000,
        budget=PrivacyLoss("pure", 1.0), norm=1,
    )  # fmt: skip
    ticks = np.arange(1000)
    assert tree.stddev(ticks, None).max() == pytest.approx(21.12, abs=0.01)
    assert binary.stddev(ticks, None).max() == pytest.approx(42.43, abs=0.01)
    plain = math.sqrt(2 * max(sum(divmod(t % 144, 12)) + t // 144 for t in range(1, 1001))) * 3
    assert plain == pytest.approx(22.05, abs=0.01), "arity 12 without averages"
    assert best_arities(1 << 20) == (9, 9, 10, 10, 10) and len(best_arities((1 << 40) - 1)) == 10


def test_averages_of_a_binary_tree_are_the_known_ones() -> None:
    assert variances_of((2, 2)) == pytest.approx((1, 2 / 3, 4 / 7))


@pytest.mark.parametrize("kind", ["k_norm", "laplace"])
def test_a_level_that_is_not_paid_for_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("kary_tree", kind, None, (None,))
    right = replace(case.make(32), arities=(3, 4))
    one = SENSITIVITY / right.noise_scale
    assert right.loss(32).value == pytest.approx(3 * one)
    assert replayed(case, right, 32) == pytest.approx(3 * one)
    fewer = replace(right, arities=(12,))
    assert replayed(case, right, 32) > 1.4 * fewer.loss(32).value, "a level is forgotten"
    materialize = KaryTree.materialize

    def less(self: KaryTree, n: int) -> Floats:
        """Noise of nodes with children, at half of the weight that their exact sums have."""
        matrix = materialize(self, n)
        matrix[:, n:] /= 2
        return matrix

    monkeypatch.setattr(KaryTree, "materialize", less)
    assert replayed(case, right, 32) > 1.3 * right.loss(32).value


def test_contributions_of_users_add_up() -> None:
    plain = make(100)
    users = KaryTree.calibrated(
        dimension=1, scales=(1.0,), sensitivity=1.0, overs=(None,), window=None, horizon=100,
        budget=PrivacyLoss("pure", 1.0), pattern=pattern(10, 3, 2),
    )  # fmt: skip
    assert users.arities == plain.arities
    assert users.noise_scale == pytest.approx(6 * plain.noise_scale)
    assert users.loss(None).value == users.loss(1).value == pytest.approx(1.0)
    assert users.loss_of_periods(2, None, 2).value == pytest.approx(2.0)


def test_a_clock_without_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="kary_tree serves a clock that ends; set it"):
        make(None)  # type: ignore[arg-type]


# ---- in a plan


def plan_of(days: int = 1000, outputs: str = "{n: {count: events}}", **privacy: Any) -> Plan:
    end = np.datetime64("2024-01-01") + days
    some = ", ".join(f"{name}: {value}" for name, value in privacy.items())
    return Plan.from_yaml(f"""
name: totals
schema: {{time: t}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d, end: {end}T00:00:00Z}}
privacy: {{epsilon: 1, {some}}}
aggregates: {outputs}
""")


def taken(plan: Plan) -> str:
    return next(item.mechanism for item in plan.alternatives if item.chosen)


def test_it_is_taken_where_every_output_gains_and_the_whole_clock_is_protected() -> None:
    plan = plan_of(delta=0, protect_for="all")
    assert taken(plan) == "kary_tree"
    assert plan.outputs[0].stddev_worst == pytest.approx(21.12, abs=0.01)
    assert plan.program.loss(None).value <= 1.0
    shown = plan.to_json()
    assert "does not fade by degrees" in shown["choice"]
    assert "fall on the releases right after" in plan.guarantee.statement
    others = {item.mechanism: item.score for item in plan.alternatives}
    assert others["tree"] == pytest.approx(2.009, abs=0.001)

    assert taken(plan_of(delta=0, protect_for="30d")) == "merging_tree"
    assert taken(plan_of(30, delta=0, protect_for="all")) == "independent"
    week = "{n: {count: events, over: [all, 7]}}"
    assert taken(plan_of(outputs=week, delta=0, protect_for="all")) == "independent"
    assert taken(plan_of(delta="1e-6", protect_for="all")) == "ended"
    named = next(
        item
        for item in plan_of(delta=0, protect_for="30d").alternatives
        if item.mechanism == "kary_tree"
    )
    assert named.note == "name it to take it: no graded expiration"

"""Sums over the last ticks from trees with many branches: least squares, losses, bits, plans."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contracts.cases import KEYS, Case, leaves, run, same
from tests.contracts.patterns import pattern
from tests.contracts.test_loss import cost
from tests.contracts.test_scale import ratios
from tests.dpcore.continual.recorder import Recorder
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.audit.replay import units_of
from weir.dpcore.continual.kary_window import KaryWindow, window_arities, window_variances
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import label
from weir.dpcore.plan import Plan

SHAPES = [(2,), (8,), (2, 2, 2), (3, 4), (5, 3)]
OVERS = [(5,), (1, 30), (13, 100)]


def make(overs: tuple[int, ...], arities: tuple[int, ...] | None = None, **more: Any) -> KaryWindow:
    common: dict[str, Any] = dict(
        dimension=1, scales=(1.0,), sensitivity=1.0, window=None, horizon=None,
        budget=PrivacyLoss("pure", 1.0),
    )  # fmt: skip
    tree = KaryWindow.calibrated(overs=overs, **(common | more))
    return tree if arities is None else replace(tree, arities=arities)


def held_by(tree: KaryWindow, n: int) -> Floats:
    """(m, n): which ticks each node holds."""
    ticks = np.arange(n)
    rows = [(ticks >= node.start) & (ticks < node.end) for node in tree.nodes(n)]
    return np.asarray(rows, dtype=float)


@pytest.mark.parametrize("arities", SHAPES)
def test_sums_are_least_squares_estimates_from_all_nodes_so_far(arities: tuple[int, ...]) -> None:
    tree = make((5, 30), arities)
    held = held_by(tree, 70)
    for time in (1, 2, 5, 9, 16, 24, 31, 60, 67):
        design = held[[node.end <= time for node in tree.nodes(70)]][:, :time]
        spread = np.linalg.inv(design.T @ design)
        for over in (5, 30):
            asked = np.arange(time) >= time - over
            variance = tree.factor(np.asarray([time - 1]), over)
            assert variance == pytest.approx(asked @ spread @ asked, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("overs", OVERS)
@pytest.mark.parametrize("arities", SHAPES)
def test_what_is_drawn_is_the_matrix_and_every_node_is_keyed_with_its_own_leaves(
    arities: tuple[int, ...], overs: tuple[int, ...]
) -> None:
    n = 120
    tree, recorder = replace(make(overs, arities), noise_scale=1.0), Recorder()
    matrix = tree.materialize(n)
    assert abs(matrix @ held_by(tree, n) - tree.response(n)).max() < 1e-12
    for over, rows in zip(overs, matrix.reshape(len(overs), n, -1), strict=True):
        assert tree.factor(np.arange(n), over) == pytest.approx((rows**2).sum(axis=1), rel=1e-12)
    state, noise = tree.init(1), list[Floats]()
    data = np.ones((n, 1, 1), dtype=np.int64)
    for stride in (1, 2, 3, 50, 7, 57):
        at = recorder.first_tick
        state, values = tree.step(state, data[at : at + stride], recorder)  # type: ignore[arg-type]
        noise.append(np.stack(values)[:, :, 0, 0])
        recorder.first_tick += stride
    labels, nodes = zip(*recorder.drawn, strict=True)
    every = [(node.start, node.end) for node in tree.nodes(n)]
    assert len(set(labels)) == len(labels) and sorted(nodes) == sorted(every)
    units = np.asarray([recorder.values[node] for node in every], dtype=float)
    drawn = np.concatenate(noise, axis=1).ravel() - tree.response(n) @ np.ones(n)
    assert drawn == pytest.approx(matrix @ units, abs=0.5 + 1e-6)


@pytest.mark.parametrize("born", [1, 5, 14, 50])
def test_a_later_key_lacks_units_that_held_none_of_its_leaves(born: int) -> None:
    n, tree, recorder = 60, replace(make((20,), (3, 4)), noise_scale=1.0), Recorder()
    recorder.first_tick = born
    data = np.ones((n - born, 1, 1), dtype=np.int64)
    _, (values,) = tree.step(tree.init(1), data, recorder)  # type: ignore[arg-type]
    inside = [(node.start, node.end) for node in tree.nodes(n)]
    held = [(max(start, born), end) for start, end in inside if end > born]
    assert sorted(node for _, node in recorder.drawn) == sorted(held)
    here = np.asarray([end > born for _, end in inside])
    # Cut off at birth, nodes of several levels hold the same leaves: they go by their labels.
    values_of = {name: 1 + 7919 * i for i, (name, _) in enumerate(recorder.drawn, 1)}
    sizes = [tree.sizes.index(end - start) for start, end in inside]
    places = [start // (end - start) for start, end in inside]
    names = label(np.asarray(sizes), np.asarray(places)).tolist()
    drawn = [values_of[tuple(name)] for name, is_here in zip(names, here, strict=True) if is_here]
    units = np.asarray(drawn, dtype=float)
    rows = tree.materialize(n)[born:, here]
    exact = np.minimum(np.arange(1, n - born + 1), 20)
    assert values[:, 0, 0] - exact == pytest.approx(rows @ units, abs=0.5 + 1e-6)
    assert ((rows**2).sum(axis=1) <= tree.factor(np.arange(born, n), 20) * (1 + 1e-12)).all()


def moved(tree: KaryWindow, record: int, n: int = 26) -> float:
    """The least units, in l1, that move all sums together as a record does."""
    return cost(tree.materialize(n), tree.response(n)[:, record], 1)


@pytest.mark.slow
def test_a_record_costs_a_unit_a_level_against_all_sums_together_and_mutants_cost_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = make((1, 5, 12), (3, 2))
    costs = [moved(tree, record) for record in range(20)]
    assert max(costs) == pytest.approx(3.0) and tree.arities == (3, 2)
    units = 3.0
    priced = make((1, 5, 12))
    assert priced.loss(1).value == priced.loss(None).value <= 1.0
    assert priced.noise_scale == pytest.approx(len(priced.arities) + 1)
    assert priced.loss(0).value == 0.0

    fewer = replace(tree, arities=(6,))
    assert moved(tree, 5) > 1.4 * (len(fewer.arities) + 1), "a level is forgotten"
    materialize = KaryWindow.materialize

    def less(self: KaryWindow, n: int) -> Floats:
        """Noise of nodes with children, at half of the weight that their exact sums have."""
        matrix = materialize(self, n)
        matrix[:, n:] /= 2
        return matrix

    monkeypatch.setattr(KaryWindow, "materialize", less)
    assert moved(tree, 5) > 1.3 * units


def test_an_audit_sees_what_is_released_without_noise() -> None:
    tree = make((5, 12), (3, 2))
    rows = np.zeros((26, 1, 1))
    rows[7] = 1.0
    units, exact = units_of(tree, rows)
    assert not exact and abs(units).sum() == 3
    wider = replace(tree, overs=(5, 13))
    object.__setattr__(wider, "materialize", tree.materialize)
    assert units_of(wider, rows)[1], "one sum is of more ticks than its noise"


def test_contributions_of_users_add_up() -> None:
    plain, users = make((90,)), make((90,), pattern=pattern(10, 3, 2))
    assert users.arities == plain.arities == (7,)
    assert users.noise_scale == pytest.approx(6 * plain.noise_scale)
    assert users.loss(None).value == users.loss(1).value == pytest.approx(1.0)
    assert users.loss_of_periods(2, None, 2).value == pytest.approx(2.0)


def test_bits_do_not_depend_on_strides_or_shards() -> None:
    tree = replace(
        Case("kary_window", "laplace", None, (5,)).build(), overs=(5, 17), arities=(3, 2)
    )
    data = leaves(80)
    state, released = run(tree, data)
    again, other = run(tree, data, (1,) * 20 + (7, 1, 40, 12))
    assert same(state, again) and all(map(np.array_equal, released, other))
    _, few = run(tree, data[:, :1], (33, 47), KEYS[:1])
    assert all(np.array_equal(a[:, :1], b) for a, b in zip(released, few, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["k_norm", "laplace"])
def test_noise_has_the_stated_size_and_a_wrong_scale_is_found(noise: str) -> None:
    case = Case("kary_window", noise, None, (5,))
    assert abs(ratios(case, 1.0) - 1).max() < 0.1
    assert (ratios(case, 0.9) < 0.9).all() and (ratios(case, 1.1) > 1.1).all()


@pytest.mark.slow
def test_nothing_grows_over_a_long_clock() -> None:
    tree = make((4,), (2,), scales=(1e6,))
    state, _ = run(tree, np.zeros((20_000, 1, 1), dtype=np.int64), (20_000,), (b"k",))
    assert abs(state.own.noise).max() < 100 * tree.noise_scale * 1e6


def stddev(over: int, arities: tuple[int, ...]) -> float:
    """At the worst tick, at epsilon 1."""
    units = (len(arities) + 1) ** 2
    return math.sqrt(2 * units * float(window_variances(over, arities).max()))


@pytest.mark.parametrize(
    ("over", "arities", "error"),
    [(7, (2,), 4.90), (30, (4,), 8.49), (60, (6,), 10.42), (90, (7,), 11.49), (365, (16,), 17.26)],
)
def test_arities_are_the_best_of_all_small_trees(
    over: int, arities: tuple[int, ...], error: float
) -> None:
    assert window_arities((over,)) == arities
    assert stddev(over, arities) == pytest.approx(error, abs=0.005)
    least = min(stddev(over, (arity,)) for arity in range(2, min(over, 60)))
    assert stddev(over, arities) <= least * (1 + 1e-12)
    deep = [(a, b) for a in range(2, 12) for b in range(2, 12) if a * b <= over]
    assert all(stddev(over, arities) <= stddev(over, other) for other in deep)


def test_long_sums_have_more_levels_and_are_no_longer_than_the_clock() -> None:
    assert window_arities((1000,)) == (10, 10)
    assert stddev(1000, (10, 10)) == pytest.approx(21.72, abs=0.01)
    short = make((90, 2000), horizon=120)
    assert short.spans == (90, 120) and short.depth == 120
    data = leaves(120, 1, 1)
    _, (_, values) = run(replace(short, noise_scale=0.0), data, keys=(b"k",))
    assert np.array_equal(values, np.cumsum(data, axis=0).astype(float))


def test_a_sum_too_long_to_be_priced_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"more than the 4,194,304 ticks"):
        make((2**40,))


def test_single_ticks_and_totals_are_refused() -> None:
    for overs in ((1,), (None, 7), (0,)):
        assert not KaryWindow.serves(overs)
        with pytest.raises(ConfigError, match="kary_window cannot serve this"):
            make(overs)  # type: ignore[arg-type]


# ---- in a plan


def plan_of(over: str, end: str = "", **privacy: Any) -> Plan:
    some = ", ".join(f"{name}: {value}" for name, value in privacy.items())
    return Plan.from_yaml(f"""
name: sums
schema: {{time: t}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d{end}}}
privacy: {{epsilon: 1, {some}}}
aggregates: {{n: {{count: events, over: {over}}}}}
""")


def taken(plan: Plan) -> str:
    return next(item.mechanism for item in plan.alternatives if item.chosen)


ENDS = ", end: 2026-09-27T00:00:00Z"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["", ENDS])
def test_it_is_taken_where_every_sum_gains(end: str) -> None:
    plan = plan_of("90", end, delta=0, protect_for="all")
    assert taken(plan) == "kary_window"
    assert plan.outputs[0].stddev_worst == pytest.approx(11.49, abs=0.01)
    others = {item.mechanism: item.stddev["n over=90"] for item in plan.alternatives if item.stddev}
    assert others["independent"] == pytest.approx(13.42, abs=0.01)
    assert plan.program.loss(None).value <= 1.0
    assert "does not fade by degrees" in plan.to_json()["choice"]
    assert taken(plan_of("[90, 365]", end, delta=0, protect_for="all")) == "kary_window"
    assert taken(plan_of("60", end, delta=0, protect_for="all")) == "kary_window"


@pytest.mark.parametrize("over", ["30", "[7, 90]", "[1, 365]", "[all, 90]"])
def test_it_is_an_alternative_where_some_sum_does_not_gain(over: str) -> None:
    plan = plan_of(over, ENDS, delta=0, protect_for="all")
    assert taken(plan) == "independent"
    shown = {item.mechanism: item for item in plan.alternatives}
    if "all" in over:
        assert "kary_window" not in shown and shown["kary_tree"].note
    else:
        assert shown["kary_window"].note == "name it to take it: no graded expiration"


def test_a_shorter_horizon_is_served_as_its_guarantee_is_permanent() -> None:
    plan = plan_of("90", delta=0, protect_for="30d")
    assert taken(plan) == "kary_window" and plan.program.loss(30).value <= 1.0
    assert "the guarantee is permanent" in plan.guarantee.statement
    assert "fall on the releases right after" in plan.guarantee.statement


def test_with_delta_it_is_taken_by_name_only() -> None:
    plan = plan_of("90", delta="1e-6", protect_for="all")
    assert taken(plan) == "sliding"
    assert "kary_window" in {item.mechanism for item in plan.alternatives}

"""Trees against oracles: covers, node counts, keys of the units, losses counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.constant_noise import ConstantNoise
from tests.dpcore.continual.recorder import Recorder
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.independent import UNBOUNDED, Independent, trailing_zeros
from weir.dpcore.continual.merging_tree import MergingTree
from weir.dpcore.continual.tree import Hybrid, Tree
from weir.dpcore.continual.window_tree import WindowTree
from weir.dpcore.errors import ConfigError, WeirError

TICKS = 128


def build(cls, window=None, horizon=None, kind="gdp", overs=(None,), value=1.0, **options):
    return cls.calibrated(
        dimension=1, scales=(1.0,), sensitivity=1.0, overs=overs, window=window, horizon=horizon,
        budget=PrivacyLoss(kind, value), **options,
    )  # fmt: skip


ALL = {
    "independent": lambda kind="gdp": build(Independent, kind=kind),
    "tree": lambda kind="gdp": build(Tree, horizon=TICKS, kind=kind),
    "tree-8": lambda kind="gdp": build(Tree, 8, kind=kind),
    **{
        f"window-{w}": lambda kind="gdp", w=w: build(WindowTree, w, kind=kind)
        for w in (1, 2, 4, 5, 16, 128)
    },
    "merging": lambda kind="gdp": build(MergingTree, 4, kind=kind),
    "merging-0.5": lambda kind="gdp": build(MergingTree, 4, TICKS, kind=kind, gamma=0.5),
    "merging-2": lambda kind="gdp": build(MergingTree, 4, kind=kind, gamma=2.0),
    "hybrid": lambda kind="gdp": build(Hybrid, kind=kind),
}


def units(mechanism, ticks=TICKS, first=0):
    """Noise of one key when every unit is 1."""
    one = replace(mechanism, noise_scale=1.0)
    data = np.zeros((ticks, 1, 1), dtype=np.int64)
    _, (values,) = one.step(one.init(1), data, ConstantNoise(1.0, first))
    return values[:, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", ["gdp", "pure"])
def test_every_node_is_drawn_once_keyed_with_its_own_leaves(name, kind):
    mechanism, recorder = replace(ALL[name](kind), noise_scale=1.0), Recorder()
    state, noise = mechanism.init(1), []
    data = np.ones((TICKS, 1, 1), dtype=np.int64)
    for stride in (1, 2, 3, 50, 7, 65):
        at = recorder.first_tick
        state, (values,) = mechanism.step(state, data[at : at + stride], recorder)
        noise.extend(values[:, 0, 0] - np.arange(at + 1, at + stride + 1))
        recorder.first_tick += stride
    labels, nodes = zip(*recorder.drawn, strict=True)
    assert len(set(labels)) == len(labels) and len(set(nodes)) == len(nodes)
    assert set(nodes) == {(x.start, x.end) for t in range(TICKS) for x in mechanism.cover(t)}
    for tick in range(TICKS):
        cover = mechanism.cover(tick)
        ends = [0, *(x.end for x in cover)]
        starts = [x.start for x in cover]
        window = getattr(mechanism, "window", TICKS)
        assert starts[1:] == ends[1:-1] and ends[-1] == tick + 1
        assert starts[0] == max(tick + 1 - window, 0)
        expected = sum(np.rint(recorder.values[x.start, x.end] * x.multiplier) for x in cover)
        assert noise[tick] == expected


@pytest.mark.parametrize("name", ALL)
def test_what_a_later_key_leaves_out_held_none_of_its_leaves(name):
    mechanism = ALL[name]()
    if name == "hybrid" or name.startswith("merging-"):
        return  # their units of 1 do not add up to whole numbers
    for born in (1, 5, 8, 13, 64):
        got = units(mechanism, TICKS - born, born)
        for tick in range(born, TICKS):
            cover = mechanism.cover(tick)
            assert sum(x.end > born for x in cover) <= got[tick - born] <= len(cover)


def test_full_tree_counts_binary_digits():
    assert units(build(Tree, horizon=1000), 1000).tolist() == [
        t.bit_count() for t in range(1, 1001)
    ]


@pytest.mark.parametrize("h", range(8))
def test_window_tree_counts_h_minus_z_plus_one(h):
    mechanism = build(WindowTree, 1 << h)
    got = units(mechanism, 5 << h)
    for t in range(1, (5 << h) + 1):
        r = t % (1 << h)
        if t < 1 << h:
            assert got[t - 1] == t.bit_count()
        else:
            assert got[t - 1] == (h - int(trailing_zeros(np.array([r]))[0]) + 1 if r else 1)


def test_merging_tree_has_at_most_two_nodes_a_level_and_three_halves_log():
    mechanism = build(MergingTree, 8)
    got = units(mechanism, 4096)
    for t in (*range(1, 200), 1023, 2047, 4000, 4095):
        sizes = [x.end - x.start for x in mechanism.cover(t - 1)]
        assert max(map(sizes.count, sizes)) <= 2 and sizes == sorted(sizes, reverse=True)
        u = t + 1
        assert got[t - 1] == len(sizes) == u.bit_length() - 1 + u.bit_count() - 1
    assert got[2048:].mean() == pytest.approx(1.5 * 11, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("kind", ["gdp", "pure"])
def test_the_loss_counted_node_by_node(name, kind):
    """Nodes that hold a record, over the ticks from its arrival on: never above, and attained."""
    mechanism = ALL[name](kind)
    covers = [mechanism.cover(tick) for tick in range(TICKS)]
    power = 1 if kind == "pure" else 2
    window = getattr(mechanism, "window", None)
    for ticks in (1, 2, 3, 4, 7, 8, 16, 31, 32):
        worst = 0.0
        for record in range(TICKS - ticks + 1):
            met = {
                x for c in covers[record : record + ticks] for x in c if x.start <= record < x.end
            }
            worst = max(worst, sum(x.multiplier**-power for x in met))
        stated = mechanism.loss(ticks)
        counted = mechanism.loss_of(worst).value
        assert counted <= stated.value * (1 + 1e-12)
        if window is None or ticks == window:
            assert counted == pytest.approx(stated.value, rel=1e-9)


def test_a_window_tree_promises_nothing_after_its_window():
    mechanism = build(WindowTree, 5)
    assert mechanism.window == 8
    assert mechanism.loss(8).value <= 1.0
    assert mechanism.loss(9).value == math.inf and mechanism.loss(None).value == math.inf
    assert build(WindowTree, 5, 8).loss(None).value <= 1.0
    assert build(WindowTree, 5, 9).loss(None).value == math.inf
    assert build(WindowTree, None, 100).loss(None).value <= 1.0


def test_losses_in_figures():
    pure = {"kind": "pure", "value": 0.5}
    assert build(Tree, horizon=1024, **pure).noise_scale == 22.0
    assert build(WindowTree, 1024, **pure).noise_scale == 22.0
    assert build(Independent, **pure).noise_scale == 2.0
    assert build(WindowTree, 256, value=0.25).noise_scale == 12.0
    graded = build(MergingTree, 1024, **pure, gamma=1.0)
    assert graded.loss(1024).value == 0.5
    assert graded.loss(2048).value == pytest.approx(0.5 * 12 / 11)
    faded = build(MergingTree, 1024, **pure, gamma=0.5)
    assert faded.loss(None).value == pytest.approx(0.5 * 12 / 11)
    assert faded.loss(4096).value == pytest.approx(0.5 * 11.75 / 11)
    tree = build(Tree, 1024, **pure)
    assert [tree.loss(n).value for n in (1024, 2047, 2048)] == pytest.approx([0.5, 0.5, 6 / 11])
    assert build(Hybrid, **pure).loss(None).value == 0.5


@pytest.mark.parametrize("kind", ["gdp", "pure"])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 2.3])
@pytest.mark.parametrize("cls", [Tree, WindowTree, MergingTree, Hybrid, Independent])
def test_calibration_never_exceeds_the_budget(cls, kind, value):
    for window in (1, 3, 10, 365, 1000):
        loss = build(cls, window, kind=kind, value=value).loss(window)
        assert loss.kind == kind and value * (1 - 1e-12) <= loss.value <= value


def test_variances_of_a_tree_s_sums_over_n_ticks():
    mechanism = build(Tree, horizon=64)
    # 24 = 16 + 8 and 20 = 16 + 4 share the node of 16.
    assert mechanism.factor(np.array([23]), 4).tolist() == [2.0]
    assert mechanism.factor(np.array([2]), 8).tolist() == [2.0]
    assert mechanism.factor(np.array([63]), 1).tolist() == [7.0]


def test_hybrid_epochs_double():
    mechanism = build(Hybrid, kind="pure")
    assert mechanism.factor(np.array([0, 1, 2, 3, 6, 14]), None).tolist() == [
        1, 1 + 4, 1 + 4, 1 + 4 + 9, 1 + 4 + 9, 1 + 4 + 9 + 16,
    ]  # fmt: skip


def test_nothing_is_released_beyond_the_clock():
    mechanism = build(Tree, horizon=10)
    data = np.zeros((4, 2, 1), dtype=np.int64)
    mechanism.step(mechanism.init(2), data, ConstantNoise(0, 6))
    with pytest.raises(WeirError, match="calibrated for 10 ticks, got ticks 7 to 10"):
        mechanism.step(mechanism.init(2), data, ConstantNoise(0, 7))
    endless = build(MergingTree, 8)
    with pytest.raises(WeirError):
        endless.step(endless.init(2), data, ConstantNoise(0, UNBOUNDED - 3))
    endless.step(endless.init(2), data, ConstantNoise(0, UNBOUNDED - 4))


def test_what_cannot_be_served_is_refused():
    for cls in (Tree, WindowTree):
        with pytest.raises(ConfigError, match="window"):
            build(cls)
    for gamma in (0.1, 3.0, math.nan):
        with pytest.raises(ConfigError, match="mechanism.gamma"):
            build(MergingTree, 8, gamma=gamma)
    with pytest.raises(ConfigError, match="mechanism.gamma"):
        build(Tree, 8, gamma=1.0)
    with pytest.raises(ConfigError, match="privacy.epsilon"):
        build(Tree, 8, value=0.0)
    with pytest.raises(ConfigError, match="2\\^61"):
        build(Tree, 8, value=1e-18)

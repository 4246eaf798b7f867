from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from weir.dpcore.accounting.joint import (
    RELATIONS,
    ChannelGroup,
    group_sensitivity,
    joint_sensitivity,
    split_scales,
)
from weir.dpcore.errors import ConfigError


def corners(group: ChannelGroup) -> list[tuple[int, ...]]:
    """Extreme contributions of one event to a group."""
    if group.one_hot:
        none = (0,) * group.size
        return [none] + [
            tuple(group.high if i == j else 0 for i in range(group.size)) for j in range(group.size)
        ]
    return list(itertools.product(sorted({group.low, group.high}), repeat=group.size))


def worst_change(
    groups: list[ChannelGroup],
    scales: NDArray[np.float64],
    relation: str,
    may_vanish: bool,
    norm: int = 2,
) -> float:
    """Brute force over all corner events of both neighbours."""
    events = [np.array(sum(parts, ())) for parts in itertools.product(*map(corners, groups))]
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
    scaled = np.array([event * inverse for event in events])
    size = float(np.linalg.norm(scaled, norm, axis=1).max())
    pairs = scaled[:, None, :] - scaled[None, :, :]
    both = float(np.linalg.norm(pairs, norm, axis=2).max())
    if relation == "add_remove":
        return size
    if relation == "replace_one":
        return max(size, both) if may_vanish else both
    return max(both, 2 ** (1 / norm) * size)


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[ChannelGroup], NDArray[np.float64]]:
    groups: list[ChannelGroup] = []
    start = 0
    for _ in range(draw(st.integers(1, 3))):
        one_hot = draw(st.booleans())
        size = draw(st.integers(1, 3))
        high = draw(st.integers(1, 2**20))
        low = 0 if one_hot else draw(st.integers(-(2**20), high))
        groups.append(ChannelGroup(start, size, low, high, one_hot))
        start += size
    scales = draw(st.lists(st.floats(0.1, 1e6), min_size=start, max_size=start))
    return groups, np.array(scales)


@settings(max_examples=60)
@given(problems(), st.sampled_from(RELATIONS), st.booleans(), st.sampled_from((1, 2)))
def test_joint_sensitivity_is_the_worst_neighbour(
    problem: tuple[list[ChannelGroup], NDArray[np.float64]],
    relation: str,
    may_vanish: bool,
    norm: int,
) -> None:
    groups, scales = problem
    bound = joint_sensitivity(groups, scales, relation, may_vanish, norm)  # type: ignore[arg-type]
    worst = worst_change(groups, scales, relation, may_vanish, norm)
    assert worst <= bound <= worst * (1 + 1e-12)


@settings(max_examples=60)
@given(problems(), st.sampled_from(RELATIONS), st.booleans(), st.sampled_from((1, 2)))
def test_group_sensitivity_is_joint_of_one(
    problem: tuple[list[ChannelGroup], NDArray[np.float64]],
    relation: str,
    may_vanish: bool,
    norm: int,
) -> None:
    for group in problem[0]:
        alone = ChannelGroup(0, group.size, group.low, group.high, group.one_hot)
        ones = np.ones(group.size)
        assert group_sensitivity(group, relation, may_vanish, norm) == pytest.approx(  # type: ignore[arg-type]
            worst_change([alone], ones, relation, may_vanish, norm), rel=1e-12
        )


def test_a_histogram_moves_one_bin_in_l1() -> None:
    """The noise of a bin does not grow with the number of bins; a dense group's would."""
    for size in (1, 4, 400):
        bins = ChannelGroup(0, size, 0, 1, one_hot=True)
        scales = [2.0] * size
        assert joint_sensitivity([bins], scales, "add_remove", False, 1) == pytest.approx(0.5)
        both = min(size, 2) * 0.5
        assert joint_sensitivity([bins], scales, "replace_one", False, 1) == pytest.approx(both)
        dense = ChannelGroup(0, size, 0, 1)
        assert joint_sensitivity([dense], scales, "add_remove", False, 1) == pytest.approx(size / 2)


def test_known_sensitivities() -> None:
    count = ChannelGroup(0, 1, 1, 1)
    centred = ChannelGroup(1, 1, -100, 100)
    histogram = ChannelGroup(2, 4, 0, 1, one_hot=True)
    assert group_sensitivity(count, "add_remove", False) == 1
    assert group_sensitivity(count, "replace_one", False) == 0  # counts are public then
    assert group_sensitivity(count, "replace_one", True) == 1
    assert group_sensitivity(centred, "add_remove", False) == 100
    assert group_sensitivity(centred, "replace_one", False) == 200
    assert group_sensitivity(histogram, "add_remove", False) == 1
    assert group_sensitivity(histogram, "replace_one", False) == pytest.approx(math.sqrt(2))
    # (value - centre, 1): 2h inside a cell, sqrt(2 (h^2 + 1)) across cells.
    pair = [count, centred]
    assert joint_sensitivity(pair, [1, 1], "replace_anywhere", False) == pytest.approx(200)
    small = [count, ChannelGroup(1, 1, -1, 1)]
    assert joint_sensitivity(small, [1, 1], "replace_anywhere", False) == pytest.approx(2)


def test_public_channels() -> None:
    groups = [ChannelGroup(0, 1, 1, 1), ChannelGroup(1, 1, 0, 8)]
    assert joint_sensitivity(groups, [0, 4], "replace_one", False) == pytest.approx(2)
    for relation, may_vanish in (("add_remove", False), ("replace_one", True)):
        with pytest.raises(ConfigError):
            joint_sensitivity(groups, [0, 4], relation, may_vanish)  # type: ignore[arg-type]


def test_refuses_nonsense() -> None:
    with pytest.raises(ConfigError):
        ChannelGroup(0, 1, 2, 1)
    with pytest.raises(ConfigError):
        ChannelGroup(0, 2, 1, 1, one_hot=True)
    with pytest.raises(ConfigError):
        joint_sensitivity([ChannelGroup(0, 1, 0, 1)], [1, 1], "add_remove", False)
    with pytest.raises(ConfigError):
        joint_sensitivity([ChannelGroup(0, 1, 0, 1)], [-1], "add_remove", False)
    with pytest.raises(ConfigError):
        joint_sensitivity([ChannelGroup(0, 1, 0, 1)], [1], "swap", False)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        split_scales([1.0, math.nan], [1.0, 1.0])
    with pytest.raises(ConfigError):
        split_scales([1.0], [0.0])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e3)), min_size=1, max_size=6))
def test_split_spends_everything_and_is_optimal(rows: list[tuple[float, float]]) -> None:
    delta, weight = np.array(rows).T
    scales = split_scales(delta, weight)
    assert ((delta / scales) ** 2).sum() == pytest.approx(1)
    best = (weight * scales**2).sum()
    assert best == pytest.approx((delta * np.sqrt(weight)).sum() ** 2)
    rng = np.random.default_rng(7)
    for _ in range(20):  # any other feasible split is no better
        share = rng.dirichlet(np.ones(delta.size))
        assert (weight * delta**2 / share).sum() >= best * (1 - 1e-9)


def test_split_leaves_public_aggregates_alone() -> None:
    scales = split_scales([0.0, 3.0], [1.0, 1.0])
    assert scales.tolist() == [0.0, 3.0]
    assert split_scales([0.0, 3.0], [1.0, 1.0], 1) == pytest.approx([0.0, 3.0])


@settings(max_examples=50)
@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e3)), min_size=1, max_size=6))
def test_the_split_in_l1_spends_everything_and_is_optimal(rows: list[tuple[float, float]]) -> None:
    delta, weight = np.array(rows).T
    scales = split_scales(delta, weight, 1)
    assert (delta / scales).sum() == pytest.approx(1)
    best = (weight * scales**2).sum()
    rng = np.random.default_rng(7)
    for _ in range(20):  # any other feasible split is no better
        share = rng.dirichlet(np.ones(delta.size))
        assert (weight * (delta / share) ** 2).sum() >= best * (1 - 1e-9)

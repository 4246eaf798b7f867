from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from weir.dpcore.accounting.contributions import (
    shared_counts,
    toeplitz_participation,
    tree_squares,
)
from weir.dpcore.errors import ConfigError


def tree_participation(levels: int, p: int, g: int, trees: int = 1) -> float:
    """Largest l2 norm, over all nodes of so many consecutive trees, of how often a unit contributes
    to each, by ``tree_squares``: p contributions at most, g ticks apart."""
    inside = min(p, -(-trees * (1 << (levels - 1)) // g))
    return math.sqrt(sum(tree_squares(levels, inside, g)))


def admissible(n: int, p: int, g: int) -> Iterator[tuple[int, ...]]:
    """All tick sets of 1 .. p ticks in [0, n), at least g apart."""
    for size in range(1, p + 1):
        for ticks in itertools.combinations(range(n), size):
            if all(b - a >= g for a, b in itertools.pairwise(ticks)):
                yield ticks


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("g", [1, 2, 3, 20])
def test_toeplitz_is_the_worst_set(p: int, g: int) -> None:
    n = 11
    for seed in range(3):
        c = np.sort(np.random.default_rng(seed).random(n))[::-1]
        matrix = np.array([[c[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
        worst = max(np.linalg.norm(matrix[:, t].sum(1)) for t in admissible(n, p, g))
        bound = toeplitz_participation(c, p, g, n)
        assert worst <= bound * (1 + 1e-15)
        assert bound == pytest.approx(worst, rel=1e-12)


def test_one_participation_is_a_column() -> None:
    c = np.array([1.0, 0.5, 0.375, 0.3125])
    assert toeplitz_participation(c, 1, 1, 4) == pytest.approx(np.linalg.norm(c))
    assert toeplitz_participation(c, 1, 1, 2) == pytest.approx(np.linalg.norm(c[:2]))


@pytest.mark.parametrize(
    "c", [[1.0, 0.5, 0.6], [1.0, 0.5, -0.1], [1.0, math.nan, 0.0], [1.0, 0.5], [[1.0, 0.5, 0.1]]]
)
def test_toeplitz_refuses(c: list[float]) -> None:
    with pytest.raises(ConfigError):
        toeplitz_participation(np.array(c), 2, 1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("g", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("trees", [1, 2])
def test_tree_against_brute_force(levels: int, p: int, g: int, trees: int) -> None:
    n = trees << (levels - 1)
    nodes = [
        [range(start, start + (1 << level)) for start in range(0, n, 1 << level)]
        for level in range(levels)
    ]
    most = [0] * levels
    worst = 0.0
    for ticks in admissible(n, p, g):
        counts = [[sum(t in node for t in ticks) for node in row] for row in nodes]
        most = [max(m, *row) for m, row in zip(most, counts, strict=True)]
        worst = max(worst, math.sqrt(sum(k * k for row in counts for k in row)))
    assert shared_counts(levels, p, g) == tuple(most)
    bound = tree_participation(levels, p, g, trees)
    assert bound >= worst
    if g in (1, 2, 4):
        assert bound == pytest.approx(worst, rel=1e-12)


def test_one_contribution_is_the_square_root_of_the_levels() -> None:
    assert tree_participation(9, 1, 1) == 3

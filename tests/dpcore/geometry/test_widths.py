"""Widths of sets that are no convex set of a config, and the pieces of those that are."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import (
    largest_length_of,
    largest_size_of,
    length_of,
    norm_bound,
    sparse_bound,
)

DRAWS = 40_000


def normals(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(d).standard_normal((n, d))


@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 1), (5, 5), (40, 3), (500, 10), (500, 400)])
def test_sparse_vectors(n: int, k: int) -> None:
    g = normals(DRAWS // max(1, n // 40), n)
    top = np.sqrt(np.sort(g * g, axis=1)[:, n - k :].sum(axis=1))
    mean, error = top.mean(), top.std() / np.sqrt(len(top))
    assert mean - 5 * error <= sparse_bound(n, k) <= 1.2 * mean


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4,), (1, 5, 2), (3,) * 40, (200, 1)])
def test_largest_length(sizes: tuple[int, ...]) -> None:
    parts = np.split(normals(DRAWS // 4, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    largest = np.max([np.linalg.norm(part, axis=1) for part in parts], axis=0)
    error = 5 * largest.std() / np.sqrt(len(largest))
    assert largest_length_of(sizes) == pytest.approx(largest.mean(), abs=error)


def test_largest_length_is_what_was_known() -> None:
    assert largest_length_of((1,) * 12) == pytest.approx(largest_size_of(12), abs=1e-8)
    assert largest_length_of((7,)) == pytest.approx(length_of(7), abs=1e-8)


@pytest.mark.parametrize("q", [1.03, 1.5, 2.0, 3.0, 11.0, 21.0])
@pytest.mark.parametrize("n", [1, 10, 300])
def test_norms_are_bounded(q: float, n: int) -> None:
    norms = np.linalg.norm(normals(DRAWS // 10, n), ord=q, axis=1)
    error = 5 * norms.std() / np.sqrt(len(norms))
    assert norms.mean() - error <= norm_bound(n, q) <= 1.6 * norms.mean() + error


def test_the_largest_size_is_the_width_of_the_cross_polytope() -> None:
    largest = np.abs(normals(DRAWS, 30)).max(axis=1)
    error = largest.std() / np.sqrt(len(largest))
    assert abs(largest_size_of(30) - largest.mean()) <= 5 * error


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="k_sparse"):
        sparse_bound(5, 6)
    with pytest.raises(ConfigError, match="k"):
        sparse_bound(5, 0)
